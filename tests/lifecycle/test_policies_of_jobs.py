"""Managed jobs: events become actions by policy, now or after a delay; failures burn retries or do not."""

from __future__ import annotations

import pytest
from lifecycle_driver import SECOND, START, Driver, pod, vcjob

from engine.events.actions import ActionTaken, EventRaised, TimerCancelled, TimerFired, TimerSet
from engine.events.jobs import JobPhaseChanged


@pytest.fixture
def driver():
    return Driver()


def actions(driver, events=None):
    return [(one.action, one.policy, one.event) for one in driver.of(ActionTaken, events)]


def raised(driver, events=None):
    return [one.event for one in driver.of(EventRaised, events)]


def policy(event, action, **fields):
    return {("events" if isinstance(event, list) else "event"): event, "action": action, **fields}


# --- which policy -------------------------------------------------------------------------------------------------------------


def test_without_a_policy_a_failure_leads_to_nothing_but_the_phase_rule(driver):
    driver.submit(vcjob({"name": "w", "replicas": 2}))
    driver.run("w")
    made = driver.end("w", 0, code=1)
    assert raised(driver, made) == ["PodFailed"]
    assert actions(driver) == []
    assert driver.phase() == "Running"
    driver.end("w", 1)
    assert driver.path() == ["Running", "Failed"]
    assert driver.of(JobPhaseChanged)[-1].reason == "TooFewSucceeded"


@pytest.mark.parametrize("action", ["AbortJob", "TerminateJob", "CompleteJob", "RestartJob", "RestartTask", "RestartPod"])
def test_the_action_of_a_policy_decides_what_follows(driver, action):
    driver.submit(vcjob({"name": "w", "replicas": 2}, policies=[policy("PodFailed", action)]))
    driver.run("w")
    driver.end("w", 0, code=1)
    after = {"AbortJob": "Aborting", "TerminateJob": "Terminating", "CompleteJob": "Completing"}
    assert driver.phase() == after.get(action, "Restarting")
    assert actions(driver) == [(action, "spec.policies[0]", "PodFailed")]
    driver.reap()
    assert driver.phase() == {"AbortJob": "Aborted", "TerminateJob": "Terminated", "CompleteJob": "Completed"}.get(
        action, "Pending"
    )


@pytest.mark.parametrize(
    ("event", "hit"),
    [("PodFailed", True), (["PodEvicted", "PodFailed"], True), ("*", True), ("PodEvicted", False), ("TaskFailed", False)],
)
def test_a_policy_answers_the_events_that_it_lists(driver, event, hit):
    driver.submit(vcjob({"name": "w"}, policies=[policy(event, "TerminateJob")]))
    driver.run("w")
    driver.end("w", code=1)
    assert driver.phase() == ("Terminated" if hit else "Failed")


def test_a_policy_of_the_task_comes_before_those_of_the_job(driver):
    task = {"name": "w", "policies": [policy("PodFailed", "AbortJob")]}
    driver.submit(vcjob(task, {"name": "v"}, policies=[policy("PodFailed", "TerminateJob")]))
    driver.run("w")
    driver.run("v")
    driver.end("w", code=1)
    assert actions(driver) == [("AbortJob", "spec.tasks[0].policies[0]", "PodFailed")]


def test_where_no_policy_of_the_task_hits_those_of_the_job_apply(driver):
    task = {"name": "w", "policies": [policy("PodEvicted", "AbortJob")]}
    driver.submit(vcjob(task, policies=[policy("PodFailed", "TerminateJob")]))
    driver.run("w")
    driver.end("w", code=1)
    assert actions(driver) == [("TerminateJob", "spec.policies[0]", "PodFailed")]


@pytest.mark.parametrize(("code", "hit"), [(3, True), (4, False)])
def test_an_exit_code_of_the_first_container_is_matched(driver, code, hit):
    driver.submit(vcjob({"name": "w", "replicas": 2}, policies=[{"exitCode": 3, "action": "TerminateJob"}]))
    driver.run("w")
    driver.end("w", 0, code=code)
    assert driver.phase() == ("Terminating" if hit else "Running")


def test_a_pod_of_an_older_job_version_is_answered_by_a_sync_only(driver):
    driver.submit(vcjob({"name": "w", "replicas": 2}, policies=[policy("PodFailed", "RestartJob")], maxRetry=9))
    driver.run("w", 0, 1)
    driver.end("w", 0, code=1)
    assert driver.job().version == 1
    driver.reap()
    assert driver.phase() == "Pending"
    driver.run("w")
    old = {"name": "train-w-0", "task": "w", "index": 0, "managed": True, "job_version": 0}
    driver.see(pod("old", "j1", 1, "Failed", reason="AppFailed", exit_code=1, **old))
    assert raised(driver) == ["PodFailed", "PodFailed"]
    assert len(actions(driver)) == 1


def test_an_evicted_pod_is_made_anew_without_any_policy(driver):
    driver.submit(vcjob({"name": "w", "replicas": 2}))
    driver.run("w")
    made = driver.see(driver.replica("w", 1, phase="Failed", reason="EvictedByApi", node="n1", ended=5))
    assert raised(driver, made) == ["PodEvicted"]
    assert driver.asked("delete_pod", made) == [("w", 1, 1)]  # its name is taken until it is gone
    assert driver.asked("create_pod", made) == []
    assert driver.asked("create_pod", driver.reap()) == [("w", 1, 2)]
    assert driver.task("w") == "Pending"
    driver.run("w", 1)
    assert driver.task("w") == "Running"
    assert driver.job().retry_count == 0


@pytest.mark.parametrize(
    ("phase", "reason", "event"),
    [
        ("Failed", "PreemptedByScheduler", "PodEvicted"),
        ("Failed", "EvictedByNode", "PodEvicted"),
        ("Failed", "NodeShutdown", "PodEvicted"),
        ("Failed", "DeletedByApi", "PodEvicted"),
        ("Lost", "NodeLost", "PodEvicted"),
        ("Lost", "EndUnknown", "PodEvicted"),
        ("Lost", "ExitUnknown", "PodFailed"),
        ("Failed", "RejectedByNode", "PodFailed"),
        ("Failed", "OomKilled", "PodFailed"),
        ("Failed", "TimedOut", "PodFailed"),
    ],
)
def test_ends_become_volcanos_events(driver, phase, reason, event):
    driver.submit(vcjob({"name": "w", "replicas": 2}))
    driver.run("w")
    made = driver.see(driver.replica("w", 0, phase=phase, reason=reason, node="n0", ended=5))
    assert raised(driver, made) == [event]


def test_a_killed_pod_raises_nothing(driver):
    driver.submit(vcjob({"name": "w"}, policies=[policy("*", "RestartJob")], maxRetry=9))
    driver.run("w")
    driver.command("RestartJob")
    made = driver.reap()
    assert raised(driver, made) == []
    assert len(actions(driver)) == 1


# --- tasks ----------------------------------------------------------------------------------------------------------------------


def test_task_completed_is_raised_when_all_replicas_have_succeeded(driver):
    driver.submit(vcjob({"name": "a", "replicas": 2}, {"name": "b"}, policies=[policy("TaskCompleted", "CompleteJob")]))
    driver.run("a")
    driver.run("b")
    assert raised(driver, driver.end("a", 0)) == []
    assert raised(driver, driver.end("a", 1)) == ["TaskCompleted"]
    assert driver.phase() == "Completing"
    driver.reap()
    assert driver.phase() == "Completed"


def test_min_succeeded_completes_a_task_earlier(driver):
    driver.submit(
        vcjob(
            {"name": "a", "replicas": 3},
            policies=[policy("TaskCompleted", "CompleteJob")],
            lahar={"tasks": {"a": {"minSucceeded": 2}}},
        )
    )
    driver.run("a")
    driver.end("a", 0)
    assert driver.task("a") == "Running"
    driver.end("a", 2)
    assert driver.task("a") == "Completed"
    assert raised(driver) == ["TaskCompleted"]
    assert driver.phase() == "Completing"


def restarting_in_place(driver, restarts):
    return driver.see(driver.replica("a", 0, phase="Running", node="n0", running=0, restarts=restarts, reason="CrashLooping"))


@pytest.mark.parametrize(("max_retry", "at"), [(2, 2), (0, 3), (None, 3)])
def test_task_failed_is_raised_by_container_restarts(driver, max_retry, at):
    task = {"name": "a", "replicas": 2} | ({} if max_retry is None else {"maxRetry": max_retry})
    driver.submit(vcjob(task, policies=[policy("TaskFailed", "AbortJob")]))
    driver.run("a")
    for restarts in range(1, at):
        assert raised(driver, restarting_in_place(driver, restarts)) == []
    assert raised(driver, restarting_in_place(driver, at)) == ["TaskFailed"]
    assert driver.phase() == "Aborting"


def test_restarts_in_place_fail_the_event_not_the_phase(driver):
    """The pod may still succeed."""
    driver.submit(vcjob({"name": "a"}))
    driver.run("a")
    restarting_in_place(driver, 3)
    restarting_in_place(driver, 4)
    assert raised(driver) == ["TaskFailed"]
    assert driver.task("a") == "Running"
    driver.end("a")
    assert (driver.task("a"), driver.phase()) == ("Completed", "Completed")


def test_restarts_in_place_that_were_told_of_fail_no_task_again(driver):
    """Restarting one pod lets its task fail anew; the restarts of another one are no news."""
    driver.submit(vcjob({"name": "a", "replicas": 2, "minAvailable": 1}, maxRetry=9))
    driver.run("a")
    assert raised(driver, restarting_in_place(driver, 3)) == ["TaskFailed"]
    driver.command("RestartPod", task="a", index=1)
    driver.see(driver.replica("a", 0, phase="Running", node="n0", running=0, restarts=3))
    assert raised(driver) == ["TaskFailed"]
    restarting_in_place(driver, 4)
    assert raised(driver) == ["TaskFailed", "TaskFailed"]


@pytest.mark.parametrize("seen", ["new", "pending", "running"])
def test_restarts_in_place_fail_a_task_in_whatever_observation_they_show(driver, seen):
    """Nobody promises that the one which shows a pod running comes before its restarts."""
    driver.submit(vcjob({"name": "a"}, policies=[policy("TaskFailed", "AbortJob")]))
    if seen != "new":
        driver.see(driver.replica("a", phase="Pending"))
    if seen == "running":
        driver.run("a")
    made = driver.see(driver.replica("a", phase="Running", node="n0", running=0, restarts=3))
    assert raised(driver, made) == ["TaskFailed"]
    assert driver.phase() == "Aborting"


def test_a_pod_end_without_restarts_in_place_is_not_the_tasks_end(driver):
    driver.submit(vcjob({"name": "a", "replicas": 2, "maxRetry": 1, "minAvailable": 1}, minAvailable=1))
    driver.run("a")
    assert raised(driver, driver.end("a", 0, code=1)) == ["PodFailed"]
    assert raised(driver, driver.end("a", 1)) == []


def test_a_max_retry_of_minus_one_never_fails_a_task(driver):
    driver.submit(vcjob({"name": "a", "maxRetry": -1}, policies=[policy("TaskFailed", "AbortJob")]))
    driver.run("a")
    restarting_in_place(driver, 50)
    assert driver.phase() == "Running"


def test_max_failed_raises_task_failed(driver):
    driver.submit(
        vcjob(
            {"name": "a", "replicas": 5, "minAvailable": 1},
            policies=[policy("TaskFailed", "AbortJob")],
            lahar={"tasks": {"a": {"maxFailed": 1}}},
        )
    )
    driver.run("a")
    assert raised(driver, driver.end("a", 0, code=1)) == ["PodFailed"]
    assert driver.task("a") == "Running"
    made = driver.end("a", 1, code=1)
    assert raised(driver, made) == ["PodFailed", "TaskFailed"]
    assert {(one.task, one.index, one.attempt) for one in driver.of(EventRaised, made)} == {("a", 1, 1)}
    assert (driver.task("a"), driver.phase()) == ("Failed", "Aborting")


def test_without_max_failed_any_number_may_fail(driver):
    driver.submit(vcjob({"name": "a", "replicas": 5, "minAvailable": 1}, policies=[policy("TaskFailed", "AbortJob")]))
    driver.run("a")
    for index in range(4):
        driver.end("a", index, code=1)
    assert (driver.task("a"), driver.phase()) == ("Running", "Running")


def test_a_failed_replica_that_the_policy_replaces_does_not_count(driver):
    driver.submit(
        vcjob(
            {"name": "a", "replicas": 3, "policies": [policy("PodFailed", "RestartPod")]},
            maxRetry=9,
            lahar={"tasks": {"a": {"maxFailed": 0}}},
        )
    )
    driver.run("a")
    assert raised(driver, driver.end("a", 0, code=1)) == ["PodFailed"]
    assert driver.task("a") == "Restarting"
    driver.reap()
    assert driver.task("a") == "Pending"


# --- delays ---------------------------------------------------------------------------------------------------------------------


def test_a_timeout_delays_the_action(driver):
    driver.submit(vcjob({"name": "w", "replicas": 2}, policies=[policy("PodFailed", "TerminateJob", timeout="30s")]))
    driver.run("w")
    driver.end("w", 0, code=1)
    (timer,) = driver.of(TimerSet)
    assert timer.due == START + 30 * SECOND
    driver.wait(29)
    assert driver.phase() == "Running"
    driver.crash()
    driver.wait(1)
    assert driver.phase() == "Terminating"
    assert actions(driver) == [("TerminateJob", "spec.policies[0]", "PodFailed")]
    fired = next(event for event in driver.events if isinstance(event.data, TimerFired))
    assert (fired.time, fired.data.id) == (timer.due, fired.causationid)


def test_timers_fire_at_their_time_however_late_the_next_input_comes(driver):
    driver.submit(vcjob({"name": "w", "replicas": 2}, policies=[policy("PodFailed", "TerminateJob", timeout="30s")]))
    driver.run("w")
    driver.end("w", 0, code=1)
    driver.see(pod("x", "other", 1, "Pending"), at=5000)
    fired = next(event for event in driver.events if isinstance(event.data, TimerFired))
    assert (fired.time - START, fired.recordedtime - START) == (30 * SECOND, 30 * SECOND)


def test_a_pod_that_stays_pending_meets_its_policy(driver):
    driver.submit(vcjob({"name": "w", "policies": [policy("PodPending", "RestartPod", timeout="60s")]}, maxRetry=9))
    driver.see(driver.replica("w", phase="Pending", reason="Unschedulable"))
    assert raised(driver) == ["PodPending"]
    driver.see(driver.replica("w", phase="Bound", node="n", bound=1))
    driver.wait(60)
    assert actions(driver) == [("RestartPod", "spec.tasks[0].policies[0]", "PodPending")]
    assert driver.asked("delete_pod") == [("w", 0, 1)]


@pytest.mark.parametrize("end", ["Running", "Failed", "Succeeded"])
def test_a_pod_that_is_no_longer_pending_cancels_its_wait(driver, end):
    driver.submit(vcjob({"name": "w", "replicas": 2, "policies": [policy("PodPending", "AbortJob", timeout="60s")]}))
    driver.see(driver.replica("w", 0, phase="Pending"))
    if end == "Running":
        driver.run("w", 0)
    else:
        driver.end("w", 0, code=int(end == "Failed"))
    assert len(driver.of(TimerCancelled)) == 1
    driver.wait(100)
    assert actions(driver) == []


def test_a_pod_first_seen_running_was_never_pending(driver):
    driver.submit(vcjob({"name": "w", "policies": [policy("PodPending", "AbortJob", timeout="60s")]}))
    driver.run("w")
    assert driver.of(TimerSet) == []


def test_a_policy_for_pending_without_a_timeout_never_matches(driver):
    driver.submit(vcjob({"name": "w", "policies": [policy("PodPending", "AbortJob")]}))
    driver.see(driver.replica("w", phase="Pending"))
    assert driver.phase() == "Pending"
    assert actions(driver) == []


def test_a_running_successor_cancels_what_its_predecessors_eviction_set(driver):
    driver.submit(vcjob({"name": "w", "replicas": 2}, policies=[policy("PodEvicted", "AbortJob", timeout="60s")]))
    driver.run("w")
    driver.see(driver.replica("w", 0, phase="Failed", reason="EvictedByApi", node="n0", ended=1))
    assert len(driver.job().timers) == 1
    driver.reap()
    driver.run("w", 0)
    assert driver.job().timers == {}


def test_a_second_delay_of_the_same_action_is_ignored_another_replaces_it(driver):
    policies = [
        policy("PodPending", "RestartPod", timeout="60s"),
        policy("PodEvicted", "RestartPod", timeout="90s"),
        policy("PodFailed", "AbortJob", timeout="30s"),
    ]
    driver.submit(vcjob({"name": "w", "replicas": 2, "policies": policies}))
    driver.run("w")
    driver.see(driver.replica("w", 0, phase="Failed", reason="EvictedByApi", node="n0", ended=1))
    driver.reap()
    driver.see(driver.replica("w", 0, phase="Pending"))
    assert [one.event for one in driver.job().timers.values()] == ["PodEvicted"]
    driver.end("w", 0, code=1)
    assert [(one.event, one.action) for one in driver.job().timers.values()] == [("PodFailed", "AbortJob")]


def test_an_action_makes_the_delays_of_its_class_pointless(driver):
    policies = [policy("PodEvicted", "RestartJob", timeout="60s"), policy("PodFailed", "AbortJob")]
    driver.submit(vcjob({"name": "w", "replicas": 3}, policies=policies))
    driver.run("w")
    driver.see(driver.replica("w", 0, phase="Failed", reason="EvictedByApi", node="n0", ended=1))
    assert len(driver.job().timers) == 1
    driver.end("w", 1, code=1)
    assert driver.job().timers == {}
    assert driver.phase() == "Aborting"


def test_a_finished_job_has_no_delays_left_and_gets_no_new_ones(driver):
    driver.submit(
        vcjob({"name": "w", "replicas": 2, "policies": [policy("*", "RestartPod", timeout="60s")]}, minSuccess=1, minAvailable=1)
    )
    driver.run("w")
    driver.see(driver.replica("w", 0, phase="Failed", reason="EvictedByApi", node="n0", ended=1))
    assert driver.job().timers
    driver.end("w", 1)
    assert (driver.phase(), driver.job().timers) == ("Completed", {})
    driver.see(pod("x", "j1", 1, "Pending", name="train-w-0", task="w", index=0, managed=True, attempt=9))
    assert driver.job().timers == {}
    assert driver.asked("delete_pod")[-1] == ("w", 0, 2)


# --- retries ------------------------------------------------------------------------------------------------------------------


def lose(driver, reason, **fields):
    driver.run("w")
    phase = "Lost" if reason in {"NodeLost", "ExitUnknown", "EndUnknown"} else "Failed"
    at = (driver.now - START) / SECOND
    driver.see(driver.replica("w", 0, phase=phase, reason=reason, node="n0", ended=at, **fields))
    driver.reap()


@pytest.mark.parametrize(
    ("reason", "burnt"),
    [
        ("PreemptedByScheduler", 0),
        ("EvictedByNode", 0),
        ("NodeShutdown", 0),
        ("RejectedByNode", 0),
        ("NodeLost", 0),
        ("ExitUnknown", 0),
        ("AppFailed", 1),
        ("OomKilled", 1),
        ("DeletedByApi", 0),
    ],
)
def test_only_the_users_failures_burn_a_retry(driver, reason, burnt):
    driver.submit(vcjob({"name": "w", "replicas": 2}, policies=[policy(["PodFailed", "PodEvicted"], "RestartJob")]))
    lose(driver, reason)
    assert (driver.job().restarts, driver.job().retry_count) == (1, burnt)
    assert driver.phase() == "Pending"


def test_a_max_retry_of_n_allows_n_minus_one_restarts(driver):
    driver.submit(vcjob({"name": "w"}, policies=[policy("PodFailed", "RestartJob")], maxRetry=3))
    for _ in range(3):
        lose(driver, "AppFailed")
    assert driver.path()[-2:] == ["Restarting", "Failed"]
    assert (driver.job().retry_count, len(driver.job().attempts)) == (3, 3)
    assert driver.of(JobPhaseChanged)[-1].reason == "RetriesExhausted"


def test_lost_nodes_never_exhaust_the_retries(driver):
    driver.submit(vcjob({"name": "w"}, policies=[policy("PodEvicted", "RestartJob")], maxRetry=2))
    for _ in range(9):
        lose(driver, "NodeLost")
    assert driver.phase() == "Pending"
    assert (driver.job().restarts, driver.job().retry_count) == (9, 0)


def test_a_permanent_exit_code_is_never_retried(driver):
    driver.submit(vcjob({"name": "w"}, policies=[policy("PodFailed", "RestartJob")], maxRetry=9, lahar={"permanentExitCodes": [7]}))
    lose(driver, "AppFailed", exit_code=1)
    assert driver.phase() == "Pending"
    lose(driver, "AppFailed", exit_code=7)
    assert driver.phase() == "Failed"


def test_a_commanded_restart_burns_a_retry(driver):
    driver.submit(vcjob({"name": "w"}))
    driver.run("w")
    driver.command("RestartJob")
    assert (driver.job().restarts, driver.job().retry_count) == (1, 1)


def test_the_last_retry_keeps_finished_pods(driver):
    driver.submit(vcjob({"name": "w", "replicas": 2}, policies=[policy("PodFailed", "RestartJob")], maxRetry=2))
    driver.run("w")
    made = driver.end("w", 0, code=1)
    assert driver.asked("delete_pod", made) == [("w", 0, 1), ("w", 1, 1)]
    driver.reap()
    driver.run("w")
    made = driver.end("w", 0, code=1)
    assert driver.asked("delete_pod", made) == [("w", 1, 2)]
    driver.reap()
    assert driver.phase() == "Failed"
    assert driver.job().tasks["w"].slots[0].reason == "AppFailed"
