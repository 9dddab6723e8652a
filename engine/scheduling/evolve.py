"""Fold of the shard's own output: decisions, rounds, reasons. Total: it cannot fail."""

from __future__ import annotations

from typing import Final

from engine.events import Data, Event
from engine.events.decisions import (
    DecidedBound,
    DecidedEnqueued,
    DecidedEvicted,
    DecidedNoticed,
    DecidedNoticeEnded,
    DecidedPipelined,
    DecidedUnschedulable,
    DecisionEvent,
)
from engine.events.preemptions import NoticeRecord
from engine.events.scheduling import DecisionTimedOut, GroupPhaseChanged, JobExplained, RoundEnded
from engine.events.times import SECOND
from engine.scheduling.cluster.job_records import Claim, PendingDecision
from engine.scheduling.decision_answers import await_answer
from engine.scheduling.pending.explanations import words_of
from engine.scheduling.preemption.backoff import back_off
from engine.scheduling.preemption.kept_places import keep_places, move_places, release
from engine.scheduling.preemption.notice_fold import evolve_notice
from engine.scheduling.state.model_sync import sync_job, touch, touch_pod
from engine.scheduling.state.record_names import cluster_record
from engine.scheduling.state.shard import Pod, State, TrackedJob, next_mark

COUNTED: Final = ("enqueued", "bound", "pipelined", "evicted")
"""Kinds of decision that a round counts."""
ANSWER_WITHIN: Final = 60 * SECOND
"""Time after which an unanswered decision counts as late. Its resources stay reserved: lifecycle answers every decision."""
_WORDS: Final = 8
"""Number of published reasons remembered per job."""


def evolve(state: State, event: Event[Data]) -> None:
    """Apply one event of the stage."""
    data = event.data
    if isinstance(data, RoundEnded):
        _round(state, event, data)
        return
    if isinstance(data, NoticeRecord):
        evolve_notice(state, event)  # type: ignore[arg-type]  # mypy does not narrow the event by its data
        return
    job = state.jobs.get(event.subject)
    if job is None:
        return
    touch(state, job)
    if isinstance(data, DecisionEvent):
        job.head.written = event.sequence
        _decided(state, job, event, data)
    else:
        job.head.noted = event.sequence
        _noted(state, job, event)


def _round(state: State, event: Event[Data], data: RoundEnded) -> None:
    cluster = state.cluster(event.subject)
    state.touched[cluster_record(cluster.id)] = None
    now = event.recordedtime
    cluster.rounds, cluster.wake = event.sequence, data.next
    cluster.own = cluster.other = cluster.ran = None
    cluster.newest = 0
    cluster.scheduler.memory = data.memory
    cluster.pending, cluster.oldest = data.pending, data.oldest
    cluster.configuration = data.configuration or cluster.configuration
    for kind in COUNTED:
        cluster.counts[kind] = cluster.counts.get(kind, 0) + getattr(data, kind)
    cluster.floor = now if data.more else next_mark(now)
    if data.more:
        cluster.own = (now, event.id)
    elif data.enqueued or data.bound or data.evicted:  # what was decided may let others go on
        cluster.own = (next_mark(now), event.id)
    release(state, cluster, now)
    for ident in [ident for ident, at in cluster.retries.items() if at <= now]:
        job = state.jobs[ident]
        head = job.head
        head.retry, head.preemption_backoff = (at if at > now else 0 for at in (head.retry, head.preemption_backoff))
        touch(state, job)
        sync_job(state, job)


def _decided(state: State, job: TrackedJob, event: Event[Data], data: DecisionEvent) -> None:
    head, due = job.head, event.recordedtime + ANSWER_WITHIN
    match data:
        case DecidedEnqueued():
            head.enqueuing = event.id
            await_answer(state, job, event.id, "enqueued", due)
        case DecidedBound():
            await_answer(state, job, event.id, "bound", due)
            head.unschedulable, head.promised = "", []
            move_places(state, job, data.placements)
            for placed in data.placements:
                if (pod := job.of(placed)) is not None:
                    _claim(state, pod, Claim(event.id, placed.node))
        case DecidedEvicted():
            await_answer(state, job, event.id, "evicted", due)
            back_off(state, data.preemptor, event.recordedtime)
            keep_places(state, event.id, data)
            for key in data.attempts:
                if (pod := job.of(key)) is not None:
                    _claim(state, pod, Claim(event.id))
        case DecidedPipelined():
            head.promised = [(one.task, one.index, one.attempt, one.node) for one in data.placements]
        case DecidedUnschedulable():
            head.unschedulable = data.reason
        case DecidedNoticed():
            head.notice, head.noticing = data.notice, event.id
            await_answer(state, job, event.id, "noticed", due)
            sync_job(state, job)
        case DecidedNoticeEnded():
            await_answer(state, job, event.id, "notice_ended", due)
            for pod in job.pods.values() if data.preemptor else ():
                if pod.attempt.live and (pod.attempt.node or pod.attempt.decided):
                    _claim(state, pod, Claim(event.id))


def _claim(state: State, pod: Pod, claim: Claim) -> None:
    """Record an unanswered decision about a pod."""
    pod.attempt.claim = claim
    touch_pod(state, pod)


def _noted(state: State, job: TrackedJob, event: Event[Data]) -> None:
    data, head = event.data, job.head
    cluster = state.cluster(head.cluster)
    match data:
        case GroupPhaseChanged():
            head.phase = data.phase
            sync_job(state, job)
        case JobExplained():
            if data.reason:
                words = words_of(data)
                if head.reason is None:
                    head.since = event.recordedtime
                earlier = [one for one in head.told_words if one != words]
                head.told_words = [*earlier[1 - _WORDS :], words]
                head.told, head.reason = event.recordedtime, data
                cluster.explained[job.key] = None
            else:
                head.reason = None
                cluster.explained.pop(job.key, None)
        case DecisionTimedOut():
            if (late := head.open.get(data.decision)) is not None:
                head.open[data.decision] = PendingDecision(late.kind, late.due, late=True)
            cluster.late += 1
            state.touched[cluster_record(cluster.id)] = None
