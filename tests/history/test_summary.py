"""The summary of job events."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from statistics import mean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events.attempts import AttemptChanged
from engine.events.jobs import JobRevised
from engine.events.outcomes import RowRejected
from engine.events.times import SECOND
from engine.exact_numbers import distribution, dumps, ratio, seconds
from engine.history.summary import Summary
from statemachines.spec import Requests

NO_TIME = {"n": 0, "mean": None, "median": None, "p99": None, "max": None}


def summary(*stories, **options):
    fold = Summary()
    for story in stories:
        for event in story.events:
            fold.add(event)
    return fold.result(**options)


def test_nothing_is_a_summary_too():
    result = summary()
    assert result["jobs"] == result["attempts"] == result["gpu_seconds"] == 0
    assert result["wait_seconds"] == result["run_seconds"] == NO_TIME
    assert result["peak_gpus"] == {"value": 0, "time": None}
    assert result["by_user"] == result["by_queue"] == result["jobs_by_phase"] == {}


def test_one_gang(whole):
    """Sums are resource times [Running, end), waits are per job."""
    pods = [Requests(gpu=3, cpu_milli=1500), Requests(gpu=1, gpu_share_milli=460)]
    result = summary(whole("a", 10, 5, 20, pods, user="ann", queue="vc"))
    assert (result["jobs"], result["attempts"], result["jobs_by_phase"]) == (1, 2, {"Completed": 1})
    assert (result["attempts_by_phase"], result["attempts_by_reason"]) == ({"Succeeded": 2}, {})
    assert (result["gpu_seconds"], result["gpu_share_seconds"], result["cpu_seconds"]) == (80, Decimal("69.2"), 30)
    assert result["wait_seconds"] == {"n": 1, "mean": 5, "median": 5, "p99": 5, "max": 5}
    assert result["run_seconds"] == {"n": 1, "mean": 20, "median": 20, "p99": 20, "max": 20}
    assert result["peak_gpus"] == {"value": 4, "time": "1970-01-01T00:00:15.000000Z"}
    group = {"jobs": 1, "attempts": 2, "gpu_seconds": 80, "gpu_share_seconds": Decimal("69.2"), "cpu_seconds": 30}
    group |= {"gpu_seconds_so_far": 0, "gpu_share_seconds_so_far": 0, "cpu_seconds_so_far": 0}
    assert result["by_user"] == {"ann": group}
    assert result["by_queue"] == {"vc": group}


def test_attempt_that_never_started_costs_nothing(story):
    told = story()
    told.opened(0)
    told.started(0)
    told.ended(50, phase="Failed", reason="NeverStarted")
    told.job_phase("Terminated", 50)
    result = summary(told)
    assert (result["never_started"], result["attempts_by_reason"], result["gpu_seconds"]) == (1, {"NeverStarted": 1}, 0)
    assert result["wait_seconds"] == result["run_seconds"] == NO_TIME


def test_job_without_end_waits_but_has_no_run_time(story):
    told = story()
    told.opened(0)
    told.started(0)
    told.running(7)
    told.ended(7, phase="Lost", reason="EndUnknown")
    told.job_phase("Terminated", 7, without_end=True)
    result = summary(told)
    assert (result["without_end"], result["run_seconds"], result["wait_seconds"]["max"]) == (1, NO_TIME, 7)


def test_open_attempt_is_counted_and_left_out_of_sums(story):
    told = story()
    told.opened(0, {"main": 2})
    told.started(0, ("main", 0, 1))
    told.running(1, ("main", 0, 1))
    told.started(0, ("main", 1, 1))
    told.running(1, ("main", 1, 1))
    told.ended(3, ("main", 1, 1))
    result = summary(told)
    assert (result["open_attempts"], result["attempts"], result["gpu_seconds"]) == (1, 2, 2)
    assert result["attempts_by_phase"] == {"Running": 1, "Succeeded": 1}
    assert result["peak_gpus"]["value"] == 2
    assert (result["wait_seconds"]["n"], result["run_seconds"]["n"]) == (1, 0)


def test_what_open_attempts_use_so_far_stands_apart(story):
    """Up to the latest time of the log, whichever job it is of; not by requests that came later."""
    told, other = story(), story("b")
    told.opened(0, {"main": 3}, queue="q", user="ann")
    for index in range(2):
        told.started(0, ("main", index, 1), Requests(gpu=4, cpu_milli=500))
        told.running(10, ("main", index, 1))
    told.started(0, ("main", 2, 1), Requests(gpu=100))  # it does not run
    told.ended(15, ("main", 1, 1))
    told.add(AttemptChanged("main", 0, 1, requests=Requests(gpu=1, cpu_milli=500)), 20)
    other.opened(20, queue="q", user="bob")
    other.started(20, ("main", 0, 1), Requests(gpu=2))
    other.running(28)
    other.started(30, ("main", 0, 2), Requests(gpu=100))
    result = summary(told, other)
    assert (result["gpu_seconds"], result["open_attempts"]) == (20, 4)
    assert (result["gpu_seconds_so_far"], result["gpu_share_seconds_so_far"], result["cpu_seconds_so_far"]) == (54, 54, 10)
    groups = {**result["by_queue"], **result["by_user"]}
    assert {name: (group["gpu_seconds"], group["gpu_seconds_so_far"]) for name, group in groups.items()} == {
        "q": (20, 54),
        "ann": (20, 50),
        "bob": (0, 4),
    }
    assert result["so_far_until"] == "1970-01-01T00:00:30.000000Z"


def test_a_clock_that_is_ahead_makes_no_negative_use(story):
    told = story()
    told.opened(0)
    told.started(0)
    told.running(50)
    for event in told.events:
        event.recordedtime = 5 * SECOND
    assert summary(told)["gpu_seconds_so_far"] == 0


def test_failed_attempts_count_and_the_run_ends_with_the_last(story):
    """A job that was restarted: both attempts cost, the run is from the first Running to the last end."""
    told = story()
    told.opened(0)
    told.started(0)
    told.running(10)
    told.ended(15, phase="Failed", reason="OomKilled", exit_code=137)
    told.started(16, ("main", 0, 2))
    told.running(20, ("main", 0, 2))
    told.ended(50, ("main", 0, 2))
    told.job_phase("Completed", 50)
    result = summary(told)
    assert (result["attempts"], result["gpu_seconds"]) == (2, 35)
    assert result["attempts_by_reason"] == {"OomKilled": 1}
    assert (result["wait_seconds"]["max"], result["run_seconds"]["max"]) == (10, 40)


def test_change_of_requests_splits_the_interval(story):
    told = story()
    told.opened(0)
    told.started(0, requests=Requests(gpu=1, cpu_milli=500))
    told.running(0)
    told.add(AttemptChanged("main", 0, 1, requests=Requests(gpu=4, cpu_milli=1000)), 10)
    told.ended(15)
    result = summary(told)
    assert (result["gpu_seconds"], result["cpu_seconds"], result["peak_gpus"]["value"]) == (30, 10, 4)


def test_peak_is_taken_after_all_changes_of_an_instant(whole):
    """One job that ends as another starts never counts as both."""
    one, two = [Requests(gpu=8)], [Requests(gpu=6)]
    result = summary(whole("b", 20, 0, 5, two), whole("a", 10, 0, 10, one), whole("c", 22, 0, 0, [Requests(gpu=99)]))
    assert result["peak_gpus"] == {"value": 8, "time": "1970-01-01T00:00:10.000000Z"}


def test_other_jobs_are_left_out_unless_asked_for(whole, story):
    service = whole("s", 0, 0, 10, [Requests(gpu=1)], kind="Other")
    told = story("r")
    told.opened(0, kind="Other")
    told.add(JobRevised(kind="Job", user="bob"))
    assert summary(service, told)["by_user"].keys() == {"bob"}
    assert summary(service, told, include_other=True)["jobs"] == 2


def test_rejected_rows_are_counted(story):
    told = story("cluster")
    told.add(RowRejected(format="swf", line=3, reason="r"))
    assert (summary(told)["rejected_rows"], summary(told)["jobs"]) == (1, 0)


pods = st.builds(
    Requests,
    gpu=st.integers(0, 9),
    cpu_milli=st.integers(0, 9999),
    gpu_share_milli=st.none() | st.integers(0, 999),
)
jobs = st.tuples(
    st.integers(0, 30), st.integers(0, 10), st.integers(0, 30), st.lists(pods, min_size=1, max_size=3), st.sampled_from("xy")
)


@given(st.lists(jobs, max_size=8), st.randoms())
def test_order_of_jobs_does_not_matter_and_parts_add_up(whole, drawn, random):
    """Any interleaving of jobs gives the same result; the sums by user are the sums of each user's jobs."""
    stories = [whole(str(n), s, w, r, p, user=u) for n, (s, w, r, p, u) in enumerate(drawn)]
    straight = summary(*stories)
    mixed, queues = Summary(), [list(story.events) for story in stories]
    while queues := [queue for queue in queues if queue]:
        mixed.add(random.choice(queues).pop(0))
    assert mixed.result() == straight
    for name in ("gpu_seconds", "gpu_share_seconds", "cpu_seconds", "gpu_seconds_so_far", "jobs", "attempts"):
        assert straight[name] == sum(group[name] for group in straight["by_user"].values())
    for user in straight["by_user"]:
        alone = summary(*[story for story, (*_, name) in zip(stories, drawn, strict=True) if name == user])
        assert alone["by_user"][user] == straight["by_user"][user]
    expected = sum(
        r * (p.gpu * 1000 if p.gpu_share_milli is None else p.gpu_share_milli) for _, _, r, pods, _ in drawn for p in pods
    )
    assert straight["gpu_share_seconds"] == Decimal(expected) / 1000


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(1, 9)), max_size=8))
def test_peak_is_the_most_at_any_instant(whole, drawn):
    result = summary(*[whole(str(n), s, 0, r, [Requests(gpu=g)]) for n, (s, r, g) in enumerate(drawn)])
    used = [sum(g for s, r, g in drawn if s <= t < s + r) for t in range(50)]
    assert result["peak_gpus"]["value"] == max(used)
    if max(used):
        assert result["peak_gpus"]["time"] == f"1970-01-01T00:00:{used.index(max(used)):02d}.000000Z"


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=40))
def test_distribution_is_exact(lengths):
    result = distribution(lengths)
    ordered = sorted(lengths)
    place = Fraction(99 * (len(ordered) - 1), 100)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    assert Fraction(result["p99"]) * SECOND == ordered[low] + (ordered[high] - ordered[low]) * (place - low)
    assert Fraction(result["median"]) * SECOND == median(map(Fraction, ordered))
    assert abs(Fraction(result["mean"]) * SECOND - mean(map(Fraction, ordered))) <= Fraction(1, 2)
    assert result["max"] == Decimal(ordered[-1]) / SECOND


@pytest.mark.parametrize(("micros", "text"), [(0, "0"), (1, "0.000001"), (2_756_749_794_000_000, "2756749794"), (1_500_000, "1.5")])
def test_seconds_are_written_as_numbers_with_all_digits(micros, text):
    assert dumps({"s": seconds(micros)}) == f'{{"s":{text}}}'


def test_json_keeps_every_digit():
    text = dumps({"a": [Decimal("12345678901234567890.123456789"), None, "é", True, 3]})
    assert text == '{"a":[12345678901234567890.123456789,null,"é",true,3]}'
    assert json.loads(text, parse_float=Decimal)["a"][0] == Decimal("12345678901234567890.123456789")


@pytest.mark.parametrize(
    ("total", "count", "mean"), [(3, 2, "0.000002"), (5, 2, "0.000002"), (7, 3, "0.000002"), (8, 3, "0.000003")]
)
def test_mean_is_rounded_half_to_even(total, count, mean):
    assert ratio(total, count) == Decimal(mean)
