"""The rule of each kind of input, and its outcome (design rule 4).

They are tested in a fixed order: duplicate, parked, waiting, rejected, refused, late, anomalous, unchanged, applied.
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
from engine.lifecycle.indexes import held_size
from engine.lifecycle.job import Job, Timer
from engine.lifecycle.pod_inputs import pod_of_job, settle_list
from engine.lifecycle.pod_jobs import awaits_controller, controller_known, names_another
from engine.lifecycle.steps import IN_VAIN, RELEASED, RELEASED_BYTES, WORK
from engine.lifecycle.tasks import follow_tasks
from engine.lifecycle.turn import Decision, Events, Outcome, Turn, arrival

__all__ = ["decide", "go_on", "release", "settled"]

Rule = Callable[[Turn, Job, Event[Any]], Decision]


def decide(turn: Turn, job: Job, event: Event[Data]) -> Decision:
    """Decide on one input of a job."""
    # The held inputs of an unparked job come before new ones, step by step.
    if (job.parked or job.held) and _may_wait(event.data):
        if held_inputs.is_held(job, event):
            return _ends((), "duplicate")
        if not _is_no_candidate(turn, job, event):
            return _unless_refused(_park, turn, job, event)
    if job.waiting and isinstance(event.data, PodObserved | PodDeleted):
        if event.id in job.waiting:
            return _ends((), "duplicate")
        if job.opened and held_inputs.own_wait(job):
            return _ends(held_inputs.orphan(turn, job, event), "waiting")
    if not job.opened:
        if refused_inputs.is_known(job, event):
            return _ends((), "duplicate")
        if job.id in turn.state.forgotten:
            return _ends((), "late")
    return _RULES[type(event.data)](turn, job, event)


def _may_wait(data: Data) -> bool:
    """Return whether an input may have to wait for held ones: it is about the job, and does not release them."""
    return not isinstance(data, RowUnreadable) and not (isinstance(data, CommandIssued) and data.action in {"Unpark", "Discard"})


def _is_no_candidate(turn: Turn, job: Job, event: Event[Data]) -> bool:
    """Return whether an input submits a manifest that cannot become the job, whatever the held inputs are."""
    if not isinstance(event.data, JobSubmitted):
        return False
    return job.opened > 0 or authority.objection_to_submission(turn.state, event) is not None


def _ends(events: Iterable[Event[Data]], outcome: Outcome) -> Decision:
    yield from events
    return outcome


def _if_allowed(rule: Rule) -> Rule:
    """Wrap the rule of a request about a job: it is refused if its principal may not act on the job."""
    return partial(_unless_refused, rule)


def _unless_refused(rule: Rule, turn: Turn, job: Job, event: Event[Any]) -> Decision:
    if refused_inputs.is_known(job, event):
        return _ends((), "duplicate")
    why = authority.objection(turn.state, job, event)
    if why is not None:
        return _refuse(turn, job, event, why, stranger=True)
    return rule(turn, job, event)


def _park(turn: Turn, job: Job, event: Event[Data]) -> Decision:
    yield from held_inputs.park(turn, job, event, None)
    return "parked"


def settled(outcome: Outcome, made: bool) -> Outcome:
    """Return the outcome of an input by whether an event followed from it."""
    return "unchanged" if outcome == "applied" and not made else outcome


def release(turn: Turn, job: Job, kept: Literal["parked", "waiting"], *, in_vain: bool = False) -> Events:
    """Decide again on held inputs, in order and step by step; the cause of their events is what released them.

    Args:
        turn: the turn.
        job: the job.
        kept: which of its inputs.
        in_vain: the wait for the job has expired.
    """
    inputs, depth, arrived, size = job.held if kept == "parked" else job.waiting, turn.depth, turn.arrived, 0
    for held in list(islice(inputs.values() if kept == "parked" else held_inputs.own_first(job), RELEASED)):
        if turn.work > WORK or size > RELEASED_BYTES:
            break
        size += held_size(held)
        event = restore(held)
        turn.cause, turn.time, turn.cluster, turn.depth = turn.origin, turn.now, event.clusterid, 0
        turn.arrived = arrival(event, turn.now)
        whose = ownership.job_of(turn.state, event, alone=in_vain)
        part, take = (turn, _RULES[type(event.data)]) if whose is job else (turn.about(whose), decide)
        at = part.index
        outcome = yield from take(part, whose, event)
        if part is not turn:
            turn.work += part.work
        released = InputReleased(event.id, kept, settled(outcome, part.index > at), None if whose is job else whose.id)
        yield turn.event(job, released, cause=turn.origin)
    turn.depth, turn.arrived = depth, arrived
    if inputs:
        yield from steps.go_on(turn, job, IN_VAIN if in_vain else None)


def go_on(turn: Turn, job: Job, timer: Timer) -> Events:
    """Take the next step of work on a large job: inputs that wait for it, then its pods."""
    if job.held:
        yield from release(turn, job, "parked")
        if not job.held and job.waiting:  # pods that came before the job, and wait behind held inputs
            yield from _wait_on(turn, job, timer.reason)
    elif job.waiting and (job.opened or timer.reason == IN_VAIN or controller_known(turn.state, job)):
        yield from release(turn, job, "waiting", in_vain=timer.reason == IN_VAIN and not job.managed)
    elif job.waiting:
        yield from held_inputs.wait_for_job(turn, job)
    if job.managed:
        yield from managed_jobs.go_on(turn, job, timer)


def _wait_on(turn: Turn, job: Job, reason: str | None) -> Events:
    """Release waiting pods in further steps; if the job is unknown and its wait not expired, restart the wait."""
    if job.opened or reason == IN_VAIN:
        yield from steps.go_on(turn, job, reason)
    else:
        yield from held_inputs.wait_for_job(turn, job)


def _welcome(turn: Turn, job: Job) -> Events:
    """Release the pods that waited for a job just opened."""
    for timer in list(job.timers.values()):
        if timer.kind == "orphan_wait":
            yield turn.event(job, TimerCancelled(timer.id, "the job has come"), cause=turn.origin)
    yield from release(turn, job, "waiting")


def _pod(turn: Turn, job: Job, event: Event[PodObserved | PodDeleted]) -> Decision:
    pod, deleted = (event.data.last, True) if isinstance(event.data, PodDeleted) else (event.data, False)
    if event.subject != job.id or pod.kind == POD:
        root = moved_pods.job_above(turn.state, job, event.subject, pod, deleted=deleted)
        if root is not None:
            return (yield from _move(turn, job, root, event, pod))
    if not deleted and pod.listed and names_another(turn.state, job, pod):
        # The pods that follow in its List are not those of the job that has it.
        pod = replace(pod, listed=None)
        event = replace(event, data=pod)
    outcome = yield from _known_or_first(turn, job, event, pod, deleted=deleted)
    controlled = turn.state.jobs.get(pod.uid)
    if controlled is not None and controlled.waiting and pod.uid in job.by_uid and not controlled.opened:
        yield from _welcome(turn.about(controlled), controlled)
    listed = None if deleted else pod.listed
    if job.opened and not job.managed and _ends_a_moment(job, listed):
        part = turn.about(job)  # the pod may have been taken before
        yield from settle_list(part, job)
        turn.index += part.index
        if part.index and outcome in {"duplicate", "unchanged"}:
            return "applied"
    return outcome


def _move(turn: Turn, job: Job, root: Job, event: Event[PodObserved | PodDeleted], pod: PodObserved) -> Decision:
    """Move a pod to the job above its own, which then takes the observation."""
    part = turn.about(root)
    part.moved = job.id, job.by_uid[pod.uid]
    yield from moved_pods.leave(turn, job, root, pod)
    return (yield from _pod(part, root, event))


def _ends_a_moment(job: Job, listed: Literal["more", "last"] | None) -> bool:
    """Return whether the pods observed so far show the job at one moment.

    They do with the last pod of a List; if that never arrived because the List was truncated, with the next observation of a pod.
    """
    return listed == "last" or (listed is None and not job.live and job.finished is None)


def _known_or_first(turn: Turn, job: Job, event: Event[PodObserved | PodDeleted], pod: PodObserved, *, deleted: bool) -> Decision:
    if not job.opened:
        if job.id == event.subject and (pod.managed or awaits_controller(turn.state, event.clusterid, pod)):
            return _ends(held_inputs.orphan(turn, job, event), "waiting")
        if job.waiting:
            return _first_pod(turn, job, pod, deleted=deleted)
    return pod_of_job(turn, job, pod, deleted=deleted)


def _first_pod(turn: Turn, job: Job, pod: PodObserved, *, deleted: bool) -> Decision:
    outcome = yield from pod_of_job(turn, job, pod, deleted=deleted)
    if job.opened:  # otherwise no job may have this pod
        yield from _welcome(turn, job)
    return outcome


def _submitted(turn: Turn, job: Job, event: Event[JobSubmitted]) -> Decision:
    if event.id in job.seen:  # it opened the job when it was released, with the manifest that was held before this one
        return "duplicate"
    if job.opened:
        return (yield from _refuse(turn, job, event, f"a job with this id exists: {job.namespace}/{job.name}", stranger=True))
    outcome = yield from managed_jobs.submitted(turn, job, event)
    if outcome == "applied":
        yield from _welcome(turn, job)
    return outcome


def _updated(turn: Turn, job: Job, event: Event[JobUpdated]) -> Decision:
    if not job.opened or not job.managed:
        return (yield from _refuse(turn, job, event, "no managed job has this id"))
    return (yield from managed_jobs.updated(turn, job, event.data))


def _deleted(turn: Turn, job: Job, event: Event[JobDeleted]) -> Decision:
    if event.data.part and (not job.opened or observed_jobs.has_moved(job)):
        return "unchanged"
    if not job.opened:
        return (yield from _refuse(turn, job, event, "no job has this id"))
    if job.object_deleted is not None:
        return "unchanged"
    if job.managed:
        yield from managed_jobs.deleted(turn, job, event.data.version)
    else:
        yield from observed_jobs.object_deleted(turn, job, event.data)
        yield from follow_tasks(turn, job, dict.fromkeys(job.tasks, job.since))
    return "applied"


def _seen(turn: Turn, job: Job, event: Event[JobObserved]) -> Decision:
    if job.opened and job.object_version is not None and not is_newer(event.data.version, job.object_version):
        return "duplicate"
    if job.managed:
        return "unchanged"  # the status of a managed job repeats what Lahar wrote
    if event.data.part and (not job.opened or observed_jobs.has_moved(job)):
        return "unchanged"  # its pods, if some were read without it, have opened the job
    too_large = list(replica_faults(sum(event.data.tasks.values()), turn.state.max_replicas, "tasks"))
    if too_large:
        yield from refused_inputs.say(turn, job, JobRejected(event.data.name, too_large, update=bool(job.opened)))
        return "rejected"
    what = observed_jobs.contradiction(job, event.data)
    if what is not None:
        yield turn.event(job, Anomaly(what))
        return "anomalous"
    at, waited = turn.index, bool(job.waiting) and not job.opened
    yield from observed_jobs.job_observed(turn, job, event.data)
    if turn.index == at:
        return "unchanged"
    yield from follow_tasks(turn, job, dict.fromkeys(job.tasks, job.since))
    if waited:
        yield from _welcome(turn, job)
    return "applied"


def _command(turn: Turn, job: Job, event: Event[CommandIssued]) -> Decision:
    command = event.data
    if command.action == "Discard" and not job.opened:
        yield from refused_inputs.say(turn, job, LetterDiscarded(command.by, command.reason, command.principal))
        return "applied"
    if command.action == "Unpark" and (job.parked or held_inputs.is_left(job)):  # a job's very first input may have parked it
        part, principal = (turn, None) if job.opened else (turn.about(job), command.principal)
        yield part.event(job, JobUnparked(len(job.held), command.by, principal))
        yield from release(part, job, "parked")
        if job.waiting:
            yield from _wait_on(part, job, IN_VAIN if job.opened and not job.managed else None)
        turn.index += part is not turn  # something has followed
        return "applied"
    if not job.opened:
        return (yield from _refuse(turn, job, event, "no job has this id"))
    if command.action == "Unpark":
        return (yield from _refuse(turn, job, event, "the job is not parked"))
    if command.action == "Discard":
        return (yield from _refuse(turn, job, event, "this is a job; only dead letters are discarded"))
    why = commands.objection(job, command)
    if why is not None:
        return (yield from _refuse(turn, job, event, why))
    yield from commands.commanded(turn, job, command)
    return "applied"


def _custom(turn: Turn, job: Job, event: Event[CustomEventRaised]) -> Decision:
    raised = event.data
    why = commands.objection_to_event(job, raised)
    if why is not None:
        return (yield from _refuse(turn, job, event, why))
    yield from commands.custom_raised(turn, job, raised)
    return "applied"


def _reported(turn: Turn, job: Job, event: Event[EffectReported]) -> Decision:
    report = event.data
    # The report of a callback may name an id that is no job.
    principal = "" if job.opened else report.principal
    yield from refused_inputs.say(
        turn, job, EffectSettled(report.effect, report.outcome, report.name, report.message, report.reason, principal)
    )
    yield from managed_jobs.effect_settled(turn, job, report)
    return "applied"


def _row(turn: Turn, job: Job, event: Event[RowUnreadable]) -> Decision:
    row = event.data
    if refused_inputs.was_said(job, job.cluster if job.opened else event.clusterid, refused_inputs.ROW, "", event.id):
        return "duplicate"
    yield turn.about(job).event(job, RowRejected(row.format, row.line, row.reason))
    return "rejected"


def _refuse(turn: Turn, job: Job, event: Event[Any], reason: str, *, stranger: bool = False) -> Decision:
    """Refuse a request. That of a `stranger`, or about an id that is no job, does not use up the input's id for other senders."""
    principal: str | None = event.data.principal if stranger or not job.opened else None
    if principal is not None:
        turn = turn.about(job)
    command, by = refused_inputs.asked(event.data)
    elsewhere = event.clusterid if job.opened and event.clusterid != job.cluster else None
    yield turn.event(job, CommandRefused(command, reason, by, principal, elsewhere))
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
