"""Choice of the pending reasons to publish after a round: only jobs whose reason may have changed are examined.

These are the first jobs of each queue, jobs examined one by one, new members of a class, all members of a class whose reason or
rank changed, and jobs whose position may have changed enough by arrivals and departures in the queue.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import groupby
from operator import itemgetter
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

from engine.events.scheduling import JobExplained
from engine.events.times import Micros
from engine.scheduling.cluster.entities import Job
from engine.scheduling.cluster.job_records import JobRecord
from engine.scheduling.pending.explanations import (
    FIRST,
    due_at,
    explanation,
    figures_due,
    margin,
    same_but_figures,
    same_figures,
    told_alike,
)
from engine.scheduling.pending.jobs import Key, PendingJobs, Waiting
from engine.scheduling.pending.queue import EquivalenceClass, PendingQueue, Position
from engine.scheduling.pending.reasons import Reason

_AHEAD: Final = 3

T = TypeVar("T")

_Parts: TypeAlias = list[tuple[Position, JobExplained]]
"""Parts of a class: position from which a part begins, and its reason."""


class _Seen(NamedTuple):
    """Result of a round for a queue, compared with the last one; without arrivals and departures in classes."""

    who: object
    """Order of single jobs and classes, and the positions from which reasons hold."""
    why: list[Reason]
    """Reasons in the same order."""


@dataclass(slots=True)
class QueueMemory:
    """Memory of a queue between rounds."""

    own: set[Key] = field(default_factory=set)
    """Jobs that were examined one by one, with their rank."""
    ranks: dict[EquivalenceClass, Key] = field(default_factory=dict)
    told: dict[EquivalenceClass, JobExplained] = field(default_factory=dict)
    """Class → published reason of all its members except fresh ones; figures are ignored."""
    shifts: int = 0
    """Arrivals, departures and changes of rank ahead of other jobs: no position has changed by more."""
    checks: dict[int, list[str]] = field(default_factory=dict)
    """Number of shifts → jobs of classes whose position may be published then."""
    check: dict[str, int] = field(default_factory=dict)
    """The same by job; other entries are outdated."""
    checked: int = 0
    """Number of shifts up to which positions were checked."""
    later: dict[str, Micros] = field(default_factory=dict)
    """Job, not held, with an unpublished change → time to publish it (microseconds)."""
    turn: list[tuple[Micros, str]] = field(default_factory=list)
    """The same as a heap; other entries are outdated."""
    first: list[Job] = field(default_factory=list)
    """First jobs at the last full examination."""
    turns: list[tuple[Micros, int, Job]] | None = None
    """(time to publish figures in microseconds, position, job), earliest first; `None`: not computed since."""
    seen: _Seen | None = None
    """Result of the last round: an equal one publishes nothing before `again`."""
    again: Micros | None = None
    """Earliest time to publish a reason that was put off at the last examination (microseconds)."""

    def look_at(self, job: str, shifts: int) -> None:
        """Schedule the examination of a job after at most this many more shifts (at least one)."""
        at = self.shifts + shifts
        if at < self.check.get(job, at + 1):
            self.check[job] = at
            self.checks.setdefault(at, []).append(job)

    def put_off(self, job: str, due: Micros) -> None:
        """Schedule the publication of a job's change (microseconds)."""
        if self.later.get(job) != due:
            self.later[job] = due
            heappush(self.turn, (due, job))

    def has_turn(self, now: Micros) -> bool:
        """Return whether a put-off change is due."""
        return bool(self.turn) and self.turn[0][0] <= now

    def turns_of(self, now: Micros) -> Iterator[str]:
        """Yield the jobs whose put-off change is due."""
        while self.has_turn(now):
            due, job = heappop(self.turn)
            if self.later.get(job) == due:
                del self.later[job]
                yield job

    def due(self) -> Iterator[str]:
        """Yield the jobs to examine now."""
        for at in range(self.checked + 1, self.shifts + 1):
            for job in self.checks.pop(at, ()):
                if self.check.get(job) == at:
                    del self.check[job]
                    yield job
        self.checked = self.shifts


class PendingReasons:
    """Chooses the pending reasons to publish after each round of a cluster; a new instance examines all jobs."""

    def __init__(self, pending_queue: PendingQueue, head: Callable[[str], JobRecord]) -> None:
        """Start without memory.

        Args:
            pending_queue: the queue of the cluster's scheduler.
            head: returns the record of a job, by its id.
        """
        self._pending_queue = pending_queue
        self._head = head
        self.forget()

    def forget(self) -> None:
        """Examine all jobs again: the last results may not have been published."""
        self._queues: dict[str, QueueMemory] = {}
        self._loose: set[str] | None = None
        """Jobs outside classes with a published reason; `None`: unknown."""
        self.again: Micros | None = None
        """Earliest time to publish a put-off reason (microseconds); `None`: none is."""

    def find(self, outcome: PendingJobs, now: Micros) -> dict[str, JobExplained]:
        """Return job → reason to publish after a round, in the order of queues and jobs."""
        self.again = None
        found: dict[str, JobExplained] = {}
        queues, self._queues = self._queues, {}
        for name, waiting in sorted(outcome.waiting.items()):
            queue = self._queues[name] = queues.get(name) or QueueMemory()
            seen = _seen(waiting, outcome)
            change = "other" if name in self._pending_queue.shifts else _difference(queue, seen, waiting)
            if change == "figures":
                queue.seen, queue.again = seen, self._figures(name, queue, outcome)
            if change == "other" or queue.has_turn(now) or (queue.again is not None and queue.again <= now):
                queue.seen, queue.again = seen, None
                found |= self._in_queue(name, queue, waiting, outcome, now)
            if queue.again is not None:
                self.again = queue.again if self.again is None else min(self.again, queue.again)
        self._pending_queue.shifts.clear()
        return found

    def _figures(self, name: str, queue: QueueMemory, outcome: PendingJobs) -> Micros | None:
        """Return the earliest time to publish changed figures of the first jobs (microseconds); `None`: never."""
        if queue.turns is None:
            queue.turns = sorted((figures_due(self._head(job.key)), place, job) for place, job in enumerate(queue.first, 1))
        said: dict[int, JobExplained] = {}
        for due, place, job in queue.turns:
            member, before = self._pending_queue.member(job.key), self._head(job.key).reason
            reason = outcome.explained[job.key] if member is None else _part(outcome.refused[member[1]], job)
            if id(reason) not in said:
                said[id(reason)] = explanation(reason, name)
            if before is None or place != before.place or not same_figures(said[id(reason)], before):
                return due
        return None

    def _in_queue(
        self, name: str, queue: QueueMemory, waiting: Waiting, outcome: PendingJobs, now: Micros
    ) -> Iterable[tuple[str, JobExplained]]:
        own = {key for key, _ in waiting.own}
        ranks = {kind: rank for rank, kind in waiting.kinds}
        moved = _moved(queue, own, ranks)
        others, newcomers = self._pending_queue.shifts.get(name, (0, 0))
        queue.shifts += others + len(own ^ queue.own) + (newcomers if len(set(ranks.values())) > 1 else 0)
        queue.own, queue.ranks = own, ranks
        parts = {kind: [(at, explanation(reason, name)) for at, reason in outcome.refused[kind]] for _, kind in waiting.kinds}
        every = len(waiting)
        first = waiting.first(FIRST)
        queue.first, queue.turns = [job for _, job in first], None
        chosen = dict(waiting.own) | dict(first)
        for rank, kind in waiting.kinds:
            jobs = _changed(queue, kind, parts[kind], moved=kind in moved)
            chosen |= {(*rank, job.created, job.key): job for job in jobs}
        for ident in queue.due():
            member = self._pending_queue.member(ident)
            if member is None or member[1] not in ranks:
                continue
            key, before = (*ranks[member[1]], member[0].created, ident), self._head(ident).reason
            if key not in chosen and before is not None and (left := margin(waiting.place(key), before.place)):
                queue.look_at(ident, left)
            else:
                chosen[key] = member[0]
        for ident in queue.turns_of(now):
            member = self._pending_queue.member(ident)
            if member is not None and member[1] in ranks:
                chosen[*ranks[member[1]], member[0].created, ident] = member[0]
        queue.told = {
            kind: found[-1][1] for kind, found in parts.items() if all(same_but_figures(said, found[-1][1]) for _, said in found)
        }
        places = {key: at for at, (key, _) in enumerate(first, 1)}
        own_reasons = {id(reason): reason for reason in (outcome.explained[job.key] for _, job in waiting.own)}
        own_parts = {ident: explanation(reason, name) for ident, reason in own_reasons.items()}
        found: list[tuple[str, JobExplained]] = []
        for key, job in sorted(chosen.items(), key=itemgetter(0)):
            member = self._pending_queue.member(job.key)
            said = own_parts[id(outcome.explained[job.key])] if member is None else _part(parts[member[1]], job)
            place = places.get(key) or waiting.place(key)
            due = self._due(queue, job.key, said, place, now)
            if due is not None and due <= now:
                found.append((job.key, replace(said, place=place, waiting=every, ahead=waiting.ahead(key, _AHEAD))))
            if due is not None and due > now:
                queue.put_off(job.key, due)
                continue
            queue.later.pop(job.key, None)
            if member is None:
                continue
            before = self._head(job.key).reason
            queue.look_at(job.key, margin(place, place if due is not None or before is None else before.place))
        ahead = waiting.last(_AHEAD) if waiting.held else []
        for place, job in enumerate(waiting.held, every - len(waiting.held) + 1):
            said = explanation(outcome.explained[job.key], name)
            due = self._due(queue, job.key, said, place, now)
            if due is not None and due <= now:
                found.append((job.key, replace(said, place=place, waiting=every, ahead=ahead[-_AHEAD:])))
            ahead = [*ahead, job.key]
        return found

    def _due(self, queue: QueueMemory, job: str, said: JobExplained, place: int, now: Micros) -> Micros | None:
        """Return the time to publish a reason; for the first jobs of a queue a round is requested then."""
        due = due_at(said, place, self._head(job))
        if due is not None and due > now and place <= FIRST:
            queue.again = due if queue.again is None else min(queue.again, due)
        return due

    def silent(self, outcome: PendingJobs, explained: Collection[str]) -> list[str]:
        """Return the jobs with a published reason for which a round found none, by id.

        Args:
            outcome: result of the round.
            explained: jobs with a published reason.
        """
        candidates = set(explained) if self._loose is None else self._loose | self._pending_queue.left
        self._pending_queue.left.clear()
        found = [
            job for job in candidates if job in explained and job not in outcome.explained and not self._is_refused(job, outcome)
        ]
        self._loose = {*found, *outcome.explained}
        return sorted(found)

    def _is_refused(self, job: str, outcome: PendingJobs) -> bool:
        member = self._pending_queue.member(job)
        return member is not None and member[1] in outcome.refused


def _seen(waiting: Waiting, outcome: PendingJobs) -> _Seen:
    reasons = [outcome.explained[job.key] for job in (*(job for _, job in waiting.own), *waiting.held)]
    parts = [outcome.refused[kind] for _, kind in waiting.kinds]
    who = (waiting.own, waiting.held, waiting.kinds, [[at for at, _ in found] for found in parts])
    return _Seen(who, reasons + [reason for found in parts for _, reason in found])


def _difference(queue: QueueMemory, seen: _Seen, waiting: Waiting) -> Literal["none", "figures", "other"]:
    """Return the change of a queue since its last examination.

    `none`: nothing; `figures`: figures of reasons only, published for the first jobs; `other`: jobs or reasons.
    """
    before = queue.seen
    if before is None or waiting.held or seen.who != before.who or len(queue.told) < len(waiting.kinds):
        return "other"
    if seen.why == before.why:
        return "none"
    return "figures" if all(map(told_alike, seen.why, before.why)) else "other"


def _changed(queue: QueueMemory, kind: EquivalenceClass, parts: _Parts, *, moved: bool) -> Iterable[Job]:
    """Return the jobs of a class with a possible change: all of them, or those added since the last round."""
    fresh = list(kind.fresh.values())
    kind.fresh.clear()
    told = queue.told.get(kind)
    if told is not None and not moved and all(same_but_figures(said, told) for _, said in parts):
        return fresh
    return [job for _, _, job in kind.members]


def _moved(queue: QueueMemory, own: set[Key], ranks: Mapping[EquivalenceClass, Key]) -> set[EquivalenceClass | Key]:
    """Return the classes whose position among other classes and single jobs may have changed.

    Arrivals and departures are not considered: `QueueMemory.shifts` counts them.
    """
    stayed = ranks.keys() & queue.ranks.keys()
    if all(ranks[kind] == queue.ranks[kind] for kind in stayed):
        return set()
    lone = {key: key[:-2] for key in own & queue.own}
    before, after = (_order(lone | {kind: ranked[kind] for kind in stayed}) for ranked in (queue.ranks, ranks))
    for _ in range(2):  # cut off the common end, then the common beginning
        while before and before[-1:] == after[-1:]:
            before.pop()
            after.pop()
        before.reverse()
        after.reverse()
    return set().union(*after)


def _order(ranks: Mapping[EquivalenceClass | Key, Key]) -> list[set[EquivalenceClass | Key]]:
    """Return the ranked entries in order, as sets of equal rank."""
    return [{one for one, _ in equal} for _, equal in groupby(sorted(ranks.items(), key=itemgetter(1)), key=itemgetter(1))]


def _part(parts: Sequence[tuple[Position, T]], job: Job) -> T:
    """Return the part to which a job of a class belongs."""
    return parts[max(bisect_right(parts, (job.created, job.key), key=itemgetter(0)) - 1, 0)][1]
