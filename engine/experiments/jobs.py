"""Jobs of experiments: tasks with roles, whose pods work together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from engine.events.ids import imported_job_id
from engine.events.times import SECOND, Micros
from engine.simulation.traces.rows import TraceRow
from engine.simulation.workload import PlannedJob
from statemachines.spec import Requests

__all__ = ["BEGIN", "CLUSTER", "Role", "TrainingJob", "training"]

BEGIN: Final = 1_600_000_000 * SECOND
"""When the first job of an experiment is submitted."""
CLUSTER: Final = "experiment"

Cost = Callable[[Sequence[tuple[str, str]]], float]


@dataclass(frozen=True, slots=True)
class Role:
    """A task of a job."""

    name: str
    replicas: int
    requests: Requests


@dataclass(frozen=True, slots=True)
class TrainingJob(PlannedJob):
    """A distributed job. Its pods hold their nodes from binding on, and work only while all of them run."""

    together: ClassVar[bool] = True
    roles: Sequence[Role]
    minimum: int
    namespace: str
    annotations: Mapping[str, str]
    cost: Cost

    def work(self, places: Sequence[tuple[str, str]]) -> Micros:
        """Return its run time times the cost of the places."""
        return round((self.row.end - self.row.submit) * self.cost(places))

    def tasks(self) -> list[tuple[str, Requests, int]]:
        """Return its roles."""
        return [(role.name, role.requests, role.replicas) for role in self.roles]

    def manifest(self) -> dict[str, Any]:
        """Return the vcjob; one that runs with fewer pods than all goes on without those that are evicted."""
        made = PlannedJob.manifest(self)
        spec = {**made["spec"], "minAvailable": self.minimum}
        if self.minimum < len(self.row.pods):
            spec.pop("policies", None)
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
    cost: Cost = lambda _places: 1.0,
) -> TrainingJob:
    """Return a job, named `job-NUMBER`.

    Args:
        number: its number, from 1.
        roles: its tasks.
        run: how long all its pods work together, where the cost is 1 (seconds).
        submit: when, after the first submission (seconds).
        minimum: pods of its gang; `None`: all.
        queue: its queue.
        namespace: its namespace.
        annotations: of the job.
        cost: from task and node of each pod the factor by which it works longer.
    """
    pods = [role.requests for role in roles for _ in range(role.replicas)]
    start = BEGIN + submit * SECOND
    row = TraceRow(number, str(number), f"job-{number}", start, start, start + run * SECOND, "Completed", pods, queue)
    ident = imported_job_id(CLUSTER, CLUSTER, row.key)
    return TrainingJob(ident, row, start, roles, len(pods) if minimum is None else minimum, namespace, annotations or {}, cost)
