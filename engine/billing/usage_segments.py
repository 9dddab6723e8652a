"""Computation of an attempt's runs from its state: the bill is this one pure function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from engine.billing.book import NO_PRICES, Book, bills
from engine.billing.calendar import HOUR, floor_hour, month_of
from engine.billing.state import Attempt, End, Job, NodeFact, Point, Reservation, Run
from engine.events.attempts import AttemptEnded
from engine.events.billing import SegmentKind, Worth
from engine.events.prices import PriceVersion
from engine.events.times import Micros, format_time
from statemachines.vocabulary import failure_class

LONGEST: Final = 10 * 366 * 24 * HOUR
"""Longest billed attempt, ten years (microseconds). A timestamp in the year 9999 would fill 95,000 invoices in one step."""

WAITING: Final = frozenset({"queued", "reserved"})
"""Kinds of segments without a node; they may have the price of the attempt's later node."""

_STOPPED: Final = "StoppedByUser"
"""End reason of attempts of a job that its user ended or suspended: no work is repeated for them."""

T = TypeVar("T")

Timeline = Sequence[tuple[Micros, str, T]]
"""Values with the start of their validity and the reporting event; the first entry is valid from the beginning."""


class Segment(NamedTuple):
    """Period between two changes of phase."""

    kind: SegmentKind
    start: Micros
    end: Micros
    begun: str
    ended: str | None
    inferred_start: bool
    inferred_end: bool


def segments(attempt: Attempt, reservations: Iterable[Reservation], until: Micros) -> Iterator[Segment]:
    """Yield an attempt's phases without gaps, from its creation to its end, or to `until` while it is open.

    A phase that begins before its predecessor begins with it; one that begins after the end is empty. Waiting is `reserved` while
    resources are reserved for the job.
    """
    end, begin = attempt.end, attempt.created.time
    stop = until if end is None else max(end.time, begin)
    kind: SegmentKind = "queued"
    source = attempt.created
    for next_kind, point in _phases(attempt, reservations):
        if end is None and point.time > until:  # beyond `until`, so the phase before it is still open
            break
        reached = min(max(point.time, begin), max(stop, begin))
        if begin < min(reached, stop):
            told = point if end is None or point.time <= stop else end
            # An inferred phase after a known end makes that end inferred: earlier builds recorded it so, and their records stay
            # valid.
            inferred_end = told.inferred or point.inferred
            yield Segment(kind, begin, min(reached, stop), source.id, told.id, source.inferred, inferred_end)
        kind, begin, source = next_kind, reached, point
    if begin < stop:
        ident, inferred = (None, False) if end is None else (end.id, end.inferred)
        yield Segment(kind, begin, stop, source.id, ident, source.inferred, inferred)


def _phases(attempt: Attempt, reservations: Iterable[Reservation]) -> list[tuple[SegmentKind, Point]]:
    """Return the phases after the initial `queued`, each with the point that begins it."""
    known: list[tuple[SegmentKind, Point]] = []
    if attempt.bound is not None:
        known.append(("bound", attempt.bound))
    if attempt.running is not None:
        known.append(("running", attempt.running))
    if attempt.terminating is not None:
        known.append(("terminating", attempt.terminating))
    waits: list[tuple[SegmentKind, Point]] = []
    waits_until = known[0][1].time if known else None
    behind = attempt.created.time
    for begun, until, ident in reservations:
        since = max(begun, behind)
        if since >= until or (waits_until is not None and since >= waits_until):
            continue
        waits.append(("reserved", Point(since, ident)))
        if waits_until is None or until < waits_until:
            waits.append(("queued", Point(until, ident)))
        behind = until
    return waits + known


def is_billable(kind: SegmentKind, version: PriceVersion, *, ran: bool) -> bool:
    """Return true if a price version bills segments of a kind; `ran`: the attempt has run."""
    return bills(version, kind) and (ran or kind != "terminating")


def node_at(facts: Sequence[NodeFact], moment: Micros) -> NodeFact | None:
    """Return the fact about a node at a time; before its first observation, the first one."""
    found = facts[0] if facts else None
    for fact in facts:
        if fact.since <= moment:
            found = fact
    return found


def fact_about(attempt: Attempt, nodes: Sequence[NodeFact]) -> NodeFact | None:
    """Return the fact about an attempt's node at its binding; `None` if the node is unknown or the attempt unbound."""
    return None if attempt.bound is None else node_at(nodes, attempt.bound.time)


def kind_of_node(attempt: Attempt, nodes: Sequence[NodeFact]) -> tuple[str | None, str | None]:
    """Return type and GPU model of an attempt's node at its binding; the attempt's own ones if the node is unknown."""
    if nodes and (fact := fact_about(attempt, nodes)) is not None:
        return fact.node_type or attempt.node_type, fact.gpu_model or attempt.gpu_model
    return attempt.node_type, attempt.gpu_model


def runs_of(job: Job, attempt: Attempt, nodes: Sequence[NodeFact], book: Book, until: Micros) -> list[Run]:
    """Return an attempt's runs in order; the last one may be the excess that increments and minimum add.

    Args:
        job: job of the attempt.
        attempt: attempt to bill.
        nodes: facts about its node, oldest first.
        book: price versions.
        until: end of the last run of an open attempt.

    Raises:
        ValueError: the attempt lasts longer than `LONGEST`.
    """
    begin, last = attempt.created.time, until if attempt.end is None else attempt.end.time
    if last - begin > LONGEST:
        # An open attempt has one constant message, not a new one each hour.
        told = "has not ended yet" if attempt.end is None else f"ended at {format_time(last)}"
        raise ValueError(f"it began at {format_time(begin)} and {told}; more than ten years are not charged")
    node_type, gpu_model = kind_of_node(attempt, nodes)
    worth, ran = worth_of(attempt.end), attempt.running is not None
    rejected = is_rejected(attempt)
    zone, sizes, terms = book.time_zone, attempt.sizes, job.since
    found: list[Run] = []
    for kind, start, end, begun, ended, inferred_start, inferred_end in segments(attempt, job.reservations, until):
        if kind in book.unbilled or (rejected and kind not in WAITING):
            continue
        at = start
        while at < end:
            version, cut = book.at(at)
            month = month_of(at, zone)
            stop = min(end, month.end) if cut is None else min(end, month.end, cut)
            sized, termed = place_in(sizes, at), place_in(terms, at)
            cause, since, because = begun, start, ended
            for timeline, place in ((sizes, sized), (terms, termed)):
                if timeline[place][0] > since:
                    since, cause = timeline[place][:2]
                if place + 1 < len(timeline) and timeline[place + 1][0] < stop:
                    stop, because = timeline[place + 1][:2]
            if is_billable(kind, version or NO_PRICES, ran=ran):
                found.append(
                    Run(
                        "usage",
                        at,
                        stop,
                        stop - at,
                        kind,
                        cause,
                        because if stop == end or because is not ended else None,
                        sizes[sized][2],
                        terms[termed][2],
                        None if kind in WAITING else attempt.node,
                        node_type,
                        gpu_model,
                        None if version is None else version.version,
                        month.name,
                        "reserved" if kind == "reserved" else worth,
                        free=False,
                        inferred_start=inferred_start and at == start,
                        inferred_end=inferred_end and stop == end,
                    )
                )
            at = stop
    return found if attempt.end is None or rejected or not found else _closed(found, worth, book)


def is_rejected(attempt: Attempt) -> bool:
    """Return true if the node rejected an attempt before a container started: its usage is free (kubernetes.md 1.4, row 9)."""
    return attempt.end is not None and attempt.end.reason == "RejectedByNode" and attempt.running is None


def place_in(timeline: Timeline[T], moment: Micros) -> int:
    """Return the index of the entry of a timeline that is valid at a time."""
    place = len(timeline) - 1
    while place and timeline[place][0] > moment:
        place -= 1
    return place


def worth_of(end: End | AttemptEnded | None) -> Worth:
    """Classify the usage of an attempt. One that its user stopped, or that was stopped on demand and not replaced, is useful."""
    if end is None or end.phase == "Succeeded":
        return "useful"
    reason = end.reason or ""
    if reason.startswith("Preempted"):
        return "preempted"
    if end.phase == "Failed" and failure_class(reason) == "none":
        return "restarted" if end.replaceable and reason != _STOPPED else "useful"
    return "failed"


def _closed(runs: list[Run], worth: Worth, book: Book) -> list[Run]:
    """Apply the rules for whole attempts: free preemptions, increments, minimum. Reserved resources do not count as used."""
    used = [run for run in runs if run.kind != "reserved"]
    if not used:
        return runs
    last = used[-1]
    rules = book.rules(last.price_version)
    total = sum(run.length for run in used)
    if worth == "preempted" and total <= rules.preempted_free_seconds:
        return [replace(run, free=run.kind != "reserved") for run in runs]
    if not (more := added(total, rules)):
        return runs
    begin = max(floor_hour(last.end - 1), last.start)
    return [*runs, replace(last, record="excess", start=begin, length=more)]


def added(total: Micros, rules: PriceVersion) -> Micros:
    """Return the time that increments and minimum add to an attempt's usage (microseconds; may be negative)."""
    return max(_in_increments(total, rules), rules.minimum_seconds) - total


def _in_increments(total: int, rules: PriceVersion) -> int:
    whole, rest = divmod(total, rules.increment_seconds)
    if rules.round == "up":
        whole += rest > 0
    elif 2 * rest > rules.increment_seconds or (2 * rest == rules.increment_seconds and whole % 2):
        whole += 1
    return whole * rules.increment_seconds
