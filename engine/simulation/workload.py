"""The jobs of a trace as their users submit them: a manifest each, how long it runs once it has nodes, how it ends."""

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

__all__ = ["NO_RUN_TIME", "Life", "NoJobsError", "PlannedJob", "SimulatedJob", "Workload", "gang", "plan"]

NO_RUN_TIME: Final = "the trace tells no run time"
"""Why a row that `import-trace` takes is left out of a simulation."""
_TASK: Final = "main"


class NoJobsError(SimulationError):
    """Raised when nothing is left of a trace to simulate."""


@dataclass(frozen=True, slots=True)
class Life:
    """What becomes of a pod that has a node, if nobody interferes."""

    work: Micros | None
    """How long it runs; `None`: until it is stopped."""
    phase: TerminalPhase | None
    """How it ends; `None`: its user stops the job."""
    reason: str | None = None
    exit_code: int | None = None
    start: Micros | None = None
    """From its binding until it runs; `None`: as the cluster's nodes take."""
    runs: bool = True
    """False: it ends without having run."""


class SimulatedJob(Protocol):
    """A job as a simulated cluster knows it."""

    @property
    def id(self) -> str:
        """Id of the job."""

    @property
    def name(self) -> str:
        """Name of the job's object."""

    def requests(self) -> dict[str, Requests]:
        """Return task → requests of a pod."""

    def life(self, task: str, index: int, lived: int) -> Life:
        """Return what becomes of a pod.

        Args:
            task: its task.
            index: its slot of the task.
            lived: how many pods of the slot have ended by themselves before it.
        """


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A row of a trace, to be submitted at a simulated time."""

    id: str
    """As `import-trace` names the job of the row."""
    row: TraceRow
    submit: Micros
    privileged: bool = field(default=False, kw_only=True)
    """Others may be given notice for it."""

    @property
    def name(self) -> str:
        """As the trace names it."""
        return self.row.name

    def life(self, task: str, index: int, lived: int) -> Life:  # noqa: ARG002 - every pod of a row does the same
        """Return what becomes of a pod that works alone: what the row says. Traces tell no exit code."""
        match self.row.phase:
            case "Completed":
                return Life(self.run, "Succeeded", exit_code=0)
            case "Failed":
                return Life(self.run, "Failed", "AppFailed")
            case "Terminated":
                return Life(self.run, None)

    @property
    def run(self) -> Micros | None:
        """How long each of its pods runs (microseconds); `None`: in the trace it never ran, its user stopped it waiting."""
        row = self.row
        return None if row.start is None else row.end - row.start + sum(end - start for start, end in row.earlier)

    @property
    def patience(self) -> Micros:
        """How long the user of a job that never ran waited before stopping it (microseconds)."""
        return self.row.end - self.row.submit

    @property
    def gpus(self) -> int:
        """Devices of all its pods."""
        return sum(pod.gpu for pod in self.row.pods)

    def tasks(self) -> list[tuple[str, Requests, int]]:
        """Return its tasks: name, requests of a pod, number of pods. Neighbouring pods that ask for the same are one task."""
        found: list[tuple[str, Requests, int]] = []
        for requests, alike in groupby(self.row.pods):
            found.append((_TASK if not found else f"{_TASK}-{len(found) + 1}", requests, len(list(alike))))
        return found

    def requests(self) -> dict[str, Requests]:
        """Return task → requests of a pod."""
        return {name: requests for name, requests, _ in self.tasks()}

    def manifest(self) -> dict[str, Any]:
        """Return the vcjob: a gang of all its pods, which starts over as a whole when one of several pods is evicted."""
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
    """Return a vcjob whose pods start over together when one of several is evicted.

    Args:
        name: its name.
        tasks: name, requests of a pod and number of pods of each.
        queue: its queue.
        user: its user; empty: none.
        tenant: its tenant; empty: its namespace.
        minimum: pods that begin together.
        namespace: its namespace.
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
    """What is simulated of a trace."""

    jobs: Sequence[PlannedJob]
    """In order of submission, those of one moment by their rows."""
    left_out: Sequence[BadRow]
    """Rows that are not simulated."""

    @property
    def start(self) -> Micros:
        """When the first job is submitted."""
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
    """Return what is simulated of the rows of a trace.

    Args:
        rows: as they were read.
        source_format: the format of the trace; with cluster and row key it makes the ids of jobs.
        cluster: name of the simulated cluster.
        speed_up: submissions follow each other so many times faster than in the trace, which raises the load; run times placement.
        most: simulate only so many jobs, those submitted first; `None`: all.
        privileged: names of jobs that are submitted as privileged.

    Raises:
        SimulationError: `speed_up` is no positive number or so small that a job ends after the year 9999, or no job that is
            simulated has one of the names.
        NoJobsError: no row is left; the text has the first fault.
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
