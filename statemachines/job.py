"""The job machine: Volcano's state table, and the two phases of preemption with notice.

Triggers are the actions and the outcomes of a notice. The effect (`before`) comes first; the conditions then see the pods after the
effect (Volcano: the function given to KillJob, KillTarget or SyncJob). Privileged behaves as Pending and WillEvicted as Running in
every row except those of notices, and one: WillEvicted is not left for Pending while pods wait. A job would shake off its notice by
asking for more pods than there is room for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from statemachines.counters import Counters
from statemachines.machine import MachineTable, TransitionRow
from statemachines.spec import JobSpec
from statemachines.vocabulary import ACTIONS

NoticeTrigger = Literal["NoticeOpened", "NoticeReceived", "NoticeWithdrawn", "NoticeExecuted"]


@dataclass(slots=True)
class JobFacts:
    """Facts for the conditions of the job machine."""

    spec: JobSpec
    counters: Counters
    """Pods of the job, after the effect."""
    tasks: Mapping[str, Counters] = field(default_factory=dict)
    """Pods by task, after the effect; a task without an entry was not counted."""
    retry_count: int = 0
    """Retries before the action."""
    status_min_available: int = 0
    requeued: bool = False
    """The restart under way was begun by RequeueJob."""


def _enough_started(facts: JobFacts) -> bool:
    """At least minAvailable pods run or have ended (Volcano: Pending → Running)."""
    counters = facts.counters
    return facts.spec.min_available <= counters.running + counters.succeeded + counters.failed


def _scaled_to_zero(facts: JobFacts) -> bool:
    """The job has no replicas (Volcano: keeps its phase)."""
    return facts.spec.total_replicas == 0


def _success_reached(facts: JobFacts) -> bool:
    """A minSuccess is set and reached, even with live pods."""
    minimum = facts.spec.min_success
    return minimum is not None and facts.counters.succeeded >= minimum


def _all_ended(facts: JobFacts) -> bool:
    """Every replica succeeded or failed."""
    return facts.counters.succeeded + facts.counters.failed == facts.spec.total_replicas


def _task_fell_short(facts: JobFacts) -> bool:
    """The job's minimum covers its tasks' minima, and a counted task with a minimum of its own has fewer successes."""
    spec = facts.spec
    if spec.min_available < spec.total_min_available:
        return False
    for task in spec.tasks:
        counters = facts.tasks.get(task.name)
        if counters is not None and task.min_available is not None and counters.succeeded < task.min_available:
            return True
    return False


def _success_missed(facts: JobFacts) -> bool:
    """A minSuccess is set and not reached."""
    minimum = facts.spec.min_success
    return minimum is not None and facts.counters.succeeded < minimum


def _enough_succeeded(facts: JobFacts) -> bool:
    """At least minAvailable replicas succeeded."""
    return facts.counters.succeeded >= facts.spec.min_available


def _too_many_pending(facts: JobFacts) -> bool:
    """So many pods are pending that minAvailable cannot run."""
    return facts.counters.pending > facts.spec.total_replicas - facts.spec.min_available


def _some_run(facts: JobFacts) -> bool:
    """Pods run."""
    return facts.counters.running > 0


def _drained(facts: JobFacts) -> bool:
    """No pod is pending, running or terminating (Volcano: unknown ones are ignored)."""
    counters = facts.counters
    return counters.terminating == 0 and counters.pending == 0 and counters.running == 0


def _retries_exhausted(facts: JobFacts) -> bool:
    """The retryCount has reached maxRetry; not checked after RequeueJob."""
    return not facts.requeued and facts.retry_count >= facts.spec.max_retry


def _enough_left(facts: JobFacts) -> bool:
    """Few enough pods are terminating to leave minAvailable."""
    return facts.spec.total_replicas - facts.counters.terminating >= facts.status_min_available


def _on_preempted_abort(facts: JobFacts) -> bool:
    """The specification says `onPreempted: Abort`."""
    return facts.spec.on_preempted == "Abort"


def _on_preempted_terminate(facts: JobFacts) -> bool:
    """The specification says `onPreempted: Terminate`."""
    return facts.spec.on_preempted == "Terminate"


_GUARDS: Final = {
    "enough_started": _enough_started,
    "scaled_to_zero": _scaled_to_zero,
    "success_reached": _success_reached,
    "all_ended": _all_ended,
    "task_fell_short": _task_fell_short,
    "success_missed": _success_missed,
    "enough_succeeded": _enough_succeeded,
    "too_many_pending": _too_many_pending,
    "some_run": _some_run,
    "drained": _drained,
    "retries_exhausted": _retries_exhausted,
    "enough_left": _enough_left,
    "on_preempted_abort": _on_preempted_abort,
    "on_preempted_terminate": _on_preempted_terminate,
}

JOB_STATES: Final[Mapping[str, str]] = {
    "Pending": "Fewer than minAvailable pods have started. Running, Restarting, Aborting, Terminating, Completing, Privileged or "
    "WillEvicted follow.",
    "Running": "minAvailable pods have started. Pending, Restarting, Aborting, Terminating, Completing, Completed, Failed or "
    "WillEvicted follow.",
    "Restarting": "Pods have been killed to be recreated. Pending follows when enough are gone, Failed when no retry is left.",
    "Aborting": "Pods are being stopped; the job may be resumed. Aborted or Restarting follow.",
    "Aborted": "Stopped by an abort, not finished: Restarting follows on ResumeJob.",
    "Completing": "Pods are being stopped and the job counts as done. Completed follows.",
    "Completed": "Done. Final.",
    "Terminating": "Pods are being stopped for good. Terminated follows.",
    "Terminated": "Stopped for good. Final.",
    "Failed": "Too few replicas succeeded, or no retry is left. Final.",
    "Privileged": "Pending, and victims have been given notice for its sake. What follows Pending follows, and Pending when the "
    "notice ends.",
    "WillEvicted": "Running, and it has been given notice. What follows Running follows, but Pending does not; Running when the "
    "notice is withdrawn, Restarting, Aborting or Terminating when it is executed.",
}

JOB_TRIGGERS: Final[Mapping[str, str]] = {
    "AbortJob": "Stop the pods; the job can be resumed.",
    "RestartJob": "Kill all pods and recreate them.",
    "RestartTask": "Kill the pods of one task and recreate them.",
    "RestartPod": "Kill one pod and recreate it.",
    "RestartPartition": "Kill the pods of one partition of a task and recreate them.",
    "TerminateJob": "Stop the pods for good.",
    "CompleteJob": "Stop the pods; the job counts as done.",
    "ResumeJob": "Make an aborted job run again.",
    "SyncJob": "Bring the pods into line with the specification; the answer to every event without a policy.",
    "EnqueueJob": "Internal; handled as SyncJob is where no other row is given.",
    "RequeueJob": "After an eviction: RestartJob's path, without touching or testing retryCount.",
    "NoAction": "Nothing at all.",
    "NoticeOpened": "A notice of preemption names the job as the preemptor.",
    "NoticeReceived": "A notice of preemption names the job as a victim. It may be Pending again while some of its pods run.",
    "NoticeWithdrawn": "The notice has ended without effect, or no longer names the job.",
    "NoticeExecuted": "The notice's time has come.",
}

_TARGETED: Final = ("RestartTask", "RestartPod", "RestartPartition")
_ENDINGS: Final = {"AbortJob": "Aborting", "TerminateJob": "Terminating", "CompleteJob": "Completing"}


def _row(
    trigger: str, source: str, dest: str | None, conditions: str = "", *, before: str | None = None, after: str | None = None
) -> TransitionRow:
    row = TransitionRow(trigger=trigger, source=source, dest=dest)
    if conditions:
        row["conditions"] = conditions.split()
    if before is not None:
        row["before"] = before
    if after is not None:
        row["after"] = after
    return row


def _pending_or_running(source: str) -> list[TransitionRow]:
    """Rows of actions that Pending and Running share."""
    rows = [_row("RestartJob", source, "Restarting", before="kill_none", after="count_restart")]
    rows += [_row(action, source, "Restarting", before="kill_target", after="count_restart") for action in _TARGETED]
    rows += [_row(action, source, phase, before="kill_soft") for action, phase in _ENDINGS.items()]
    rows.append(_row("RequeueJob", source, "Restarting", before="kill_none"))
    return rows


def _pending_sync(source: str) -> list[TransitionRow]:
    return [
        row
        for action in ("SyncJob", "EnqueueJob", "ResumeJob")
        for row in (
            _row(action, source, "Running", "enough_started", before="sync"),
            _row(action, source, None, before="sync"),
        )
    ]


def _running_sync(source: str, *, noticed: bool = False) -> list[TransitionRow]:
    return [
        row
        for action in ("SyncJob", "EnqueueJob", "ResumeJob")
        for row in (
            _row(action, source, None, "scaled_to_zero", before="sync"),
            _row(action, source, "Completed", "success_reached", before="sync"),
            _row(action, source, "Failed", "all_ended task_fell_short", before="sync"),
            _row(action, source, "Failed", "all_ended success_missed", before="sync"),
            _row(action, source, "Completed", "all_ended enough_succeeded", before="sync"),
            _row(action, source, "Failed", "all_ended", before="sync"),
            *([] if noticed else [_row(action, source, "Pending", "too_many_pending", before="sync")]),
            _row(action, source, None, before="sync"),
        )
    ]


def _restarting() -> list[TransitionRow]:
    effects = {"SyncJob": "sync", **dict.fromkeys(_TARGETED, "kill_target")}
    rows: list[TransitionRow] = []
    for action in ACTIONS[:-1]:
        effect = effects.get(action, "kill_none")
        rows += [
            _row(action, "Restarting", "Failed", "retries_exhausted", before=effect),
            _row(action, "Restarting", "Pending", "enough_left", before=effect),
            _row(action, "Restarting", None, before=effect),
        ]
    return rows


def _stopping(source: str, dest: str, *, resumable: bool = False) -> list[TransitionRow]:
    rows: list[TransitionRow] = []
    for action in ACTIONS[:-1]:
        if resumable and action == "ResumeJob":
            rows.append(_row(action, source, "Restarting", before="kill_soft", after="count_resume"))
        else:
            rows += [_row(action, source, dest, "drained", before="kill_soft"), _row(action, source, None, before="kill_soft")]
    return rows


def _stopped(source: str, *, resumable: bool = False) -> list[TransitionRow]:
    return [
        _row(action, source, "Restarting", before="kill_soft", after="count_resume")
        if resumable and action == "ResumeJob"
        else _row(action, source, None, before="kill_soft")
        for action in ACTIONS[:-1]
    ]


def _notices() -> list[TransitionRow]:
    """Rows of notices. A job in Privileged or WillEvicted is part of no other notice, so none is opened or given there."""
    return [
        _row("NoticeOpened", "Pending", "Privileged"),
        _row("NoticeReceived", "Running", "WillEvicted"),
        _row("NoticeReceived", "Pending", "WillEvicted", "some_run"),
        _row("NoticeWithdrawn", "Privileged", "Running", "enough_started"),
        _row("NoticeWithdrawn", "Privileged", "Pending"),
        _row("NoticeExecuted", "Privileged", "Running", "enough_started"),
        _row("NoticeExecuted", "Privileged", "Pending"),
        _row("NoticeWithdrawn", "WillEvicted", "Running"),
        # The effect of an executed notice is that of the action which follows from onPreempted (`preempted_action`).
        _row("NoticeExecuted", "WillEvicted", "Aborting", "on_preempted_abort"),
        _row("NoticeExecuted", "WillEvicted", "Terminating", "on_preempted_terminate"),
        _row("NoticeExecuted", "WillEvicted", "Restarting"),
    ]


_ROWS: Final[list[TransitionRow]] = [
    *_pending_or_running("Pending"),
    *_pending_sync("Pending"),
    *_pending_or_running("Privileged"),
    *_pending_sync("Privileged"),
    *_pending_or_running("Running"),
    *_running_sync("Running"),
    *_pending_or_running("WillEvicted"),
    *_running_sync("WillEvicted", noticed=True),
    *_restarting(),
    *_stopping("Aborting", "Aborted", resumable=True),
    *_stopped("Aborted", resumable=True),
    *_stopping("Completing", "Completed"),
    *_stopping("Terminating", "Terminated"),
    *_stopped("Completed"),
    *_stopped("Terminated"),
    *_stopped("Failed"),
    *(_row("NoAction", state, None) for state in JOB_STATES),
    *_notices(),
]

JOB: Final[MachineTable[JobFacts]] = MachineTable("Job", JOB_STATES, "Pending", JOB_TRIGGERS, _ROWS, _GUARDS)
