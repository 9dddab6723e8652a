"""Carry out actions on managed jobs: the effect first, then the phase that follows, until nothing more follows.

The rules themselves (which effect, which phase, which pods) are those of `statemachines`; here they meet the state of a job, and
what they ask for becomes events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from engine.events.jobs import (
    ActionDeferred,
    ActionTaken,
    Anomaly,
    AttemptEnded,
    AttemptStarted,
    EffectRequested,
    EventRaised,
    JobPhaseChanged,
    TimerCancelled,
    TimerSet,
)
from engine.lifecycle.errors import InvariantError
from engine.lifecycle.evolve import fired_key
from engine.lifecycle.state import Attempt, Job, Timer, category
from engine.lifecycle.tasks import follow_tasks, may_start
from engine.lifecycle.turn import Events, Turn
from statemachines import policies
from statemachines.counters import Pod
from statemachines.delays import Delay, cancelled_by_action, place
from statemachines.kill import KillPlan, Target, kill_job, kill_target, retained
from statemachines.limits import ttl_due
from statemachines.phase_rule import deferred, effect_of, next_phase
from statemachines.raising import fires, matching, subject_of, too_deep
from statemachines.sync import creates_pods, pod_name, surplus_indexes
from statemachines.vocabulary import FINISHED_JOB_PHASES, INTERNAL_ACTIONS, Action, FailureClass, failure_class

__all__ = ["Order", "cancel", "delays", "delete_surplus", "execute", "failure_behind", "raise_event", "settle", "update_surplus"]

_MANY: Final = 64
"""Rounds after which a job that does not become quiet is parked; every phase is left at most a few times."""

_STOPS: Final = frozenset({"AbortJob", "TerminateJob", "CompleteJob"})


@dataclass(slots=True)
class Order:
    """An action to be carried out, and why."""

    action: Action
    task: str | None = None
    index: int | None = None
    partition: int | None = None
    policy: str | None = None
    event: str | None = None
    by: str = ""
    reason: str = ""
    deferred: bool = False
    commanded: bool = False
    """A person or the deletion of the job asks for it, not a rule."""
    cause: FailureClass | None = None
    """Class of the failure behind it; `None`: no attempt stands behind it."""

    @property
    def target(self) -> Target | None:
        """The part of the job that it is about."""
        if self.action == "RestartTask" and self.task is not None:
            return Target("task", self.task)
        if self.action == "RestartPod" and self.task is not None and self.index is not None:
            return Target("pod", self.task, pod=str(self.index))
        if self.action == "RestartPartition" and self.task is not None and self.partition is not None:
            return Target("partition", self.task, partition=str(self.partition))
        return None


def execute(turn: Turn, job: Job, order: Order) -> Events:
    """Carry out one action and everything that follows from it."""
    if order.action not in INTERNAL_ACTIONS or order.action == "RequeueJob":
        yield from _take(turn, job, order)
    yield from settle(turn, job)


def _take(turn: Turn, job: Job, order: Order) -> Events:
    phase = job.phase
    if deferred(phase, order.action):
        yield turn.event(
            job,
            ActionDeferred(order.action, order.by, order.reason, policy=order.policy, event=order.event, commanded=order.commanded),
        )
        return
    effect = effect_of(phase, order.action)
    plan = _plan(job, effect, order)
    if plan is None:  # a partition that does not exist: nothing follows, not even a phase (Volcano)
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
    )
    yield taken
    turn.cause = taken.id
    pod = None if order.index is None or order.task is None else pod_name(job.name, order.task, order.index)
    if order.action == "RestartPod":
        running = delays(job, pod)
    else:
        running = [_delay_of(job, timer) for timer in job.timers.values() if timer.kind == "policy"]
    made_pointless = cancelled_by_action(running, order.action, order.task, pod, order.partition)
    yield from cancel(turn, job, made_pointless, f"{order.action} was carried out")
    yield from _delete(turn, job, plan, "StoppedByUser" if order.commanded and order.action in _STOPS else "KilledByAction")
    answer = next_phase(
        phase,
        order.action,
        job.spec,
        job.counts,
        retry_count,
        job.spec.min_available,
        tasks={name: task.counts for name, task in job.tasks.items()},
        cause=order.cause,
        requeued=job.requeued,
    )
    if answer.phase != job.phase:
        yield from _change_phase(
            turn,
            job,
            answer.phase,
            reason=order.action,
            retry_count=retry_count + answer.retry_delta,
            restarts=restarts + answer.restarts_delta,
        )


def _change_phase(turn: Turn, job: Job, phase: str, *, reason: str | None, retry_count: int, restarts: int) -> Events:
    changed = turn.event(
        job,
        JobPhaseChanged(
            phase,  # type: ignore[arg-type]  # the phase rule answers with a JobPhase
            job.phase,
            reason=reason,
            retry_count=retry_count,
            restarts=restarts,
            version=job.version,
        ),
        max(job.since, turn.time),
    )
    yield changed
    turn.cause = changed.id
    if job.phase in FINISHED_JOB_PHASES:
        for timer in list(job.timers.values()):
            yield turn.event(job, TimerCancelled(timer.id, f"the job is {job.phase}"))
        due = ttl_due(job.spec, job.phase, job.since)
        if due is not None:
            yield turn.event(job, TimerSet("ttl", due))


def settle(turn: Turn, job: Job) -> Events:
    """Let everything follow that follows, until nothing does: a job never waits for an unrelated input to go on.

    Raises:
        InvariantError: it does not become quiet.
    """
    for _ in range(_MANY):
        at = turn.index
        # What tasks and rules ask for comes before a phase that follows of itself (Volcano: a request's action, else a sync).
        yield from follow_tasks(turn, job, tuple(job.tasks), turn.time)
        yield from _ask_rules(turn, job)
        yield from _sync(turn, job)
        if turn.index == at:
            return
    raise InvariantError(job.id, f"it does not become quiet in phase {job.phase}")


def _sync(turn: Turn, job: Job) -> Events:
    """One SyncJob: what the phase does of itself, and the phase that follows."""
    waits = job.deferred
    if waits is not None and job.phase != "Restarting":
        turn.cause = waits.id
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
        if waits is None:  # a job that is about to be stopped needs no more pods
            yield from _start_missing(turn, job)
    elif effect == "kill_soft" and job.counts.pending + job.counts.running:
        plan = _plan(job, effect, Order("SyncJob"))
        if plan is not None:
            yield from _delete(turn, job, plan, "KilledByAction")
    answer = next_phase(
        job.phase,
        "SyncJob",
        job.spec,
        job.counts,
        job.retry_count,
        job.spec.min_available,
        tasks={name: task.counts for name, task in job.tasks.items()},
        requeued=job.requeued,
    )
    phase, reason = answer.phase, _why(job, answer.phase)
    if phase == job.phase == "Aborted" and job.object_deleted:  # nobody can resume it any more
        phase, reason = "Terminated", "Deleted"
    if phase != job.phase:
        yield from _change_phase(turn, job, phase, reason=reason, retry_count=job.retry_count, restarts=job.restarts)


def _why(job: Job, phase: str) -> str | None:
    """Name the rule by which a job comes to an end of itself."""
    if phase == "Failed":
        return "RetriesExhausted" if job.phase == "Restarting" else "TooFewSucceeded"
    return None


# --- pods -----------------------------------------------------------------------------------------------------------------


def _start_missing(turn: Turn, job: Job) -> Events:
    """Ask for the pods that are missing; a task waits for those that it depends on."""
    # Without a scheduling stage the job's group counts as Inqueue as soon as it stands.
    if not creates_pods("Inqueue" if job.grouped else None):
        return
    for task in job.tasks.values():
        if not task.open or not may_start(job, task):
            continue
        for index in list(task.open):
            current = task.slots.get(index)
            started = turn.event(
                job,
                AttemptStarted(
                    task.spec.name,
                    index,
                    current.number + 1 if current else 1,
                    pod=pod_name(job.name, task.spec.name, index),
                    requests=task.spec.requests,
                    job_version=job.version,
                ),
            )
            yield started
            attempt = task.slots[index]
            yield turn.event(job, _effect("create_pod", attempt), cause=started.id)


def _effect(effect: str, attempt: Attempt, cause: str | None = None) -> EffectRequested:
    return EffectRequested(
        effect,  # type: ignore[arg-type]  # create_pod or delete_pod
        pod=attempt.pod,
        uid=attempt.uid,
        task=attempt.task,
        index=attempt.index,
        attempt=attempt.number,
        cause=cause,
    )


def _plan(job: Job, effect: str, order: Order) -> KillPlan | None:
    """Return what a kill deletes; `None`: its partition does not exist."""
    if effect in {"sync", "none"}:
        return KillPlan()
    if effect == "kill_target":
        return kill_target(_pods(job, order.target), order.target)
    retain = retained(effect, job.retry_count, job.spec.max_retry, action=order.action, cause=order.cause)
    return kill_job(_pods(job), retain)


def _pods(job: Job, target: Target | None = None) -> Iterator[Pod]:
    """Yield the pods that stand, as the rules see them; a pod is named by its index here.

    Args:
        job: the job.
        target: nothing that lies outside of it is looked at; `None`: everything is.
    """
    for task in job.tasks.values():
        if target is not None and target.task != task.spec.name:
            continue
        partition = task.spec.partition
        slots = task.slots
        if target is not None and target.type == "pod":
            slots = {index: slots[index] for index in (int(target.pod or -1),) if index in slots}
        for index, attempt in slots.items():
            counted = category(attempt)
            if counted is not None:
                yield Pod(
                    attempt.task,
                    str(index),
                    counted.capitalize(),
                    index,
                    deleting=counted == "terminating",
                    partition=None if partition is None else str(index // partition.size),
                )


def _delete(turn: Turn, job: Job, plan: KillPlan, cause: str) -> Events:
    """Request the deletions of a plan; an attempt whose pod was never seen ends at once."""
    for pod in plan.delete:
        attempt = job.tasks[pod.task].slots[pod.index or 0]
        yield from _delete_one(turn, job, attempt, cause)


def _delete_one(turn: Turn, job: Job, attempt: Attempt, cause: str) -> Events:
    requested = turn.event(job, _effect("delete_pod", attempt, cause))
    yield requested
    if attempt.live and attempt.uid is None:
        yield turn.event(
            job,
            AttemptEnded(
                attempt.task,
                attempt.index,
                attempt.number,
                phase="Failed",
                previous=attempt.phase,
                reason="NeverStarted",
                rank="scheduler",
                replaceable=True,
                requests=attempt.requests,
            ),
            max(attempt.since, turn.now),
            cause=requested.id,
        )


def update_surplus(turn: Turn, job: Job) -> Events:
    """Delete the pods beyond the replicas after a task was scaled down."""
    for task in job.tasks.values():
        for index in surplus_indexes(task.spec.replicas, task.slots):
            yield from delete_surplus(turn, job, task.slots[index])


def delete_surplus(turn: Turn, job: Job, attempt: Attempt) -> Events:
    """Delete a pod that is beyond the replicas of its task, unless that is under way."""
    beyond = attempt.index >= job.tasks[attempt.task].spec.replicas
    if beyond and category(attempt) not in {None, "terminating"}:
        yield from _delete_one(turn, job, attempt, "KilledByAction")


# --- events and policies --------------------------------------------------------------------------------------------------


def raise_event(turn: Turn, job: Job, raised: EventRaised, attempt: Attempt | None = None, first_exit_code: int = 0) -> Events:
    """Raise a lifecycle event and do what the policies say.

    Args:
        turn: the turn.
        job: the job.
        raised: the event.
        attempt: the attempt whose pod raises it, if one does.
        first_exit_code: exit code of the pod's first container (Volcano's exit-code policies compare that one).
    """
    request = policies.Request(raised.event, task=raised.task, exit_code=first_exit_code, version=raised.version)
    match = policies.match(request, job.spec, version=job.version)
    if raised.event != "PodPending" or match.policy is not None:
        event = turn.event(job, raised, turn.time)
        yield event
        turn.cause = event.id
    if match.action in INTERNAL_ACTIONS or job.phase in FINISHED_JOB_PHASES:
        return  # Volcano: whatever is asked of a finished job, it only sweeps up its pods
    order = Order(
        match.action,
        task=raised.task,
        index=raised.index,
        partition=_partition(job, raised),
        policy=match.policy,
        event=raised.event,
        cause=failure_behind(job, raised.event, attempt),
    )
    if match.delay is None:
        # All that still follows in this turn continues the chain of events that asked for this.
        turn.depth = max(turn.depth, raised.depth)
        yield from _take(turn, job, order)
    else:
        yield from _delay(turn, job, order, match.delay, attempt)


def _partition(job: Job, raised: EventRaised) -> int | None:
    task = job.tasks.get(raised.task or "")
    if task is None or task.spec.partition is None or raised.index is None:
        return None
    return raised.index // task.spec.partition.size


def failure_behind(job: Job, event: str, attempt: Attempt | None) -> FailureClass | None:
    """Return the class of the failure behind an event, restarts in place being the user's; `None`: no failure."""
    if event == "TaskFailed":
        return "user"
    if attempt is None or attempt.live or attempt.phase == "Succeeded":
        return None
    return failure_class(attempt.reason, attempt.exit_code, frozenset(job.spec.permanent_exit_codes))


def delays(job: Job, pod: str | None) -> list[Delay]:
    """Return the delayed actions that run for one pod (`None`: for none), as the rules see them."""
    return [_delay_of(job, timer) for timer in job.delays.get(pod, {}).values()]


def _delay_of(job: Job, timer: Timer) -> Delay:
    return Delay(timer.action or "NoAction", timer.id, timer.event, timer.pod, _uid(job, timer), timer.task, timer.partition)


def _uid(job: Job, timer: Timer) -> str | None:
    if timer.task is None or timer.index is None or timer.attempt is None:
        return None
    attempt = job.attempt(timer.task, timer.index, timer.attempt)
    return attempt.uid if attempt else None


def _delay(turn: Turn, job: Job, order: Order, delay: int, attempt: Attempt | None) -> Events:
    new = Delay(
        order.action,
        event=order.event,
        pod=attempt.pod if attempt else None,
        task=order.task,
        partition=order.partition,
    )
    what, replaced = place(delays(job, new.pod), new)
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
            pod=new.pod,
        ),
    )


def cancel(turn: Turn, job: Job, running: list[Delay], why: str) -> Events:
    """Cancel delayed actions."""
    for delay in running:
        yield turn.event(job, TimerCancelled(delay.id, why))


def _ask_rules(turn: Turn, job: Job) -> Events:
    """Ask the raise rules about every change of phase since they were last asked."""
    while turn.transitions:
        transition, cause, depth = turn.transitions.pop(0)
        subject = subject_of(transition)
        for number in matching(job.rules, transition):
            rule = job.rules[number]
            matched = len(job.matched.get(f"{number}/{job.version}", ())) if rule.count > 1 else 1
            if not fires(rule, fired=fired_key(job, number, subject) in job.fired, matched=matched):
                continue
            turn.cause = cause
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
