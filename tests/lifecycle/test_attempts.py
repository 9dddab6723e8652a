"""What observations of a pod make of its attempt."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lifecycle_driver import REQUESTS, SECOND, START, Driver, pod, vcjob

from engine.events.actions import EffectRequested
from engine.events.attempts import (
    AttemptBound,
    AttemptChanged,
    AttemptEnded,
    AttemptLateFact,
    AttemptObjectChanged,
    AttemptRunning,
    AttemptStarted,
    AttemptTerminating,
)
from engine.events.jobs import JobOpened, TaskPhaseChanged
from engine.events.outcomes import Anomaly
from engine.history.fold import fold
from engine.history.listing import Filter, Listing
from engine.history.summary import Summary
from engine.lifecycle.lost_pods import LOSS_WAIT


@pytest.fixture
def driver():
    return Driver()


def seconds(event):
    return (event.time - START) / SECOND


def phases(events):
    """Phases of attempts that events enter, with their times in seconds after START."""
    names = {AttemptStarted: "Pending", AttemptBound: "Bound", AttemptRunning: "Running", AttemptTerminating: "Terminating"}
    found = []
    for event in events:
        kind = type(event.data)
        if kind in names:
            found.append((names[kind], seconds(event)))
        elif kind is AttemptEnded:
            found.append((event.data.phase, seconds(event)))
    return found


def changes(events):
    """Times, in seconds after START, of what changed besides phases; a pod's identity apart."""
    return [seconds(event) for event in events if isinstance(event.data, AttemptChanged) and event.data.uid is None]


def only(driver, kind):
    (found,) = driver.of(kind)
    return found


# --- phases ---------------------------------------------------------------------------------------------------------------


def test_a_pod_that_is_seen_step_by_step_goes_through_its_phases(driver):
    driver.see(pod("u", "j", 1, "Pending", reason="Queued"))
    driver.see(pod("u", "j", 2, "Bound", node="n", bound=1, reason="Starting"))
    driver.see(pod("u", "j", 3, "Running", node="n", bound=1, running=3))
    driver.see(pod("u", "j", 4, "Terminating", node="n", bound=1, running=3, terminating=9))
    driver.see(pod("u", "j", 5, "Failed", node="n", bound=1, running=3, terminating=9, ended=10, reason="DeletedByApi"))
    assert phases(driver.events) == [("Pending", 0), ("Bound", 1), ("Running", 3), ("Terminating", 9), ("Failed", 10)]
    assert only(driver, AttemptEnded).ran == 7 * SECOND
    assert not only(driver, AttemptBound).inferred


def test_a_run_shown_only_by_the_end_counts_though_deletion_came_first(driver):
    """A node that was silent tells of the container late; a phase is never gone back to, but nothing of a run is lost."""
    driver.see(pod("u", "j", 1, "Bound", node="n", bound=1, reason="Starting"))
    driver.see(pod("u", "j", 2, "Terminating", node="n", bound=1, terminating=5))
    driver.see(pod("u", "j", 3, "Succeeded", node="n", bound=1, running=3, terminating=5, ended=8))
    assert phases(driver.events) == [("Pending", 0), ("Bound", 1), ("Terminating", 5), ("Succeeded", 8)]
    ended = only(driver, AttemptEnded)
    assert (ended.started, ended.ran) == (START + 3 * SECOND, 5 * SECOND)
    driver.crash()
    (attempt,) = driver.job("j").attempts
    assert attempt.running == ended.started
    listing, summary = Listing(), Summary()
    for event in driver.events:
        listing.add(event)
        summary.add(event)
    assert [line.started for line in listing.lines(Filter(other=True))] == [ended.started]
    assert summary.result(include_other=True)["cpu_seconds"] == 5


def test_a_run_shown_only_during_deletion_counts_without_an_end(driver):
    """Its end is never observed."""
    driver.node("n")
    driver.see(pod("u", "j", 1, "Bound", node="n", bound=1, reason="Starting"))
    driver.see(pod("u", "j", 2, "Terminating", node="n", bound=1, terminating=5))
    for version in (3, 4):
        driver.see(pod("u", "j", version, "Terminating", node="n", bound=1, running=3, terminating=5, proof=6))
    assert [change.started for change in driver.of(AttemptChanged)] == [START + 3 * SECOND]
    driver.crash()
    driver.node("n", gone=True)
    driver.wait(LOSS_WAIT / SECOND + 1)
    ended = only(driver, AttemptEnded)
    assert (ended.phase, ended.reason, ended.started) == ("Lost", "NodeLost", START + 3 * SECOND)
    view = fold(driver.events)
    assert view is not None
    assert [attempt.running for attempt in view.attempts.values()] == [ended.started]


@pytest.mark.parametrize("shown", ["Terminating", "Failed"])
def test_a_run_that_shows_late_does_not_begin_before_its_pod_had_a_node(driver, shown):
    """The clock of a node may be behind."""
    driver.see(pod("u", "j", 1, "Bound", node="n", bound=5, reason="Starting"))
    driver.see(pod("u", "j", 2, "Terminating", node="n", bound=5, terminating=8))
    if shown == "Terminating":
        driver.see(pod("u", "j", 3, "Terminating", node="n", bound=5, running=3, terminating=8))
    driver.see(pod("u", "j", 4, "Failed", node="n", bound=5, running=3, terminating=8, ended=10))
    ended = only(driver, AttemptEnded)
    assert (ended.started, ended.ran) == (START + 5 * SECOND, 5 * SECOND)


@pytest.mark.parametrize(
    ("phase", "times", "expected"),
    [
        ("Pending", {}, [("Pending", 0)]),
        ("Bound", {"bound": 1}, [("Pending", 0), ("Bound", 1)]),
        ("Running", {"bound": 1, "running": 2}, [("Pending", 0), ("Bound", 1), ("Running", 2)]),
        ("Running", {"bound": 1}, [("Pending", 0), ("Bound", 1), ("Running", 1)]),
        ("Running", {"running": 2}, [("Pending", 0), ("Bound", 0), ("Running", 2)]),
        (
            "Terminating",
            {"bound": 1, "running": 2, "terminating": 5},
            [("Pending", 0), ("Bound", 1), ("Running", 2), ("Terminating", 5)],
        ),
        ("Terminating", {"bound": 1, "terminating": 5}, [("Pending", 0), ("Bound", 1), ("Terminating", 5)]),
        # all containers had ended before the deletion was asked for
        (
            "Terminating",
            {"bound": 1, "running": 2, "ended": 3, "terminating": 5},
            [("Pending", 0), ("Bound", 1), ("Running", 2), ("Terminating", 5)],
        ),
        ("Succeeded", {"bound": 1, "running": 2, "ended": 4}, [("Pending", 0), ("Bound", 1), ("Running", 2), ("Succeeded", 4)]),
        ("Succeeded", {"bound": 1, "ended": 4}, [("Pending", 0), ("Bound", 1), ("Running", 1), ("Succeeded", 4)]),
        ("Failed", {"bound": 1, "running": 2, "ended": 4}, [("Pending", 0), ("Bound", 1), ("Running", 2), ("Failed", 4)]),
        ("Failed", {"bound": 1, "ended": 4}, [("Pending", 0), ("Bound", 1), ("Failed", 4)]),
        (
            "Failed",
            {"bound": 1, "running": 2, "terminating": 3, "ended": 4},
            [("Pending", 0), ("Bound", 1), ("Running", 2), ("Terminating", 3), ("Failed", 4)],
        ),
        ("Lost", {"bound": 1, "running": 2, "proof": 6}, [("Pending", 0), ("Bound", 1), ("Running", 2), ("Lost", 6)]),
    ],
)
def test_one_observation_reaches_every_phase_with_the_objects_times(driver, phase, times, expected):
    reason = {"Failed": "AppFailed", "Lost": "NodeLost"}.get(phase)
    driver.see(pod("u", "j", 9, phase, node=None if phase == "Pending" else "n", reason=reason, **times), at=100)
    assert phases(driver.events) == expected


def test_a_pod_that_fails_without_a_node_was_never_bound(driver):
    driver.see(pod("u", "j", 9, "Failed", reason="RejectedByNode", ended=4))
    assert phases(driver.events) == [("Pending", 0), ("Failed", 4)]
    assert only(driver, AttemptEnded).ran == 0


def test_the_skipped_phases_that_the_object_does_not_date_are_inferred(driver):
    driver.see(pod("u", "j", 9, "Succeeded", node="n", ended=4))
    assert only(driver, AttemptBound).inferred
    assert only(driver, AttemptRunning).inferred
    assert not only(driver, AttemptEnded).inferred


def test_a_phase_is_never_earlier_than_the_one_before(driver):
    driver.see(pod("u", "j", 9, "Succeeded", node="n", created=10, bound=8, running=12, ended=11))
    assert phases(driver.events) == [("Pending", 10), ("Bound", 10), ("Running", 12), ("Succeeded", 12)]


def test_an_observation_of_an_earlier_phase_changes_reason_and_restarts(driver):
    driver.see(pod("u", "j", 1, "Running", node="n", bound=1, running=2))
    made = driver.see(pod("u", "j", 2, "Bound", node="n", bound=1, reason="CrashLoopBackOff", restarts=2))
    assert [type(event.data) for event in made] == [AttemptChanged]
    attempt = driver.job("j").tasks["main"].slots[0]
    assert (attempt.phase, attempt.reason, attempt.restarts) == ("Running", "CrashLoopBackOff", 2)
    assert driver.see(pod("u", "j", 3, "Bound", node="n", bound=1, restarts=1)) == []
    assert driver.outcome == "unchanged"


def test_containers_restarted_in_place_are_restarts_of_the_same_attempt(driver):
    driver.see(pod("u", "j", 1, "Running", node="n", bound=1, running=2))
    driver.see(pod("u", "j", 2, "Running", node="n", bound=1, running=2, restarts=1, init_restarts=1, reason="CrashLooping"))
    attempt = driver.job("j").tasks["main"].slots[0]
    assert (attempt.number, attempt.restarts, attempt.reason) == (1, 2, "CrashLooping")
    driver.see(pod("u", "j", 3, "Running", node="n", bound=1, running=2, restarts=1, init_restarts=1))
    assert driver.job("j").tasks["main"].slots[0].reason is None


def test_a_resize_and_an_announced_disruption_are_noted_and_withdrawn(driver):
    driver.see(pod("u", "j", 1, "Running", node="n", running=2))
    bigger = replace(REQUESTS, cpu_milli=4000)
    driver.see(pod("u", "j", 2, "Running", node="n", running=2, requests=bigger, disruption="PreemptionByScheduler"))
    attempt = driver.job("j").tasks["main"].slots[0]
    assert (attempt.requests.cpu_milli, attempt.disruption, attempt.phase) == (4000, "PreemptionByScheduler", "Running")
    driver.see(pod("u", "j", 3, "Running", node="n", running=2, requests=bigger))
    assert driver.job("j").tasks["main"].slots[0].disruption is None
    driver.see(pod("u", "j", 4, "Succeeded", node="n", running=2, ended=8, requests=bigger))
    assert only(driver, AttemptEnded).requests == bigger


def test_a_resize_has_the_time_of_the_write_that_shows_it(driver):
    driver.see(pod("u", "j", 1, "Running", node="n", running=2, proof=3, written=3))
    bigger = replace(REQUESTS, cpu_milli=4000)
    assert changes(driver.see(pod("u", "j", 2, "Running", node="n", running=2, proof=3, written=60, requests=bigger))) == [60]


def test_news_and_unwritten_resizes_have_the_objects_latest_time(driver):
    driver.see(pod("u", "j", 1, "Running", node="n", running=2, proof=3, written=3))
    announced = pod("u", "j", 2, "Running", node="n", running=2, proof=4, written=60, disruption="PreemptionByScheduler")
    assert changes(driver.see(announced)) == [4]
    bigger = replace(REQUESTS, cpu_milli=4000)
    assert changes(driver.see(replace(announced, version="3", proof=START + 5 * SECOND, written=None, requests=bigger))) == [5]


def test_an_end_before_the_deletion_that_was_seen_first_is_a_late_fact(driver):
    driver.see(pod("u", "j", 1, "Terminating", node="n", running=2, terminating=60, deleting=True))
    driver.see(pod("u", "j", 2, "Succeeded", node="n", running=2, ended=8, deleting=True))
    assert phases(driver.events)[-2:] == [("Terminating", 60), ("Succeeded", 60)]
    late = only(driver, AttemptLateFact)
    assert (late.phase, late.ended, late.rank) == ("Succeeded", START + 8 * SECOND, "node")
    driver.see(pod("u", "j", 3, "Succeeded", node="n", running=2, ended=8, deleting=True))
    assert driver.outcome == "unchanged"


def test_the_start_records_what_was_waited_for(driver):
    driver.see(pod("u", "j", 1, "Pending", reason="Gated"))
    driver.see(pod("u", "j", 2, "Pending", reason="Unschedulable"))
    assert only(driver, AttemptStarted).reason == "Gated"
    assert only(driver, AttemptChanged).reason == "Unschedulable"


def test_each_attempt_has_the_requests_of_its_own_pod(driver):
    more = replace(REQUESTS, cpu_milli=2000)
    driver.see(pod("a", "j", 1, "Succeeded", index=0, node="n", running=1, ended=2))
    driver.see(pod("b", "j", 1, "Succeeded", index=1, node="n", running=1, ended=2, requests=more))
    assert [ended.requests for ended in driver.of(AttemptEnded)] == [REQUESTS, more]


def test_the_start_of_a_pod_that_is_ready_says_so(driver):
    driver.see(pod("a", "j", 1, "Running", node="n", running=1, ready=True))
    assert only(driver, AttemptRunning).ready


def test_a_node_gives_the_bound_attempt_its_type_and_model(driver):
    driver.node("n", type="a100.8x", gpu_model="A100")
    driver.see(pod("u", "j", 1, "Bound", node="n", bound=1))
    bound = only(driver, AttemptBound)
    assert (bound.node, bound.node_type, bound.gpu_model) == ("n", "a100.8x", "A100")


def test_a_pod_that_changes_its_node_is_an_anomaly_and_nothing_else(driver):
    driver.see(pod("u", "j", 1, "Bound", node="n", bound=1))
    made = driver.see(pod("u", "j", 2, "Running", node="other", bound=1, running=2))
    assert [type(event.data) for event in made] == [Anomaly]
    assert driver.outcome == "anomalous"
    assert driver.job("j").tasks["main"].slots[0].phase == "Bound"
    assert driver.see(pod("u", "j", 2, "Running", node="other", bound=1, running=2)) == []
    assert driver.outcome == "duplicate"


# --- ends without evidence, the last proof of life --------------------------------------------------------------------------


def test_an_end_without_evidence_is_at_the_latest_time_or_last_live_report(driver):
    """The latest time in the object, or the last observation that showed it live."""
    driver.see(pod("u", "j", 1, "Running", node="n", running=2), at=50)
    driver.gone(pod("u", "j", 2, "Lost", reason="EndUnknown", node="n", running=2, proof=7, rank="inferred"), inferred=True, at=99)
    ended = only(driver, AttemptEnded)
    assert phases(driver.events)[-1] == ("Lost", 50)
    assert (ended.reason, ended.rank, ended.inferred) == ("EndUnknown", "inferred", True)


def test_the_arrival_of_the_end_itself_is_no_proof_of_life(driver):
    driver.see(pod("u", "j", 1, "Pending"), at=5)
    driver.see(pod("u", "j", 2, "Failed", reason="EvictedByNode", node="n", bound=3, running=4, proof=20), at=99)
    assert phases(driver.events)[-1] == ("Failed", 20)


def test_a_pod_first_seen_after_its_end_ends_with_its_last_time(driver):
    driver.gone(pod("u", "j", 2, "Failed", reason="DeletedByApi", node="n", running=2, proof=30, rank="watcher"), at=99)
    assert phases(driver.events)[-1] == ("Failed", 30)
    assert only(driver, AttemptEnded).rank == "watcher"


def test_a_node_that_falls_silent_is_no_proof_of_life(driver):
    driver.node("n")
    driver.see(pod("u", "j", 1, "Running", node="n", running=2), at=10)
    driver.wait(40)
    driver.node("n", ready="Unknown")
    driver.wait(40)
    driver.see(pod("u", "j", 2, "Lost", reason="NodeLost", node="n", running=2, proof=5))
    assert phases(driver.events)[-1] == ("Lost", 10)


MONTHS = 9_000_000


@pytest.mark.parametrize(
    ("last", "end"),
    [
        ({"phase": "Lost", "reason": "NodeLost", "disruption": "DeletionByPodGC", "proof": 700}, 700),
        ({"phase": "Failed", "reason": "EvictedByNode", "disruption": "TerminationByKubelet", "proof": 300}, 300),
        ({"phase": "Lost", "reason": "NodeLost", "deadline": 530, "deleting": True, "proof": 500}, 530),
        ({"phase": "Failed", "reason": "DeletedByApi", "deadline": 530, "deleting": True, "proof": 500}, 530),
        (
            {"phase": "Failed", "reason": "EvictedByTaint", "disruption": "DeletionByTaintManager", "deadline": 530, "proof": 501},
            530,
        ),
        ({"phase": "Failed", "reason": "AppFailed", "ended": 400, "proof": 500}, 400),
        ({"phase": "Failed", "reason": "DeletedByApi", "proof": 500}, MONTHS),  # it says nothing of its end
    ],
)
@pytest.mark.parametrize("deleted", [False, True])
def test_what_is_read_months_later_ended_when_its_object_says(driver, last, end, deleted):
    """Two objects of one pod, read one after the other long after both."""
    driver.see(pod("u", "j", 1, "Running", node="n", bound=1, running=2), at=MONTHS)
    if "deadline" in last:
        last = {**last, "deadline": START + last["deadline"] * SECOND}
    seen = pod("u", "j", 2, node="n", bound=1, running=2, **last)
    if deleted:
        driver.gone(seen, at=MONTHS + 1)
    else:
        driver.see(seen, at=MONTHS + 1)
    assert phases(driver.events)[-1] == (last["phase"], end)


def test_a_pod_that_is_seen_live_during_its_grace_period_lived_until_then(driver):
    fields = {"node": "n", "bound": 1, "running": 2, "terminating": 500, "deadline": START + 530 * SECOND, "deleting": True}
    driver.see(pod("u", "j", 1, "Terminating", **fields, proof=500), at=510)
    driver.gone(pod("u", "j", 2, "Failed", reason="DeletedByApi", **fields, proof=500), at=520)
    assert phases(driver.events)[-1] == ("Failed", 510)


def test_a_missed_end_of_a_pod_under_deletion_is_its_grace_periods_end(driver):
    """Its node is gone, or its job, as its object is read months later."""
    driver.node("n")
    fields = {"node": "n", "bound": 1, "running": 2, "terminating": 500, "deadline": START + 530 * SECOND, "deleting": True}
    driver.see(pod("u", "j", 1, "Terminating", **fields, proof=500), at=MONTHS)
    driver.node("n", gone=True)
    driver.wait(LOSS_WAIT / SECOND + 1)
    assert phases(driver.events)[-1] == ("Lost", 530)


# --- late facts -------------------------------------------------------------------------------------------------------------


def closed(driver):
    driver.see(pod("u", "j", 1, "Running", node="n", running=2), at=10)
    driver.gone(pod("u", "j", 2, "Failed", reason="DeletedByApi", node="n", running=2, rank="watcher"), at=20)


def test_an_end_from_a_better_source_is_a_late_fact_with_times_and_rank(driver):
    closed(driver)
    made = driver.see(pod("u", "j", 3, "Failed", reason="OomKilled", exit_code=137, node="n", running=2, ended=15))
    assert driver.outcome == "late"
    (fact,) = driver.of(AttemptLateFact, made)
    assert (fact.phase, fact.reason, fact.exit_code, fact.rank) == ("Failed", "OomKilled", 137, "node")
    assert fact.ended == START + 15 * SECOND
    attempt = driver.job("j").tasks["main"].slots[0]
    assert (attempt.phase, attempt.reason, attempt.ended) == ("Failed", "DeletedByApi", START + 10 * SECOND)
    assert len(driver.of(AttemptEnded)) == 1


def test_another_phase_is_a_late_fact_though_its_reason_is_the_same(driver):
    driver.see(pod("u", "j", 1, "Succeeded", node="n", running=2, ended=9))
    driver.see(pod("u", "j", 2, "Running", node="n", running=2))
    assert (driver.outcome, only(driver, AttemptLateFact).phase) == ("late", "Running")


def test_an_end_at_another_time_is_a_late_fact(driver):
    driver.see(pod("u", "j", 1, "Succeeded", node="n", running=2, ended=10))
    driver.see(pod("u", "j", 2, "Succeeded", node="n", running=2, ended=11))
    assert driver.outcome == "late"


def test_the_same_end_again_is_nothing(driver):
    driver.see(pod("u", "j", 1, "Succeeded", node="n", running=2, ended=10))
    assert driver.see(pod("u", "j", 2, "Succeeded", node="n", running=2, ended=10)) == []
    assert driver.outcome == "unchanged"
    made = driver.gone(pod("u", "j", 3, "Succeeded", node="n", running=2, ended=10))
    assert [(event.data.object, event.data.replaceable) for event in made] == [("gone", False)]


def test_a_late_fact_told_again_is_nothing(driver):
    closed(driver)
    driver.see(pod("u", "j", 3, "Failed", reason="OomKilled", node="n", running=2, ended=15))
    driver.see(pod("u", "j", 4, "Failed", reason="OomKilled", node="n", running=2, ended=15))
    assert driver.outcome == "unchanged"


@pytest.mark.parametrize("phase", ["Pending", "Bound", "Terminating"])
def test_the_live_past_of_a_closed_attempt_is_nothing(driver, phase):
    closed(driver)
    driver.see(pod("u", "j", 3, phase, node="n", terminating=10))
    assert driver.outcome == "unchanged"


def test_when_the_deletion_of_a_closed_attempt_began_is_a_late_fact_once(driver):
    """A pod may be said to have ended before it is said that it was being deleted; its bill is the same."""
    closed(driver)
    driver.see(pod("u", "j", 3, "Terminating", node="n", running=2, terminating=9))
    assert only(driver, AttemptLateFact).terminating == START + 9 * SECOND
    assert driver.see(pod("u", "j", 4, "Terminating", node="n", running=2, terminating=9)) == []


def test_when_a_closed_attempt_began_to_run_is_a_late_fact_once(driver):
    driver.see(pod("u", "j", 1, "Failed", node="n", ended=10))
    driver.see(pod("u", "j", 2, "Failed", node="n", running=2, ended=10))
    assert only(driver, AttemptLateFact).started == START + 2 * SECOND
    assert driver.see(pod("u", "j", 3, "Failed", node="n", running=2, ended=10)) == []


def test_a_lost_attempt_that_shows_itself_again_is_a_late_fact(driver):
    driver.see(pod("u", "j", 1, "Running", node="n", running=2))
    driver.gone(pod("u", "j", 2, "Lost", reason="EndUnknown", node="n", running=2), inferred=True)
    driver.see(pod("u", "j", 3, "Running", node="n", running=2))
    assert driver.outcome == "late"


def test_two_contradicting_producers_give_one_end_in_any_order():
    watcher = pod("u", "j", None, "Failed", reason="DeletedByApi", node="n", running=2, ended=9, rank="watcher")
    kubelet = pod("u", "j", None, "Succeeded", node="n", running=2, ended=8)
    for order in ([watcher, kubelet], [kubelet, watcher]):
        driver = Driver()
        for end in order:
            driver.see(end)
        assert len(driver.of(AttemptEnded)) == 1
        assert len(driver.of(AttemptLateFact)) == 1
        told = {(end.rank, end.phase) for end in driver.of(AttemptEnded)}
        told |= {(end.rank, end.phase) for end in driver.of(AttemptLateFact)}
        assert told == {("watcher", "Failed"), ("node", "Succeeded")}


# --- duplicates and order ---------------------------------------------------------------------------------------------------


def test_an_observation_that_is_not_newer_is_a_duplicate(driver):
    driver.see(pod("u", "j", 10, "Running", node="n", running=2))
    for version in (10, 9, 2):
        assert driver.see(pod("u", "j", version, "Succeeded", node="n", running=2, ended=3), key=f"k{version}") == []
        assert driver.outcome == "duplicate"
    driver.see(pod("u", "j", 11, "Succeeded", node="n", running=2, ended=3))
    assert driver.outcome == "applied"


def test_versions_are_compared_as_numbers_never_as_text(driver):
    driver.see(pod("u", "j", 9, "Pending"))
    driver.see(pod("u", "j", 10, "Running", node="n", running=2))
    assert driver.outcome == "applied"


def test_versions_that_are_no_numbers_are_only_equal_or_not(driver):
    driver.see(replace(pod("u", "j", 1, "Pending"), version="b"))
    driver.see(replace(pod("u", "j", 1, "Bound", node="n", bound=1), version="a"))
    assert driver.outcome == "applied"
    driver.see(replace(pod("u", "j", 1, "Bound", node="n", bound=1), version="a"))
    assert driver.outcome == "duplicate"


def test_an_observation_without_a_version_is_known_by_its_id(driver):
    driver.see(pod("u", "j", None, "Running", node="n", running=2), key="row-1")
    driver.see(pod("u", "j", None, "Running", node="n", running=2), key="row-1")
    assert driver.outcome == "duplicate"


def test_a_repeated_observation_without_a_version_is_a_duplicate(driver):
    """Whatever the first one led to."""
    ended = {"node": "n", "running": 2, "ended": 9}
    for key, seen in {
        "first": pod("u", "j", None, "Pending"),
        "end": pod("u", "j", None, "Succeeded", **ended),
        "late": pod("u", "j", None, "Failed", reason="AppFailed", **ended),
    }.items():
        for outcome in ("late" if key == "late" else "applied", "duplicate"):
            driver.see(seen, key=key)
            assert driver.outcome == outcome


def test_ids_that_begin_alike_are_different_ids(driver):
    driver.see(pod("u", "j", None, "Running", node="n", running=2), key="training-20260101-row-1")
    driver.see(pod("u", "j", None, "Succeeded", node="n", running=2, ended=9), key="training-20260101-row-2")
    assert driver.outcome == "applied"


def test_a_deletion_is_newer_than_the_observation_of_the_same_version(driver):
    driver.see(pod("u", "j", 10, "Running", node="n", running=2), at=5)
    driver.gone(pod("u", "j", 10, "Lost", reason="EndUnknown", node="n", running=2), inferred=True)
    assert driver.outcome == "applied"
    driver.see(pod("u", "j", 10, "Running", node="n", running=2), key="again")
    assert driver.outcome == "duplicate"
    driver.see(pod("u", "j", 8, "Running", node="n", running=2))
    assert driver.outcome == "duplicate"


def test_deletion_of_a_pod_last_seen_alive_is_an_end_of_unknown_kind(driver):
    driver.gone(pod("u", "j", 10, "Running", node="n", running=2))
    assert (only(driver, AttemptEnded).phase, only(driver, AttemptEnded).reason) == ("Lost", "EndUnknown")


def test_a_deletion_that_is_told_twice_is_a_duplicate(driver):
    last = pod("u", "j", 10, "Failed", reason="DeletedByApi", node="n", running=2)
    driver.gone(last)
    driver.gone(last)
    assert driver.outcome == "duplicate"


def test_an_object_that_is_gone_is_gone_once(driver):
    driver.submit(vcjob({"name": "w", "replicas": 2}))
    driver.run("w")
    last = driver.replica("w", 0, phase="Succeeded", node="n0", running=0, ended=1)
    driver.gone(last)
    assert driver.gone(replace(last, version="999")) == []
    assert driver.outcome == "unchanged"
    another = replace(last, uid="another", phase="Running", attempt=None, ended=None)
    made = driver.see(another)
    assert driver.of(AttemptStarted, made)
    assert driver.of(AttemptObjectChanged, made) == []
    driver.see(replace(another, version="1000", phase="Terminating", terminating=START, deleting=True))
    assert [timer.kind for timer in driver.job().timers.values()] == ["lost"]


# --- which replica a pod is -------------------------------------------------------------------------------------------------


def started(driver):
    return [(one.task, one.index, one.attempt, one.slot) for one in driver.of(AttemptStarted)]


def test_a_pod_that_names_its_slot_is_that_replica(driver):
    driver.see(pod("a", "j", 1, "Running", task="worker", index=3, node="n", running=1))
    assert started(driver) == [("worker", 3, 1, "given")]


def test_a_second_pod_of_a_slot_is_the_next_attempt(driver):
    driver.see(pod("a", "j", 1, "Failed", reason="AppFailed", task="worker", index=3, ended=1))
    driver.see(pod("b", "j", 2, "Pending", task="worker", index=3))
    assert started(driver) == [("worker", 3, 1, "given"), ("worker", 3, 2, "given")]
    assert [attempt.phase for attempt in driver.job("j").attempts] == ["Failed", "Pending"]


def test_a_pod_without_a_slot_takes_the_lowest_that_failed_or_a_new_one(driver):
    for uid in "abc":
        driver.see(pod(uid, "j", 1, "Running", node="n", running=1))
    driver.see(pod("c", "j", 2, "Failed", reason="AppFailed", ended=5))
    driver.see(pod("b", "j", 3, "Failed", reason="AppFailed", ended=6))
    driver.see(pod("a", "j", 4, "Succeeded", node="n", ended=6))
    for uid in "def":
        driver.see(pod(uid, "j", 5, "Pending"))
    assert started(driver) == [
        ("main", 0, 1, "new"),
        ("main", 1, 1, "new"),
        ("main", 2, 1, "new"),
        ("main", 1, 2, "reused"),
        ("main", 2, 2, "reused"),
        ("main", 3, 1, "new"),
    ]


def test_a_pod_without_a_slot_comes_after_the_highest_slot_that_was_named(driver):
    driver.see(pod("a", "j", 1, "Pending", index=7))
    driver.see(pod("b", "j", 2, "Pending"))
    driver.crash()
    driver.see(pod("c", "j", 3, "Pending"))
    assert [slot[1] for slot in started(driver)] == [7, 8, 9]


def test_an_end_of_an_older_attempt_leaves_the_newer_one_alone(driver):
    driver.see(pod("a", "j", 1, "Running", index=0, node="n", running=1))
    driver.see(pod("b", "j", 2, "Running", index=0, node="m", running=2))
    driver.see(pod("a", "j", 3, "Failed", reason="NodeLost", index=0, node="n", running=1, ended=5))
    job = driver.job("j")
    assert [attempt.phase for attempt in job.attempts] == ["Lost", "Running"]  # its end was missed, and is told late
    assert [late.reason for late in driver.of(AttemptLateFact)] == ["NodeLost"]
    assert (job.counts.running, job.live) == (1, 1)


# --- managed pods -----------------------------------------------------------------------------------------------------------


def test_the_pod_of_a_wanted_attempt_is_that_attempt(driver):
    driver.submit(vcjob({"name": "w", "replicas": 2}))
    driver.run("w", 1)
    assert [(attempt.index, attempt.number, attempt.uid) for attempt in driver.job().attempts] == [
        (0, 1, None),
        (1, 1, "j1-w-1-1"),
    ]


def test_what_admission_made_of_the_requests_of_a_pod_is_no_resize(driver):
    """The pod is first seen long after it began to run; somebody has written to it since."""
    driver.submit(vcjob({"name": "w"}))
    made = driver.replica("w", phase="Running", node="n", running=1)
    more = replace(REQUESTS, cpu_milli=2000)
    assert changes(driver.see(replace(made, requests=more, written=START + 900 * SECOND))) == [1]


def test_a_pod_of_an_abandoned_attempt_is_not_taken_for_the_next(driver):
    driver.submit(vcjob({"name": "w"}))
    stale = driver.replica("w", phase="Running", node="n", running=1)
    driver.command("RestartJob")
    driver.wait(60)  # its pod has not been seen
    assert [attempt.reason for attempt in driver.job().attempts] == ["NeverStarted", "Queued"]
    made = driver.see(stale)
    assert driver.outcome == "late"
    assert driver.asked("delete_pod", made) == [("w", 0, 1)]  # it holds the name that the next one needs
    assert driver.job().tasks["w"].slots[0].uid is None
    driver.run("w")
    assert driver.job().tasks["w"].slots[0].phase == "Running"
    driver.see(replace(stale, version="999"))
    assert len(driver.job().attempts) == 2


def test_a_pod_made_despite_a_failure_is_deleted_with_its_attempt(driver):
    driver.submit(vcjob({"name": "w"}, maxRetry=9))
    stale = driver.replica("w", phase="Running", node="n", running=1)
    driver.report(driver.job().attempts[0].effect, "failed", reason="Conflict")
    driver.command("RestartJob")
    assert [attempt.reason for attempt in driver.job().attempts] == ["NeverStarted", "Queued"]
    assert driver.asked("delete_pod", driver.see(stale)) == [("w", 0, 1)]


def test_a_pod_first_seen_when_its_attempt_is_closed_is_known_again(driver):
    driver.submit(vcjob({"name": "w"}))
    stale = replace(driver.replica("w", phase="Running", node="n", running=1), attempt=None)
    driver.command("AbortJob")
    driver.wait(60)
    driver.see(stale)
    assert driver.outcome == "late"
    driver.crash()
    driver.command("ResumeJob")
    driver.see(stale)
    assert driver.outcome == "duplicate"
    driver.reap()
    assert [attempt.uid for attempt in driver.job().attempts] == [stale.uid, None]


def test_a_managed_pod_of_an_unknown_task_is_an_anomaly(driver):
    driver.submit(vcjob({"name": "w"}))
    driver.see(pod("x", "j1", 5, "Running", task="ghost", index=0, managed=True, node="n", running=1))
    assert driver.outcome == "anomalous"
    assert "ghost" not in driver.job().tasks


# --- our own doing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "cause"),
    [
        ("AbortJob", "StoppedByUser"),
        ("TerminateJob", "StoppedByUser"),
        ("CompleteJob", "StoppedByUser"),
        ("RestartJob", "KilledByAction"),
    ],
)
@pytest.mark.parametrize("seen", [("Failed", "KilledBySignal"), ("Failed", "DeletedByApi"), ("Lost", "EndUnknown")])
def test_a_deletion_that_we_asked_for_is_the_cause_of_the_end(driver, action, cause, seen):
    driver.submit(vcjob({"name": "w"}))
    driver.run("w")
    driver.wait(10)
    driver.command(action)
    phase, reason = seen
    driver.see(driver.replica("w", phase="Terminating", node="n0", terminating=10))
    made = driver.see(driver.replica("w", phase=phase, reason=reason, node="n0", ended=12))
    (ended,) = driver.of(AttemptEnded, made)
    assert (ended.phase, ended.reason) == ("Failed", cause)
    assert [one.reason for one in driver.of(AttemptTerminating)] == [cause]
    driver.see(driver.replica("w", phase=phase, reason=reason, node="n0", ended=12)) if action != "RestartJob" else None
    assert driver.of(AttemptLateFact) == []


def test_a_pod_that_succeeded_all_the_same_has_succeeded(driver):
    driver.submit(vcjob({"name": "w"}))
    driver.run("w")
    driver.command("AbortJob")
    driver.end("w")
    assert only(driver, AttemptEnded).phase == "Succeeded"


@pytest.mark.parametrize(("ended", "reason"), [(30, "OomKilled"), (59, "OomKilled"), (60, "StoppedByUser")])
def test_an_end_before_the_deletion_was_asked_for_keeps_its_own_cause(driver, ended, reason):
    """An object says whole seconds: one in which the deletion was asked for may be that of the deletion."""
    driver.submit(vcjob({"name": "w"}))
    driver.run("w")
    driver.wait(60)
    driver.command("AbortJob")
    driver.see(driver.replica("w", phase="Failed", reason="OomKilled", node="n0", ended=ended))
    assert only(driver, AttemptEnded).reason == reason
    assert driver.phase() == "Aborting"
    driver.reap()
    assert driver.phase() == "Aborted"


def test_a_job_that_is_deleted_stops_its_pods_for_the_user(driver):
    driver.submit(vcjob({"name": "w"}))
    driver.run("w")
    driver.delete()
    driver.reap()
    assert only(driver, AttemptEnded).reason == "StoppedByUser"
    assert driver.phase() == "Terminated"


# --- nodes ------------------------------------------------------------------------------------------------------------------


def test_a_silent_node_makes_its_attempts_suspect_until_it_speaks(driver):
    driver.node("n", version="1")
    driver.see(pod("a", "j", 1, "Running", node="n", running=2))
    driver.see(pod("b", "k", 1, "Bound", node="n", bound=2, reason="Starting"))
    driver.see(pod("c", "k", 1, "Running", node="other", running=2))
    driver.node("n", ready="Unknown", version="2")
    assert [driver.job(job).attempts[0].reason for job in "jk"] == ["Suspect", "Suspect"]
    assert driver.job("k").attempts[1].reason is None
    driver.see(pod("a", "j", 2, "Running", node="n", running=2, restarts=1))
    assert driver.job("j").attempts[0].reason == "Suspect"
    driver.node("n", ready="False", version="3")
    assert [driver.job(job).attempts[0].reason for job in "jk"] == [None, "Starting"]


def test_a_node_fact_that_is_older_than_the_last_one_changes_nothing(driver):
    driver.see(pod("a", "j", 1, "Running", node="n", running=2))
    driver.node("n", ready="True", version="10")
    driver.node("n", ready="Unknown", version="9")
    assert driver.outcome == "duplicate"
    assert driver.job("j").attempts[0].reason is None
    assert driver.state.facts.nodes["c1", "n"].ready == "True"


def test_a_pod_on_a_silent_node_is_suspect_from_the_start(driver):
    driver.node("n", ready="Unknown")
    driver.see(pod("a", "j", 1, "Running", node="n", running=2))
    assert only(driver, AttemptRunning).reason == "Suspect"


@pytest.mark.parametrize(
    ("node", "end"),
    [
        ({"ready": "True"}, ("Failed", "EvictedByTaint")),
        ({"ready": "True", "unreachable": True}, ("Lost", "NodeLost")),
        ({"ready": "Unknown"}, ("Lost", "NodeLost")),
        (None, ("Failed", "EvictedByTaint")),
    ],
)
def test_an_eviction_by_taint_is_a_lost_node_if_the_node_was_unreachable(driver, node, end):
    if node is not None:
        driver.node("n", **node)
    driver.see(pod("a", "j", 1, "Failed", reason="EvictedByTaint", node="n", running=2, ended=9))
    ended = only(driver, AttemptEnded)
    assert (ended.phase, ended.reason) == end
    (gone,) = driver.gone(pod("a", "j", 2, "Failed", reason="EvictedByTaint", node="n", running=2, ended=9))
    assert gone.data.object == "gone"


def test_a_pod_under_deletion_on_an_unreachable_node_announces_node_lost(driver):
    driver.see(pod("a", "j", 1, "Running", node="n", running=2))
    driver.node("n", ready="Unknown", unreachable=True)
    driver.see(pod("a", "j", 2, "Terminating", reason="EvictedByTaint", node="n", running=2, terminating=9))
    assert only(driver, AttemptTerminating).reason == "NodeLost"


# --- what is observed of an unknown job ---------------------------------------------------------------------------------------


def test_a_first_pod_opens_an_observed_job_with_all_its_events_at_once(driver):
    made = driver.see(pod("u", "j", 3, "Running", kind="Job", owner="train", node="n", bound=1, running=2, task="w", index=0))
    assert [type(event.data) for event in made] == [
        JobOpened,
        AttemptStarted,
        AttemptBound,
        AttemptRunning,
        TaskPhaseChanged,
        type(made[-1].data),
    ]
    opened = made[0].data
    assert (opened.kind, opened.name, opened.managed, opened.tenant) == ("Job", "train", False, "default")
    assert driver.path("j") == ["Running"]


def test_a_pod_that_claims_a_past_attempt_of_another_pod_is_an_anomaly(driver):
    driver.submit(vcjob({"name": "w"}))
    driver.run("w")
    driver.see(driver.replica("w", phase="Failed", reason="EvictedByApi", node="n0", ended=1))
    driver.see(pod("x", "j1", 1, "Running", task="w", index=0, attempt=1, managed=True, node="n", running=1))
    assert driver.outcome == "anomalous"
    asked = driver.of(EffectRequested)[-1]
    assert (asked.uid, asked.task, asked.index) == ("x", "w", 0)
    assert driver.job().tasks["w"].slots[0].number == 1


def test_a_pod_beyond_the_replicas_is_deleted(driver):
    driver.submit(vcjob({"name": "w"}))
    made = driver.see(pod("x", "j1", 1, "Running", task="w", index=4, managed=True, node="n", running=1))
    assert driver.asked("delete_pod", made) == [("w", 4, 1)]
