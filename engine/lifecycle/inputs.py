"""Rules by kind of input, and outcomes of inputs (design rule 4).

Outcomes are tested in a fixed order: duplicate, parked, waiting, rejected, refused, late, anomalous, unchanged, applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final, Literal

from engine.events import Data, Event
from engine.events.actions import EffectSettled, TimerCancelled
from engine.events.decisions import (
    DecidedBound,
    DecidedEnqueued,
    DecidedEvicted,
    DecidedNoticed,
    DecidedNoticeEnded,
    DecidedPipelined,
    DecidedUnschedulable,
)
from engine.events.inputs import (
    POD,
    CommandIssued,
    CustomEventRaised,
    EffectReported,
    JobDeleted,
    JobObserved,
    JobSubmitted,
    JobUpdated,
    PodDeleted,
    PodObserved,
    RowUnreadable,
)
from engine.events.outcomes import Anomaly, CommandRefused, InputReleased, JobRejected, JobUnparked, LetterDiscarded, RowRejected
from engine.kubernetes.manifests.job_bounds import replica_faults
from engine.kubernetes.observation.versions import is_newer
from engine.lifecycle import (
    authority,
    commands,
    held_inputs,
    managed_jobs,
    moved_pods,
    observed_jobs,
    ownership,
    refused_inputs,
    steps,
)
from engine.lifecycle.claims import restore
from engine.lifecycle.decisions import decided
from engine.lifecycle.event_factory import Decision, EventFactory, Events, Outcome, arrival
from engine.lifecycle.indexes import held_size
from engine.lifecycle.job import Job, Timer
from engine.lifecycle.pod_inputs import pod_of_job, settle_list
from engine.lifecycle.pod_jobs import awaits_controller, controller_known, names_another
from engine.lifecycle.steps import IN_VAIN, RELEASED, RELEASED_BYTES, WORK
from engine.lifecycle.tasks import follow_tasks

Rule = Callable[[EventFactory, Job, Event[Any]], Decision]


def decide(factory: EventFactory, job: Job, event: Event[Data]) -> Decision:
    """Decide one input of a job."""
    # The held inputs of an unparked job precede new ones, in steps.
    if (job.parked or job.held) and _may_wait(event.data):
        if held_inputs.is_held(job, event):
            return _ends((), "duplicate")
        if not _is_no_candidate(factory, job, event):
            return _unless_refused(_park, factory, job, event)
    if job.waiting and isinstance(event.data, PodObserved | PodDeleted):
        if event.id in job.waiting:
            return _ends((), "duplicate")
        if job.opened and held_inputs.own_wait(job):
            return _ends(held_inputs.orphan(factory, job, event), "waiting")
    if not job.opened:
        if refused_inputs.is_known(job, event):
            return _ends((), "duplicate")
        if job.id in factory.state.forgotten:
            return _ends((), "late")
    return _RULES[type(event.data)](factory, job, event)


def _may_wait(data: Data) -> bool:
    """Return true if an input may have to wait for held ones: it is about the job, and does not release them."""
    return not isinstance(data, RowUnreadable) and not (isinstance(data, CommandIssued) and data.action in {"Unpark", "Discard"})


def _is_no_candidate(factory: EventFactory, job: Job, event: Event[Data]) -> bool:
    """Return true if an input submits a manifest that cannot open the job, whatever the held inputs are."""
    if not isinstance(event.data, JobSubmitted):
        return False
    return job.opened > 0 or authority.objection_to_submission(factory.state, event) is not None


def _ends(events: Iterable[Event[Data]], outcome: Outcome) -> Decision:
    yield from events
    return outcome


def _if_allowed(rule: Rule) -> Rule:
    """Wrap the rule of a request about a job: it is refused if its principal may not act on the job."""
    return partial(_unless_refused, rule)


def _unless_refused(rule: Rule, factory: EventFactory, job: Job, event: Event[Any]) -> Decision:
    if refused_inputs.is_known(job, event):
        return _ends((), "duplicate")
    why = authority.objection(factory.state, job, event)
    if why is not None:
        return _refuse(factory, job, event, why, foreign=True)
    return rule(factory, job, event)


def _park(factory: EventFactory, job: Job, event: Event[Data]) -> Decision:
    yield from held_inputs.park(factory, job, event, None)
    return "parked"


def settled(outcome: Outcome, made: bool) -> Outcome:
    """Return the outcome of an input, which depends on whether it caused an event."""
    return "unchanged" if outcome == "applied" and not made else outcome


def release(factory: EventFactory, job: Job, kept: Literal["parked", "waiting"], *, in_vain: bool = False) -> Events:
    """Decide held inputs again, in order and in steps; their events have the release as their cause.

    Args:
        factory: creates the events.
        job: the job.
        kept: kind of held inputs.
        in_vain: the wait for the job has expired.
    """
    inputs, depth, arrived, size = job.held if kept == "parked" else job.waiting, factory.depth, factory.arrived, 0
    for held in list(islice(inputs.values() if kept == "parked" else held_inputs.own_first(job), RELEASED)):
        if factory.work > WORK or size > RELEASED_BYTES:
            break
        size += held_size(held)
        event = restore(held)
        factory.cause, factory.time, factory.cluster, factory.depth = factory.origin, factory.now, event.clusterid, 0
        factory.arrived = arrival(event, factory.now)
        whose = ownership.job_of(factory.state, event, alone=in_vain)
        part, take = (factory, _RULES[type(event.data)]) if whose is job else (factory.about(whose), decide)
        at = part.index
        outcome = yield from take(part, whose, event)
        if part is not factory:
            factory.work += part.work
        released = InputReleased(event.id, kept, settled(outcome, part.index > at), None if whose is job else whose.id)
        yield factory.event(job, released, cause=factory.origin)
    factory.depth, factory.arrived = depth, arrived
    if inputs:
        yield from steps.go_on(factory, job, IN_VAIN if in_vain else None)


def go_on(factory: EventFactory, job: Job, timer: Timer) -> Events:
    """Take the next step of work on a large job: first its held inputs, then its pods."""
    if job.held:
        yield from release(factory, job, "parked")
        if not job.held and job.waiting:  # pods that arrived before the job, behind its held inputs
            yield from _wait_on(factory, job, timer.reason)
    elif job.waiting and (job.opened or timer.reason == IN_VAIN or controller_known(factory.state, job)):
        yield from release(factory, job, "waiting", in_vain=timer.reason == IN_VAIN and not job.managed)
    elif job.waiting:
        yield from held_inputs.wait_for_job(factory, job)
    if job.managed:
        yield from managed_jobs.go_on(factory, job, timer)


def _wait_on(factory: EventFactory, job: Job, reason: str | None) -> Events:
    """Release waiting pods in further steps; if the job is unknown and its wait not expired, restart the wait."""
    if job.opened or reason == IN_VAIN:
        yield from steps.go_on(factory, job, reason)
    else:
        yield from held_inputs.wait_for_job(factory, job)


def _release_waiting(factory: EventFactory, job: Job) -> Events:
    """Release the pods that waited for a job just opened."""
    for timer in list(job.timers.values()):
        if timer.kind == "orphan_wait":
            yield factory.event(job, TimerCancelled(timer.id, "the job has come"), cause=factory.origin)
    yield from release(factory, job, "waiting")


def _pod(factory: EventFactory, job: Job, event: Event[PodObserved | PodDeleted]) -> Decision:
    pod, deleted = (event.data.last, True) if isinstance(event.data, PodDeleted) else (event.data, False)
    if event.subject != job.id or pod.kind == POD:
        root = moved_pods.job_above(factory.state, job, event.subject, pod, deleted=deleted)
        if root is not None:
            return (yield from _move(factory, job, root, event, pod))
    if not deleted and pod.listed and names_another(factory.state, job, pod):
        # The later pods of its List belong to another job.
        pod = replace(pod, listed=None)
        event = replace(event, data=pod)
    outcome = yield from _known_or_first(factory, job, event, pod, deleted=deleted)
    controlled = factory.state.jobs.get(pod.uid)
    if controlled is not None and controlled.waiting and pod.uid in job.by_uid and not controlled.opened:
        yield from _release_waiting(factory.about(controlled), controlled)
    listed = None if deleted else pod.listed
    if job.opened and not job.managed and _ends_a_moment(job, listed):
        part = factory.about(job)  # the pod may have had events before
        yield from settle_list(part, job)
        factory.index += part.index
        if part.index and outcome in {"duplicate", "unchanged"}:
            return "applied"
    return outcome


def _move(factory: EventFactory, job: Job, root: Job, event: Event[PodObserved | PodDeleted], pod: PodObserved) -> Decision:
    """Move a pod to the job above its own, which then processes the observation."""
    part = factory.about(root)
    part.moved = job.id, job.by_uid[pod.uid]
    yield from moved_pods.leave(factory, job, root, pod)
    return (yield from _pod(part, root, event))


def _ends_a_moment(job: Job, listed: Literal["more", "last"] | None) -> bool:
    """Return true if the pods observed so far show the job consistently.

    True at the last pod of a List; if the List was truncated and lacks it, at the next observation of a pod.
    """
    return listed == "last" or (listed is None and not job.live and job.finished is None)


def _known_or_first(
    factory: EventFactory, job: Job, event: Event[PodObserved | PodDeleted], pod: PodObserved, *, deleted: bool
) -> Decision:
    if not job.opened:
        if job.id == event.subject and (pod.managed or awaits_controller(factory.state, event.clusterid, pod)):
            return _ends(held_inputs.orphan(factory, job, event), "waiting")
        if job.waiting:
            return _first_pod(factory, job, pod, deleted=deleted)
    return pod_of_job(factory, job, pod, deleted=deleted)


def _first_pod(factory: EventFactory, job: Job, pod: PodObserved, *, deleted: bool) -> Decision:
    outcome = yield from pod_of_job(factory, job, pod, deleted=deleted)
    if job.opened:  # otherwise no job may have this pod
        yield from _release_waiting(factory, job)
    return outcome


def _submitted(factory: EventFactory, job: Job, event: Event[JobSubmitted]) -> Decision:
    if event.id in job.seen:  # it opened the job at its release, with an earlier held manifest
        return "duplicate"
    if job.opened:
        return (yield from _refuse(factory, job, event, f"a job with this id exists: {job.namespace}/{job.name}", foreign=True))
    outcome = yield from managed_jobs.submitted(factory, job, event)
    if outcome == "applied":
        yield from _release_waiting(factory, job)
    return outcome


def _updated(factory: EventFactory, job: Job, event: Event[JobUpdated]) -> Decision:
    if not job.opened or not job.managed:
        return (yield from _refuse(factory, job, event, "no managed job has this id"))
    return (yield from managed_jobs.updated(factory, job, event.data))


def _deleted(factory: EventFactory, job: Job, event: Event[JobDeleted]) -> Decision:
    if event.data.part and (not job.opened or observed_jobs.has_moved(job)):
        return "unchanged"
    if not job.opened:
        return (yield from _refuse(factory, job, event, "no job has this id"))
    if job.object_deleted is not None:
        return "unchanged"
    if job.managed:
        yield from managed_jobs.deleted(factory, job, event.data.version)
    else:
        yield from observed_jobs.object_deleted(factory, job, event.data)
        yield from follow_tasks(factory, job, dict.fromkeys(job.tasks, job.since))
    return "applied"


def _seen(factory: EventFactory, job: Job, event: Event[JobObserved]) -> Decision:
    if job.opened and job.object_version is not None and not is_newer(event.data.version, job.object_version):
        return "duplicate"
    if job.managed:
        return "unchanged"  # the status of a managed job is Lahar's own
    if event.data.part and (not job.opened or observed_jobs.has_moved(job)):
        return "unchanged"  # its pods, if some were read without it, have opened the job
    too_large = list(replica_faults(sum(event.data.tasks.values()), factory.state.max_replicas, "tasks"))
    if too_large:
        yield from refused_inputs.emit(factory, job, JobRejected(event.data.name, too_large, update=bool(job.opened)))
        return "rejected"
    what = observed_jobs.contradiction(job, event.data)
    if what is not None:
        yield factory.event(job, Anomaly(what))
        return "anomalous"
    at, waited = factory.index, bool(job.waiting) and not job.opened
    yield from observed_jobs.job_observed(factory, job, event.data)
    if factory.index == at:
        return "unchanged"
    yield from follow_tasks(factory, job, dict.fromkeys(job.tasks, job.since))
    if waited:
        yield from _release_waiting(factory, job)
    return "applied"


def _command(factory: EventFactory, job: Job, event: Event[CommandIssued]) -> Decision:
    command = event.data
    if command.action == "Discard" and not job.opened:
        yield from refused_inputs.emit(factory, job, LetterDiscarded(command.by, command.reason, command.principal))
        return "applied"
    if command.action == "Unpark" and (job.parked or held_inputs.is_left(job)):  # even a job's first input may have parked it
        part, principal = (factory, None) if job.opened else (factory.about(job), command.principal)
        yield part.event(job, JobUnparked(len(job.held), command.by, principal))
        yield from release(part, job, "parked")
        if job.waiting:
            yield from _wait_on(part, job, IN_VAIN if job.opened and not job.managed else None)
        factory.index += part is not factory  # an event was created
        return "applied"
    if not job.opened:
        return (yield from _refuse(factory, job, event, "no job has this id"))
    if command.action == "Unpark":
        return (yield from _refuse(factory, job, event, "the job is not parked"))
    if command.action == "Discard":
        return (yield from _refuse(factory, job, event, "this is a job; only dead letters are discarded"))
    why = commands.objection(job, command)
    if why is not None:
        return (yield from _refuse(factory, job, event, why))
    yield from commands.commanded(factory, job, command)
    return "applied"


def _custom(factory: EventFactory, job: Job, event: Event[CustomEventRaised]) -> Decision:
    raised = event.data
    why = commands.objection_to_event(job, raised)
    if why is not None:
        return (yield from _refuse(factory, job, event, why))
    yield from commands.custom_raised(factory, job, raised)
    return "applied"


def _reported(factory: EventFactory, job: Job, event: Event[EffectReported]) -> Decision:
    report = event.data
    # The report of a callback may name an id that is no job.
    principal = "" if job.opened else report.principal
    yield from refused_inputs.emit(
        factory, job, EffectSettled(report.effect, report.outcome, report.name, report.message, report.reason, principal)
    )
    yield from managed_jobs.effect_settled(factory, job, report)
    return "applied"


def _row(factory: EventFactory, job: Job, event: Event[RowUnreadable]) -> Decision:
    row = event.data
    if refused_inputs.is_remembered(job, job.cluster if job.opened else event.clusterid, refused_inputs.ROW, "", event.id):
        return "duplicate"
    yield factory.about(job).event(job, RowRejected(row.format, row.line, row.reason))
    return "rejected"


def _refuse(factory: EventFactory, job: Job, event: Event[Any], reason: str, *, foreign: bool = False) -> Decision:
    """Refuse a request. One of a foreign sender, or about an id that is no job, does not use up its id for other senders."""
    principal: str | None = event.data.principal if foreign or not job.opened else None
    if principal is not None:
        factory = factory.about(job)
    command, by = refused_inputs.asked(event.data)
    elsewhere = event.clusterid if job.opened and event.clusterid != job.cluster else None
    yield factory.event(job, CommandRefused(command, reason, by, principal, elsewhere))
    return "refused"


_RULES: Final[dict[type[Data], Rule]] = {
    PodObserved: _pod,
    PodDeleted: _pod,
    JobSubmitted: _if_allowed(_submitted),
    JobUpdated: _if_allowed(_updated),
    JobDeleted: _if_allowed(_deleted),
    JobObserved: _seen,
    CommandIssued: _if_allowed(_command),
    CustomEventRaised: _if_allowed(_custom),
    EffectReported: _if_allowed(_reported),
    RowUnreadable: _row,
    DecidedEnqueued: decided,
    DecidedBound: decided,
    DecidedPipelined: decided,
    DecidedEvicted: decided,
    DecidedUnschedulable: decided,
    DecidedNoticed: decided,
    DecidedNoticeEnded: decided,
}
