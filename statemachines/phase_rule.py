"""The phase rule of jobs: the effect of an action in a phase, and the next phase.

Volcano runs the effect first (kill or sync) and then a function of the phase on the counters after the effect. Both are read from
one table (`statemachines.job`): the effect by `effect_of`, the phase by `next_phase`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, cast

from statemachines.counters import Counters
from statemachines.job import JOB, JobFacts, NoticeTrigger
from statemachines.machine import step
from statemachines.spec import JobSpec
from statemachines.vocabulary import Action, FailureClass, JobPhase

__all__ = ["Counters", "Effect", "NextPhase", "deferred", "effect_of", "next_phase", "notice_phase", "preempted_action"]

Effect = Literal["sync", "kill_soft", "kill_none", "kill_target", "none"]
"""sync: create and delete pods to match the specification. kill_soft: delete every pod except those that succeeded or failed.
kill_none: retain none. kill_target: delete the pods of one task, pod or partition. none: nothing."""

_COMPILED: Final = JOB.compiled
_DEFERRED: Final = frozenset({"AbortJob", "TerminateJob", "CompleteJob"})


class NextPhase(NamedTuple):
    """Result of the phase rule."""

    phase: JobPhase
    retry_delta: int = 0
    """Added to `retryCount`."""
    restarts_delta: int = 0
    """Added to `restarts`."""


def effect_of(phase: JobPhase, action: Action | str, *, deleting: bool = False) -> Effect:
    """Return the effect of an action in a phase.

    Args:
        phase: phase of the job.
        action: the action; an unknown one counts as SyncJob, as in Volcano's default branches.
        deleting: the job object itself is being deleted (Volcano: both kill and sync are skipped).
    """
    if deleting or action == "NoAction":
        return "none"
    rows = _COMPILED.get((phase, action)) or _COMPILED[phase, "SyncJob"]
    return cast("Effect", rows[0].effect or "none")


def next_phase(
    phase: JobPhase,
    action: Action | str,
    spec: JobSpec,
    counters: Counters,
    retry_count: int,
    status_min_available: int,
    *,
    tasks: Mapping[str, Counters] | None = None,
    cause: FailureClass | None = None,
    requeued: bool = False,
) -> NextPhase:
    """Return the phase after an action whose effect was carried out, without scanning pods.

    Args:
        phase: phase before the action.
        action: as in `effect_of`.
        spec: the job's specification; reads `min_available`, `min_success`, `max_retry` and the tasks' `replicas` and
            `min_available`.
        counters: pods of the job after the effect.
        retry_count: `retryCount` before the action.
        status_min_available: `minAvailable` in the status (Volcano: written by a sync).
        tasks: counters per task after the effect; a task without an entry is not checked against its own minimum.
        cause: class of the failure that led to a restart; `None`: no attempt caused it (a command). Only `user` and `None` use a
            retry; `permanent` uses all that are left, so that the restart resolves to Failed.
        requeued: the restart was begun by RequeueJob, which does not check the retries.
    """
    if action == "NoAction":
        return NextPhase(phase)
    rows = _COMPILED.get((phase, action)) or _COMPILED[phase, "SyncJob"]
    facts = JobFacts(spec, counters, tasks or {}, retry_count, status_min_available, requeued)
    for row in rows:
        for guard in row.guards:
            if not guard(facts):
                break
        else:
            if row.after is None:
                return NextPhase(cast("JobPhase", row.dest))
            return NextPhase(
                cast("JobPhase", row.dest),
                _retries(row.after, cause, retry_count, spec.max_retry),
                int(row.after == "count_restart"),
            )
    return NextPhase(phase)


def _retries(after: str, cause: FailureClass | None, retry_count: int, max_retry: int) -> int:
    if after == "count_resume" or cause is None or cause == "user":
        return 1
    if cause == "permanent":
        return max(1, max_retry - retry_count)
    return 0


def deferred(phase: JobPhase, action: Action | str) -> bool:
    """Return whether an action is deferred until the present restart has resolved.

    Volcano ignores an abort, termination or completion requested during Restarting. So does the phase rule; the stage therefore
    calls this function first.
    """
    return phase == "Restarting" and action in _DEFERRED


def notice_phase(phase: JobPhase, trigger: NoticeTrigger, spec: JobSpec, counters: Counters) -> JobPhase | None:
    """Return the phase of a job after a notice of preemption was opened, withdrawn or executed.

    Args:
        phase: the job's phase.
        trigger: the outcome of the notice.
        spec: the job's specification.
        counters: its pods.

    Returns:
        The phase; `None` if the table does not list the trigger for the phase: an anomaly.
    """
    if (phase, trigger) not in _COMPILED:
        return None
    row = step(_COMPILED, phase, trigger, JobFacts(spec, counters))
    return None if row is None else cast("JobPhase", row.dest)


def preempted_action(spec: JobSpec) -> Action:
    """Return the action that stops a victim when its notice is executed; it leads to the phase that `NoticeExecuted` names."""
    actions: dict[str, Action] = {"Requeue": "RequeueJob", "Abort": "AbortJob", "Terminate": "TerminateJob"}
    return actions[spec.on_preempted]
