"""Notice controller: records of a round about each notice, by its jobs, its review and its time, then new notices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from engine.events import Event
from engine.events.decisions import DecidedNoticed, DecidedNoticeEnded
from engine.events.jobs import NoticeAnswer
from engine.events.preemptions import (
    NoticeAcknowledged,
    NoticeExecuted,
    NoticeNarrowed,
    NoticeOpened,
    NoticeRecord,
    NoticeWithdrawn,
    ReservationEnd,
    ReservationEnded,
)
from engine.events.times import SECOND, Micros
from engine.scheduling.cluster.entities import Job
from engine.scheduling.cluster.notices import Notice
from engine.scheduling.outcome import Outcome
from engine.scheduling.plugins.gang import is_ready
from engine.scheduling.state.event_factory import EventFactory
from engine.scheduling.state.shard import ClusterState, TrackedJob
from statemachines.notice import NoticeChange, NoticeFacts, next_state

_NOTHING: Final = Outcome()

Events = Iterator[Event[Any]]


def control_notices(factory: EventFactory, cluster: ClusterState, outcome: Outcome | None, cause: str) -> Events:
    """Yield the events of a cluster's notices.

    Args:
        factory: makes the round's events; the round's decisions are applied already.
        cluster: the cluster.
        outcome: result of the session; `None`: there was none, and no job is stopped then.
        cause: id of the round's event.
    """
    found = outcome or _NOTHING
    for notice in list(cluster.model.notices.values()):
        part = _Part(factory, cluster, notice, cause)
        yield from part.open(found) if notice.reserved is None else part.reserved()
    if found.notice is not None:
        yield from _announce(factory, cluster, *found.notice, cause)


def _announce(factory: EventFactory, cluster: ClusterState, job: Job, victims: list[Job], cause: str) -> Events:
    queue, jobs = cluster.model.queues[job.queue], factory.state.jobs
    now = -(-factory.now // SECOND) * SECOND
    due = now + queue.notice_delay
    told = [jobs[victim.key].head.told_deadline for victim in victims]
    if all(told):  # a job that left an earlier notice gains no time by that
        due = min(due, max(now + SECOND, *told))
    some = "1 job" if len(victims) == 1 else f"{len(victims)} jobs"
    reason = f"the fewest jobs of lower priority in queue {queue.name} that free enough: {some}"
    data = NoticeOpened(job.key, [victim.key for victim in victims], queue.name, reason, due, due - now)
    ident = f"{cluster.id}/{cluster.rounds}"
    opened = factory.of_notice(cluster, ident, 1, data, cause)
    yield opened
    for one in (job, *victims):
        role: Literal["preemptor", "victim"] = "preemptor" if one is job else "victim"
        yield factory.about(jobs[one.key], DecidedNoticed(jobs[one.key].head.seen, ident, role, due), opened.id)


@dataclass(slots=True)
class _Part:
    """Step of a round for one notice."""

    factory: EventFactory
    cluster: ClusterState
    notice: Notice
    cause: str
    reviewed: bool = False
    """The session reviewed it, or nothing has changed since one did."""

    def _record(self, data: NoticeRecord, cause: str) -> Event[Any]:
        return self.factory.of_notice(self.cluster, self.notice.id, self.notice.written + 1, data, cause)

    def _job(self, ident: str) -> TrackedJob | None:
        return self.factory.state.jobs.get(ident)

    def _left(self, ident: str) -> str | None:
        """Return the event by which a job left the notice; `None`: it has not."""
        job = self._job(ident)
        if job is None:
            return self.cause
        return job.head.moved if job.head.left_notice else None

    def _answer(self, ident: str, answer: NoticeAnswer) -> str | None:
        """Return the event of a job's answer."""
        job = self._job(ident)
        if job is None or job.head.answered is None or job.head.answered[0] != answer:
            return None
        return job.head.answered[1]

    def _has_place(self) -> bool:
        """Return whether the preemptor's gang has its nodes."""
        job = self._job(self.notice.preemptor)
        return job is not None and job.group is not None and job.ready > 0 and is_ready(job)

    def _facts(self) -> NoticeFacts:
        jobs = [self._job(ident) for ident in (self.notice.preemptor, *self.notice.victims)]
        unconfirmed = sum(job is None or bool(job.head.noticing) or job.head.parked for job in jobs)
        return NoticeFacts(len(self.notice.victims), sum(self.notice.victims.values()), unconfirmed, self.reviewed)

    # --- open notices -----------------------------------------------------------------------------------------------------

    def open(self, outcome: Outcome) -> Events:
        """Yield the events of an open notice: at most one end."""
        notice, review = self.notice, outcome.reviews.get(self.notice.id)
        preemptor = self.cluster.model.jobs.get(notice.preemptor)
        self.reviewed = review is not None or (outcome.skipped and preemptor is not None and not preemptor.held)
        if (why := self._ended_by()) is not None:
            yield from self._change(*why)
            return
        for ident in list(notice.victims):
            if (left := self._left(ident)) is not None:
                yield from self._narrow(ident, "VictimLeft", left)
        for ident in review.spared if review is not None else ():
            if ident in notice.victims:
                yield from self._narrow(ident, "VictimNotNeeded", self.cause)
        if not self._is_open():
            return
        if review is not None and not review.enough:
            yield from self._change("NotEnough", self.cause)
            return
        last = self.cause
        for ident in notice.victims:
            if (answer := self._answer(ident, "acknowledged")) is not None and not notice.victims[ident]:
                yield self._record(NoticeAcknowledged(ident), answer)
                last = answer
        yield from self._change("Acknowledged", last)
        postponed = outcome.more and not self.reviewed  # the round stopped at its limit, and continues at once
        if self._is_open() and self.factory.now >= notice.deadline and not postponed:
            yield from self._change("DeadlinePassed", self.cause)

    def _ended_by(self) -> tuple[NoticeChange, str] | None:
        """Return the reason that withdraws the whole notice, and its event."""
        notice, model = self.notice, self.cluster.model
        preemptor = model.jobs.get(notice.preemptor)
        if self._has_place():
            return "PreemptorPlaced", self.cause
        if (left := self._left(notice.preemptor)) is not None:
            return "PreemptorLeft", left
        if (answer := self._answer(notice.preemptor, "withdraw")) is not None:
            return "WithdrawCommanded", answer
        if not self.cluster.scheduler.gives_notice(model.queues.get(notice.queue)):
            return "QueueChanged", self.cause
        if preemptor is not None and not model.may_preempt(preemptor):
            return "RightRevoked", self.cause
        return None

    def _is_open(self) -> bool:
        return self.notice.reserved is None and self.notice.id in self.cluster.model.notices

    def _narrow(self, victim: str, change: NoticeChange, cause: str) -> Events:
        job = self._job(victim)
        record = self._record(NoticeNarrowed(victim, change), cause)
        yield record
        if change == "VictimNotNeeded" and job is not None:
            yield self._tell(job, "withdrawn", record.id)
        yield from self._change(change, record.id)

    def _change(self, change: NoticeChange, cause: str) -> Events:
        state = next_state(change, self._facts())
        if state == "Withdrawn":
            yield from self._withdraw(change, cause)
        elif state == "Executed":
            yield from self._execute(change, cause)

    def _tell(
        self,
        job: TrackedJob,
        outcome: Literal["executed", "withdrawn"],
        cause: str,
        preemptor: str = "",
        reserved: Micros | None = None,
    ) -> Event[Any]:
        data = DecidedNoticeEnded(job.head.seen, self.notice.id, outcome, preemptor, reserved)
        return self.factory.about(job, data, cause)

    def _withdraw(self, change: NoticeChange, cause: str) -> Events:
        victims = list(self.notice.victims)
        told = [job for ident in (*victims, self.notice.preemptor) if (job := self._job(ident)) and not job.head.left_notice]
        record = self._record(NoticeWithdrawn(change, victims), cause)
        yield record
        for job in told:
            yield self._tell(job, "withdrawn", record.id)

    def _execute(self, change: NoticeChange, cause: str) -> Events:
        notice = self.notice
        victims, queue = list(notice.victims), self.cluster.model.queues[notice.queue]
        reserved = self.factory.now + queue.reservation
        record = self._record(NoticeExecuted(change, victims, reserved), cause)
        yield record
        for ident in victims:
            yield self._tell(self.factory.state.jobs[ident], "executed", record.id, notice.preemptor)
        yield self._tell(self.factory.state.jobs[notice.preemptor], "executed", record.id, reserved=reserved)

    # --- reserved places --------------------------------------------------------------------------------------------------

    def reserved(self) -> Events:
        """Yield the end of a reservation, if it is due."""
        job = self._job(self.notice.preemptor)
        end: ReservationEnd | None = None
        if job is None or job.head.finished or job.head.aborted or not job.head.grouped:
            end = "void"
        elif self._has_place() and not job.with_status("Binding"):
            end = "bound"  # wait until nodes have taken the pods: a decision may still be refused, or fail
        elif self.factory.now >= (self.notice.reserved or 0):
            end = "expired"
        if end is not None:
            yield self._record(ReservationEnded(end), self.cause)
