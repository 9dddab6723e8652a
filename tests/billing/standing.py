"""What stands on the bills by the events that the billing stage has written, and what must hold of those events for themselves."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from bill_oracle import Line

from engine.billing.records import Record, json_of, records_of
from engine.events import Event, decode
from engine.events.billing import UsageFailed, UsageRecorded, UsageReviewed, UsageWithdrawn
from engine.events.outcomes import Accounted, DeadLettered


def written(log: Any) -> list[Event[Any]]:
    """Return all events of the billing shards but their accounts."""
    return [
        event
        for record in log.scan(["billing", "dead-letters"])
        if not isinstance((event := decode(record.message)).data, Accounted) and record.shard.startswith("billing")
    ]


def standing(events: Iterable[Event[Any]]) -> list[Record]:
    """Return the records that were not withdrawn: originals, reversals, replacements.

    Raises:
        AssertionError: something withdrawn had not been written, an id is used twice, or the stage failed on something.
    """
    ids: set[str] = set()
    found: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for event in events:
        data = event.data
        assert not isinstance(data, UsageFailed | DeadLettered), data
        if isinstance(data, UsageReviewed):
            continue
        key = (event.subject, data.task, data.index, data.attempt)
        if isinstance(data, UsageRecorded):
            made = list(records_of(event))
            assert ids.isdisjoint(record.id for record in made), "two records have one id"
            ids.update(record.id for record in made)
            must_add_up(data, made)
            found[key] += made
            continue
        assert isinstance(data, UsageWithdrawn)
        void = [
            record
            for record in found[key]
            if (record.run.record, record.run.period) == (data.record, data.period)
            and data.start <= record.start
            and record.end <= data.end
        ]
        if data.record == "usage":
            covered = sorted({(record.start, record.end) for record in void})
            assert not covered or (covered[0][0], covered[-1][1]) == (data.start, data.end), data
        gone = {record.id for record in void}  # two records are compared field by field, and there may be thousands
        found[key] = [record for record in found[key] if record.id not in gone]
    return [record for records in found.values() for record in records]


def must_add_up(run: UsageRecorded, records: Sequence[Record]) -> None:
    """Check that the records of a run are what it says of itself."""
    for charge in run.charges:
        mine = [record for record in records if record.charge.meter == charge.meter]
        assert sum(Fraction(record.quantity) for record in mine) == Fraction(charge.quantity)
        assert sum(Fraction(record.amount) for record in mine) == Fraction(charge.amount)


def net(records: Iterable[Record]) -> dict[Line, tuple[Fraction, Fraction]]:
    """Add up records by attempt, meter and slice; lines of nothing are left out."""
    quantities: Counter[Line] = Counter()
    amounts: Counter[Line] = Counter()
    for record in records:
        run = record.run
        kind = run.record if run.reverses is None else run.reverses.record
        line = Line(run.uid, kind, record.charge.meter, record.start, record.end)
        quantities[line] += Fraction(record.quantity)  # type: ignore[assignment]  # a Counter adds whatever adds up
        amounts[line] += Fraction(record.amount)  # type: ignore[assignment]  # as above
    found = {line: (Fraction(quantities[line]), Fraction(amounts[line])) for line in quantities}
    return {line: value for line, value in found.items() if value != (0, 0)}


def must_reverse_what_it_names(records: Sequence[Record]) -> None:
    """Check that each reversal takes back one record, which it names, and leaves nothing of it."""
    by_id = {record.id: record for record in records}
    taken: set[str] = set()
    for record in records:
        if record.run.record != "reversal":
            assert record.reverses is None
            continue
        assert record.reverses is not None
        original = by_id[record.reverses]
        assert record.reverses not in taken, "reversed twice"
        taken.add(record.reverses)
        assert (original.quantity + record.quantity, original.amount + record.amount) == (0, 0)
        assert (original.start, original.end, original.charge.meter) == (record.start, record.end, record.charge.meter)


def lines_of(records: Iterable[Record], period: str) -> str:
    """Return the file of a month, as `lahar billing export` writes it."""
    return "\n".join(sorted(json.dumps(json_of(record)) for record in records if record.run.period == period))
