"""Actions on managed jobs: the effect first, then the next phase, until the job is stable.

The rules themselves (which effect, which phase, which pods) are in `statemachines`; this module applies them to the state of a job
and turns their results into events.
"""

from __future__ import annotations

from typing import Final

from engine.events.actions import ActionDeferred, ActionTaken, DelaysCancelled, EventRaised, TimerCancelled, TimerSet
from engine.events.decisions import DecidedNoticed
from engine.events.jobs import JobPhaseChanged
from engine.events.outcomes import Anomaly
from engine.events.times import Micros
from engine.kubernetes.manifests.batch_job import BATCH_JOB
from engine.lifecycle.errors import InvariantError
from engine.lifecycle.indexes import cancelled, fired_key
from engine.lifecycle.job import Attempt, Job, Timer
from engine.lifecycle.lost_pods import wait_for_lost
from engine.lifecycle.orders import Order
from engine.lifecycle.pods import EVICTED, breadth, kill, left_to_kill, plan_of, scope_of, start_missing, when_killed
from engine.lifecycle.steps import RAISING, WORK
from engine.lifecycle.tasks import follow_tasks
from engine.lifecycle.turn import Events, Turn
from statemachines import policies
from statemachines.delays import Delay, action_class, made_pointless, place
from statemachines.kill import KillPlan
from statemachines.limits import ttl_due
from statemachines.phase_rule import deferred, effect_of, next_phase
from statemachines.raising import fires, matching, subject_of, too_deep
from statemachines.sync import pod_name
from statemachines.vocabulary import ACTIONS, FINISHED_JOB_PHASES, INTERNAL_ACTIONS, USER_ACTIONS, FailureClass, failure_class

__all__ = ["cancel", "change_phase", "delays", "execute", "failure_behind", "raise_event", "settle"]

_MANY: Final = 64
"""Rounds after which a job that is not stable is parked; every phase is left at most a few times."""

_DELAYED: Final = [action for action in ACTIONS if action in USER_ACTIONS]
"""Actions that may be delayed."""

_STOPS: Final = frozenset({"AbortJob", "TerminateJob", "CompleteJob"})


def execute(turn: Turn, job: Job, order: Order) -> Events:
    """Carry out one action and its follow-up transitions."""
    if order.action not in INTERNAL_ACTIONS or order.action == "RequeueJob":
        yield from _take(turn, job, order)
    yield from settle(turn, job)


def _take(turn: Turn, job: Job, order: Order) -> Events:
    # Later events of this turn continue the chain of events that requested this action.
    turn.depth = max(turn.depth, order.depth)
    phase = job.phase
    if deferred(phase, order.action):
        yield turn.event(
            job,
            ActionDeferred(order.action, order.by, order.reason, policy=order.policy, event=order.event, commanded=order.commanded),
            turn.time,
        )
        return
    scope = scope_of(job, effect_of(phase, order.action), order)
    turn.work += breadth(job, order.target) + left_to_kill(job)
    plan = plan_of(job, scope, order)
    if plan is None:  # a partition that does not exist: no event, not even a change of phase (Volcano)
        return
    retry_count, restarts = job.retry_count, job.restarts
    taken = turn.event(
        job,
        ActionTaken(
            order.action,
            policy=order.policy,
            event=order.event,
            task=order.task,
            index=order.index,
            partition=order.partition,
            by=order.by,
            reason=order.reason,
            deferred=order.deferred,
        ),
        turn.time,
    )
    yield taken
    turn.cause = taken.id
    yield from _cancel_pointless(turn, job, order)
    reason = "StoppedByUser" if order.commanded and order.action in _STOPS else "KilledByAction"
    if order.action == "RequeueJob":
        reason = EVICTED
    yield from kill(turn, job, plan, scope, order, order.ends or reason)
    counts, tasks = when_killed(job)
    answer = next_phase(
        phase,
        order.action,
        job.spec,
        counts,
        retry_count,
        job.spec.min_available,
        tasks=tasks,
        cause=order.cause,
        requeued=job.requeued,
    )
    if answer.phase != job.phase:
        yield from change_phase(
            turn,
            job,
            answer.phase,
            reason=order.action,
            retry_count=retry_count + answer.retry_delta,
            restarts=restarts + answer.restarts_delta,
        )


def change_phase(
    turn: Turn,
    job: Job,
    phase: str,
    *,
    reason: str | None,
    retry_count: int | None = None,
    restarts: int | None = None,
    opened: DecidedNoticed | None = None,
    reserved: Micros | None = None,
) -> Events:
    """Change the phase of a job, and end what ends with it.

    Args:
        turn: the turn.
        job: the job.
        phase: the new phase.
        reason: the action or rule that led to it.
        retry_count: retries from now on; `None`: as before.
        restarts: the same of restarts.
        opened: the notice that the job is part of from now on.
        reserved: until when a freed place is kept for the job at most.
    """
    changed = turn.event(
        job,
        JobPhaseChanged(
            phase,  # type: ignore[arg-type]  # the phase rule answers with a JobPhase
            job.phase,
            reason=reason,
            retry_count=job.retry_count if retry_count is None else retry_count,
            restarts=job.restarts if restarts is None else restarts,
            version=job.version,
            notice="" if opened is None else opened.notice,
            deadline=None if opened is None else opened.deadline,
            reserved=reserved,
        ),
        max(job.since, turn.time),
    )
    yield changed
    turn.cause, turn.time = changed.id, changed.time
    if job.phase in FINISHED_JOB_PHASES:
        why = f"the job is {job.phase}"
        yield from _cancel_all(turn, job, DelaysCancelled(_DELAYED, why=why))
        # Pods may outlive their job: effects, waits for lost pods and steps already begun continue.
        for timer in [timer for timer in job.timers.values() if timer.kind not in {"effect", "lost", "step"}]:
            yield turn.event(job, TimerCancelled(timer.id, why))
        if job.live:
            yield from wait_for_lost(turn, job)
        due = ttl_due(job.spec, job.phase, min(job.since, turn.now))
        if due is not None:
            yield turn.event(job, TimerSet("ttl", due))


def settle(turn: Turn, job: Job) -> Events:
    """Apply follow-up transitions until the job is stable, so that it never waits for an unrelated input.

    Raises:
        InvariantError: it is not stable after `_MANY` rounds.
    """
    for _ in range(_MANY):
        at = turn.index
        turn.work += len(job.tasks)
        # Requests of tasks and rules come before the phase rule (Volcano: a request's action, else a sync).
        yield from follow_tasks(turn, job, dict.fromkeys(job.tasks, turn.time))
        yield from _ask_rules(turn, job)
        yield from _sync(turn, job)
        if turn.index == at:
            return
    raise InvariantError(job.id, f"it does not become stable in phase {job.phase}")


def _sync(turn: Turn, job: Job) -> Events:
    """One SyncJob: the work of the present phase, and the next phase by the phase rule."""
    if job.kills:  # Volcano kills in one pass: the phase rule sees no state between a kill and its end
        return
    waits = job.deferred
    if waits is not None and job.phase != "Restarting":
        turn.cause, turn.time = waits.id, turn.now
        order = Order(
            waits.action,
            policy=waits.policy,
            event=waits.event,
            by=waits.by,
            reason=waits.reason,
            deferred=True,
            commanded=waits.commanded,
        )
        yield from _take(turn, job, order)
        return
    effect = effect_of(job.phase, "SyncJob")
    if effect == "sync":
        if waits is None:  # a job that is being stopped needs no more pods
            yield from start_missing(turn, job)
    elif effect == "kill_soft" and job.counts.pending + job.counts.running:
        plan = plan_of(job, "unfinished", Order("SyncJob")) or KillPlan()
        yield from kill(turn, job, plan, "unfinished", Order("SyncJob"), "KilledByAction")
    counts, tasks = when_killed(job)
    answer = next_phase(
        job.phase,
        "SyncJob",
        job.spec,
        counts,
        job.retry_count,
        job.spec.min_available,
        tasks=tasks,
        requeued=job.requeued,
    )
    phase, reason = answer.phase, _why(job, answer.phase)
    if phase == job.phase == "Aborted" and job.object_deleted is not None:  # nobody can resume a deleted job
        phase, reason = "Terminated", "Deleted"
    if phase != job.phase:
        yield from change_phase(turn, job, phase, reason=reason)


def _why(job: Job, phase: str) -> str | None:
    """Name the rule by which a job ends without a command."""
    if phase == "Failed":
        return "RetriesExhausted" if job.phase == "Restarting" else "TooFewSucceeded"
    return None


# --- events and policies --------------------------------------------------------------------------------------------------


def raise_event(turn: Turn, job: Job, raised: EventRaised, attempt: Attempt | None = None, first_exit_code: int = 0) -> Events:
    """Raise a lifecycle event and carry out the action that the policies give for it.

    Args:
        turn: the turn.
        job: the job.
        raised: the event.
        attempt: the attempt whose pod raises it, if one does.
        first_exit_code: exit code of the pod's first container, with which Volcano's exit-code policies compare.
    """
    request = policies.Request(raised.event, task=raised.task, exit_code=first_exit_code, version=raised.version)
    match = policies.match(request, job.spec, version=job.version)
    if raised.event != "PodPending" or match.policy is not None:
        event = turn.event(job, raised, turn.time)
        yield event
        turn.cause = event.id
    if match.action in INTERNAL_ACTIONS or job.phase in FINISHED_JOB_PHASES:
        return  # Volcano: every action on a finished job only deletes its remaining pods
    order = Order(
        match.action,
        task=raised.task,
        index=raised.index,
        partition=_partition(job, raised),
        policy=match.policy,
        event=raised.event,
        cause=failure_behind(job, raised.event, attempt),
        depth=max(turn.depth, raised.depth),
    )
    if match.delay is None:
        yield from _take(turn, job, order)
    else:
        yield from _delay(turn, job, order, match.delay, attempt)


def _partition(job: Job, raised: EventRaised) -> int | None:
    task = job.tasks.get(raised.task or "")
    if task is None or task.spec.partition is None or raised.index is None:
        return None
    return raised.index // task.spec.partition.size


def failure_behind(job: Job, event: str, attempt: Attempt | None) -> FailureClass | None:
    """Return the class of the failure behind an event; restarts in place count as the user's. `None`: no failure.

    Job controller: container restarts that reach `backoffLimit` end a `batch/v1` Job.
    """
    if event == "TaskFailed":
        return "permanent" if job.kind == BATCH_JOB else "user"
    if attempt is None or attempt.live or attempt.phase == "Succeeded":
        return None
    return failure_class(attempt.reason, attempt.exit_code, frozenset(job.spec.permanent_exit_codes))


def delays(job: Job, pod: str | None) -> list[Delay]:
    """Return the pending delayed actions of one pod (`None`: those without a pod), as the rules see them."""
    return [_delay_of(job, timer) for timer in job.delays.get(pod, {}).values()]


def _delay_of(job: Job, timer: Timer) -> Delay:
    return Delay(timer.action or "NoAction", timer.id, timer.event, timer.pod, _uid(job, timer))


def _uid(job: Job, timer: Timer) -> str | None:
    if timer.task is None or timer.index is None or timer.attempt is None:
        return None
    attempt = job.attempt(timer.task, timer.index, timer.attempt)
    return attempt.uid if attempt else None


def _delay(turn: Turn, job: Job, order: Order, delay: int, attempt: Attempt | None) -> Events:
    pod = attempt.pod if attempt else None
    what, replaced = place(delays(job, pod), Delay(order.action, pod=pod))
    if what == "ignore":
        return
    yield from cancel(turn, job, replaced, "another delayed action takes its place")
    yield turn.event(
        job,
        TimerSet(
            "policy",
            turn.now + delay,
            action=order.action,
            policy=order.policy,
            event=order.event,
            task=order.task,
            index=order.index,
            attempt=attempt.number if attempt else None,
            partition=order.partition,
            pod=pod,
            depth=order.depth,
        ),
    )


def cancel(turn: Turn, job: Job, running: list[Delay], why: str) -> Events:
    """Cancel delayed actions."""
    for delay in running:
        yield turn.event(job, TimerCancelled(delay.id, why))


def _cancel_pointless(turn: Turn, job: Job, order: Order) -> Events:
    """Cancel the delayed actions that an action supersedes: those of its class about the same part of the job (Volcano)."""
    why = f"{order.action} was carried out"
    actions, part = made_pointless(order.action), action_class(order.action)
    if part == "pod":
        pod = None if order.index is None or order.task is None else pod_name(job.name, order.task, order.index)
        yield from cancel(turn, job, [delay for delay in delays(job, pod) if delay.action in actions], why)
    else:
        yield from _cancel_all(turn, job, DelaysCancelled(actions, part, order.task, order.partition, why))


def _cancel_all(turn: Turn, job: Job, data: DelaysCancelled) -> Events:
    """Cancel delayed actions by one event, if there are any; a large job may have one per replica."""
    if any(cancelled(job, data)):
        yield turn.event(job, data)


def _ask_rules(turn: Turn, job: Job) -> Events:
    """Match the raise rules against every change of phase since they were last matched."""
    while turn.transitions:
        transition, cause, depth = turn.transitions.pop(0)
        subject = subject_of(transition)
        for number in matching(job.rules, transition):
            rule = job.rules[number]
            matched = job.matches.get(number, 0) if rule.count > 1 else 1
            if not fires(rule, fired=fired_key(job, number, subject) in job.fired, matched=matched):
                continue
            turn.cause = cause
            if turn.work > 2 * WORK:
                turn.transitions.clear()
                yield turn.event(job, Anomaly("the limit of work for one input is reached: raise rules are no longer evaluated"))
                return
            turn.work += RAISING
            if too_deep(depth + 1):
                what = f"raise rule {number} ({rule.event}) would continue a chain of {depth} events; it is not followed"
                yield turn.event(job, Anomaly(what))
                continue
            raised = EventRaised(
                rule.event,
                task=transition.task,
                index=transition.index,
                exit_code=transition.exit_code,
                version=job.version,
                rule=number,
                depth=depth + 1,
            )
            yield from raise_event(turn, job, raised)
