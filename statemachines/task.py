"""The task machine: a task's phase, from its replicas. It does not drive the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from statemachines.counters import Counters
from statemachines.machine import MachineTable, TransitionRow, step
from statemachines.spec import TaskSpec
from statemachines.task_rules import success_out_of_reach, task_completed, too_many_failed
from statemachines.vocabulary import TaskPhase

TaskTrigger = Literal["Counted", "Restarted", "JobFinished"]


@dataclass(slots=True)
class TaskFacts:
    """Facts for the conditions of the task machine."""

    spec: TaskSpec
    counters: Counters
    retrying: bool = False
    """A pending delayed action may restart failed replicas."""
    dependencies_met: bool = True
    replacing: bool = False
    """An attempt killed to be replaced has not ended yet."""
    owner_completed: bool = False
    """The status of an observed job is Completed; not all of its pods may have been seen."""
    stopped: bool = False
    """Its job is aborted or suspended, and none of its attempts lives."""


def _dependencies_met(facts: TaskFacts) -> bool:
    """All dependencies of the task are met."""
    return facts.dependencies_met


def _completed(facts: TaskFacts) -> bool:
    """Enough replicas succeeded."""
    return task_completed(facts.spec, facts.counters.succeeded)


def _completed_with_job(facts: TaskFacts) -> bool:
    """Enough replicas succeeded; or the owner of the job says so of the job, and no replica is known to have failed."""
    return _completed(facts) or (facts.owner_completed and not facts.counters.failed)


def _failed(facts: TaskFacts) -> bool:
    """Too many replicas failed; or so many of a main task that it cannot complete any more, because its failure must not wait."""
    spec, failed = facts.spec, facts.counters.failed
    return too_many_failed(spec, failed) or (spec.main and not facts.retrying and success_out_of_reach(spec, failed))


def _started(facts: TaskFacts) -> bool:
    """At least its minimum of attempts, and at least one, run or have ended, in a job that goes on."""
    spec, counters = facts.spec, facts.counters
    started = counters.running + counters.succeeded + counters.failed
    return not facts.stopped and started > 0 and started >= (spec.replicas if spec.min_available is None else spec.min_available)


def _unfinished(facts: TaskFacts) -> bool:
    """It had completed, and has got more replicas or attempts since."""
    return not _completed_with_job(facts)


def _too_many_pending(facts: TaskFacts) -> bool:
    """Fewer attempts than its minimum have started, and so many are pending that the minimum cannot run."""
    spec = facts.spec
    minimum = spec.replicas if spec.min_available is None else spec.min_available
    return facts.counters.pending > spec.replicas - minimum and not _started(facts)


def _stopped(facts: TaskFacts) -> bool:
    """Its job is aborted or suspended, and none of its attempts lives."""
    return facts.stopped


def _replaced(facts: TaskFacts) -> bool:
    """All attempts killed to be replaced have ended."""
    return not facts.replacing


TASK_STATES: Final[Mapping[str, str]] = {
    "Waiting": "A dependsOn is not satisfied, no pod is made. Pending or Restarting follow, Completed or Failed when the job ends.",
    "Pending": "Fewer attempts than its minimum have started, or its job is aborted or suspended and no attempt is left. "
    "Running, Completed, Failed or Restarting follow.",
    "Running": "At least its minimum of attempts run or have ended. Pending, Completed, Failed or Restarting follow.",
    "Restarting": "Its attempts are being replaced. Pending follows; Completed or Failed when the job finishes.",
    "Completed": "Enough replicas succeeded, or an observed job completed and none is known to have failed. "
    "Restarting follows when the job or task is restarted, Pending when it is scaled up.",
    "Failed": "Too many replicas failed, or the job finished before it completed. Restarting follows when it is restarted. "
    "(Containers restarted in place too often raise TaskFailed and leave the phase: they may still succeed.)",
}

_TRIGGERS: Final[Mapping[str, str]] = {
    "Counted": "Its counters, its size or its dependencies changed.",
    "Restarted": "Attempts of it are killed to be replaced.",
    "JobFinished": "The job is Completed, Failed or Terminated.",
}

_COUNTED: Final[list[tuple[str, str, list[str]]]] = [
    ("Waiting", "Pending", ["dependencies_met"]),
    ("Pending", "Completed", ["completed"]),
    ("Pending", "Failed", ["failed"]),
    ("Pending", "Running", ["started"]),
    ("Running", "Completed", ["completed"]),
    ("Running", "Failed", ["failed"]),
    ("Running", "Pending", ["stopped"]),
    ("Running", "Pending", ["too_many_pending"]),
    ("Restarting", "Pending", ["replaced"]),
    ("Completed", "Pending", ["unfinished"]),
]

_ROWS: Final[list[TransitionRow]] = [
    *(TransitionRow(trigger="Counted", source=source, dest=dest, conditions=conditions) for source, dest, conditions in _COUNTED),
    *(TransitionRow(trigger="Counted", source=state, dest=None) for state in TASK_STATES),
    *(
        TransitionRow(trigger="Restarted", source=state, dest=None if state == "Restarting" else "Restarting")
        for state in TASK_STATES
    ),
    *(
        row
        for state in ("Waiting", "Pending", "Running", "Restarting")
        for row in (
            TransitionRow(trigger="JobFinished", source=state, dest="Completed", conditions=["completed_with_job"]),
            TransitionRow(trigger="JobFinished", source=state, dest="Failed"),
        )
    ),
    TransitionRow(trigger="JobFinished", source="Completed", dest=None),
    TransitionRow(trigger="JobFinished", source="Failed", dest=None),
]

TASK: Final[MachineTable[TaskFacts]] = MachineTable(
    "Task",
    TASK_STATES,
    "Waiting",
    _TRIGGERS,
    _ROWS,
    {
        "dependencies_met": _dependencies_met,
        "completed": _completed,
        "completed_with_job": _completed_with_job,
        "failed": _failed,
        "started": _started,
        "stopped": _stopped,
        "too_many_pending": _too_many_pending,
        "replaced": _replaced,
        "unfinished": _unfinished,
    },
)


def initial_task_phase(task: TaskSpec) -> TaskPhase:
    """Return the first phase of a task: Waiting if it depends on others."""
    return "Waiting" if task.depends_on is not None and task.depends_on.names else "Pending"


def next_task_phase(phase: TaskPhase, trigger: TaskTrigger, facts: TaskFacts) -> TaskPhase:
    """Return the phase of a task after one step; repeat with `Counted` until it is unchanged."""
    row = step(TASK.compiled, phase, trigger, facts)
    return phase if row is None else row.dest  # type: ignore[return-value]  # a row's phases are the table's
