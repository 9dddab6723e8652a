"""Corrections of an attempt's records: void parts and missing parts.

Slices are compared without enumerating them: two runs that differ only in their ends have the same slices up to the last hour mark
before either end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from engine.billing.calendar import HOUR, floor_hour
from engine.billing.state import Run
from engine.billing.usage_segments import WAITING
from engine.events.billing import UsageRecorded, UsageWithdrawn
from engine.events.times import Micros

IsClosed = Callable[[str], bool]


def difference(recorded: Sequence[Run], wanted: Sequence[Run], is_closed: IsClosed) -> tuple[list[Run], list[Run]]:
    """Return the void parts of the recorded runs, and the missing parts of the wanted runs.

    Args:
        recorded: recorded runs, in order.
        wanted: runs that should be recorded, in order.
        is_closed: returns true for a closed month; usage on its invoice is not corrected for a change of worth alone.
    """
    old, new = _usage(recorded), _usage(wanted)
    void, missing = _compare(old, new, is_closed)
    more, most = recorded[len(old) :], wanted[len(new) :]
    if not (more and most and _is_same(more[0], most[0], is_closed) and _extent(more[0]) == _extent(most[0])):
        void += more
        missing += most
    return void, missing


def _usage(runs: Sequence[Run]) -> Sequence[Run]:
    """Return runs without the excess, which is the last one."""
    return runs[:-1] if runs and runs[-1].record == "excess" else runs


def _extent(run: Run) -> tuple[Micros, Micros, int]:
    return run.start, run.end, run.length


def _compare(old: Sequence[Run], new: Sequence[Run], is_closed: IsClosed) -> tuple[list[Run], list[Run]]:
    void: list[Run] = []
    missing: list[Run] = []
    place, reached = 0, new[0].start if new else 0
    for run in old:
        while place < len(new) and new[place].end <= run.start:
            if reached < new[place].end:
                missing.append(part(new[place], reached, new[place].end))
            place += 1
            reached = new[place].start if place < len(new) else 0
        kept = _kept(run, new[place], is_closed) if place < len(new) else run.start
        if kept > run.start:
            if reached < run.start:
                missing.append(part(new[place], reached, run.start))
            reached = kept
        if kept < run.end:
            void.append(part(run, kept, run.end))
    for left in new[place:]:
        begin = max(reached, left.start)
        if begin < left.end:
            missing.append(part(left, begin, left.end))
    return void, missing


def _kept(run: Run, wanted: Run, is_closed: IsClosed) -> Micros:
    """Return the time up to which the slices of a run equal those of the wanted one."""
    if not (
        wanted.start <= run.start and (run.start == wanted.start or run.start % HOUR == 0) and _is_same(run, wanted, is_closed)
    ):
        return run.start
    if run.end == wanted.end:
        # Another event at the same time changes nothing; nor does an inferred end, which earlier builds did not record.
        if run.ended is None or run.inferred_end <= wanted.inferred_end:
            return run.end
        return max(floor_hour(run.end - 1), run.start)
    if run.end < wanted.end and run.end % HOUR == 0:
        return run.end
    return max(floor_hour(min(run.end, wanted.end)), run.start)


def _is_same(run: Run, wanted: Run, is_closed: IsClosed) -> bool:
    """Return true if two runs have equal charges in their common slices."""
    if run.worth != wanted.worth and not is_closed(run.invoice):
        return False
    if run.start == wanted.start and run.inferred_start != wanted.inferred_start:
        return False
    return (
        run.kind == wanted.kind
        and run.begun == wanted.begun
        and run.size == wanted.size
        and run.terms == wanted.terms
        and (run.node == wanted.node or run.kind in WAITING)  # earlier builds recorded the later node of waiting time
        and run.node_type == wanted.node_type
        and run.gpu_model == wanted.gpu_model
        and run.price_version == wanted.price_version
        and run.month == wanted.month
        and run.free == wanted.free
    )


def part(run: Run, start: Micros, end: Micros) -> Run:
    """Return the part of a run between two slice boundaries."""
    return run if (start, end) == (run.start, run.end) else replace(run, **cut(run, start, end))


def cut(run: Run | UsageRecorded, start: Micros, end: Micros) -> dict[str, Any]:
    """Return the fields that change in a part of a run, between two slice boundaries."""
    whole = end == run.end
    return {
        "start": start,
        "end": end,
        "length": end - start,
        "ended": run.ended if whole else None,
        "inferred_start": run.inferred_start and start == run.start,
        "inferred_end": run.inferred_end and whole,
    }


def voided(recorded: Sequence[Run], data: UsageRecorded | UsageWithdrawn) -> list[Run] | None:
    """Return the recorded runs after a withdrawal or reversal; `None` if the event is neither."""
    if isinstance(data, UsageWithdrawn):
        return _without(recorded, data.record, data.start, data.end, data.period)
    if data.reverses is not None:
        return _without(recorded, data.reverses.record, data.start, data.end, data.reverses.period)
    return None


def _without(recorded: Sequence[Run], record: str, start: Micros, end: Micros, invoice: str) -> list[Run]:
    """Return the recorded runs after a period on one invoice was voided."""
    left: list[Run] = []
    for run in recorded:
        if run.record != record or run.invoice != invoice or run.end <= start or run.start >= end:
            left.append(run)
        elif run.record == "usage":
            if run.start < start:
                left.append(part(run, run.start, start))
            if run.end > end:
                left.append(part(run, end, run.end))
    return left
