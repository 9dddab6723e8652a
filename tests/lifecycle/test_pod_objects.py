"""The object of a pod may outlive its attempt: its name is taken until it is gone, and what nobody sees any more is given up."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from lifecycle_driver import SECOND, START, Driver, pod, vcjob

from engine.events.actions import EffectRequested, EventRaised, TimerSet
from engine.events.attempts import AttemptEnded, AttemptLateFact, AttemptObjectChanged, AttemptStarted
from engine.events.inputs import JobObserved, PodObserved
from engine.lifecycle.event_factory import EventFactory
from engine.lifecycle.observed_pods import EVICTED
from statemachines.counters import Counters


@pytest.fixture
def driver():
    return Driver()


def restart(event: str, action: str = "RestartJob") -> dict[str, Any]:
    return {"event": event, "action": action}


def started(driver: Driver, *tasks: dict[str, Any], **spec: Any) -> None:
    driver.submit(vcjob(*tasks, **spec))
    for task in tasks:
        driver.run(task["name"])


def effects(driver: Driver, kind: str) -> list[EffectRequested]:
    return [one for one in driver.of(EffectRequested) if one.effect == kind]


def last_id(driver: Driver, kind: str) -> str:
    return [one.id for one in driver.events if isinstance(one.data, EffectRequested) and one.data.effect == kind][-1]


# --- a name is taken until its object is gone -------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["RestartJob", "RestartTask", "RestartPod"])
def test_a_failed_pod_is_replaced_when_it_is_gone(driver, action):
    started(driver, {"name": "w"}, policies=[restart("PodFailed", action)], maxRetry=9)
    made = driver.end("w", code=1)
    assert driver.asked("delete_pod", made) == [("w", 0, 1)]
    assert driver.asked("create_pod", made) == []
    assert driver.phase() == "Restarting"
    assert driver.job().counts == Counters(terminating=1)  # Volcano: whatever its phase
    made = driver.reap()
    assert driver.of(AttemptObjectChanged, made)[0].object == "gone"
    assert driver.phase() == "Pending"
    assert driver.asked("create_pod", made) == [("w", 0, 2)]


def test_a_killed_pod_that_has_ended_still_has_its_name(driver):
    started(driver, {"name": "w"}, maxRetry=9)
    driver.command("RestartJob")
    driver.kill()
    assert driver.of(AttemptEnded)[-1].reason == "KilledByAction"
    assert (driver.phase(), driver.asked("create_pod")) == ("Restarting", [("w", 0, 1)])
    driver.reap()
    assert (driver.phase(), driver.asked("create_pod")) == ("Pending", [("w", 0, 1), ("w", 0, 2)])


def test_the_deletion_of_a_pod_that_its_node_evicted_is_asked_for(driver):
    """The kubelet leaves the object, and nobody else asks for its deletion."""
    started(driver, {"name": "w", "replicas": 2})
    made = driver.see(driver.replica("w", 1, phase="Failed", reason="EvictedByNode", node="n1", ended=5))
    assert driver.asked("delete_pod", made) == [("w", 1, 1)]
    assert driver.of(EffectRequested, made)[0].uid == "j1-w-1-1"
    assert driver.asked("create_pod", made) == []
    assert driver.asked("create_pod", driver.reap()) == [("w", 1, 2)]
    assert driver.job().retry_count == 0


def test_an_evicted_pod_under_deletion_is_not_requested_to_be_deleted(driver):
    started(driver, {"name": "w"})
    made = driver.see(driver.replica("w", phase="Failed", reason="EvictedByApi", node="n0", terminating=4, ended=5, deleting=True))
    assert driver.of(EffectRequested, made) == []
    assert driver.phase() == "Running"
    assert driver.asked("create_pod", driver.reap()) == [("w", 0, 2)]


def test_a_task_that_is_scaled_down_and_up_waits_for_its_old_pods(driver):
    started(driver, {"name": "w", "replicas": 2}, minAvailable=1)
    driver.update(vcjob({"name": "w", "replicas": 1}, minAvailable=1))
    driver.kill()
    made = driver.update(vcjob({"name": "w", "replicas": 2}, minAvailable=1))
    assert driver.asked("create_pod", made) == []
    assert driver.asked("create_pod", driver.reap()) == [("w", 1, 2)]


def test_an_evicted_pod_beyond_the_replicas_is_not_replaced(driver):
    started(driver, {"name": "w", "replicas": 2}, minAvailable=1)
    driver.update(vcjob({"name": "w", "replicas": 1}, minAvailable=1))
    made = driver.see(driver.replica("w", 1, phase="Failed", reason="EvictedByNode", node="n1", ended=5))
    made += driver.reap()
    assert driver.of(EffectRequested, made) == []


def test_an_evicted_pod_of_an_aborted_job_stays_until_the_job_is_resumed(driver):
    started(driver, {"name": "w", "replicas": 2}, policies=[restart("PodEvicted", "AbortJob")], maxRetry=9)
    driver.see(driver.replica("w", 0, phase="Failed", reason="EvictedByNode", node="n0", ended=5))
    driver.reap()
    assert driver.phase() == "Aborted"
    assert [one.index for one in effects(driver, "delete_pod")] == [1]
    driver.command("ResumeJob")
    assert [one.index for one in effects(driver, "delete_pod")] == [1, 0]
    driver.reap()
    assert driver.asked("create_pod")[-2:] == [("w", 1, 2), ("w", 0, 2)]


def test_a_failed_pod_that_somebody_deletes_is_replaced_when_it_is_gone(driver):
    """Volcano: the missing index is made anew."""
    started(driver, {"name": "w", "replicas": 2}, minAvailable=2)
    driver.end("w", 0, code=1)
    assert driver.job().counts == Counters(running=1, failed=1)
    gone = driver.replica("w", 0, phase="Failed", reason="AppFailed", node="n0", running=0, ended=0, deleting=True)
    driver.see(gone)
    assert driver.outcome == "applied"
    assert driver.job().counts == Counters(running=1, terminating=1)
    made = driver.gone(gone)
    assert driver.asked("create_pod", made) == [("w", 0, 2)]
    assert driver.gone(gone) == []
    assert driver.outcome == "duplicate"


def test_a_restarting_job_awaits_pods_others_delete_and_recreates_them(driver):
    started(driver, {"name": "w", "policies": [{"event": "TaskCompleted", "action": "RestartJob"}]})
    driver.see(driver.replica("w", 0, phase="Terminating", node="n0", bound=0, running=0, terminating=5, deleting=True))
    driver.end("w", terminating=5, ended=5, deleting=True)
    assert (driver.phase(), driver.asked("delete_pod")) == ("Restarting", [("w", 0, 1)])
    driver.crash()
    driver.reap()
    assert (driver.phase(), driver.asked("create_pod")) == ("Pending", [("w", 0, 1), ("w", 0, 2)])


def test_a_pod_that_succeeded_and_is_deleted_stays_a_success(driver):
    started(driver, {"name": "w", "replicas": 2}, minAvailable=2)
    driver.end("w", 0)
    driver.gone(driver.replica("w", 0, phase="Succeeded", node="n0", running=0, ended=0, deleting=True))
    assert driver.job().counts == Counters(running=1, succeeded=1)
    assert driver.asked("create_pod") == [("w", 0, 1), ("w", 1, 1)]


def test_pods_of_a_finished_job_are_cleaned_up_without_changing_counters(driver):
    started(driver, {"name": "w", "replicas": 2}, minAvailable=2)
    driver.end("w", code=1)
    assert driver.phase() == "Failed"
    for index in range(2):
        driver.gone(driver.replica("w", index, phase="Failed", reason="AppFailed", node=f"n{index}", ended=0, deleting=True))
    assert driver.job().counts == Counters(failed=2)
    assert driver.asked("create_pod") == [("w", 0, 1), ("w", 1, 1)]


# --- effects that fail ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "waits"),
    [
        (None, [*(1 << doubled for doubled in range(9)), *[300] * 11]),
        ("AlreadyExists", [*(1 << doubled for doubled in range(17)), *[86_400] * 3]),
    ],
)
def test_a_creation_that_fails_is_asked_for_again_with_back_off(driver, reason, waits):
    """Who keeps the name may never let it go, and each try is kept in the history."""
    driver.submit(vcjob({"name": "w"}))
    waited = []
    for _ in range(20):
        driver.report(last_id(driver, "create_pod"), "failed", reason=reason)
        due = driver.of(TimerSet)[-1].due
        waited.append((due - driver.now) // SECOND)
        driver.until(due)
    assert waited == waits
    assert driver.asked("create_pod") == [("w", 0, 1)] * 21
    driver.run("w")
    driver.wait(100_000)
    assert driver.asked("create_pod") == [("w", 0, 1)] * 21


def test_a_deletion_that_fails_is_asked_for_again(driver):
    started(driver, {"name": "w"})
    driver.command("AbortJob")
    driver.report(last_id(driver, "delete_pod"), "failed", reason="Conflict")
    driver.wait(1)
    assert driver.asked("delete_pod") == [("w", 0, 1)] * 2
    driver.reap()
    driver.wait(1000)
    assert driver.asked("delete_pod") == [("w", 0, 1)] * 2
    assert driver.phase() == "Aborted"


def test_a_report_about_an_effect_that_was_asked_for_again_changes_nothing(driver):
    driver.submit(vcjob({"name": "w"}))
    first = last_id(driver, "create_pod")
    driver.report(first, "failed", reason="AlreadyExists")
    driver.wait(1)
    made = driver.report(first, "failed", reason="AlreadyExists")
    assert driver.of(TimerSet, made) == []


@pytest.mark.parametrize("seen", [False, True])
def test_a_pod_that_the_api_server_twice_reports_missing_is_gone(driver, seen):
    driver.submit(vcjob({"name": "w"}))
    if seen:
        driver.run("w")
    driver.command("AbortJob")
    driver.report(last_id(driver, "delete_pod"), "failed", reason="NotFound")
    assert driver.phase() == "Aborting"  # its end may be on its way
    driver.wait(1)
    driver.report(last_id(driver, "delete_pod"), "failed", reason="NotFound")
    assert driver.phase() == "Aborted"
    assert driver.of(AttemptEnded)[-1].reason == ("StoppedByUser" if seen else "NeverStarted")


def test_an_unwanted_pod_whose_creation_failed_never_existed(driver):
    driver.submit(vcjob({"name": "w"}))
    driver.report(last_id(driver, "create_pod"), "failed", reason="AlreadyExists")
    driver.command("AbortJob")
    assert driver.phase() == "Aborted"
    assert driver.of(AttemptEnded)[-1].reason == "NeverStarted"
    assert driver.asked("delete_pod") == []  # by name it would be somebody else's
    driver.wait(600)
    assert driver.asked("create_pod") == [("w", 0, 1)]


@pytest.mark.parametrize("ran", [False, True])
def test_a_pod_that_stands_when_it_is_asked_for_again_may_be_its_own(driver, ran):
    """The first request was carried out and its report says it was not: the pod ran, and what it ran is told."""
    driver.submit(vcjob({"name": "w"}))
    driver.report(last_id(driver, "create_pod"), "failed")
    driver.wait(1)
    driver.report(last_id(driver, "create_pod"), "failed", reason="AlreadyExists")
    driver.command("AbortJob")
    assert driver.phase() == "Aborting"
    if ran:
        driver.run("w")
        driver.reap()
    driver.wait(60)
    assert driver.phase() == "Aborted"
    assert driver.of(AttemptEnded)[-1].reason == ("StoppedByUser" if ran else "NeverStarted")


def test_a_pod_that_stands_whenever_it_is_asked_for_is_somebody_elses(driver):
    driver.submit(vcjob({"name": "w"}))
    for _ in range(3):
        driver.wait(4)
        driver.report(last_id(driver, "create_pod"), "failed", reason="AlreadyExists")
    driver.command("TerminateJob")
    assert driver.asked("delete_pod") == []
    assert driver.phase() == "Terminated"


@pytest.mark.parametrize("reason", [None, "AlreadyExists"])
def test_a_pod_that_was_made_stays_so_whatever_becomes_of_the_next_request(driver, reason):
    driver.submit(vcjob({"name": "w"}))
    driver.report(last_id(driver, "create_pod"), "done")
    driver.wait(60)
    driver.report(last_id(driver, "create_pod"), "failed", reason=reason)
    driver.command("RestartTask", task="w")
    driver.wait(60)
    assert driver.of(AttemptEnded) == []
    assert driver.asked("create_pod") == [("w", 0, 1)] * 2
    assert set(driver.asked("delete_pod")) == {("w", 0, 1)}


@pytest.mark.parametrize("crash", [False, True])
def test_a_creation_reported_after_its_deletion_request_counts(driver, crash):
    driver.submit(vcjob({"name": "w"}))
    made = last_id(driver, "create_pod")
    driver.command("RestartTask", task="w")
    if crash:
        driver.crash()
    driver.report(made, "done")
    driver.wait(300)
    assert driver.of(AttemptEnded) == []
    assert driver.asked("create_pod") == [("w", 0, 1)]
    driver.run("w")
    driver.reap()
    assert driver.asked("create_pod") == [("w", 0, 1), ("w", 0, 2)]


def test_only_a_pod_that_is_unknown_twice_in_a_row_is_gone(driver):
    started(driver, {"name": "w"})
    driver.command("RestartTask", task="w")
    for reason in ("Conflict", "NotFound", "Conflict", "NotFound"):
        driver.report(last_id(driver, "delete_pod"), "failed", reason=reason)
        driver.wait(60)
    assert driver.asked("create_pod") == [("w", 0, 1)]
    driver.report(last_id(driver, "delete_pod"), "failed", reason="NotFound")
    assert driver.asked("create_pod") == [("w", 0, 1), ("w", 0, 2)]


def test_the_object_of_an_ended_pod_that_somebody_deletes_is_asked_after(driver):
    """That it is gone may be missed."""
    started(driver, {"name": "w"})
    driver.end("w", code=1, deleting=True)
    made = driver.wait(600)
    assert driver.asked("delete_pod", made) == [("w", 0, 1)]


def test_a_pod_of_the_same_name_shows_that_an_ended_one_is_gone(driver):
    started(driver, {"name": "w"})
    driver.command("RestartTask", task="w")
    driver.kill()
    again = pod("new", "j1", 7, "Running", name="train-w-0", task="w", index=0, managed=True, kind="VCJob", node="n1", running=1)
    driver.see(again)
    assert [attempt.object for attempt in driver.job().attempts] == ["gone", "exists"]


# --- pods of another name -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [None, 1, 99])
def test_a_pod_of_another_name_takes_no_place(driver, number):
    started(driver, {"name": "w"})
    other = pod(
        "evil", "j1", 7, "Running", name="other", task="w", index=0, attempt=number, managed=True, kind="VCJob", node="n", running=1
    )
    driver.see(other)
    assert driver.outcome == "anomalous"
    driver.run("w")
    assert [(attempt.number, attempt.phase, attempt.uid) for attempt in driver.job().attempts] == [(1, "Running", "j1-w-0-1")]
    assert {one.uid for one in effects(driver, "delete_pod")} <= {"evil"}


def test_a_creation_that_fails_after_its_pod_was_commanded_away(driver):
    driver.submit(vcjob({"name": "w"}))
    asked = last_id(driver, "create_pod")
    driver.command("AbortJob")
    driver.report(asked, "failed", reason="AlreadyExists")
    driver.report(last_id(driver, "delete_pod"), "failed", reason="NotFound")
    driver.wait(60)
    assert driver.phase() == "Aborted"


@pytest.mark.parametrize("reason", sorted(EVICTED))
def test_an_eviction_raises_pod_evicted_and_is_replaced_whoever_did_it(driver, reason):
    started(driver, {"name": "w"})
    driver.end("w", code=143, reason=reason)
    assert driver.of(EventRaised)[-1].event == "PodEvicted"
    driver.reap()
    assert driver.asked("create_pod") == [("w", 0, 1), ("w", 0, 2)]


# --- a pod that somebody deletes ----------------------------------------------------------------------------------------------

LIFE = {"node": "n0", "bound": 1, "running": 2}
SHOWN = [
    {"phase": "Running", **LIFE},
    {"phase": "Terminating", "deleting": True, "terminating": 10, **LIFE},
    {"phase": "Failed", "reason": "DeletedByApi", "exit_code": 143, "deleting": True, "terminating": 10, "ended": 12, **LIFE},
]


@pytest.mark.parametrize("seen", [list(some) for size in range(4) for some in combinations(range(3), size)])
def test_a_deleted_pod_is_replaced_whichever_observations_arrive(driver, seen):
    """Its job does not fail, no retry is burnt, and what it ran is billed."""
    driver.submit(vcjob({"name": "w"}, policies=[restart("PodFailed", "AbortJob")], maxRetry=1))
    for number in seen:
        driver.see(driver.replica("w", **SHOWN[number]))
    driver.gone(driver.replica("w", **SHOWN[2]))
    end = driver.of(AttemptEnded)[0]
    assert (end.phase, end.reason, end.started, end.ran) == ("Failed", "DeletedByApi", START + 2 * SECOND, 10 * SECOND)
    assert driver.asked("create_pod") == [("w", 0, 1), ("w", 0, 2)]
    driver.run("w")
    assert (driver.phase(), driver.job().retry_count) == ("Running", 0)


# --- commanded away before it was seen ----------------------------------------------------------------------------------------


def test_a_pod_commanded_away_before_it_was_seen_is_billed_for_what_it_ran(driver):
    driver.submit(vcjob({"name": "w"}))
    seen = driver.replica("w", phase="Running", node="n0", bound=1, running=2)
    driver.command("AbortJob")
    made = driver.see(seen)
    assert driver.of(EffectRequested, made)[0].uid == seen.uid  # now it is known which one
    driver.see(driver.replica("w", phase="Failed", reason="KilledBySignal", node="n0", bound=1, running=2, ended=30))
    end = driver.of(AttemptEnded)[-1]
    assert (end.reason, end.ran) == ("StoppedByUser", 28 * SECOND)


def test_a_pod_that_comes_after_its_abandonment_is_late_and_deleted(driver):
    driver.submit(vcjob({"name": "w"}))
    late = driver.replica("w", phase="Running", node="n0", bound=1, running=2)
    driver.command("RestartJob")
    driver.wait(60)
    assert driver.asked("create_pod") == [("w", 0, 1), ("w", 0, 2)]
    made = driver.see(late)
    fact = driver.of(AttemptLateFact, made)[0]
    assert (fact.phase, fact.started, fact.uid) == ("Running", START + 2 * SECOND, late.uid)
    assert driver.asked("delete_pod", made) == [("w", 0, 1)]


def test_a_pod_that_claims_the_attempt_of_another_one_is_to_go(driver):
    """A request to make it was carried out twice, or late: it holds the name."""
    started(driver, {"name": "w"})
    fields = {"task": "w", "index": 0, "attempt": 1, "managed": True, "name": "train-w-0"}
    made = driver.see(pod("other", "j1", 1, "Running", node="n", running=1, **fields))
    assert driver.outcome == "anomalous"
    assert [(one.effect, one.uid) for one in driver.of(EffectRequested, made)] == [("delete_pod", "other")]
    made = driver.gone(pod("other", "j1", 2, "Failed", reason="DeletedByApi", deleting=True, **fields))
    assert driver.of(EffectRequested, made) == []
    assert driver.job().counts == Counters(running=1)


# --- a deletion that was missed -----------------------------------------------------------------------------------------------


def on(index: int, uid: str, version: int, phase: str = "Running", **fields: Any) -> PodObserved:
    return pod(uid, "j", version, phase, index=index, node="n", running=2, kind="Job", owner="o", **fields)


def test_a_pod_whose_index_another_one_takes_has_ended(driver):
    driver.see(on(0, "a", 1, created=0), at=5)
    driver.see(on(0, "b", 2, created=50), at=50)
    end = driver.of(AttemptEnded)[0]
    assert (end.phase, end.reason, end.inferred, end.ran) == ("Lost", "EndUnknown", True, 3 * SECOND)
    assert driver.job("j").counts == Counters(running=1)


def test_a_pod_that_is_being_deleted_may_live_beside_its_successor(driver):
    driver.see(on(0, "a", 1, created=0))
    driver.see(on(0, "a", 2, "Terminating", created=0, terminating=9, deleting=True))
    driver.see(on(0, "b", 3, created=10))
    assert driver.of(AttemptEnded) == []
    driver.see(on(0, "a", 4, "Failed", created=0, reason="DeletedByApi", ended=20, deleting=True))
    assert [end.ran for end in driver.of(AttemptEnded)] == [18 * SECOND]


def test_an_older_pod_of_an_index_does_not_take_it_back(driver):
    driver.see(on(0, "b", 3, created=10))
    driver.see(on(0, "a", 1, "Failed", created=0, reason="AppFailed", ended=9))
    assert [(one.attempt, one.past) for one in driver.of(AttemptStarted)] == [(1, False), (2, True)]
    assert driver.job("j").counts == Counters(running=1)
    driver.crash()
    driver.see(on(0, "c", 5, created=20))
    assert driver.of(AttemptStarted)[-1].attempt == 3


def node_lost(driver: Driver) -> None:
    driver.node("n0")
    started(driver, {"name": "w"})
    driver.node("n0", gone=True)


def test_pods_of_a_node_that_is_gone_are_lost_after_a_while(driver):
    node_lost(driver)
    driver.wait(599)
    assert driver.of(AttemptEnded) == []
    driver.wait(1)
    end = driver.of(AttemptEnded)[0]
    assert (end.phase, end.reason, end.inferred) == ("Lost", "NodeLost", True)
    assert driver.asked("create_pod") == [("w", 0, 1), ("w", 0, 2)]


def test_pods_of_a_node_that_came_back_live_on(driver):
    node_lost(driver)
    driver.node("n0", version="2")
    driver.wait(600)
    assert driver.of(AttemptEnded) == []


def test_the_object_of_a_lost_pod_is_given_up_with_its_node(driver):
    started(driver, {"name": "w"})
    driver.see(driver.replica("w", phase="Lost", reason="NodeLost", node="n0", ended=9, deleting=True, terminating=8))
    driver.wait(599)
    assert driver.asked("create_pod") == [("w", 0, 1)]
    made = driver.wait(1)
    assert driver.of(AttemptObjectChanged, made)[0].why == "its node n0 is gone"
    assert driver.asked("create_pod", made) == [("w", 0, 2)]


@pytest.mark.parametrize("over", ["finished", "deleted"])
def test_no_pod_lives_for_ever_in_a_job_that_is_over(driver, over):
    driver.owner(JobObserved("train", "Job", version="1", phase="Running", tasks={"main": 1}), "j")
    driver.see(on(0, "a", 1, created=0))
    if over == "finished":
        driver.owner(JobObserved("train", "Job", version="2", phase="Completed", tasks={"main": 1}), "j")
    else:
        driver.delete("j", "2")
    driver.wait(600)
    assert [(end.phase, end.reason) for end in driver.of(AttemptEnded)] == [("Lost", "EndUnknown")]
    assert driver.job("j").rest is not None


def test_a_job_whose_pods_end_in_time_waits_no_longer(driver):
    driver.owner(JobObserved("train", "Job", version="1", phase="Running", tasks={"main": 1}), "j")
    driver.see(on(0, "a", 1, created=0))
    driver.owner(JobObserved("train", "Job", version="2", phase="Completed", tasks={"main": 1}), "j")
    driver.see(on(0, "a", 2, "Succeeded", created=0, ended=30))
    assert driver.job("j").rest is not None


def test_no_end_is_inferred_while_the_node_is_silent(driver):
    driver.node("n0")
    started(driver, {"name": "w"})
    driver.node("n0", version="2", ready="Unknown")
    driver.command("TerminateJob")
    driver.delete()
    driver.wait(6000)
    assert driver.of(AttemptEnded) == []
    driver.node("n0", version="3")
    driver.reap()
    assert driver.phase() == "Terminated"


def test_a_pod_of_a_finished_job_outlives_the_silence_of_its_node(driver):
    """Only of the node of its own cluster: another one of that name may be well."""
    driver.node("n", ready="Unknown")
    driver.owner(JobObserved("train", "Job", version="1", phase="Running", tasks={"main": 1}), "j")
    driver.see(on(0, "a", 1, created=0))
    driver.owner(JobObserved("train", "Job", version="2", phase="Completed", tasks={"main": 1}), "j")
    driver.wait(6000)
    assert driver.of(AttemptEnded) == []
    driver.node("n", version="2", ready="True")
    driver.wait(6000)
    assert [end.reason for end in driver.of(AttemptEnded)] == ["EndUnknown"]


def test_no_end_is_inferred_before_the_grace_period_is_over(driver):
    driver.owner(JobObserved("train", "Job", version="1", phase="Running", tasks={"main": 1}), "j")
    driver.see(on(0, "a", 1, created=0))
    deadline = START + 3600 * SECOND
    driver.see(replace(on(0, "a", 2, "Terminating", created=0, terminating=5, deleting=True), deadline=deadline))
    driver.delete("j", "2")
    driver.wait(4199)
    assert driver.of(AttemptEnded) == []
    driver.wait(60)
    assert [end.reason for end in driver.of(AttemptEnded)] == ["EndUnknown"]


@pytest.mark.parametrize("steps", [["Failed"], ["deleting"], ["Failed", "deleting"], []])
def test_a_failed_pod_that_is_deleted_is_replaced_whatever_is_seen_first(driver, steps):
    started(driver, {"name": "w", "replicas": 2}, minAvailable=2)
    ended = {"phase": "Failed", "reason": "AppFailed", "node": "n0", "running": 0, "ended": 5}
    for step in steps:
        driver.see(driver.replica("w", 0, deleting=step == "deleting", **ended))
    driver.gone(driver.replica("w", 0, deleting=True, **ended))
    assert driver.asked("create_pod")[-1] == ("w", 0, 2)


def test_a_pod_that_was_made_and_is_not_seen_is_asked_for_again(driver):
    """It may be gone before anybody looked."""
    driver.submit(vcjob({"name": "w", "replicas": 2}))
    for event in [event for event in driver.events if isinstance(event.data, EffectRequested)]:
        driver.report(event.id, "done")
    driver.run("w", 1)
    driver.wait(60)
    assert driver.asked("create_pod") == [("w", 0, 1), ("w", 1, 1), ("w", 0, 1)]
    driver.report(last_id(driver, "create_pod"), "failed", reason="AlreadyExists")
    driver.wait(1)
    driver.run("w", 0)
    driver.wait(600)
    assert driver.asked("create_pod") == [("w", 0, 1), ("w", 1, 1), ("w", 0, 1), ("w", 0, 1)]
    assert driver.job().timers == {}


@pytest.mark.parametrize("crash", [False, True])
def test_the_deletion_of_a_pod_that_is_gone_is_not_asked_for(driver, crash):
    """Its replica is open for the next one at once."""
    driver.submit(vcjob({"name": "a"}, {"name": "b"}, maxRetry=9))
    driver.run("a")
    driver.run("b")
    driver.end("a")
    driver.gone(driver.replica("a", phase="Succeeded", node="n0", running=0, ended=0, deleting=True))
    assert driver.job().tasks["a"].slots[0].object == "gone"
    if crash:
        driver.crash()
    made = driver.command("RestartJob")
    assert driver.asked("delete_pod", made) == [("b", 0, 1)]
    driver.reap()
    assert driver.phase() == "Pending"
    assert driver.asked("create_pod") == [("a", 0, 1), ("b", 0, 1), ("a", 0, 2), ("b", 0, 2)]


def test_a_deletion_asked_for_in_vain_by_an_older_release_awaits_no_report(driver):
    driver.submit(vcjob({"name": "a"}, {"name": "b"}))
    driver.run("a")
    driver.run("b")
    driver.end("a")
    driver.gone(driver.replica("a", phase="Succeeded", node="n0", running=0, ended=0, deleting=True))
    asked = EffectRequested("delete_pod", pod="train-a-0", task="a", index=0, attempt=1, cause="KilledByAction")
    event = EventFactory(driver.state, "root", driver.now, "c1").event(driver.job(), asked)
    for state in (driver.state, driver.shadow):
        driver.stage.evolve(state, event)
    driver.sequences["j1"] = event.sequence
    driver.check()
    assert driver.job().by_effect == {driver.job().tasks["b"].slots[0].effect: driver.job().tasks["b"].slots[0]}


def test_a_failure_that_is_reported_again_is_waited_for_once(driver):
    driver.submit(vcjob({"name": "a"}))
    for _ in range(5):
        driver.report(last_id(driver, "create_pod"), "failed", reason="AlreadyExists")
    driver.crash()
    driver.report(last_id(driver, "create_pod"), "failed", reason="AlreadyExists")
    assert [timer.kind for timer in driver.job().timers.values()] == ["effect"]
    made = driver.wait(1)
    assert driver.asked("create_pod", made) == [("a", 0, 1)]
    driver.report(last_id(driver, "create_pod"), "failed", reason="AlreadyExists")
    assert [timer.kind for timer in driver.job().timers.values()] == ["effect"]


def test_a_pod_of_another_name_takes_no_place_of_one_that_may_live(driver):
    started(driver, {"name": "w", "policies": [{"event": "PodFailed", "action": "RestartTask"}]})
    driver.run("w")
    claim = {"name": "debug", "namespace": "default", "managed": True, "task": "w", "index": 0}
    made = driver.see(pod("u9", "j1", 1, "Failed", reason="AppFailed", exit_code=1, ended=1, **claim))
    assert driver.outcome == "anomalous"
    assert driver.asked("delete_pod", made) == []  # it does not hold a name that the job needs
    driver.gone(pod("u9", "j1", 2, "Failed", reason="AppFailed", exit_code=1, ended=1, **claim))
    assert [(one.number, one.phase, one.object) for one in driver.job().attempts] == [(1, "Running", "exists")]
    driver.end("w", code=1)
    made = driver.see(pod("u9", "j1", 3, "Failed", reason="AppFailed", exit_code=1, ended=1, **claim))
    assert driver.outcome == "anomalous"
    assert driver.asked("create_pod", driver.reap()) == [("w", 0, 2)]


def test_a_pod_of_the_same_name_proves_that_the_one_before_it_is_gone(driver):
    started(driver, {"name": "w"})
    driver.run("w")
    driver.see(pod("u9", "j1", 1, "Running", name="train-w-0", managed=True, task="w", index=0, node="n", running=1))
    assert [(end.phase, end.reason) for end in driver.of(AttemptEnded)] == [("Lost", "EndUnknown")]
    assert driver.job().tasks["w"].slots[0].uid == "u9"


def test_a_pod_that_others_delete_and_nothing_awaits_is_not_deleted_again(driver: Driver) -> None:
    started(driver, {"name": "w", "replicas": 3}, minAvailable=1, minSuccess=1)
    going = driver.replica("w", 0, phase="Failed", node="n0", bound=0, running=0, ended=9, terminating=10, deleting=True)
    driver.see(going)
    driver.end("w", 1)
    assert driver.phase() == "Completed"
    assert (driver.job().attempts[0].object, driver.job().attempts[0].replaceable) == ("deleting", True)
    driver.wait(7_200)
    assert driver.job().live == 0, "the other one is given up"
    assert {one.index for one in effects(driver, "delete_pod")} == {2}


@pytest.mark.parametrize("end", [{"phase": "Succeeded"}, {"phase": "Failed", "exit_code": 1}])
@pytest.mark.parametrize("deleting", [True, False])
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_surplus_pod_that_somebody_deletes_decides_nothing(
    driver: Driver, replicas: int, end: dict[str, Any], *, deleting: bool
) -> None:
    driver.submit(vcjob({"name": "w", "replicas": replicas}))
    seen = {"task": "w", "attempt": 1, "managed": True, "node": "n", "bound": 1}
    for index in range(replicas):
        driver.see(pod(f"x{index}", "j1", 1, "Bound" if index == 0 else "Running", index=index, name=f"train-w-{index}", **seen))
    surplus = {"index": replicas, "name": f"train-w-{replicas}", "running": 2, "terminating": 3, **seen}
    driver.see(pod("s", "j1", 1, "Terminating", deleting=True, **surplus))
    driver.see(pod("s", "j1", 2, ended=4, deleting=deleting, **end, **surplus))
    assert (driver.phase(), driver.job().counts) == ("Pending", Counters(pending=1, running=replicas - 1, terminating=1))
    driver.gone(pod("s", "j1", 3, ended=4, deleting=True, **end, **surplus))
    assert (driver.phase(), driver.job().counts) == ("Pending", Counters(pending=1, running=replicas - 1))
