"""The fact about a node that an explanation names says of the node what the record says."""

from __future__ import annotations

from bill_story import Story
from standing import written

from engine.billing.records import records_of
from engine.events import Event
from engine.events.attempts import AttemptBound, AttemptRunning
from engine.events.billing import UsageRecorded
from engine.events.inputs import NodeObserved
from engine.history.billing_explanation import explain_record

HOUR = 3600
DAY = 86_400
BY_TYPE = {"gpu_seconds": {"*": "0.1", "large": "1"}}


def told(**rules: bool) -> Story:
    """Return a shard that has prices by type of node."""
    story = Story()
    story.prices({"prices": BY_TYPE, **rules}, at=-1000)
    return story


def named(story: Story) -> list[tuple[str | None, str | None]]:
    """Return the node type of each run that was recorded, and that of the fact that an explanation of it names, or "no fact"."""
    found: dict[tuple[str, str], Event[UsageRecorded]] = {}
    kinds: list[tuple[str | None, str | None]] = []
    for event in written(story.log):
        if not isinstance(event.data, UsageRecorded):
            continue
        (record,) = records_of(event)
        original = None if record.reverses is None else found[event.subject, record.reverses]
        found[event.subject, record.id] = event
        fact = explain_record(story.log, record, event, original, None, None).node
        kind = fact.data.type if fact is not None and isinstance(fact.data, NodeObserved) else "no fact"
        kinds.append((event.data.node_type, kind))
    return kinds


def test_a_fact_read_after_the_use_was_recorded_is_not_behind_its_record() -> None:
    """It is recorded earlier, by the clock of another producer, or with `--at`."""
    story = told()
    story.say("cluster", NodeObserved("n1", type="small"), "n1", -10)
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    story.end("j", 0, 100)
    story.close("2026-03", 40 * DAY)
    story.say("cluster", NodeObserved("n1", type="large"), "n1", -5, recorded=20)
    story.wait(40 * DAY + 500)
    assert named(story) == [("small", "small"), ("small", "small"), ("large", "large")]


def test_no_fact_is_named_if_the_binding_event_has_the_node_type() -> None:
    story = told()
    story.say("cluster", NodeObserved("n1"), "n1", -10)
    story.start("j", 0, 0)
    story.say("job-events", AttemptBound("main", 0, 1, node="n1", node_type="large"), "j", 0)
    story.say("job-events", AttemptRunning("main", 0, 1), "j", 0)
    story.say("cluster", NodeObserved("n1", type="large"), "n1", 50)
    story.end("j", 0, 100)
    assert named(story) == [("large", "no fact")]


def test_waiting_that_has_the_price_of_the_node_names_the_fact_about_it() -> None:
    story = told(bill_queued=True)
    story.say("cluster", NodeObserved("n1", type="large"), "n1", -10)
    story.start("j", 0, 0)
    story.run("j", 0, 50)
    story.end("j", 0, 100)
    assert named(story) == [("large", "large"), ("large", "large")]


def test_an_attempt_bound_twice_names_the_fact_before_its_last_binding() -> None:
    story = told()
    story.say("cluster", NodeObserved("n1", type="small"), "n1", -10)
    story.start("j", 0, 0)
    story.say("job-events", AttemptBound("main", 0, 1, node="n1", inferred=True), "j", 0)
    story.say("cluster", NodeObserved("n1", type="large"), "n1", 50)
    story.run("j", 0, 60)
    story.end("j", 0, 100)
    assert named(story) == [("large", "large")]


def lines_of_class(story: Story) -> list[tuple[str, str]]:
    """Return month and class of each record that was written, as an explanation of it says."""
    found = list[tuple[str, str]]()
    for event in written(story.log):
        for record in records_of(event) if isinstance(event.data, UsageRecorded) else ():
            *_, line = explain_record(story.log, record, event, None, None, None).sentences()
            found.append((event.data.period, line))
    return found


def test_an_end_read_after_a_record_did_not_give_the_record_its_class() -> None:
    story = told()
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    story.wait(2 * HOUR)
    story.end("j", 0, 2 * HOUR + 60, phase="Succeeded")
    *before, last = lines_of_class(story)
    assert set(before) == {("2026-03", "class useful: no end was known when it was recorded")}
    assert last == ("2026-03", "class useful: the attempt ended Succeeded")


def test_a_record_of_a_closed_month_keeps_its_class_from_before_the_end() -> None:
    story = told()
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    story.wait(40 * DAY)
    story.close("2026-03", 40 * DAY)
    story.end("j", 0, 40 * DAY, phase="Failed", reason="AppFailed")
    assert set(lines_of_class(story)) == {
        ("2026-03", "class useful: no end was known when it was recorded"),
        ("2026-04", "class useful: no end was known when it was recorded"),
        ("2026-04", "class failed: the attempt ended Failed, AppFailed"),
    }
