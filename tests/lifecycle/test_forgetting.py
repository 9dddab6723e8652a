"""Whatever is no longer under way is forgotten in time, and what stays of it is bounded."""

from __future__ import annotations

import pytest
from lifecycle_driver import SECOND, Driver, pod, records, spoil, vcjob
from workload import lives

from engine.events import encode
from engine.events.inputs import EffectReported, JobObserved, RowUnreadable
from engine.events.jobs import JobForgotten
from engine.lifecycle import indexes
from engine.lifecycle.forgotten_ids import PER_CHUNK, Forgotten
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.processor.processor import Processor
from engine.processor.snapshots import state_hash

DAY = 86_400


@pytest.fixture
def driver():
    return Driver()


def refused(driver, job="j1"):
    driver.command("AbortJob", job)
    assert driver.outcome == "refused"


def rejected(driver):
    driver.submit(vcjob({"name": "w", "minAvailable": 9}))
    assert driver.outcome == "rejected"


def unreadable(driver):
    driver.take(driver.event(RowUnreadable("philly-status", 3, "no time"), "j1"))
    assert driver.outcome == "rejected"


def reported(driver):
    driver.take(driver.event(EffectReported("e", "done"), "j1"))
    assert driver.outcome == "applied"


def finished(driver, replicas=1):
    driver.submit(vcjob({"name": "w", "replicas": replicas}))
    driver.run("w")
    driver.end("w")
    assert driver.phase() == "Completed"


def finished_with_pages(driver):
    finished(driver, 70)


def aborted(driver):
    driver.submit(vcjob({"name": "w"}))
    driver.command("AbortJob")
    driver.wait(DAY)
    assert driver.phase() == "Aborted"


def claimed(driver):
    driver.see(pod("u", "j1", 1, "Running", namespace="theirs", node="n", running=1))
    driver.submit(vcjob({"name": "w"}))
    (own,) = driver.state.submitted["j1"]
    driver.command("TerminateJob")
    driver.reap(own)
    driver.wait(DAY)


@pytest.mark.parametrize("tell", [refused, rejected, unreadable, reported, finished, finished_with_pages, aborted, claimed])
def test_a_record_that_cannot_be_read_is_forgotten_as_one_that_can(tell):
    """By a shard that starts with it."""
    read, unread = Driver(checked=False), Driver(checked=False)
    for driver in (read, unread):
        tell(driver)
        driver.crash()
    assert unread.state.closed
    spoil(unread.state)
    unread.crash()
    assert unread.wait(366 * DAY) == read.wait(366 * DAY)
    assert unread.of(JobForgotten) != []
    assert (records(unread.state), unread.state.submitted) == (records(read.state), {})
    assert set(unread.state.touched) == set(read.state.touched)


@pytest.mark.parametrize("tell", [refused, rejected, unreadable, reported])
@pytest.mark.parametrize("crashed", [False, True])
def test_an_id_that_is_no_job_is_forgotten_in_time(driver, tell, crashed):
    tell(driver)
    if crashed:
        driver.crash()
    driver.wait(30 * DAY - 1)
    assert driver.of(JobForgotten) == []
    driver.wait(1)
    (forgotten,) = driver.of(JobForgotten)
    assert not forgotten.opened
    assert list(driver.stage.records(driver.state)) == ["forgotten/0"]


def test_what_failed_twice_to_be_forgotten_is_tried_again(driver):
    """It has no timer that could be given up: while it is there it is due."""
    refused(driver)
    driver.now = driver.stage.due(driver.state)
    made, _ = driver.drain(driver.stage.drop(driver.state, driver.now, "ValueError: broken"))
    driver.check()
    assert [type(event.data) for event in made] == [JobForgotten]
    assert driver.stage.due(driver.state) is None


def test_a_job_may_come_under_an_id_that_was_forgotten_as_none(driver):
    """A rejected manifest that is mended after months is a job; the sequence of its events goes on."""
    rejected(driver)
    last = driver.wait(31 * DAY)[-1].sequence
    driver.crash()
    made = driver.submit(vcjob({"name": "w"}))
    assert driver.outcome == "applied"
    assert made[0].sequence == last + 1
    driver.run("w")
    driver.end("w")
    driver.wait(31 * DAY)
    driver.crash()
    driver.submit(vcjob({"name": "w"}))
    assert driver.outcome == "late"


def test_an_aborted_job_is_kept_for_a_year_and_can_be_resumed(driver):
    driver.submit(vcjob({"name": "w"}))
    driver.command("AbortJob")
    driver.wait(2 * DAY)
    assert driver.phase() == "Aborted"
    driver.crash()
    driver.wait(360 * DAY)
    driver.command("ResumeJob")
    assert driver.outcome == "applied"
    driver.wait(DAY)
    driver.command("AbortJob")
    driver.wait(364 * DAY)
    assert driver.of(JobForgotten) == []
    driver.wait(2 * DAY)
    (forgotten,) = driver.of(JobForgotten)
    assert forgotten.opened
    driver.command("ResumeJob")
    assert driver.outcome == "late"


def test_ids_that_are_no_job_are_bounded_in_number(driver):
    """The oldest go first, whatever their names; a job is none of them."""
    driver = Driver(LifecycleStage(unknown_ids=3))
    driver.submit(vcjob({"name": "w"}), "a-job")
    driver.submit(vcjob({"name": "w"}), "aborted")
    driver.report(driver.job("aborted").attempts[0].effect, "failed", reason="Conflict", job="aborted")
    driver.command("AbortJob", "aborted")
    assert driver.phase("aborted") == "Aborted"
    for number in (5, 1, 4, 2, 3):
        driver.wait(1)
        refused(driver, f"x{number}")
    driver.crash()
    driver.wait(1)
    gone = [event.subject for event in driver.events if isinstance(event.data, JobForgotten)]
    assert gone == ["x5", "x1"]
    assert sorted(driver.state.unknown_ids) == ["x2", "x3", "x4"]
    driver.submit(vcjob({"name": "w"}), "x2")
    assert driver.outcome == "applied"
    assert sorted(driver.state.unknown_ids) == ["x3", "x4"]


def test_a_dozen_ids_of_no_job_are_kept_unless_configured_otherwise(driver):
    for number in range(12):
        refused(driver, f"x{number}")
    driver.wait(DAY)
    assert driver.of(JobForgotten) == []


def test_ids_go_in_order_though_many_have_come_again(driver):
    driver = Driver(checked=False)
    names = [f"x{number}" for number in range(40)]
    for ident in ["oldest", *names, *names, *names, *names[:26]]:  # so many that what no longer holds is dropped
        driver.wait(1)
        refused(driver, ident)
    driver.wait(31 * DAY)
    gone = [event.subject for event in driver.events if isinstance(event.data, JobForgotten)]
    assert gone == ["oldest", *names[26:], *names[:26]]


def test_a_finished_job_of_a_trace_is_kept_until_its_pods_have_ended(driver):
    driver.see(pod("u", "j1", 1, "Running", kind="Trace", node="n", running=1))
    driver.owner(JobObserved("train", "Trace", version="2", phase="Completed"))
    driver.wait(60 * DAY)
    assert driver.of(JobForgotten) == []
    driver.see(pod("u", "j1", 2, "Succeeded", kind="Trace", node="n", running=1, ended=9))
    driver.wait(60 * DAY)
    assert len(driver.of(JobForgotten)) == 1


@pytest.mark.parametrize("opened", [False, True])
def test_the_inputs_that_a_job_remembers_are_bounded_to_the_last_ones(monkeypatch, opened):
    monkeypatch.setattr(indexes, "SEEN", 300)
    driver = Driver(checked=False)
    if opened:
        driver.submit(vcjob({"name": "w"}))
    for number in range(1000):
        driver.command("ResumeJob", key=f"command-{number}")
        if number == 500:
            driver.crash()
    driver.checked = True
    driver.check()
    assert len(driver.job().seen) <= 300
    for number in range(850, 1000):
        driver.command("ResumeJob", key=f"command-{number}")
        assert driver.outcome == "duplicate"


def test_inputs_about_an_id_of_no_job_leave_only_the_last_time():
    driver = Driver(checked=False)
    for ident in ("oldest", "j1"):
        driver.see(pod("u" + ident, ident, 1, "Succeeded", node="n", running=0, ended=5))
    refused(driver, "older")
    for _ in range(500):
        driver.wait(1)
        refused(driver, "x")
    assert max(len(driver.state.finished), len(driver.state.oldest_unknown_ids)) < 100
    driver.wait(30 * DAY - 1)
    assert "x" in driver.state.unknown_ids
    driver.wait(1)
    assert len(driver.of(JobForgotten)) == 4


def test_a_forgotten_id_is_found_among_many():
    forgotten = Forgotten()
    for number in range(3 * PER_CHUNK):
        assert forgotten.add(f"job-{number}", number % 2 * number) == number // PER_CHUNK
    assert forgotten.add("job-7", 7) is None
    assert all((f"job-{number}" in forgotten) == (number % 2 == 0) for number in range(3 * PER_CHUNK))
    assert (forgotten.sequence("job-9"), forgotten.sequence("job-8"), forgotten.sequence("never")) == (9, 0, 0)
    assert all(forgotten.sequence(f"job-{number}") == number for number in range(1, 3 * PER_CHUNK, 2))
    assert forgotten.add("job-9", 0) is not None
    assert "job-9" in forgotten
    read = Forgotten()
    for number in forgotten.chunks():
        read.load(forgotten.chunk(number))
    assert len(read) == len(forgotten) == 3 * PER_CHUNK + 1
    assert "job-9" in read


def kept(years: int, jobs: int) -> tuple[int, int, int]:
    """Live through some years of a cluster with so many jobs a month; return what stays: records, jobs, bytes beside ids."""
    stage, log = LifecycleStage(), MemoryLog()
    processor = Processor(log, stage)
    processor.open()
    driver = Driver(checked=False)
    begin = 1_000_000_000 * SECOND
    for month in range(12 * years):
        at = begin + month * 30 * DAY * SECOND
        log.append("pods", list(lives(range(month * jobs, (month + 1) * jobs), 2, at)))
        for number in range(3):
            data = RowUnreadable("philly-status", number, "no time")
            log.append(
                "jobs", [encode(driver.event(data, f"row-{month}-{number}", f"r{month}-{number}", at=(at - begin) // SECOND))]
            )
        processor.run_until_quiet()
    stored = log.shards[processor.shard].snapshot
    again = Processor(log, stage)
    again.open()
    assert state_hash(stage, again.state) == state_hash(stage, processor.state)
    state = processor.state
    size = sum(len(record) for name, record in stored.items() if not name.startswith("forgotten/"))
    return len(stored), len(state.jobs) + len(state.closed) + len(state.warm), size


def test_what_is_kept_after_years_is_what_is_kept_after_months():
    """But for 20 bytes of each job."""
    (few, held, size), (many, still_held, later_size) = kept(1, 20), kept(3, 20)
    assert many <= few + 3
    assert still_held <= held + 60
    assert later_size < 1.1 * size


def test_a_late_pod_of_a_forgotten_job_stays_late(driver):
    driver.see(pod("u", "j1", 1, "Succeeded", node="n", running=1, ended=2))
    driver.wait(31 * DAY)
    driver.see(pod("u", "j1", 2, "Succeeded", node="n", running=1, ended=2))
    assert driver.outcome == "late"
