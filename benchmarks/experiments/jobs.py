"""Jobs of experiments: tasks with roles, whose pods work together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.events.ids import imported_job_id
from engine.events.times import SECOND, Micros
from engine.simulation.joint_work import JointJob
from engine.simulation.traces.rows import TraceRow
from engine.simulation.workload import PlannedJob
from statemachines.spec import Requests

BEGIN: Final = 1_600_000_000 * SECOND
"""When the first job of an experiment is submitted."""
CLUSTER: Final = "experiment"

Rate = Callable[[Sequence[tuple[str, str]]], float]


@dataclass(frozen=True, slots=True)
class Role:
    """A task of a job."""

    name: str
    replicas: int
    requests: Requests
    policies: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True, slots=True)
class TrainingJob(JointJob):
    """A distributed job. Its pods hold their nodes from binding on."""

    roles: Sequence[Role]
    minimum: int
    namespace: str
    annotations: Mapping[str, str]
    progress: Rate | None
    holders: Collection[str] | None
    priority: str

    @property
    def amount(self) -> Micros:
        """Return its run time."""
        return self.row.end - self.row.submit

    def rate(self, places: Sequence[tuple[str, str]]) -> float:
        """Return the progress per second: 1 while all its pods run, unless it has a model of its own."""
        return float(len(places) == len(self.row.pods)) if self.progress is None else self.progress(places)

    def holds_work(self, task: str) -> bool:
        """Return whether a role is one of the holders."""
        return self.holders is None or task in self.holders

    def tasks(self) -> list[tuple[str, Requests, int]]:
        """Return its roles."""
        return [(role.name, role.requests, role.replicas) for role in self.roles]

    def manifest(self) -> dict[str, Any]:
        """Return the vcjob; one that runs with fewer pods than all goes on without those that are evicted."""
        made = PlannedJob.manifest(self)
        tasks = [{**task, "policies": [*role.policies]} for task, role in zip(made["spec"]["tasks"], self.roles, strict=True)]
        spec = {**made["spec"], "minAvailable": self.minimum, "tasks": tasks}
        if self.minimum < len(self.row.pods):
            spec.pop("policies", None)
        if self.priority:
            spec["priorityClassName"] = self.priority
        metadata = {**made["metadata"], "namespace": self.namespace, "annotations": dict(self.annotations)}
        return {**made, "metadata": metadata, "spec": spec}


def training(
    number: int,
    roles: Sequence[Role],
    *,
    run: int,
    submit: int = 0,
    minimum: int | None = None,
    queue: str = "default",
    namespace: str = "default",
    annotations: Mapping[str, str] | None = None,
    progress: Rate | None = None,
    holders: Collection[str] | None = None,
    priority: str = "",
) -> TrainingJob:
    """Return a job, named `job-NUMBER`.

    Args:
        number: its number, from 1.
        roles: its tasks.
        run: how long its work takes at rate 1 (seconds).
        submit: when, after the first submission (seconds).
        minimum: pods of its gang; `None`: all.
        queue: its queue.
        namespace: its namespace.
        annotations: of the job.
        progress: from task and node of each pod that runs the progress per second; `None`: 1 while all of them run, else 0.
        holders: roles; what is not saved is lost with a pod of them; `None`: all.
        priority: name of its priority class.
    """
    pods = [role.requests for role in roles for _ in range(role.replicas)]
    start = BEGIN + submit * SECOND
    row = TraceRow(number, str(number), f"job-{number}", start, start, start + run * SECOND, "Completed", pods, queue)
    ident = imported_job_id(CLUSTER, CLUSTER, row.key)
    least = len(pods) if minimum is None else minimum
    return TrainingJob(ident, row, start, roles, least, namespace, annotations or {}, progress, holders, priority)
