"""Answers of the lifecycle stage to decisions, and decisions that await one."""

from __future__ import annotations

from heapq import heappush

from engine.events import Event
from engine.events.decisions import DecisionAccepted, DecisionRefused
from engine.events.jobs import JobNoticeAnswered
from engine.events.times import Micros
from engine.scheduling.cluster.job_records import AnsweredKind, PendingDecision
from engine.scheduling.preemption.backoff import pause
from engine.scheduling.state.model_sync import sync_job, touch, touch_pod
from engine.scheduling.state.round_requests import request_round
from engine.scheduling.state.shard import Pod, State, TrackedJob


def await_answer(state: State, job: TrackedJob, decision: str, kind: AnsweredKind, due: Micros) -> None:
    """Schedule the timeout of a decision's answer."""
    job.head.open[decision] = PendingDecision(kind, due)
    heappush(state.unanswered, (due, job.key, decision))


def _free(state: State, job: TrackedJob, decision: str) -> None:
    """Free the resources of a refused decision."""
    head, found = job.head, job.head.open.pop(decision, None)
    if head.noticing == decision:
        head.noticing = ""
    if head.enqueuing == decision:
        head.enqueuing = ""
        if head.phase == "Inqueue":
            head.phase = "Pending"
    if found is not None and found.kind != "enqueued":
        for pod in _claimed(job, decision):
            pod.attempt.claim = None
            touch_pod(state, pod)
    touch(state, job)
    sync_job(state, job)


def accepted(state: State, job: TrackedJob, event: Event[DecisionAccepted]) -> None:
    """Apply an acceptance: the decision takes effect, and no longer awaits an answer."""
    data, head = event.data, job.head
    if job.group is None:
        return
    if data.kind != "bound":  # done once a node has taken a pod
        head.refusals = 0
    head.open.pop(data.decision, None)
    if data.kind == "enqueued":
        head.enqueued, head.enqueuing = True, ""
        if head.phase == "Pending":
            head.phase = "Inqueue"
            sync_job(state, job)
            request_round(state, job, event)
        return
    if data.kind in {"noticed", "notice_ended"}:
        _confirm(state, job, event)
        sync_job(state, job)
        request_round(state, job, event)
        return
    for placed in data.placements if data.kind == "bound" else ():
        if (pod := job.of(placed)) is not None and pod.attempt.phase == "Pending":
            pod.attempt.decided, pod.attempt.claim = placed.node, None
            touch_pod(state, pod)
    for key in data.attempts:
        if (pod := job.of(key)) is not None and pod.attempt.live:
            _leaves(state, pod)


def answered(state: State, job: TrackedJob, event: Event[JobNoticeAnswered]) -> None:
    """Record the answer of a job to its open notice."""
    if event.data.notice == job.head.notice:
        job.head.answered = (event.data.answer, event.id)
        request_round(state, job, event)


def refused(state: State, job: TrackedJob, event: Event[DecisionRefused]) -> None:
    """Apply a refusal: the resources of the decision are free again, and the job pauses unless its state merely moved on."""
    head = job.head
    if job.group is None:
        return
    if event.data.kind in {"noticed", "notice_ended"}:  # the job has merely changed meanwhile
        head.moved = event.id
    else:
        pause(head, event.recordedtime)
    _free(state, job, event.data.decision)
    refused = state.cluster(head.cluster).refused
    refused[event.data.reason] = refused.get(event.data.reason, 0) + 1
    request_round(state, job, event)


def _confirm(state: State, job: TrackedJob, event: Event[DecisionAccepted]) -> None:
    """Record the acceptance of a decision about a notice; its pods are deleted.

    The job's change of phase follows in the same commit, but perhaps not in the same batch.
    """
    head, data = job.head, event.data
    if data.kind == "noticed":
        if head.noticing == data.decision:
            head.noticing = ""
            notice = state.cluster(head.cluster).model.notices.get(head.notice)
            preemptor = notice is not None and notice.preemptor == job.key
            head.job_phase = "Privileged" if preemptor else "WillEvicted"
        return
    for pod in _claimed(job, data.decision):
        _leaves(state, pod)


def _claimed(job: TrackedJob, decision: str) -> list[Pod]:
    """Return the pods of an unanswered decision."""
    return [pod for pod in job.pods.values() if pod.attempt.claim is not None and pod.attempt.claim.decision == decision]


def _leaves(state: State, pod: Pod) -> None:
    """Record the accepted eviction of a pod."""
    pod.attempt.leaving, pod.attempt.claim = True, None
    touch_pod(state, pod)
