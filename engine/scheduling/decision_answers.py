"""Answers of the lifecycle stage to decisions, and decisions that await one."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappush

from engine.events import Event
from engine.events.decisions import DecisionAccepted, DecisionRefused
from engine.events.jobs import JobNoticeAnswered
from engine.events.times import Micros
from engine.scheduling.cluster.job_records import AnsweredKind, Attempt, PendingDecision
from engine.scheduling.preemption.backoff import pause
from engine.scheduling.state.model_sync import sync_job, touch, touch_attempt
from engine.scheduling.state.round_requests import request_round
from engine.scheduling.state.shard import State, TrackedJob


def await_answer(state: State, known: TrackedJob, decision: str, kind: AnsweredKind, due: Micros) -> None:
    """Schedule the timeout of a decision's answer."""
    known.head.open[decision] = PendingDecision(kind, due)
    heappush(state.unanswered, (due, known.id, decision))


def _free(state: State, known: TrackedJob, decision: str) -> None:
    """Free the resources of a refused decision."""
    head, found = known.head, known.head.open.pop(decision, None)
    if head.noticing == decision:
        head.noticing = ""
    if head.enqueuing == decision:
        head.enqueuing = ""
        if head.phase == "Inqueue":
            head.phase = "Pending"
    if found is not None and found.kind != "enqueued":
        claims = [one for one in known.attempts.values() if one.claim is not None and one.claim.decision == decision]
        for attempt in claims:
            attempt.claim = None
            touch_attempt(state, known, attempt)
    touch(state, known)
    sync_job(state, known)


def accepted(state: State, known: TrackedJob, event: Event[DecisionAccepted]) -> None:
    """Apply an acceptance: the decision takes effect, and no longer awaits an answer."""
    data, head = event.data, known.head
    if known.group is None:
        return
    if data.kind != "bound":  # done once a node has taken a pod
        head.refusals = 0
    head.open.pop(data.decision, None)
    if data.kind == "enqueued":
        head.enqueued, head.enqueuing = True, ""
        if head.phase == "Pending":
            head.phase = "Inqueue"
            sync_job(state, known)
            request_round(state, known, event)
        return
    if data.kind in {"noticed", "notice_ended"}:
        for left in _confirm(state, known, event):
            touch_attempt(state, known, left)
        sync_job(state, known)
        request_round(state, known, event)
        return
    for placed in data.placements if data.kind == "bound" else ():
        attempt = known.attempts.get((placed.task, placed.index, placed.attempt))
        if attempt is not None and attempt.phase == "Pending":
            attempt.decided, attempt.claim = placed.node, None
            touch_attempt(state, known, attempt)
    for key in data.attempts:
        attempt = known.attempts.get((key.task, key.index, key.attempt))
        if attempt is not None and attempt.live:
            attempt.leaving, attempt.claim = True, None
            touch_attempt(state, known, attempt)


def answered(state: State, known: TrackedJob, event: Event[JobNoticeAnswered]) -> None:
    """Record the answer of a job to its open notice."""
    if event.data.notice == known.head.notice:
        known.head.answered = (event.data.answer, event.id)
        request_round(state, known, event)


def refused(state: State, known: TrackedJob, event: Event[DecisionRefused]) -> None:
    """Apply a refusal: the resources of the decision are free again, and the job pauses unless its state merely moved on."""
    head = known.head
    if known.group is None:
        return
    if event.data.kind in {"noticed", "notice_ended"}:  # the job has merely changed meanwhile
        head.moved = event.id
    else:
        pause(head, event.recordedtime)
    _free(state, known, event.data.decision)
    refused = state.cluster(head.cluster).refused
    refused[event.data.reason] = refused.get(event.data.reason, 0) + 1
    request_round(state, known, event)


def _confirm(state: State, known: TrackedJob, event: Event[DecisionAccepted]) -> Iterator[Attempt]:
    """Record the acceptance of a decision about a notice; yield its attempts to be deleted, which it changes.

    The job's change of phase follows in the same commit, but perhaps not in the same batch.
    """
    head, data = known.head, event.data
    if data.kind == "noticed":
        if head.noticing == data.decision:
            head.noticing = ""
            notice = state.cluster(head.cluster).model.notices.get(head.notice)
            preemptor = notice is not None and notice.preemptor == known.id
            head.job_phase = "Privileged" if preemptor else "WillEvicted"
        return
    for attempt in known.attempts.values():
        if attempt.claim is not None and attempt.claim.decision == data.decision:
            attempt.leaving, attempt.claim = True, None
            yield attempt
