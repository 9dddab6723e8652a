"""`lahar billing verify` finds what was changed in the events of the bill beside the terms of their records, or was invented."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from bill_story import NOON, PRICES, Story
from job_programs import SECOND
from msgspec.structs import replace as with_fields
from standing import written
from test_altered_bills import MONTH_LATER, Altered, findings, with_event

from engine.billing import event_factory, usage_segments
from engine.billing.absorb import _FEW
from engine.billing.stage import STAGE
from engine.billing.usage_segments import LONGEST
from engine.events import Event, decode
from engine.events.attempts import AttemptBound
from engine.events.billing import UsageFailed, UsageRecorded, UsageReviewed, UsageWithdrawn
from engine.events.ids import output_id
from engine.events.inputs import NodeObserved
from engine.history.billing import Finding
from engine.log.memory import MemoryLog
from engine.log.port import Record

HOUR = 3600
ATTRIBUTES = ("id", "source", "subject", "time", "sequence", "correlationid", "causationid", "clusterid")


def used(story: Story, job: str, attempts: int = 1, at: float = 0, seconds: float = 100) -> None:
    """Attempts of a job run."""
    for index in range(attempts):
        story.start(job, index, at)
        story.run(job, index, at)
        story.end(job, index, at + seconds)


def changed(log: MemoryLog, ident: str, change: Callable[[Event[Any]], Event[Any]]) -> list[Finding]:
    """Return what is found if an event is another one."""

    def of(records: list[Record]) -> Iterator[Record]:
        for record in records:
            event: Event[Any] = decode(record.message)
            yield record if event.id != ident else with_event(record, change(event))

    return findings(Altered(log, of))


def with_more(log: MemoryLog, like: Event[Any], data: Any, cause: str) -> list[Finding]:
    """Return what is found if the stage had written something more of an event's job."""
    sequence = 1 + max(event.sequence for event in written(log) if event.subject == like.subject)

    def add(records: list[Record]) -> Iterator[Record]:
        yield from records
        now = records[-1].message.recordedtime
        ident = output_id(STAGE, like.subject, sequence)
        more = replace(like, id=ident, type=data.TYPE, time=now, recordedtime=now, sequence=sequence, causationid=cause, data=data)
        yield with_event(records[-1], more)

    return findings(Altered(log, add))


@pytest.fixture(scope="module")
def eventful() -> MemoryLog:
    """Corrections of an open month and of a closed one, by inputs and by reviews of each kind; an attempt that is not charged."""
    story = Story()
    first = {"prices": PRICES, "increment_seconds": 60, "until": NOON + 40 * SECOND}
    later = {"prices": PRICES, "bill_queued": True, "from": NOON + LONGEST}
    story.prices(first, later, at=-10)
    story.say("cluster", NodeObserved("n1", type="small"), "n1", -5)
    used(story, "j", 2)
    used(story, "many", _FEW + 1)
    story.late("j", 0, 300, rank="node", ended=NOON + 50 * SECOND)
    story.start("waits", 0, 400)
    story.wait(HOUR + 10)
    story.end("waits", 0, HOUR + 20)
    story.close("2026-03", MONTH_LATER)
    story.late("j", 1, MONTH_LATER + 10, rank="node", ended=NOON + 50 * SECOND)
    story.say("cluster", NodeObserved("n1", type="large"), "n1", -4, recorded=MONTH_LATER + 20)
    story.wait(MONTH_LATER + 500)
    story.prices(first, later, {"prices": PRICES, "from": NOON + 40 * SECOND, "until": NOON + HOUR * SECOND}, at=MONTH_LATER + 600)
    story.wait(MONTH_LATER + 1000)
    at = MONTH_LATER + 1100
    used(story, "old", at=at - LONGEST / SECOND - 1, seconds=LONGEST / SECOND + 2)
    story.shard.run_until_quiet()
    return story.log


def kind_of(data: Any) -> tuple[object, ...]:
    if isinstance(data, UsageReviewed):
        return type(data), data.mark is None, data.sweep is None, data.node is None, data.next == 0
    return type(data), data.at_mark, getattr(data, "reverses", None) is None


def one_of_each_kind(log: MemoryLog) -> list[Event[Any]]:
    return list({kind_of(event.data): event for event in written(log)}.values())


def test_without_a_change_only_what_is_not_charged_is_found(eventful: MemoryLog) -> None:
    assert [found.what.partition(":")[0] for found in findings(eventful)] == ["cannot be charged"]
    assert {kind_of(event.data) for event in one_of_each_kind(eventful)} == {
        *((UsageRecorded, at_mark, original) for at_mark in (False, True) for original in (False, True)),
        (UsageWithdrawn, False, True),
        (UsageWithdrawn, True, True),
        (UsageFailed, False, True),
        (UsageReviewed, False, True, True, True),
        (UsageReviewed, True, False, True, False),
        (UsageReviewed, True, False, False, False),
        (UsageReviewed, True, True, True, False),
        (UsageReviewed, True, True, True, True),
    }


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_an_attribute_of_any_event(eventful: MemoryLog, name: str) -> None:
    usual = len(findings(eventful))
    for event in one_of_each_kind(eventful):
        by_timer = isinstance(event.data, UsageRecorded | UsageWithdrawn) and event.data.at_mark
        value = getattr(event, name)
        another_job = "waits" if value == "j" else "j"
        other = value + 1 if isinstance(value, int) else another_job if name == "subject" else f"{value}x"
        found = changed(eventful, event.id, lambda one, other=other: replace(one, **{name: other}))
        assert (len(found) > usual) == (name != "causationid" or not by_timer), event


def test_progress_of_a_review_of_an_attempt_that_never_was(eventful: MemoryLog) -> None:
    event = next(event for event in written(eventful) if isinstance(event.data, UsageReviewed) and event.data.mark is not None)
    found, *_ = changed(eventful, event.id, lambda one: replace(one, data=with_fields(one.data, next=9)))
    assert found.sentence() == f"waits review: {event.id} is about an attempt that no job event names"


def test_why_an_attempt_could_not_be_charged_is_for_the_build_that_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its defect may be mended, or say so in other words; later the attempt is charged, and nothing is wrong."""
    story = Story()
    with monkeypatch.context() as broken:
        broken.setattr(event_factory, "runs_of", lambda *_: 1 / 0)
        used(story, "j")
    story.late("j", 0, 200, rank="node", ended=NOON + 50 * SECOND)
    assert [type(event.data) for event in written(story.log)] == [UsageFailed, UsageRecorded]
    assert findings(story.log) == []


def test_what_earlier_builds_charged_of_a_pod_that_its_node_rejected_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    story.prices({"prices": PRICES, "billable_from": "bound"})
    with monkeypatch.context() as before:
        before.setattr(usage_segments, "is_rejected", lambda _attempt: False)
        story.start("j", 0, 0)
        story.say("job-events", AttemptBound("main", 0, 1, node="n1"), "j", 10)
        story.end("j", 0, 20, phase="Failed", reason="RejectedByNode")
    assert (story.seconds(), findings(story.log)) == (10, [])


def test_an_attempt_is_said_twice_not_to_be_charged(eventful: MemoryLog) -> None:
    (failed,) = [event for event in written(eventful) if isinstance(event.data, UsageFailed)]
    *found, _ = with_more(eventful, failed, failed.data, failed.causationid)
    assert [one.what.partition(" (")[0].partition(" ")[2] for one in found] == ["says again that the attempt cannot be charged"]


@pytest.mark.parametrize("name", ["start", "end"])
def test_times_of_a_use_that_was_corrected_later_are_those_of_its_length(name: str) -> None:
    """Without a price book, so that no amount differs; the event is of the changed end, too."""
    story = Story()
    used(story, "j")
    story.late("j", 0, 200, rank="node", ended=NOON + 50 * SECOND)
    (usage, *_) = written(story.log)
    assert findings(story.log) == []
    sooner = {name: getattr(usage.data, name) - SECOND}
    found = changed(
        story.log,
        usage.id,
        lambda one: replace(one, time=one.time - SECOND * (name == "end"), data=with_fields(one.data, **sooner)),
    )
    assert any(" has length 100000000; expected " in one.what for one in found)
