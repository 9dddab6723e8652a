"""Actions on managed jobs: first the effect, then the next phase, until the job is stable.

The rules (effects, phases, affected pods) are in `statemachines`; this module applies them to the state of a job and converts their
results to events.
"""

from __future__ import annotations

from typing import Final

from engine.events.actions import ActionDeferred, ActionTaken, DelaysCancelled, EventRaised, TimerCancelled, TimerSet
from engine.events.decisions import DecidedNoticed
from engine.events.jobs import JobPhaseChanged
from engine.events.outcomes import Anomaly
from engine.events.times import Micros
from engine.kubernetes.manifests.batch_job import BATCH_JOB
from engine.lifecycle.action_request import ActionRequest
from engine.lifecycle.errors import InvariantError
from engine.lifecycle.event_factory import EventFactory, Events
from engine.lifecycle.indexes import cancelled, fired_key
from engine.lifecycle.job import Attempt, Job, Timer
from engine.lifecycle.lost_pods import wait_for_lost
from engine.lifecycle.pods import EVICTED, breadth, kill, left_to_kill, plan_of, scope_of, start_missing, when_killed
from engine.lifecycle.steps import RAISING, WORK
from engine.lifecycle.tasks import follow_tasks
from statemachines import policies
from statemachines.delays import Delay, action_class, made_pointless, place
from statemachines.kill import KillPlan
from statemachines.limits import ttl_due
from statemachines.phase_rule import deferred, effect_of, next_phase
from statemachines.raising import fires, matching, subject_of, too_deep
from statemachines.sync import pod_name
from statemachines.vocabulary import ACTIONS, FINISHED_JOB_PHASES, INTERNAL_ACTIONS, USER_ACTIONS, FailureClass, failure_class

_MANY: Final = 64
"""Maximum number of rounds until a job must be stable; otherwise it is parked. Every phase is left at most a few times."""

_DELAYED: Final = [action for action in ACTIONS if action in USER_ACTIONS]
"""Actions that may be delayed."""

_STOPS: Final = frozenset({"AbortJob", "TerminateJob", "CompleteJob"})


def execute(factory: EventFactory, job: Job, request: ActionRequest) -> Events:
    """Carry out one action and its follow-up transitions."""
    if request.action not in INTERNAL_ACTIONS or request.action == "RequeueJob":
        yield from _take(factory, job, request)
    yield from settle(factory, job)


def _take(factory: EventFactory, job: Job, request: ActionRequest) -> Events:
    # Later events of this input continue the chain of events that requested this action.
    factory.depth = max(factory.depth, request.depth)
    phase = job.phase
    if deferred(phase, request.action):
        yield factory.event(
            job,
            ActionDeferred(
                request.action, request.by, request.reason, policy=request.policy, event=request.event, commanded=request.commanded
            ),
            factory.time,
        )
        return
    scope = scope_of(job, effect_of(phase, request.action), request)
    factory.work += breadth(job, request.target) + left_to_kill(job)
    plan = plan_of(job, scope, request)
    if plan is None:  # a partition that does not exist: no event, not even a change of phase (Volcano)
        return
    retry_count, restarts = job.retry_count, job.restarts
    taken = factory.event(
        job,
        ActionTaken(
            request.action,
            policy=request.policy,
            event=request.event,
            task=request.task,
            index=request.index,
            partition=request.partition,
            by=request.by,
            reason=request.reason,
            deferred=request.deferred,
        ),
        factory.time,
    )
    yield taken
    factory.cause = taken.id
    yield from _cancel_pointless(factory, job, request)
    reason = "StoppedByUser" if request.commanded and request.action in _STOPS else "KilledByAction"
    if request.action == "RequeueJob":
        reason = EVICTED
    yield from kill(factory, job, plan, scope, request, request.ends or reason)
    counts, tasks = when_killed(job)
    answer = next_phase(
        phase,
        request.action,
        job.spec,
        counts,
        retry_count,
        job.spec.min_available,
        tasks=tasks,
        cause=request.cause,
        requeued=job.requeued,
    )
    if answer.phase != job.phase:
        yield from change_phase(
            factory,
            job,
            answer.phase,
            reason=request.action,
            retry_count=retry_count + answer.retry_delta,
            restarts=restarts + answer.restarts_delta,
        )


def change_phase(
    factory: EventFactory,
    job: Job,
    phase: str,
    *,
    reason: str | None,
    retry_count: int | None = None,
    restarts: int | None = None,
    opened: DecidedNoticed | None = None,
    reserved: Micros | None = None,
) -> Events:
    """Change the phase of a job, with the changes that follow from it.

    Args:
        factory: creates the events.
        job: the job.
        phase: new phase.
        reason: action or rule that caused the change.
        retry_count: new number of retries; `None`: unchanged.
        restarts: new number of restarts; `None`: unchanged.
        opened: notice that begins for the job; `None`: none.
        reserved: time until which freed resources are reserved for the job at most (microseconds).
    """
    changed = factory.event(
        job,
        JobPhaseChanged(
            phase,  # type: ignore[arg-type]  # the phase rule returns a JobPhase
            job.phase,
            reason=reason,
            retry_count=job.retry_count if retry_count is None else retry_count,
            restarts=job.restarts if restarts is None else restarts,
            version=job.version,
            notice="" if opened is None else opened.notice,
            deadline=None if opened is None else opened.deadline,
            reserved=reserved,
        ),
        max(job.since, factory.time),
    )
    yield changed
    factory.cause, factory.time = changed.id, changed.time
    if job.phase in FINISHED_JOB_PHASES:
        why = f"the job is {job.phase}"
        yield from _cancel_all(factory, job, DelaysCancelled(_DELAYED, why=why))
        # Pods may outlive their job: effects, waits for lost pods and steps already begun continue.
        for timer in [timer for timer in job.timers.values() if timer.kind not in {"effect", "lost", "step"}]:
            yield factory.event(job, TimerCancelled(timer.id, why))
        if job.live:
            yield from wait_for_lost(factory, job)
        due = ttl_due(job.spec, job.phase, min(job.since, factory.now))
        if due is not None:
            yield factory.event(job, TimerSet("ttl", due))


def settle(factory: EventFactory, job: Job) -> Events:
    """Apply follow-up transitions until the job is stable, so that no transition waits for an unrelated input.

    Raises:
        InvariantError: the job is not stable after `_MANY` rounds.
    """
    for _ in range(_MANY):
        at = factory.index
        factory.work += len(job.tasks)
        # Requests of tasks and rules come before the phase rule (Volcano: a request's action, else a sync).
        yield from follow_tasks(factory, job, dict.fromkeys(job.tasks, factory.time))
        yield from _ask_rules(factory, job)
        yield from _sync(factory, job)
        if factory.index == at:
            return
    raise InvariantError(job.id, f"it does not become stable in phase {job.phase}")


def _sync(factory: EventFactory, job: Job) -> Events:
    """Apply one SyncJob: the work of the current phase, and the next phase by the phase rule."""
    if job.kills:  # Volcano kills in one pass: the phase rule sees no state between a kill and its end
        return
    waits = job.deferred
    if waits is not None and job.phase != "Restarting":
        factory.cause, factory.time = waits.id, factory.now
        request = ActionRequest(
            waits.action,
            policy=waits.policy,
            event=waits.event,
            by=waits.by,
            reason=waits.reason,
            deferred=True,
            commanded=waits.commanded,
        )
        yield from _take(factory, job, request)
        return
    effect = effect_of(job.phase, "SyncJob")
    if effect == "sync":
        if waits is None:  # a stopping job needs no more pods
            yield from start_missing(factory, job)
    elif effect == "kill_soft" and job.counts.pending + job.counts.running:
        plan = plan_of(job, "unfinished", ActionRequest("SyncJob")) or KillPlan()
        yield from kill(factory, job, plan, "unfinished", ActionRequest("SyncJob"), "KilledByAction")
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
        yield from change_phase(factory, job, phase, reason=reason)


def _why(job: Job, phase: str) -> str | None:
    """Return the rule by which a job ends without a command; `None`: it does not end so."""
    if phase == "Failed":
        return "RetriesExhausted" if job.phase == "Restarting" else "TooFewSucceeded"
    return None


# --- events and policies --------------------------------------------------------------------------------------------------


def raise_event(
    factory: EventFactory, job: Job, raised: EventRaised, attempt: Attempt | None = None, first_exit_code: int = 0
) -> Events:
    """Raise a lifecycle event and execute the action that the policies have for it.

    Args:
        factory: creates the events.
        job: the job.
        raised: the event.
        attempt: attempt of the pod that raises it; `None`: no pod.
        first_exit_code: exit code of the pod's first container, to which Volcano's exit-code policies apply.
    """
    policy_request = policies.Request(raised.event, task=raised.task, exit_code=first_exit_code, version=raised.version)
    match = policies.match(policy_request, job.spec, version=job.version)
    if raised.event != "PodPending" or match.policy is not None:
        event = factory.event(job, raised, factory.time)
        yield event
        factory.cause = event.id
    if match.action in INTERNAL_ACTIONS or job.phase in FINISHED_JOB_PHASES:
        return  # Volcano: every action on a finished job only deletes its remaining pods
    request = ActionRequest(
        match.action,
        task=raised.task,
        index=raised.index,
        partition=_partition(job, raised),
        policy=match.policy,
        event=raised.event,
        cause=failure_behind(job, raised.event, attempt),
        depth=max(factory.depth, raised.depth),
    )
    if match.delay is None:
        yield from _take(factory, job, request)
    else:
        yield from _delay(factory, job, request, match.delay, attempt)


def _partition(job: Job, raised: EventRaised) -> int | None:
    task = job.tasks.get(raised.task or "")
    if task is None or task.spec.partition is None or raised.index is None:
        return None
    return raised.index // task.spec.partition.size


def failure_behind(job: Job, event: str, attempt: Attempt | None) -> FailureClass | None:
    """Return the class of the failure that caused an event; restarts in place count as the user's. `None`: no failure.

    Job controller: container restarts that reach `backoffLimit` end a `batch/v1` Job.
    """
    if event == "TaskFailed":
        return "permanent" if job.kind == BATCH_JOB else "user"
    if attempt is None or attempt.live or attempt.phase == "Succeeded":
        return None
    return failure_class(attempt.reason, attempt.exit_code, frozenset(job.spec.permanent_exit_codes))


def delays(job: Job, pod: str | None) -> list[Delay]:
    """Return the pending delayed actions of one pod (`None`: those without a pod), in the form of the rules."""
    return [_delay_of(job, timer) for timer in job.delays.get(pod, {}).values()]


def _delay_of(job: Job, timer: Timer) -> Delay:
    return Delay(timer.action or "NoAction", timer.id, timer.event, timer.pod, _uid(job, timer))


def _uid(job: Job, timer: Timer) -> str | None:
    if timer.task is None or timer.index is None or timer.attempt is None:
        return None
    attempt = job.attempt(timer.task, timer.index, timer.attempt)
    return attempt.uid if attempt else None


def _delay(factory: EventFactory, job: Job, request: ActionRequest, delay: int, attempt: Attempt | None) -> Events:
    pod = attempt.pod if attempt else None
    what, replaced = place(delays(job, pod), Delay(request.action, pod=pod))
    if what == "ignore":
        return
    yield from cancel(factory, job, replaced, "another delayed action takes its place")
    yield factory.event(
        job,
        TimerSet(
            "policy",
            factory.now + delay,
            action=request.action,
            policy=request.policy,
            event=request.event,
            task=request.task,
            index=request.index,
            attempt=attempt.number if attempt else None,
            partition=request.partition,
            pod=pod,
            depth=request.depth,
        ),
    )


def cancel(factory: EventFactory, job: Job, running: list[Delay], why: str) -> Events:
    """Cancel delayed actions."""
    for delay in running:
        yield factory.event(job, TimerCancelled(delay.id, why))


def _cancel_pointless(factory: EventFactory, job: Job, request: ActionRequest) -> Events:
    """Cancel the delayed actions that an action supersedes: those of its class for the same part of the job (Volcano)."""
    why = f"{request.action} was carried out"
    actions, part = made_pointless(request.action), action_class(request.action)
    if part == "pod":
        pod = None if request.index is None or request.task is None else pod_name(job.name, request.task, request.index)
        yield from cancel(factory, job, [delay for delay in delays(job, pod) if delay.action in actions], why)
    else:
        yield from _cancel_all(factory, job, DelaysCancelled(actions, part, request.task, request.partition, why))


def _cancel_all(factory: EventFactory, job: Job, data: DelaysCancelled) -> Events:
    """Cancel delayed actions with a single event, because a large job may have one per replica."""
    if any(cancelled(job, data)):
        yield factory.event(job, data)


def _ask_rules(factory: EventFactory, job: Job) -> Events:
    """Match the raise rules against the changes of phase since the last match."""
    while factory.transitions:
        transition, cause, depth = factory.transitions.pop(0)
        subject = subject_of(transition)
        for number in matching(job.rules, transition):
            rule = job.rules[number]
            matched = job.matches.get(number, 0) if rule.count > 1 else 1
            if not fires(rule, fired=fired_key(job, number, subject) in job.fired, matched=matched):
                continue
            factory.cause = cause
            if factory.work > 2 * WORK:
                factory.transitions.clear()
                yield factory.event(job, Anomaly("the limit of work for one input is reached: raise rules are no longer evaluated"))
                return
            factory.work += RAISING
            if too_deep(depth + 1):
                what = f"raise rule {number} ({rule.event}) would continue a chain of {depth} events; it is not followed"
                yield factory.event(job, Anomaly(what))
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
            yield from raise_event(factory, job, raised)
