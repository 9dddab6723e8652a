"""`lahar billing verify` finds what was changed in the recorded bill, or added to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from bill_story import NOON, PRICES, Story
from billing_shard import run
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from job_programs import SECOND, Program, closed_programs, programs
from msgspec.structs import replace as with_fields
from standing import written

from engine.events import Event, decode, encode
from engine.events.billing import UsageRecorded, UsageWithdrawn
from engine.history.billing import Finding, check_billing
from engine.log.memory import MemoryLog
from engine.log.port import Partition, Record
from statemachines.spec import Requests

BILLING = Partition("billing", 0)
MONTH_LATER = 40 * 86_400
UNKNOWN_BY_THEN = {"ended", "at_mark"}
"""ended: an hour mark ends a record; what ends the use at that moment is learnt later. at_mark: which kind of input caused it."""
LEARNT_LATER = {
    *("start", "kind", "begun", "node", "node_type", "gpu_model", "worth"),
    *("inferred_start", "inferred_end"),
}
"""Fields of a record that a later one may have corrected, because more was learnt."""
CHANGES: dict[str, Callable[[Any], Any]] = {
    "record": lambda value: "excess" if value == "usage" else "usage",
    "kind": lambda value: "terminating" if value == "running" else "running",
    "worth": lambda value: "failed" if value == "useful" else "useful",
    "period": lambda _: "2031-05",
    "month": lambda value: "2031-05" if value is None else None,
    "charges": lambda value: value[1:] if value else [],
    "amount": lambda _: None,
    "gpu_nano": lambda _: 500_000_000,
}


class Altered:
    """A log whose bill has other records than the shard wrote."""

    def __init__(self, log: MemoryLog, change: Callable[[list[Record]], Iterable[Record]]) -> None:
        self._log = log
        self._changed = [record._replace(offset=place) for place, record in enumerate(change(log.read(BILLING, 0, 1 << 30)))]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def read(self, partition: Partition, offset: int, most: int) -> list[Record]:
        return self._changed[offset : offset + most] if partition == BILLING else self._log.read(partition, offset, most)


def with_event(record: Record, event: Event[Any]) -> Record:
    return record._replace(message=encode(event))


def other(data: Any, name: str) -> Any:
    """Return the data with another value of a field."""
    value = getattr(data, name)
    if name in CHANGES:
        return with_fields(data, **{name: CHANGES[name](value)})
    match value:
        case bool():
            changed: Any = not value
        case int():
            changed = value + 1
        case dict():
            changed = value | {"x": "1"}
        case _:
            changed = f"{value or ''}x"
    return with_fields(data, **{name: changed})


def findings(log: Any) -> list[Finding]:
    return [found for found in check_billing(log) if isinstance(found, Finding)]


def differs(log: MemoryLog, ident: str, name: str) -> list[Finding]:
    """Return what is found if a field of an event is another one."""

    def change(records: list[Record]) -> Iterator[Record]:
        for record in records:
            event: Event[Any] = decode(record.message)
            yield record if event.id != ident else with_event(record, replace(event, data=other(event.data, name)))

    return findings(Altered(log, change))


def with_more(log: MemoryLog, event: Event[Any], **change: Any) -> list[Finding]:
    """Return what is found if an event is there again, with some other fields, as the last of its job."""

    def add(records: list[Record]) -> Iterator[Record]:
        yield from records
        sequence = 1 + max(decode(record.message).sequence for record in records if record.message.subject == event.subject)
        yield with_event(records[-1], replace(event, id="again", sequence=sequence, data=with_fields(event.data, **change)))

    return findings(Altered(log, add))


def recorded(log: MemoryLog) -> list[Event[UsageRecorded]]:
    return [event for event in written(log) if isinstance(event.data, UsageRecorded)]


@pytest.fixture(scope="module")
def corrected() -> MemoryLog:
    """A month is closed, an end in it is then corrected, and another job is recorded as it was; with an excess each."""
    story = Story()
    story.prices({"prices": PRICES, "increment_seconds": 60, "round": "up"}, at=-10)
    for index in (0, 1):
        story.start("j", index, 0)
        story.run("j", index, 0)
        story.end("j", index, 100)
    story.close("2026-03", MONTH_LATER)
    story.late("j", 0, MONTH_LATER + 10, rank="node", ended=NOON + 50 * SECOND)
    story.wait(MONTH_LATER + 200)
    assert findings(story.log) == []
    return story.log


NAMES = UsageRecorded.__struct_fields__


@pytest.mark.parametrize("name", sorted({*NAMES} - UNKNOWN_BY_THEN - {"reverses", "worth"}))  # worth: as its month is closed
def test_a_field_of_a_record_that_stands(corrected: MemoryLog, name: str) -> None:
    usage = [event for event in recorded(corrected) if event.data.index == 1 and event.data.record == "usage"]
    assert differs(corrected, usage[0].id, name)


@pytest.mark.parametrize("name", sorted({*NAMES} - {"at_mark", "reverses", "record", "ended"}))
def test_a_field_of_a_reversal(corrected: MemoryLog, name: str) -> None:
    (reversal, *_) = [event for event in recorded(corrected) if event.data.reverses is not None]
    assert differs(corrected, reversal.id, name)


def test_an_event_that_is_there_again(corrected: MemoryLog) -> None:
    kinds = {(event.data.record, event.data.reverses is not None): event for event in recorded(corrected)}
    assert {("usage", False), ("excess", False), ("reversal", True)} <= kinds.keys()
    for event in kinds.values():
        assert with_more(corrected, event), event.data


def test_usage_of_an_attempt_that_never_was(corrected: MemoryLog) -> None:
    (first, *_) = recorded(corrected)
    (found, *_) = with_more(corrected, first, attempt=99)
    assert "is about an attempt that no job event names" in found.what


@pytest.mark.parametrize("name", ["task", "index", "attempt", "uid", "record", "period", "tenant", "job_kind", "amount"])
def test_a_field_of_a_withdrawal(name: str) -> None:
    story = Story()
    story.prices({"prices": PRICES}, at=-10)
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    story.end("j", 0, 100)
    story.late("j", 0, 300, rank="node", ended=NOON + 50 * SECOND)
    story.wait(600)
    assert findings(story.log) == []
    (withdrawal,) = [event for event in written(story.log) if isinstance(event.data, UsageWithdrawn)]
    assert differs(story.log, withdrawal.id, name)
    nothing = replace(withdrawal, data=with_fields(withdrawal.data, amount=None))
    assert with_more(story.log, nothing), "there is nothing left to take back"


def test_the_length_of_an_excess_that_cost_nothing_and_was_taken_back() -> None:
    story = Story()
    story.prices({"prices": PRICES, "increment_seconds": 60, "round": "up"}, at=-10)
    story.start("j", 0, 0, requests=Requests(0, 0, 0))
    story.run("j", 0, 0)
    story.end("j", 0, 100)
    story.late("j", 0, 300, rank="node", ended=NOON + 50 * SECOND)
    story.wait(600)
    assert findings(story.log) == []
    excess = [event for event in recorded(story.log) if event.data.record == "excess"]
    assert [event.data.length for event in excess] == [20 * SECOND, 10 * SECOND]
    for event in excess:
        assert any("has length" in found.what for found in differs(story.log, event.id, "length"))


@settings(max_examples=60)
@given(program=st.one_of(programs(4, 14), closed_programs(8)), data=st.data())
def test_whatever_happened_a_changed_field_is_found(program: Program, data: st.DataObject) -> None:
    log, _ = run(program)
    usage = recorded(log)
    assume(usage)
    event = data.draw(st.sampled_from(usage))
    name = data.draw(st.sampled_from(sorted({*NAMES} - UNKNOWN_BY_THEN - LEARNT_LATER - {"reverses"})))
    changed = other(event.data, name)
    assume(changed != event.data)
    assert differs(log, event.id, name)
