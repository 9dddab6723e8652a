"""Fold of notice records into the shard's state. Total: nothing here can fail."""

from __future__ import annotations

from engine.events import Event
from engine.events.preemptions import (
    NoticeAcknowledged,
    NoticeExecuted,
    NoticeNarrowed,
    NoticeOpened,
    NoticeRecord,
    NoticeWithdrawn,
    ReservationEnded,
)
from engine.scheduling.cluster.notices import Notice, number_of
from engine.scheduling.preemption.backoff import back_off
from engine.scheduling.state.model_sync import sync_job, touch
from engine.scheduling.state.record_names import cluster_record, notice_record
from engine.scheduling.state.shard import ClusterState, State


def evolve_notice(state: State, event: Event[NoticeRecord]) -> None:
    """Apply one record of a notice."""
    cluster, data, ident = state.cluster(event.clusterid), event.data, event.subject
    model = cluster.model
    model.revision += 1
    cluster.changed(event.recordedtime, event.id, "own")
    state.touched[cluster_record(cluster.id)] = state.touched[notice_record(ident)] = None
    if isinstance(data, NoticeOpened):
        cluster.opened = number_of(ident)
        model.notices[ident] = Notice(ident, data.preemptor, dict.fromkeys(data.victims, False), data.queue, data.deadline)
        model.noticed |= dict.fromkeys((data.preemptor, *data.victims), ident)
        back_off(state, data.preemptor, event.recordedtime)
        return
    notice = model.notices.get(ident)
    if notice is None:
        return
    notice.written = event.sequence
    match data:
        case NoticeAcknowledged():
            notice.victims[data.victim] = True
            _answered(state, data.victim)
        case NoticeNarrowed():
            notice.victims.pop(data.victim, None)
            job = state.jobs.get(data.victim)
            if job is not None and data.change == "VictimLeft" and job.head.runs_since:
                job.head.told_deadline = notice.deadline
            _leave(state, cluster, data.victim)
        case NoticeWithdrawn():
            _count(cluster, "withdrawn")
            for key in (*notice.victims, notice.preemptor):
                _leave(state, cluster, key, declined=key == notice.preemptor and data.change == "WithdrawCommanded")
            del model.notices[ident]
        case NoticeExecuted():
            _count(cluster, "executed")
            for key in (*notice.victims, notice.preemptor):
                _leave(state, cluster, key)
            model.noticed[notice.preemptor] = ident
            notice.victims, notice.reserved = {}, data.reserved
        case ReservationEnded():
            _count(cluster, data.outcome)
            model.noticed.pop(notice.preemptor, None)
            del model.notices[ident]
            if data.outcome == "expired":
                back_off(state, notice.preemptor, event.recordedtime)


def _count(cluster: ClusterState, what: str) -> None:
    cluster.notices[what] = cluster.notices.get(what, 0) + 1


def _answered(state: State, key: str) -> None:
    job = state.jobs.get(key)
    if job is not None:
        job.head.answered = None
        touch(state, job)


def _leave(state: State, cluster: ClusterState, key: str, *, declined: bool = False) -> None:
    """Remove a job from its notice."""
    cluster.model.noticed.pop(key, None)
    job = state.jobs.get(key)
    if job is not None:
        head = job.head
        head.notice, head.noticing, head.answered = "", "", None
        head.declined = head.declined or declined
        touch(state, job)
        sync_job(state, job)
