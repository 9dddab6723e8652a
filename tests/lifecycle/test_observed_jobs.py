"""Jobs that somebody else controls: their phase follows the owner, else their attempts; nothing is asked of anybody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from lifecycle_driver import SECOND, START, Driver, pod

from engine.events.actions import EffectRequested, TimerSet
from engine.events.attempts import AttemptChanged
from engine.events.inputs import JobObserved, NodeObserved
from engine.events.jobs import JobObjectDeleted, JobOpened, JobPhaseChanged, JobRevised
from engine.events.outcomes import Anomaly


@pytest.fixture
def driver():
    return Driver()


def job(version=None, phase=None, **fields):
    return JobObserved("train", "Job", version=None if version is None else str(version), phase=phase, created=START, **fields)


def running(uid, version=1, **fields):
    return pod(uid, "j1", version, "Running", kind="Job", owner="train", node="n", bound=1, running=2, **fields)


def ended(uid, version=2, *, phase="Succeeded", reason=None, at=9, **fields):
    return pod(
        uid, "j1", version, phase, kind="Job", owner="train", node="n", bound=1, running=2, ended=at, reason=reason, **fields
    )


# --- from attempts alone ------------------------------------------------------------------------------------------------------


def test_without_an_owner_the_phase_is_what_the_attempts_show(driver):
    driver.see(pod("a", "j1", 1, "Pending"))
    assert driver.phase() == "Pending"
    driver.see(running("a", 2))
    driver.see(ended("a", 3))
    assert driver.path() == ["Running", "Completed"]
    assert [change.inferred for change in driver.of(JobPhaseChanged)] == [False, True]


def test_one_bad_end_is_an_inferred_failure(driver):
    driver.see(running("a"))
    driver.see(running("b"))
    driver.see(ended("a"))
    assert driver.phase() == "Running"
    driver.see(ended("b", phase="Failed", reason="AppFailed"))
    assert driver.phase() == "Failed"
    assert driver.job().inferred


def test_an_inferred_end_is_taken_back_by_a_new_attempt(driver):
    driver.see(ended("a", phase="Failed", reason="AppFailed"))
    assert driver.phase() == "Failed"
    driver.see(pod("b", "j1", 3, "Pending"))
    assert driver.phase() == "Pending"
    assert driver.job().finished is None
    driver.see(running("b", 4))
    driver.see(ended("b", 5, at=20))
    assert driver.path() == ["Failed", "Pending", "Running", "Completed"]


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([], "Completed"),
        ([ended("a", index=0)], "Completed"),
        ([running("a", index=0)], "Running"),
        ([ended("a", index=0, phase="Failed", reason="AppFailed")], "Failed"),
    ],
    ids=["none", "one of two", "one that runs on", "one that failed"],
)
def test_tasks_follow_an_owners_completion_unless_a_replica_failed(driver, seen, expected):
    for one in seen:
        driver.see(one)
    driver.owner(JobObserved("train", "Job", version="9", phase="Completed", created=START, tasks={"main": 2}))
    assert (driver.phase(), driver.job().tasks["main"].phase) == ("Completed", expected)


def test_a_task_ends_with_its_inferred_job_on_sight_of_an_older_pod(driver):
    """The old pod of an Indexed Job may outlive the one that took its place."""
    driver.see(running("old", index=5))
    driver.see(running("new", index=5))
    driver.see(ended("new"))
    assert (driver.phase(), driver.job().tasks["main"].phase) == ("Completed", "Completed")
    driver.see(running("old", 2, index=5, restarts=1))
    assert (driver.phase(), driver.job().tasks["main"].phase) == ("Completed", "Completed")


def test_phases_carry_the_time_of_what_shows_them(driver):
    driver.see(running("a"), at=50)
    driver.see(ended("a"), at=60)
    times = [(event.time - START) // SECOND for event in driver.events if isinstance(event.data, JobPhaseChanged)]
    assert times == [2, 9]


def test_pods_of_nobody_are_jobs_of_their_own(driver):
    driver.see(pod("solo", "solo", 1, "Running", node="n", running=1))
    (opened,) = driver.of(JobOpened)
    assert (opened.kind, opened.name, opened.managed) == ("Other", "pod-solo", False)


def test_nothing_is_requested_for_an_observed_job(driver):
    driver.owner(job(1, "Running", tasks={"main": 2}))
    driver.see(running("a"))
    driver.see(ended("a", phase="Failed", reason="AppFailed"))
    driver.see(ended("b", phase="Failed", reason="EvictedByApi"))
    assert driver.of(EffectRequested) == []
    assert driver.of(TimerSet) == []


# --- the owner ----------------------------------------------------------------------------------------------------------------


def test_the_job_object_completes_what_its_pods_opened(driver):
    driver.see(running("a"))
    driver.owner(job(5, "Running", queue="gpu", user="ann", labels={"a": "b"}, tasks={"main": 2}, min_available=2))
    (revised,) = driver.of(JobRevised)
    assert revised.owner
    assert (driver.job().spec.queue, driver.job().user, driver.job().labels) == ("gpu", "ann", {"a": "b"})
    assert driver.job().tasks["main"].spec.replicas == 2
    assert driver.path() == ["Running"]


def test_an_end_is_the_owners_to_tell_once_it_is_known(driver):
    driver.owner(job(1, tasks={"main": 1}))
    driver.see(running("a"))
    driver.see(ended("a"))
    assert driver.phase() == "Running"
    driver.owner(job(2, "Completed", ended=START + 9 * SECOND, reason="CompletionsReached"))
    assert driver.phase() == "Completed"
    assert not driver.job().inferred
    change = driver.of(JobPhaseChanged)[-1]
    assert (change.reason, change.object_version) == ("CompletionsReached", "2")
    assert (driver.job().since - START) // SECOND == 9


def test_an_inferred_end_is_confirmed_or_corrected_by_the_owner(driver):
    driver.see(ended("a"))
    driver.owner(job(2, "Completed"))
    assert not driver.job().inferred
    other = Driver()
    other.see(ended("a", phase="Failed", reason="AppFailed"))
    other.owner(job(2, "Completed"))
    assert other.path() == ["Failed", "Completed"]


def test_an_end_that_the_owner_stated_stands_whatever_the_pods_show(driver):
    driver.owner(job(2, "Completed"))
    driver.see(running("a"))
    assert driver.phase() == "Completed"


def test_an_owner_that_contradicts_itself_is_an_anomaly_and_nothing_else(driver):
    driver.owner(job(2, "Completed"))
    made = driver.owner(job(3, "Running", queue="other"))
    assert driver.outcome == "anomalous"
    assert [type(event.data) for event in made] == [Anomaly]
    assert (driver.phase(), driver.job().spec.queue) == ("Completed", "default")


def test_a_status_that_lags_behind_the_attempts_does_not_move_the_job_back(driver):
    driver.owner(job(1, "Pending"))
    driver.see(running("a"))
    driver.owner(job(2, "Pending"))
    assert driver.outcome == "unchanged"
    assert driver.phase() == "Running"


def test_a_stop_that_the_owner_announces_is_followed(driver):
    driver.owner(job(1, "Running"))
    driver.see(running("a"))
    driver.owner(job(2, "Aborting"))
    driver.see(ended("a", phase="Failed", reason="DeletedByApi"))
    assert driver.phase() == "Aborting"
    driver.owner(job(3, "Aborted"))
    assert driver.path() == ["Running", "Aborting", "Aborted"]


@pytest.mark.parametrize("stop", ["Restarting", "Aborting"])
def test_the_owner_says_when_what_it_has_announced_is_over(driver, stop):
    driver.see(running("a"))
    driver.owner(job(1, "Running"))
    driver.owner(job(2, stop))
    driver.see(pod("b", "j1", 1, "Pending"))
    assert driver.phase() == stop
    driver.owner(job(3, "Pending"))
    assert driver.phase() == "Running"  # as its attempts show
    assert driver.path() == ["Running", stop, "Running"]


def test_an_older_version_of_the_owner_is_a_duplicate(driver):
    driver.owner(job(5, "Running"))
    driver.owner(job(4, "Pending"))
    assert driver.outcome == "duplicate"
    driver.owner(job(5, "Running"))
    assert driver.outcome == "duplicate"


def test_the_owner_may_come_first(driver):
    driver.owner(job(1, tasks={"main": 1}))
    driver.see(running("a"))
    (opened,) = driver.of(JobOpened)
    assert opened.owner
    assert driver.path() == ["Running"]


def test_fewer_attempts_than_are_wanted_are_no_end(driver):
    driver.see(running("a", task="w", index=0))
    driver.owner(job(None, tasks={"w": 2}))
    driver.see(ended("a", task="w", index=0))
    assert driver.phase() == "Running"


def test_a_deleted_job_object_terminates_a_job_without_an_end(driver):
    driver.owner(job(1, "Running"))
    driver.see(running("a"))
    driver.delete(version="9")
    assert driver.of(JobObjectDeleted)[0].version == "9"
    assert driver.phase() == "Terminated"
    driver.delete(version="9")
    assert driver.outcome == "unchanged"


def test_a_deleted_job_object_terminates_a_job_whose_end_was_inferred(driver):
    driver.see(ended("a"))
    assert driver.path() == ["Completed"]
    driver.delete()
    assert driver.path() == ["Completed", "Terminated"]


def test_a_deleted_job_object_leaves_a_stated_end_alone(driver):
    driver.owner(job(1, "Completed"))
    driver.delete(version="9")
    assert driver.path() == ["Completed"]


def test_commands_on_an_observed_job_are_refused(driver):
    driver.see(running("a"))
    driver.command("AbortJob")
    assert driver.outcome == "refused"
    assert driver.phase() == "Running"


def test_a_trace_row_without_an_end_says_so(driver):
    driver.owner(job(None, "Terminated", without_end=True))
    assert driver.of(JobPhaseChanged)[0].without_end


# --- what its price depends on --------------------------------------------------------------------------------------------------

PREEMPTIBLE = {"volcano.sh/preemptable": "true"}


def test_a_job_known_by_its_pods_has_their_class_and_preemptibility(driver):
    driver.see(running("a", priority_class="high", preemptible=True))
    driver.see(running("b", priority_class="low"))
    (opened,) = driver.of(JobOpened)
    assert (opened.spec.priority_class, opened.labels) == ("high", PREEMPTIBLE)
    assert driver.of(JobRevised) == []


def test_a_pod_without_either_opens_a_job_without_them(driver):
    driver.see(running("a"))
    (opened,) = driver.of(JobOpened)
    assert (opened.spec.priority_class, opened.labels) == (None, {})


@pytest.mark.parametrize("stated", [None, "low"])
def test_the_class_and_the_labels_of_the_object_win_whichever_comes_first(stated):
    seen, one_pod = (
        job(1, "Running", priority_class=stated, labels={"a": "1"}),
        running("a", priority_class="high", preemptible=True),
    )
    ends = []
    for object_first in (True, False):
        driver = Driver()
        for observe in (driver.owner, driver.see) if object_first else (driver.see, driver.owner):
            observe(seen if observe == driver.owner else one_pod)
        ends.append((driver.job().spec.priority_class, dict(driver.job().labels)))
    assert ends == [(stated, {"a": "1"})] * 2


def test_a_class_that_changes_revises_the_job_once(driver):
    driver.owner(job(1, "Running"))
    driver.owner(job(2, "Running", priority_class="high"))
    driver.owner(job(3, "Running", priority_class="high"))
    (revised,) = driver.of(JobRevised)
    assert revised.spec.priority_class == "high"


# --- times of a job that was there before it was seen -----------------------------------------------------------------------


def test_a_phase_begins_when_the_object_says_and_not_when_it_was_seen(driver):
    driver.owner(job(1, "Running", since=START + 5 * SECOND))
    assert [change.phase for change in driver.of(JobPhaseChanged)] == ["Running"]
    changed = next(event for event in driver.events if isinstance(event.data, JobPhaseChanged))
    assert changed.time == START + 5 * SECOND


def test_a_job_object_that_comes_after_its_pods_tells_when_it_was_created(driver):
    driver.see(running("a"))
    driver.owner(job(7, "Running"))
    assert [revised.created for revised in driver.of(JobRevised)] == [START]
    driver.owner(job(8, "Running", labels={"team": "vision"}))
    assert [revised.created for revised in driver.of(JobRevised)] == [START, None]


def test_a_node_fact_without_a_version_that_comes_twice_gives_no_id_twice(driver):
    driver.see(running("a"))
    silent, heard = (driver.event(NodeObserved("n", ready=ready), "n") for ready in ("Unknown", "True"))
    for fact in (silent, heard, silent, heard):
        driver.take(replace(fact, recordedtime=driver.now))
    assert [changed.reason for changed in driver.of(AttemptChanged)] == ["Suspect", None, "Suspect", None]
    assert len({event.id for event in driver.events}) == len(driver.events)


def test_a_job_object_completes_the_job_of_its_pod_unless_it_is_older(driver):
    driver.see(pod("u", "j1", 1, "Running", kind="Other", owner="u", node="n", running=2))
    driver.owner(job(5, "Running"))
    assert (driver.job().kind, driver.job().name) == ("Job", "train")
    driver.owner(job(4, "Completed"))
    assert (driver.outcome, driver.phase()) == ("duplicate", "Running")
    driver.owner(job(6, "Completed"))
    assert driver.phase() == "Completed"


def test_the_minimum_that_the_job_object_states_is_taken_over(driver):
    driver.see(running("a"))
    driver.owner(job(1, "Running", min_available=2))
    assert driver.job().spec.min_available == 2
    driver.owner(job(2, "Running", min_available=3))
    assert driver.job().spec.min_available == 3
    driver.owner(job(3, "Running", min_available=3))
    assert driver.outcome == "unchanged"


@pytest.mark.parametrize(("kind", "phase"), [("VCJob", "Aborted"), ("Job", "Pending")])
@pytest.mark.parametrize("pods_first", [True, False])
def test_a_task_of_a_stopped_job_does_not_run_once_its_pods_have_ended(driver, kind, phase, pods_first):
    """A batch Job that is suspended is Pending."""

    def owner(shown: str, version: int) -> None:
        driver.owner(JobObserved("train", kind, version=str(version), phase=shown, tasks={"w": 1}, owner_decides=True))

    def see(version: int, shown: str, **fields: Any) -> None:
        driver.see(pod("p", "j1", version, shown, kind=kind, owner="train", task="w", index=0, node="n", running=2, **fields))

    owner("Running", 1)
    see(2, "Running")
    assert driver.task("w") == "Running"
    if pods_first:
        see(3, "Failed", ended=5, reason="DeletedByApi")
        owner(phase, 4)
    else:
        owner(phase, 4)
        assert driver.task("w") == "Running"
        see(5, "Failed", ended=5, reason="DeletedByApi")
    assert (driver.phase(), driver.task("w")) == (phase, "Pending")
    owner("Running", 6)
    driver.see(pod("q", "j1", 7, "Running", kind=kind, owner="train", task="w", index=0, node="n", running=8))
    assert driver.task("w") == "Running"
