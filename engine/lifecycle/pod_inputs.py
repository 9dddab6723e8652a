"""Rules for observations of a job's pods, and for pods whose wait has expired."""

from __future__ import annotations

from itertools import islice

from engine.events.actions import TimerSet
from engine.events.inputs import PodObserved
from engine.events.outcomes import Anomaly
from engine.lifecycle import lost_pods, managed_jobs, observed_jobs, observed_pods, ownership, pod_identity, refused_inputs
from engine.lifecycle.actions import settle
from engine.lifecycle.closing import give_up, give_up_object
from engine.lifecycle.event_factory import Decision, EventFactory, Events
from engine.lifecycle.job import Attempt, Job, Timer, category
from engine.lifecycle.pods import ask_again, stray
from engine.lifecycle.steps import PACE, PODS, WORK
from engine.lifecycle.tasks import follow_tasks


def pod_of_job(factory: EventFactory, job: Job, pod: PodObserved, *, deleted: bool) -> Decision:
    """Apply an observation of a pod; `deleted`: its object is gone, and this is its last state."""
    attempt = pod_identity.locate(job, pod)
    if attempt is not None and pod_identity.is_old(attempt, pod, deleted=deleted):
        same = attempt.live and pod.version == attempt.version
        if not (same and observed_pods.shows_devices(attempt, pod)):
            return "duplicate"
    what = pod_identity.contradiction(job, attempt, pod, factory.state.max_replicas)
    if what is not None:
        number = attempt.number if attempt else None
        yield from refused_inputs.emit(factory, job, Anomaly(what, "replica", pod.task, pod.index, number, pod.name))
        if job.managed and attempt is None and not deleted and not pod.deleting:
            yield from stray(factory, job, pod)
        return "anomalous"
    if not job.opened:
        yield from observed_jobs.open_from_pod(factory, job, pod)
    before, seen = None, 0  # for a pod's first observation the object is the only proof of life
    counted = None
    if attempt is None:
        yield from pod_identity.start(factory, job, pod)
        attempt = job.by_uid[pod.uid]
        seen = 0 if factory.moved is None else factory.moved[1].seen
        claim = ownership.false_claim(job, pod)
        if claim is not None:
            yield factory.event(job, Anomaly(claim, "replica", attempt.task, attempt.index, attempt.number, pod.name))
    elif attempt.ended is None:
        counted = category(attempt)
        if attempt.uid is not None:
            before, seen = attempt.phase, attempt.seen
    else:
        return (yield from _pod_of_closed(factory, job, attempt, pod, deleted=deleted))
    at, restarts = factory.index, attempt.restarts
    shown = yield from observed_pods.advance(factory, job, attempt, pod, seen, gone=deleted)
    if deleted and attempt.live:  # the producer did not determine how it ended
        yield give_up(factory, job, attempt, "Lost", "EndUnknown")
        shown = factory.last
    if before is not None and factory.index == at:
        return "unchanged"
    if job.managed:
        yield from managed_jobs.pod_changed(factory, job, attempt, before, shown, restarts, pod)
    elif category(attempt) != counted or job.finished is not None:  # an observed job follows its counters until its end
        yield from _follow_attempt(factory, job, attempt, listed=pod.listed is not None)
    if job.lost and not attempt.live:
        yield from lost_pods.stop_waiting(factory, job, attempt)
    if factory.state.facts.deleted:
        yield from lost_pods.wait_for_node(factory, job, attempt)
    return "applied"


def _pod_of_closed(factory: EventFactory, job: Job, attempt: Attempt, pod: PodObserved, *, deleted: bool) -> Decision:
    at = factory.index
    yield from observed_pods.record_late(factory, job, attempt, pod)
    told = factory.index
    yield from observed_pods.record_object(factory, job, attempt, pod, gone=deleted)
    if job.managed and factory.index > at:
        yield from managed_jobs.object_changed(factory, job, attempt)
        yield from lost_pods.stop_waiting(factory, job, attempt)
    return "late" if told > at else "unchanged" if factory.index == at else "applied"


def give_up_lost(factory: EventFactory, job: Job, timer: Timer) -> Events:
    """Close the attempts whose wait has expired, and process each end."""
    found = list(islice(lost_pods.lost(factory, job, timer), PODS + 1))
    done = 0
    for attempt, why in found[:PODS]:
        if factory.work > WORK:
            break
        done += 1
        # Each end has the timer as its cause, and the depth of the chain that set the timer.
        factory.cause, factory.time, factory.depth = factory.origin, factory.now, timer.depth
        if not attempt.live:
            gone = f"its node {attempt.node}" if why == "NodeLost" else "its job"
            yield give_up_object(factory, job, attempt, f"{gone} is gone")
            continue
        before = attempt.phase
        yield lost_pods.end_without_evidence(factory, job, attempt, why)
        if job.managed:
            yield from managed_jobs.pod_changed(factory, job, attempt, before, factory.last, attempt.restarts)
        else:
            yield from _follow_attempt(factory, job, attempt)
    factory.depth = timer.depth
    for attempt in lost_pods.unseen(factory, job)[:PODS]:
        yield from ask_again(factory, job, attempt)
    if len(found) > done:
        yield factory.event(job, TimerSet("lost", factory.now + PACE, node=timer.node, depth=timer.depth))
    yield from lost_pods.wait_on(factory, job, timer)
    if job.managed:
        yield from settle(factory, job)


def _follow_attempt(factory: EventFactory, job: Job, attempt: Attempt, *, listed: bool = False) -> Events:
    if listed and not attempt.live:
        return  # the last pod of the List updates the phase
    yield from follow(factory, job, {attempt.task: attempt.since})


def settle_list(factory: EventFactory, job: Job) -> Events:
    """Update the phases of a job after the last of its pods in a List."""
    changed = {name: task.latest for name, task in job.tasks.items() if task.next_index}
    if changed:  # otherwise no job may have any pod of the List
        yield from follow(factory, job, changed)


def follow(factory: EventFactory, job: Job, changed: dict[str, int]) -> Events:
    """Update the phases of an observed job and of its changed tasks (by task, the time of the last change of its attempts)."""
    yield from follow_tasks(factory, job, changed)
    was, last = job.finished, max(changed.values())
    yield from observed_jobs.follow_attempts(factory, job, last)
    if job.finished != was:
        yield from follow_tasks(factory, job, dict.fromkeys(job.tasks, last))
