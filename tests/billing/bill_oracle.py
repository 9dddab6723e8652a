"""The bill by the rules of the specification alone, as plainly as can be: cut at every boundary there is, look, multiply, add up.

It shares no code with the billing stage: times are cut hour by hour, amounts are fractions, months come from the calendar itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from job_programs import HOUR, SECOND, AttemptFacts, Fact, JobFacts, Program, in_force


class Line(NamedTuple):
    """What an amount is of: an attempt's slice by one meter."""

    uid: str
    record: str
    meter: str
    start: int
    end: int


Amounts = Mapping[Line, tuple[Fraction, Fraction]]
"""Quantity and amount of each line."""

_NO_BOOK: Final[Mapping[str, Any]] = {}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Slice:
    """A stretch in which nothing changes, within one hour and one month."""

    start: int
    end: int
    kind: str
    size: Any
    terms: Mapping[str, Any]
    rules: Mapping[str, Any] | None
    billable: bool


def lifetime(program: Program, facts: AttemptFacts, now: int) -> tuple[int, int]:
    """Return when an attempt begins and ends; an open one ends at the last hour mark, or end of a month, that has passed."""
    hour = now - now % HOUR
    marks = [hour, *_month_ends(hour, now + 1, _zone_of(program))]
    end = min(facts.ends)[1] if facts.ends else max(mark for mark in marks if mark <= now)
    return facts.created, max(facts.created, end)


def slices(program: Program, job: JobFacts, facts: AttemptFacts, now: int) -> Iterator[Slice]:
    """Yield all slices of an attempt, billable or not; without gaps they cover its lifetime."""
    begin, end = lifetime(program, facts, now)
    phases = [("queued", begin)]
    for kind, time in (("bound", facts.bound), ("running", facts.running), ("terminating", facts.terminating)):
        if time is not None:
            phases.append((kind, max(time, phases[-1][1])))
    cuts = {
        begin,
        end,
        *range(begin - begin % HOUR, end, HOUR),
        *_month_ends(begin, end, _zone_of(program)),
    }
    cuts.update(time for _, time in phases)
    waits_until = phases[1][1] if len(phases) > 1 else end
    cuts.update(time for reservation in job.reservations for time in reservation if time < waits_until)
    cuts.update(fact.since for fact in (*facts.sizes, *job.terms))
    cuts.update(time for version in program.versions for time in (version["from"], version.get("until")) if time is not None)
    inside = sorted(cut for cut in cuts if begin <= cut <= end)
    for start, stop in pairwise(inside):
        kind = [name for name, time in phases if time <= start][-1]
        if kind == "queued" and any(since <= start < until for since, until in job.reservations):
            kind = "reserved"
        rules = in_force(program.versions, start)
        yield Slice(
            start,
            stop,
            kind,
            _at(facts.sizes, start),
            _at(job.terms, start),
            rules,
            _is_billable(kind, rules or _NO_BOOK, facts.running is not None),
        )


def _at(known: Sequence[Fact], moment: int) -> Any:
    """Return what is so at a moment: what was said last of the latest time."""
    latest = max(fact.since for fact in known if fact.since <= moment)
    return [fact.value for fact in known if fact.since == latest][-1]


def _is_billable(kind: str, rules: Mapping[str, Any], ran: bool) -> bool:
    return {
        "queued": rules.get("bill_queued", False),
        "reserved": rules.get("bill_reserved", False),
        "bound": rules.get("billable_from", "running") == "bound",
        "running": True,
        "terminating": rules.get("bill_terminating", True) and ran,
    }[kind]


def _zone_of(program: Program) -> str:
    return program.zone if program.versions else "UTC"


def _month_ends(begin: int, end: int, zone: str) -> Iterator[int]:
    for hour in range(begin - begin % HOUR, end, HOUR):
        low, high = hour, hour + HOUR
        if month_at(low, zone) == month_at(high, zone):
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if month_at(middle, zone) != month_at(low, zone) else (middle, high)
        yield high


@lru_cache(100_000)
def month_at(moment: int, zone: str) -> str:
    """Return the month that a calendar on a wall of the zone shows."""
    return (_EPOCH + timedelta(microseconds=moment)).astimezone(ZoneInfo(zone)).strftime("%Y-%m")


def expected(program: Program, now: int) -> dict[Line, tuple[Fraction, Fraction]]:
    """Return what everything costs by what is known at last."""
    found: dict[Line, tuple[Fraction, Fraction]] = {}
    for job in program.jobs.values():
        for facts in job.attempts.values():
            for line, quantity, amount in _of_attempt(program, job, facts, now):
                assert line not in found
                found[line] = (quantity, amount)
    return found


WAITING = {"queued", "reserved"}


def _of_attempt(program: Program, job: JobFacts, facts: AttemptFacts, now: int) -> Iterator[tuple[Line, Fraction, Fraction]]:
    node = _node_of(program, facts)
    rejected = facts.reason == "RejectedByNode" and facts.running is None
    billable = [one for one in slices(program, job, facts, now) if one.billable and (not rejected or one.kind in WAITING)]
    kept = [slice_ for slice_ in billable if slice_.kind == "reserved"]
    for slice_ in kept:
        yield from _lines(facts.uid, "usage", slice_, slice_.start, slice_.end - slice_.start, node, free=False)
    used = [slice_ for slice_ in billable if slice_ not in kept]
    if not used:
        return
    last = used[-1]
    rules = last.rules or _NO_BOOK
    total = sum(slice_.end - slice_.start for slice_ in used)
    preempted = (facts.reason or "").startswith("Preempted")
    free = bool(facts.ends) and preempted and total <= _micros(rules.get("preempted_free_seconds", "0"))
    for slice_ in used:
        yield from _lines(facts.uid, "usage", slice_, slice_.start, slice_.end - slice_.start, node, free)
    if facts.ends and not free and not rejected and (excess := _charged(total, rules) - total):
        yield from _lines(facts.uid, "excess", last, last.start, excess, node, free)


def _charged(total: int, rules: Mapping[str, Any]) -> int:
    increment = _micros(rules.get("increment_seconds", "0.000001"))
    steps = Fraction(total, increment)
    whole = round(steps) if rules.get("round", "up") == "half_even" else -((-total) // increment)
    return max(whole * increment, _micros(rules.get("minimum_seconds", "0")))


def _micros(seconds: str) -> int:
    return int(Fraction(seconds) * SECOND)


def _node_of(program: Program, facts: AttemptFacts) -> tuple[str | None, str | None]:
    """Return type and GPU model of an attempt's node when it was bound: by the cluster, else by the attempt itself."""
    known = program.nodes.get(facts.node or "", [])
    told: tuple[str | None, str | None] = (facts.node_type, facts.gpu_model)
    if not known or facts.bound is None:
        return told
    before = [fact.value for fact in known if fact.since <= facts.bound]
    kind, model = before[-1] if before else known[0].value
    return kind or told[0], model or told[1]


def _lines(
    uid: str, record: str, slice_: Slice, start: int, length: int, node: tuple[str | None, str | None], free: bool
) -> Iterator[tuple[Line, Fraction, Fraction]]:
    kind, model = node
    rules = slice_.rules or _NO_BOOK
    sizes = {
        "gpu_seconds": Fraction(slice_.size.gpu),
        "cpu_seconds": Fraction(slice_.size.cpu_milli, 1000),
        "memory_byte_seconds": Fraction(slice_.size.memory_bytes),
    }
    weights = {meter: _rate(rules.get("weights", {}).get(meter), meter, kind, model) for meter in sizes}
    sizes["weighted_seconds"] = sum((size * (weights[meter] or 0) for meter, size in sizes.items()), Fraction(0))
    factor = Fraction(0 if free else 1)
    for multiplier in rules.get("multipliers", []):
        fits = {
            "queue": slice_.terms["queue"],
            "tenant": slice_.terms["tenant"],
            "priority_class": slice_.terms["priority"],
            "preemptible": slice_.terms["preemptible"],
        }
        if all(fits[name] == value for name, value in multiplier.items() if name != "factor"):
            factor *= Fraction(multiplier["factor"])
    for meter, size in sizes.items():
        if size:
            quantity = size * length / SECOND
            price = _rate(rules.get("prices", {}).get(meter), meter, kind, model) or Fraction(0)
            yield Line(uid, record, meter, start, slice_.end), quantity, quantity * price * factor


def _rate(table: Mapping[str, str] | None, meter: str, kind: str | None, model: str | None) -> Fraction | None:
    if table is None:
        return None
    for name in (model if meter == "gpu_seconds" else None, kind, "*"):
        if name is not None and name in table:
            return Fraction(table[name])
    return None
