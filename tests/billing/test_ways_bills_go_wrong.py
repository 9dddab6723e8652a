"""The eleven ways in which a known platform's billing goes wrong, and that they are closed here; and the laws by example."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from bill_story import NOON, PRICES, Story
from billing_shard import messages, opened
from hypothesis import given
from hypothesis import strategies as st
from job_programs import CLUSTER, SECOND
from standing import lines_of, standing, written

import engine.billing.event_factory
from engine.billing.state import End
from engine.billing.usage_segments import worth_of
from engine.events import Event, encode
from engine.events.attempts import AttemptBound, AttemptChanged
from engine.events.billing import UsageFailed
from engine.events.jobs import JobPhaseChanged
from engine.events.times import parse_time
from engine.log.memory import MemoryLog, MemoryShard
from engine.processor.processor import Processor
from statemachines.spec import Requests

HOUR = 3600
DAY = 24 * HOUR


# --- the eleven --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", ["0.01", "10", "0.000001", "3599.999999"])
def test_1_poll_what_lies_between_two_looks_is_billed(seconds):
    """A sampler of 15 s or 30 min sees nothing of a job of 10 ms, or counts a whole interval."""
    story = Story()
    story.prices({"prices": PRICES})
    story.start("j", 0, 1)
    story.run("j", 0, 7)
    story.end("j", 0, float(Decimal(7) + Decimal(seconds)))
    assert (story.seconds(), story.amount()) == (Decimal(seconds), Decimal(seconds) / 10)


def test_2_charge_from_job_start_a_late_member_pays_from_its_own_start():
    story = Story()
    for index, start in ((0, 0), (1, 1000)):
        story.start("gang", index, start)
        story.run("gang", index, start)
    for index in (0, 1):
        story.end("gang", index, 1500)
    by_replica = {record.run.index: record.quantity for record in story.records()}
    assert by_replica == {0: 1500, 1: 500}


def test_3_arrival_time_late_or_early_arrival_changes_no_duration():
    story = Story()
    story.start("j", 0, 0, recorded=5000)
    story.run("j", 0, 10, recorded=9000)
    story.end("j", 0, 20, recorded=90_000)
    assert story.seconds() == 10


def test_4_restart_never_billed_again_each_attempt_is_billed():
    story = Story()
    for number in (1, 2, 3):
        story.start("j", 0, 100 * number, number)
        story.run("j", 0, 100 * number + 5, number)
        story.end("j", 0, 100 * number + 5 + number, number, phase="Failed", reason="AppFailed")
    assert [(record.run.attempt, record.quantity) for record in story.records()] == [(1, 1), (2, 2), (3, 3)]


def test_5_attempts_lost_what_ended_before_its_successor_came_stays():
    """Also where the successor is seen first, and where the job is finished and packed."""
    story = Story()
    story.start("j", 0, 0, 1)
    story.run("j", 0, 0, 1)
    story.start("j", 0, 50, 2)
    story.run("j", 0, 50, 2)
    story.end("j", 0, 60, 2)
    story.say("job-events", JobPhaseChanged("Completed", "Running"), "j", 61)
    story.end("j", 0, 40, 1, recorded=70, phase="Lost", reason="NodeLost")
    story.shard.run_until_quiet()
    assert [(record.run.attempt, record.quantity, record.run.worth) for record in story.records()] == [
        (2, 10, "useful"),
        (1, 40, "failed"),
    ]


def test_6_one_bad_job_blocks_all_whoever_cannot_be_charged_is_named(monkeypatch):
    """The others are charged at the same marks; and it is charged as soon as it can be."""
    right = engine.billing.event_factory.runs_of

    def fails_for_one(job, attempt, *rest):
        if attempt.uid == "bad/0/1":
            raise ZeroDivisionError("no such price")
        return right(job, attempt, *rest)

    monkeypatch.setattr(engine.billing.event_factory, "runs_of", fails_for_one)
    story = Story()
    for job in ("a", "bad", "z"):
        story.start(job, 0, 0)
        story.run(job, 0, 0)
    story.wait(2 * HOUR)
    story.end("a", 0, 2 * HOUR + 1)
    story.end("bad", 0, 2 * HOUR + 1)
    events = written(story.log)
    failed = [event for event in events if isinstance(event.data, UsageFailed)]
    assert {(event.subject, event.data.error) for event in failed} == {("bad", "ZeroDivisionError: no such price")}
    assert len(failed) == 1, "once, not at every mark"
    billed = standing(event for event in events if event not in failed)
    assert {job: sum(record.quantity for record in billed if record.job == job) for job in ("a", "bad", "z")} == {
        "a": 2 * HOUR + 1,
        "bad": 0,
        "z": 2 * HOUR,
    }
    monkeypatch.setattr(engine.billing.event_factory, "runs_of", right)
    story.late("bad", 0, 2 * HOUR + 5, rank="node", exit_code=0)
    billed = standing(event for event in written(story.log) if event not in failed)
    assert sum(record.quantity for record in billed if record.job == "bad") == 2 * HOUR + 1


def test_7_skipped_pages_every_attempt_of_many_is_billed_once():
    """More attempts end at one moment than any page, batch or step holds."""
    story = Story()
    count = 700
    for index in range(count):
        story.start("wide", index, 0)
        story.run("wide", index, 0)
    story.wait(HOUR)
    for index in range(count):
        story.end("wide", index, HOUR + 30)
    found = [(record.run.index, record.start) for record in story.records()]
    assert len(found) == len(set(found)) == 2 * count
    assert story.seconds() == count * (HOUR + 30)


def test_8_float_money_no_digit_is_lost_or_made_up():
    story = Story()
    story.prices({"prices": {"gpu_seconds": {"*": "0.1"}, "memory_byte_seconds": {"*": "0.00000000000000000000000000001"}}})
    story.start("j", 0, 0, requests=Requests(gpu=3, memory_bytes=2**53 + 1))
    story.run("j", 0, 0)
    story.end("j", 0, 0.000003)
    assert {record.charge.meter: str(record.amount.normalize()) for record in story.records()} == {
        "gpu_seconds": "9E-7",  # 0.1 * 3 * 0.000003; floats say 9.000000000000001e-07
        "memory_byte_seconds": "2.7021597764222979E-19",
    }


def test_9_overwritten_records_a_correction_leaves_the_original():
    """Of a closed month the file stays as it was, and the next open month has a reversal and what is right."""
    story = Story()
    story.prices({"prices": PRICES})
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    story.end("j", 0, 100, rank="watcher")
    story.close("2026-03", 31 * DAY)
    file = lines_of(story.records(), "2026-03")
    story.late("j", 0, 31 * DAY + 1, rank="node", ended=NOON + 60 * SECOND)
    assert lines_of(story.records(), "2026-03") == file
    assert [
        (record.run.record, record.quantity, record.amount, record.run.period, record.run.month) for record in story.records()
    ] == [
        ("usage", 100, 10, "2026-03", None),
        ("reversal", -100, -10, "2026-04", "2026-03"),
        ("usage", 60, 6, "2026-04", "2026-03"),
    ]


def dies(_shard, _commit):
    raise MemoryError("killed before the commit")


def test_10_crash_between_two_writes_bill_and_progress_are_one_write(monkeypatch):
    """The process ends behind or in any commit; another one goes on without loss or repetition."""
    story = Story()
    for index in range(3):
        story.start("j", index, 0)
        story.run("j", index, 0)
    story.wait(5 * HOUR)
    for index in range(3):
        story.end("j", index, 5 * HOUR + 10)
    log = MemoryLog(clock=lambda: 1 << 60)
    for topic in ("cluster", "job-events"):
        log.append(topic, [record.message for record in story.log.scan([topic])])
    commits = 0
    while True:
        dying = opened(log, batch=1)
        with monkeypatch.context() as killed:
            killed.setattr(MemoryShard, "commit", dies)
            with pytest.raises(MemoryError):
                dying.run_until_quiet()
        alive = opened(log, batch=1)
        if not alive.step() and not alive.fire_due(alive.horizon):
            break
        commits += 1
    assert commits > 10
    billed = standing(written(log))
    assert sum(record.quantity for record in billed) == story.seconds() == 3 * (5 * HOUR + 10)
    assert len({(record.run.index, record.start) for record in billed}) == len(billed)


def test_11_terminal_without_start_costs_nothing_until_a_start_is_known():
    story = Story()
    story.prices({"prices": PRICES})
    story.start("j", 0, 0)
    story.end("j", 0, 500, phase="Failed", reason="StartError")
    assert story.records() == []
    story.late("j", 0, 600, started=NOON + 450 * SECOND)
    assert (story.seconds(), story.amount()) == (50, 5)


# --- the laws by example -----------------------------------------------------------------------------------------------------


def test_law_5_what_is_preempted_at_the_instant_it_is_placed_costs_nothing():
    story = Story()
    story.prices({"prices": PRICES, "billable_from": "bound"})
    story.start("j", 0, 0)
    story.run("j", 0, 10)
    story.end("j", 0, 10, phase="Failed", reason="PreemptedByScheduler")
    assert (story.records(), story.amount()) == ([], 0)


def test_law_8_a_pod_that_never_got_a_node_costs_nothing():
    story = Story()
    story.prices({"prices": PRICES})
    story.start("j", 0, 0)
    story.wait(50 * HOUR)
    story.end("j", 0, 50 * HOUR, phase="Failed", reason="NeverStarted")
    assert story.records() == []


def test_a_pod_that_its_node_rejects_costs_nothing():
    story = Story()
    story.prices({"prices": PRICES, "billable_from": "bound", "minimum_seconds": "60"})
    story.start("j", 0, 0)
    story.say("job-events", AttemptBound("main", 0, 1, node="n1"), "j", 10)
    story.end("j", 0, 20, phase="Failed", reason="RejectedByNode")
    assert (story.records(), story.amount()) == ([], 0)


def test_only_the_waiting_of_a_pod_rejected_by_its_node_may_cost():
    story = Story()
    story.prices({"prices": PRICES, "billable_from": "bound", "bill_queued": True, "minimum_seconds": "60"})
    story.start("j", 0, 0)
    story.say("job-events", AttemptBound("main", 0, 1, node="n1"), "j", 10)
    story.end("j", 0, 20, phase="Failed", reason="RejectedByNode")
    assert (story.seconds(), story.amount()) == (10, 1)


def test_law_9_an_end_before_the_start_is_no_time_at_all():
    story = Story()
    story.start("j", 0, 0)
    story.run("j", 0, 100)
    story.end("j", 0, 40)
    assert story.records() == []


@pytest.mark.parametrize(
    ("zone", "begin", "hours", "months"),
    [
        ("Europe/Berlin", "2026-03-28T22:00:00Z", 24, {"2026-03": 24}),
        ("Europe/Berlin", "2026-03-31T20:00:00Z", 4, {"2026-03": 2, "2026-04": 2}),  # summer time: midnight is at 22:00
        ("Europe/Berlin", "2026-10-31T20:00:00Z", 4, {"2026-10": 3, "2026-11": 1}),  # winter time: at 23:00
        ("America/New_York", "2028-02-28T12:00:00Z", 48, {"2028-02": 41, "2028-03": 7}),  # with the 29th
        ("Asia/Kathmandu", "2026-03-31T18:00:00Z", 1, {"2026-03": Decimal("0.25"), "2026-04": Decimal("0.75")}),
        ("America/Asuncion", "2017-10-01T03:00:00Z", 2, {"2017-09": 1, "2017-10": 1}),  # there is no midnight
        ("America/Havana", "2020-11-01T03:00:00Z", 4, {"2020-10": 1, "2020-11": 3}),  # it comes twice
    ],
)
def test_law_9_months_end_at_midnight_of_the_price_book_for_any_clock(zone, begin, hours, months):
    start = (parse_time(begin) - NOON) / SECOND
    story = Story()
    version = {"prices": PRICES, "from": parse_time("2000-01-01T00:00:00Z")}
    story.prices(version, at=start, time_zone=zone)
    story.start("j", 0, start)
    story.run("j", 0, start)
    story.end("j", 0, start + hours * HOUR)
    found: dict[str, Decimal] = {}
    for record in story.records():
        found[record.run.period] = found.get(record.run.period, 0) + record.quantity / HOUR
    assert found == months
    assert story.seconds() == hours * HOUR


@pytest.mark.parametrize("after", [1, 44 * 60, 3 * HOUR])
def test_law_9_use_up_to_a_mid_hour_month_end_is_on_that_months_invoice(after):
    """It is recorded up to 18:15 UTC before the month is closed, however soon that is."""
    end = 29 * DAY + 6 * HOUR + 15 * 60
    story = Story()
    story.prices({"prices": PRICES}, time_zone="Asia/Kathmandu")
    story.start("j", 0, end - HOUR)
    story.run("j", 0, end - HOUR)
    story.close("2026-03", end + after)
    story.end("j", 0, end + 4 * HOUR)
    found: dict[str, Decimal] = {}
    for record in story.records():
        assert record.run.month is None, "nothing of March is on a later invoice"
        found[record.run.period] = found.get(record.run.period, 0) + record.quantity / HOUR
    assert found == {"2026-03": 1, "2026-04": 4}


@given(st.integers(1, 3599), st.integers(1, 50))
def test_law_9_a_price_change_during_use_is_charged_from_that_moment(change, factor):
    story = Story()
    later = {"prices": {"gpu_seconds": {"*": str(factor)}}, "from": NOON + change * SECOND}
    story.prices({"prices": PRICES}, later)
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    story.end("j", 0, HOUR)
    assert story.amount() == change * Decimal("0.1") + (HOUR - change) * factor
    assert [(record.run.price_version, record.quantity) for record in story.records()] == [("v0", change), ("v1", HOUR - change)]


def test_two_producers_disagree_an_hour_apart_across_a_month_end():
    """What stands at last is what the node says, whenever it is heard; no closed file changes."""
    story = Story()
    begin = 29 * DAY + 11 * HOUR  # 31 March, 23:00
    story.prices({"prices": PRICES}, at=begin)
    story.start("j", 0, begin)
    story.run("j", 0, begin + 600)
    story.end("j", 0, begin + 3 * HOUR + 600, recorded=begin + 2 * HOUR + 600, rank="watcher")  # its clock is an hour ahead
    story.close("2026-03", begin + 5 * HOUR)
    file = lines_of(story.records(), "2026-03")
    story.late("j", 0, begin + 6 * HOUR, rank="scheduler", ended=NOON + (begin + 1200) * SECOND)
    story.late("j", 0, begin + 7 * HOUR, rank="node", ended=NOON + (begin + 2 * HOUR) * SECOND)
    assert story.seconds() == 2 * HOUR - 600
    assert lines_of(story.records(), "2026-03") == file
    assert {record.run.period for record in story.records()} == {"2026-03", "2026-04"}


def test_the_same_event_told_twice_is_billed_once():
    story = Story()
    story.start("j", 0, 0)
    story.run("j", 0, 0)
    resize = AttemptChanged("main", 0, 1, requests=Requests(gpu=2))
    event = Event("again", "test", resize.TYPE, "j", NOON + 50 * SECOND, NOON + 50 * SECOND, 5, "j", "", CLUSTER, resize)
    for told in (event, event, replace(event, recordedtime=NOON + 60 * SECOND)):
        story.log.append("job-events", [encode(told)])
        story.shard.step()
    story.sequences["j"] += 1
    story.end("j", 0, 100)
    assert story.seconds() == 50 + 2 * 50
    shard: Processor = story.shard
    assert shard.accounts.balanced
    assert len(messages(story.log)) == 2


@pytest.mark.parametrize(
    ("reason", "replaceable", "worth"),
    [
        ("StoppedByUser", True, "useful"),  # a user who stops a job had its use
        ("KilledByAction", True, "restarted"),
        ("KilledByAction", False, "useful"),
        ("PreemptedByNotice", True, "preempted"),
        ("AppFailed", True, "failed"),
    ],
)
def test_what_a_use_was_worth_follows_from_its_end(reason, replaceable, worth):
    assert worth_of(End(0, "event", 0, "Failed", reason, inferred=False, replaceable=replaceable)) == worth


def kept_for_fifty_seconds(**rules: str) -> Story:
    """A place is kept for a job, which is bound after 50 s and runs for 10 s until others preempt it."""
    story = Story()
    story.prices({"prices": PRICES, "bill_reserved": True, **rules})
    story.start("j", 0, 0)
    story.say("job-events", JobPhaseChanged("Pending", "Privileged", reserved=NOON + 100 * SECOND), "j", 0)
    story.run("j", 0, 50)
    story.end("j", 0, 60, phase="Failed", reason="PreemptedByScheduler")
    return story


def test_a_place_that_is_kept_does_not_count_towards_the_minimum():
    story = kept_for_fifty_seconds(minimum_seconds="30")
    assert {f"{record.run.kind}/{record.run.record}": record.quantity for record in story.records()} == {
        "reserved/usage": 50,
        "running/usage": 10,
        "running/excess": 20,
    }


def test_a_kept_place_is_charged_and_uses_no_free_preempted_seconds():
    story = kept_for_fifty_seconds(preempted_free_seconds="30")
    assert {record.run.kind: record.amount for record in story.records()} == {"reserved": 5, "running": 0}
