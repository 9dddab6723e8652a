"""Jobs of a trace for simulation: manifest, run time on nodes, outcome."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import isfinite
from typing import Any, Final, Protocol

from engine.events.decisions import SCHEDULER
from engine.events.ids import imported_job_id
from engine.events.inputs import DEFAULT_NAMESPACE
from engine.events.times import LATEST, Micros
from engine.simulation.errors import SimulationError
from engine.simulation.traces.rows import BadRow, TraceRow
from statemachines.spec import Requests
from statemachines.vocabulary import TerminalPhase

NO_RUN_TIME: Final = "the trace tells no run time"
"""Reason for which a simulation leaves out a row that `import-trace` accepts."""
_TASK: Final = "main"


class NoJobsError(SimulationError):
    """Raised when a trace has no job to simulate."""


@dataclass(frozen=True, slots=True)
class Life:
    """Life of a bound pod that nothing interrupts."""

    work: Micros | None
    """Run time (microseconds); `None`: until it is stopped."""
    phase: TerminalPhase | None
    """Terminal phase; `None`: its user stops the job."""
    reason: str | None = None
    exit_code: int | None = None
    start: Micros | None = None
    """Time from binding to start (microseconds); `None`: the default of the cluster (`Conduct`)."""
    runs: bool = True
    """False: it ends without having run."""


class SimulatedJob(Protocol):
    """Job for a simulated cluster."""

    @property
    def id(self) -> str:
        """Id of the job."""

    @property
    def name(self) -> str:
        """Name of the job object."""

    def requests(self) -> dict[str, Requests]:
        """Return the requests of one pod, by task."""

    def life(self, task: str, index: int, lived: int) -> Life:
        """Return the life of a pod.

        Args:
            task: task of the pod.
            index: index in the task.
            lived: number of earlier pods of the slot that have ended by themselves.
        """


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A row of a trace, submitted at a simulated time."""

    id: str
    """Job id, as `import-trace` generates it."""
    row: TraceRow
    submit: Micros
    privileged: bool = field(default=False, kw_only=True)
    """True if other jobs may be given notice for it."""

    @property
    def name(self) -> str:
        """Name in the trace."""
        return self.row.name

    def life(self, task: str, index: int, lived: int) -> Life:  # noqa: ARG002 - all pods of a row live alike
        """Return the life of a pod that works alone, from the row. Traces have no exit codes."""
        match self.row.phase:
            case "Completed":
                return Life(self.run, "Succeeded", exit_code=0)
            case "Failed":
                return Life(self.run, "Failed", "AppFailed")
            case "Terminated":
                return Life(self.run, None)

    @property
    def run(self) -> Micros | None:
        """Run time of each of its pods (microseconds); `None`: it never ran in the trace, its user stopped it while pending."""
        row = self.row
        return None if row.start is None else row.end - row.start + sum(end - start for start, end in row.earlier)

    @property
    def patience(self) -> Micros:
        """Time that a job that never ran was pending until its user stopped it (microseconds)."""
        return self.row.end - self.row.submit

    @property
    def gpus(self) -> int:
        """GPUs of all its pods."""
        return sum(pod.gpu for pod in self.row.pods)

    def tasks(self) -> list[tuple[str, Requests, int]]:
        """Return name, requests of one pod and number of pods of each task. Adjacent pods with equal requests form a task."""
        found: list[tuple[str, Requests, int]] = []
        for requests, alike in groupby(self.row.pods):
            found.append((_TASK if not found else f"{_TASK}-{len(found) + 1}", requests, len(list(alike))))
        return found

    def requests(self) -> dict[str, Requests]:
        """Return the requests of one pod, by task."""
        return {name: requests for name, requests, _ in self.tasks()}

    def manifest(self) -> dict[str, Any]:
        """Return the vcjob: a gang of all its pods, which restarts as a whole if one of several pods is evicted."""
        row = self.row
        made = gang(row.name, self.tasks(), queue=row.queue, user=row.user, tenant=row.tenant, minimum=len(row.pods))
        if not self.privileged:
            return made
        return {**made, "metadata": {**made["metadata"], "annotations": {"lahar/spec": '{"preempt": true}'}}}


def gang(
    name: str,
    tasks: Iterable[tuple[str, Requests, int]],
    *,
    queue: str,
    user: str,
    tenant: str,
    minimum: int,
    namespace: str = DEFAULT_NAMESPACE,
) -> dict[str, Any]:
    """Return a vcjob whose pods restart together if one of several is evicted.

    Args:
        name: name of the job.
        tasks: name, requests of one pod and number of pods of each task.
        queue: queue of the job.
        user: user label; empty: none.
        tenant: tenant label; empty: none, so that the namespace is the tenant.
        minimum: `minAvailable`, the pods that start together.
        namespace: namespace of the job.
    """
    labels = {"lahar/user": user, "lahar/tenant": tenant}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": {key: value for key, value in labels.items() if value}},
        "spec": {
            "schedulerName": SCHEDULER,
            "queue": queue,
            "minAvailable": minimum,
            "tasks": [{"name": task, "replicas": count, "template": _template(requests)} for task, requests, count in tasks],
            **({"policies": [{"event": "PodEvicted", "action": "RestartJob"}]} if minimum > 1 else {}),
        },
    }


def _template(requests: Requests) -> dict[str, Any]:
    asked = {"cpu": f"{requests.cpu_milli}m" if requests.cpu_milli else "", "memory": str(requests.memory_bytes or "")}
    devices = {"nvidia.com/gpu": str(requests.gpu)} if requests.gpu else {}
    resources = {"requests": {name: amount for name, amount in asked.items() if amount} | devices, "limits": devices}
    return {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "trace", "resources": resources}]}}


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs of a trace that are simulated, and the rows that are not."""

    jobs: Sequence[PlannedJob]
    """Jobs in order of submission, then of rows."""
    left_out: Sequence[BadRow]
    """Rows that are not simulated."""

    @property
    def start(self) -> Micros:
        """Time of the first submission (microseconds)."""
        return self.jobs[0].submit

    @property
    def queues(self) -> list[str]:
        """Names of the jobs' queues, sorted."""
        return sorted({job.row.queue for job in self.jobs})


def plan(
    rows: Sequence[TraceRow | BadRow],
    source_format: str,
    cluster: str,
    *,
    speed_up: float = 1.0,
    most: int | None = None,
    privileged: Collection[str] = (),
) -> Workload:
    """Return the workload of a trace.

    Args:
        rows: rows of the trace.
        source_format: format of the trace; part of the job ids, with cluster and row key.
        cluster: name of the simulated cluster.
        speed_up: factor by which the time between submissions shrinks, which raises the load; run times are unchanged.
        most: maximum number of jobs, the earliest submitted; `None`: all.
        privileged: names of the jobs that are submitted as privileged.

    Raises:
        SimulationError: `speed_up` is not a positive number or so small that a job ends after the year 9999, or a privileged name
            is not that of a simulated job.
        NoJobsError: no row is left; the message has the first fault.
    """
    if not (isfinite(speed_up) and speed_up > 0):
        raise SimulationError(f"the speed-up is {speed_up:g}; it must be more than 0: 2 halves the time between submissions")
    left_out = [row for row in rows if isinstance(row, BadRow)]
    left_out += [BadRow(row.line, row.submit, NO_RUN_TIME) for row in rows if isinstance(row, TraceRow) and row.without_end]
    left_out.sort(key=lambda row: row.line)
    kept = [row for row in rows if isinstance(row, TraceRow) and not row.without_end]
    kept.sort(key=lambda row: (row.submit, row.line))
    kept = kept[:most]
    if not kept:
        first = f": line {left_out[0].line}: {left_out[0].reason}" if left_out else ""
        raise NoJobsError(f"the trace has no job to simulate{first}")
    for name in privileged:
        if all(row.name != name for row in kept):
            raise SimulationError(f"the simulation has no job {name!r} that could be privileged")
    begin = kept[0].submit
    for row in kept:
        if begin + (row.submit - begin) / speed_up + (row.end - row.submit) > LATEST:
            raise SimulationError(
                f"line {row.line}: with a speed-up of {speed_up:g}, {row.name} ends after the year 9999; give more"
            )
    jobs = [
        PlannedJob(
            imported_job_id(cluster, source_format, row.key),
            row,
            begin + int((row.submit - begin) / speed_up),
            privileged=row.name in privileged,
        )
        for row in kept
    ]
    return Workload(jobs, left_out)
