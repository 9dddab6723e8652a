"""Managed jobs: submission, commands, restarts, stops, scaling, dependencies, limits."""

from __future__ import annotations

import pytest
from lifecycle_driver import SECOND, START, Driver, vcjob

from engine.events.actions import ActionDeferred, ActionTaken, EffectRequested, TimerCancelled, TimerSet
from engine.events.attempts import AttemptEnded, AttemptStarted
from engine.events.inputs import JobSubmitted, ObjectApplied
from engine.events.jobs import JobObjectDeleted, JobOpened, JobPhaseChanged, JobRevised, TaskPhaseChanged
from engine.events.outcomes import CommandRefused, JobRejected
from engine.lifecycle.stage import LifecycleStage


@pytest.fixture
def driver():
    return Driver()


def started(driver, *tasks, **spec):
    driver.submit(vcjob(*tasks, **spec))
    for task in tasks:
        driver.run(task["name"])


def refusal(driver):
    return driver.of(CommandRefused)[-1].reason


# --- submission -------------------------------------------------------------------------------------------------------


def test_an_accepted_job_asks_for_its_pods_at_once(driver):
    made = driver.submit(vcjob({"name": "a"}, {"name": "b", "replicas": 2}))
    assert driver.outcome == "applied"
    (opened,) = driver.of(JobOpened)
    assert (opened.managed, opened.kind, opened.name, opened.owner) == (True, "VCJob", "train", True)
    assert opened.spec.tasks[0].template is not None
    assert driver.job().spec.tasks[0].template is None
    assert driver.asked("create_pod", made) == [("a", 0, 1), ("b", 0, 1), ("b", 1, 1)]
    assert [one.pod for one in driver.of(EffectRequested)] == ["train-a-0", "train-b-0", "train-b-1"]


def test_a_pod_is_asked_for_because_its_attempt_has_started(driver):
    made = driver.submit(vcjob({"name": "a", "replicas": 2}))
    started_by = [event.id for event in made if isinstance(event.data, AttemptStarted)]
    assert [event.causationid for event in made if isinstance(event.data, EffectRequested)] == started_by


def test_a_strict_submission_may_say_nothing_unknown(driver):
    manifest = vcjob({"name": "a"}, maxRetries=3)
    driver.submit(manifest, strict=True)
    assert driver.outcome == "rejected"
    driver.submit(manifest)
    assert driver.outcome == "applied"


def test_a_submission_has_no_more_replicas_than_the_shard_lets_a_job_have():
    driver = Driver(LifecycleStage(max_replicas=5))
    driver.submit(vcjob({"name": "a", "replicas": 6}))
    assert driver.outcome == "rejected"
    driver.submit(vcjob({"name": "a", "replicas": 5}))
    assert driver.outcome == "applied"


def test_a_job_that_breaks_rules_is_rejected_with_the_path_of_each_fault(driver):
    driver.submit(vcjob({"name": "a", "replicas": 2, "minAvailable": 3}, {"name": "a"}, queue="ghost"))
    assert driver.outcome == "rejected"
    (rejected,) = driver.of(JobRejected)
    assert all(fault.path.startswith("spec.") for fault in rejected.faults)
    assert len(rejected.faults) >= 2
    assert not driver.job().opened
    assert driver.asked("create_pod") == []


@pytest.mark.parametrize("key", ["one", "two"])
def test_a_rejected_object_of_an_api_server_is_judged_again_if_corrected(driver, key):
    """A watch submits each generation of an object under the same id."""

    def watched(*tasks, **spec):
        manifest = vcjob(*tasks, **spec)
        return {**manifest, "metadata": {**manifest["metadata"], "uid": "u1"}}

    for outcome in ("rejected", "duplicate"):
        driver.submit(watched({"name": "a", "minAvailable": 2}), key="one")
        assert driver.outcome == outcome
        driver.crash()
    driver.submit(watched({"name": "a", "minAvailable": 2}, queue="ghost"), key="one")
    assert driver.outcome == "rejected"
    for outcome in ("applied", "duplicate"):
        driver.submit(watched({"name": "a"}), key=key)
        assert driver.outcome == outcome
    driver.submit(watched({"name": "a", "minAvailable": 2}), key="one")
    assert driver.outcome in {"duplicate", "refused"}


def test_a_corrected_manifest_needs_a_new_id(driver):
    driver.submit(vcjob({"name": "a", "minAvailable": 2}), key="one")
    assert driver.outcome == "rejected"
    for _ in range(2):
        driver.submit(vcjob({"name": "a"}), key="one")
        assert driver.outcome == "duplicate"
        driver.crash()
    driver.submit(vcjob({"name": "a"}), key="two")
    assert driver.outcome == "applied"
    driver.submit(vcjob({"name": "b"}), key="one")
    assert driver.outcome == "duplicate"


def test_an_id_that_another_sender_used_in_vain_is_free(driver):
    wrong, right = vcjob({"name": "a", "minAvailable": 2}), vcjob({"name": "a"})
    driver.take(driver.event(JobSubmitted(wrong, principal="mallory"), "j1", "one"))
    assert driver.outcome == "rejected"
    driver.take(driver.event(JobSubmitted(right), "j1", "one"))
    assert driver.outcome == "applied"


def test_a_second_submission_of_a_job_is_a_duplicate_or_refused(driver):
    driver.submit(vcjob({"name": "a"}), key="one")
    driver.submit(vcjob({"name": "a"}), key="one")
    assert driver.outcome == "duplicate"
    driver.submit(vcjob({"name": "a"}), key="two")
    assert driver.outcome == "refused"


def test_a_queue_that_was_applied_is_known_to_the_rules(driver):
    driver.submit(vcjob({"name": "a"}, queue="gpu"), "j1")
    assert driver.outcome == "rejected"
    driver.take(driver.event(ObjectApplied("Queue", "gpu", {"state": "Open"}), "gpu"))
    driver.submit(vcjob({"name": "a"}, queue="gpu"), "j2")
    assert driver.outcome == "applied"


def test_a_gang_runs_when_enough_pods_have_started(driver):
    driver.submit(vcjob({"name": "a", "replicas": 3}, minAvailable=2))
    driver.run("a", 0)
    assert driver.phase() == "Pending"
    driver.run("a", 1)
    assert driver.path() == ["Running"]


def test_a_gang_that_loses_too_many_is_pending_again(driver):
    started(driver, {"name": "a", "replicas": 2})
    driver.see(driver.replica("a", 0, phase="Lost", reason="NodeLost", node="n0", ended=1))
    assert driver.path() == ["Running"]
    driver.reap()
    assert driver.path() == ["Running", "Pending"]
    driver.run("a", 0)
    assert driver.path() == ["Running", "Pending", "Running"]


# --- how a job ends ---------------------------------------------------------------------------------------------------


def test_a_job_completes_when_all_have_ended_and_enough_have_succeeded(driver):
    started(driver, {"name": "a", "replicas": 3, "minAvailable": 2}, minAvailable=2)
    driver.end("a", 0)
    driver.end("a", 1, code=1)
    assert driver.phase() == "Running"
    driver.end("a", 2)
    assert driver.path() == ["Running", "Completed"]
    assert (driver.task("a"), driver.job().live) == ("Failed", 0)


def test_a_task_that_falls_short_of_its_minimum_fails_the_job(driver):
    started(driver, {"name": "a"}, {"name": "b"})
    driver.end("a")
    driver.end("b", code=1)
    assert driver.phase() == "Failed"


def test_a_task_below_its_minimum_fails_a_job_with_enough_successes(driver):
    started(driver, {"name": "a", "replicas": 2, "minAvailable": 1}, {"name": "b"}, minAvailable=2)
    driver.end("a")
    driver.end("b", code=1)
    assert driver.phase() == "Failed"


def test_a_min_success_completes_the_job_and_stops_its_live_pods(driver):
    started(driver, {"name": "a", "replicas": 3}, minSuccess=2)
    driver.end("a", 0)
    made = driver.end("a", 1)
    assert driver.phase() == "Completed"
    assert driver.asked("delete_pod", made) == [("a", 2, 1)]
    driver.reap()
    assert driver.of(AttemptEnded)[-1].reason == "KilledByAction"
    assert driver.job().rest is not None


def test_a_min_success_stops_pods_that_pend_too(driver):
    driver.submit(vcjob({"name": "a", "replicas": 3}, minSuccess=1, minAvailable=1))
    driver.run("a", 0, 1)
    driver.see(driver.replica("a", 2, phase="Pending"))
    made = driver.end("a", 0)
    assert driver.phase() == "Completed"
    assert driver.asked("delete_pod", made) == [("a", 1, 1), ("a", 2, 1)]


def test_a_min_success_that_is_missed_fails_the_job(driver):
    started(driver, {"name": "a", "replicas": 3, "minAvailable": 1}, minSuccess=2, minAvailable=1)
    driver.end("a", 0)
    driver.end("a", 1, code=1)
    driver.end("a", 2, code=1)
    assert driver.phase() == "Failed"


# --- commands ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "through", "end", "task"),
    [
        ("AbortJob", "Aborting", "Aborted", None),
        ("TerminateJob", "Terminating", "Terminated", "Failed"),
        ("CompleteJob", "Completing", "Completed", "Failed"),
    ],
)
def test_a_stop_waits_until_the_pods_are_gone(driver, action, through, end, task):
    started(driver, {"name": "a", "replicas": 2})
    driver.end("a", 0)
    made = driver.command(action, reason="enough")
    assert driver.phase() == through
    assert driver.asked("delete_pod", made) == [("a", 1, 1)]
    (taken,) = driver.of(ActionTaken)
    assert (taken.by, taken.reason, taken.policy) == ("ann", "enough", None)
    driver.reap()
    assert driver.path() == ["Running", through, end]
    if task:
        assert driver.task("a") == task


def test_pods_that_are_not_seen_after_a_stop_were_never_made(driver):
    driver.submit(vcjob({"name": "a", "replicas": 2}))
    driver.command("AbortJob")
    driver.wait(59)
    assert driver.phase() == "Aborting"
    driver.wait(1)
    assert [end.reason for end in driver.of(AttemptEnded)] == ["NeverStarted", "NeverStarted"]
    assert driver.path() == ["Aborting", "Aborted"]


def test_a_pod_that_was_never_seen_ends_no_earlier_than_it_was_stopped(driver):
    driver.submit(vcjob({"name": "a", "replicas": 2}))
    driver.wait(3600)
    driver.command("AbortJob")
    driver.wait(60)
    ends = [event.time for event in driver.events if isinstance(event.data, AttemptEnded)]
    assert ends == [START + 3600 * SECOND] * 2


def test_an_aborted_job_is_resumed(driver):
    started(driver, {"name": "a", "replicas": 2})
    driver.end("a", 0)
    driver.command("AbortJob")
    driver.reap()
    made = driver.command("ResumeJob")
    assert driver.path()[-3:] == ["Aborted", "Restarting", "Pending"]
    assert driver.job().retry_count == 1
    assert driver.asked("create_pod", made) == [("a", 1, 2)]
    driver.run("a", 1)
    assert (driver.phase(), driver.task("a")) == ("Running", "Running")
    driver.end("a", 1)
    assert driver.phase() == "Completed"


def test_a_job_can_be_resumed_while_it_is_aborting(driver):
    started(driver, {"name": "a"})
    driver.command("AbortJob")
    driver.command("ResumeJob")
    assert driver.phase() == "Restarting"
    driver.reap()
    assert driver.phase() == "Pending"
    assert driver.job().tasks["a"].slots[0].number == 2


def test_restarting_a_job_kills_every_pod_and_makes_them_anew(driver):
    started(driver, {"name": "a"}, {"name": "b"}, maxRetry=5)
    driver.end("a")
    made = driver.command("RestartJob")
    assert driver.asked("delete_pod", made) == [("a", 0, 1), ("b", 0, 1)]
    assert [driver.task(name) for name in "ab"] == ["Restarting", "Restarting"]
    made = driver.reap()
    assert driver.asked("create_pod", made) == [("a", 0, 2), ("b", 0, 2)]
    assert driver.path() == ["Running", "Restarting", "Pending"]
    assert driver.job().version == 1


def test_restarting_a_task_leaves_the_others_alone(driver):
    started(driver, {"name": "a", "replicas": 2}, {"name": "b"}, maxRetry=5)
    made = driver.command("RestartTask", task="a")
    assert driver.asked("delete_pod", made) == [("a", 0, 1), ("a", 1, 1)]
    assert (driver.task("a"), driver.task("b")) == ("Restarting", "Running")
    driver.reap()
    driver.run("a")
    assert (driver.phase(), driver.task("a"), driver.job().version) == ("Running", "Running", 0)


def test_restarting_a_pod_leaves_the_others_alone(driver):
    started(driver, {"name": "a", "replicas": 3}, maxRetry=5)
    made = driver.command("RestartPod", task="a", index=1)
    assert driver.asked("delete_pod", made) == [("a", 1, 1)]
    made = driver.reap()
    assert driver.asked("create_pod", made) == [("a", 1, 2)]


def test_restarting_a_partition_leaves_the_others_alone(driver):
    partition = {"totalPartitions": 2, "partitionSize": 2}
    started(driver, {"name": "a", "replicas": 4, "partitionPolicy": partition}, maxRetry=5)
    made = driver.command("RestartPartition", task="a", partition=1)
    assert driver.asked("delete_pod", made) == [("a", 2, 1), ("a", 3, 1)]
    driver.command("RestartPartition", task="a", partition=2)
    assert driver.outcome == "refused"


def test_restarting_a_partition_without_pods_is_refused(driver):
    waits = {
        "name": "b",
        "replicas": 4,
        "dependsOn": {"name": ["a"]},
        "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2},
    }
    started(driver, {"name": "a"}, waits, maxRetry=5)
    made = driver.command("RestartPartition", task="b", partition=0)
    assert driver.outcome == "refused"
    assert [refused.reason for refused in driver.of(CommandRefused, made)] == ["partition 0 of task b has no pods"]


def test_what_leaves_no_event_is_not_said_to_be_applied(driver, monkeypatch):
    """Else the processor would park the job for it."""
    started(driver, {"name": "a"})
    monkeypatch.setattr("engine.lifecycle.commands.commanded", lambda *_: iter(()))
    assert driver.command("RestartJob") == []
    assert driver.outcome == "unchanged"


def test_a_policy_restarts_the_partition_of_the_pod(driver):
    partition = {"totalPartitions": 2, "partitionSize": 2}
    task = {"name": "a", "replicas": 4, "partitionPolicy": partition}
    started(driver, task, maxRetry=5, policies=[{"event": "PodFailed", "action": "RestartPartition"}])
    made = driver.end("a", 3, code=1)
    assert driver.asked("delete_pod", made) == [("a", 2, 1), ("a", 3, 1)]


@pytest.mark.parametrize(
    ("action", "fields", "why"),
    [
        ("ResumeJob", {}, "only an aborted job can be resumed"),
        ("SyncJob", {}, "internal"),
        ("RestartTask", {"task": "ghost"}, "no task 'ghost'"),
        ("RestartPod", {"task": "a", "index": 9}, "no replica 9"),
        ("RestartPod", {"task": "a"}, "RestartPod of which replica of task a? Give its number"),
        ("RestartPartition", {"task": "a", "partition": 0}, "no partition 0"),
        ("Unpark", {}, "not parked"),
    ],
)
def test_a_command_that_cannot_be_carried_out_is_refused_with_the_reason(driver, action, fields, why):
    started(driver, {"name": "a"})
    made = driver.command(action, **fields)
    assert driver.outcome == "refused"
    assert why in refusal(driver)
    assert len(made) == 1


def test_a_command_for_an_unknown_job_is_refused(driver):
    driver.command("AbortJob", "ghost")
    assert driver.outcome == "refused"
    driver.delete("ghost")
    assert driver.outcome == "refused"
    driver.update(vcjob({"name": "a"}), "ghost")
    assert driver.outcome == "refused"


@pytest.mark.parametrize("action", ["AbortJob", "RestartJob", "TerminateJob"])
def test_a_finished_job_takes_no_commands(driver, action):
    started(driver, {"name": "a"})
    driver.end("a")
    driver.command(action)
    assert "final" in refusal(driver)


@pytest.mark.parametrize("stop", ["AbortJob", "CompleteJob", "TerminateJob"])
def test_a_job_that_is_being_stopped_takes_no_other_command(driver, stop):
    started(driver, {"name": "a"})
    driver.command(stop)
    driver.command("RestartJob")
    assert driver.outcome == "refused"


def test_a_command_counts_once(driver):
    started(driver, {"name": "a"}, maxRetry=9)
    driver.command("RestartJob", key="client-chosen-id-000001")
    driver.command("RestartJob", key="client-chosen-id-000001")
    assert driver.outcome == "duplicate"
    driver.command("RestartJob", key="client-chosen-id-000002")
    assert driver.outcome == "applied"


# --- stops asked for during a restart ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("action", "end"), [("AbortJob", "Aborted"), ("TerminateJob", "Terminated"), ("CompleteJob", "Completed")])
def test_a_stop_during_a_restart_is_remembered_and_carried_out_next(driver, action, end):
    started(driver, {"name": "a"}, maxRetry=5)
    driver.command("RestartJob")
    driver.command(action, reason="stop it", key="client-chosen-id-000001")
    assert driver.outcome == "applied"
    driver.command(action, reason="stop it", key="client-chosen-id-000001")
    assert driver.outcome == "duplicate"
    assert driver.phase() == "Restarting"
    (remembered,) = [event for event in driver.events if isinstance(event.data, ActionDeferred)]
    assert remembered.data.action == action
    driver.crash()
    driver.reap()
    carried_out = [event for event in driver.events if isinstance(event.data, ActionTaken)][-1]
    assert carried_out.causationid == remembered.id
    taken = carried_out.data
    assert (taken.action, taken.deferred, taken.by, taken.reason) == (action, True, "ann", "stop it")
    assert driver.phase() == end
    assert driver.job().deferred is None
    assert driver.asked("create_pod") == [("a", 0, 1)]


def test_a_stop_by_policy_during_a_restart_is_remembered_too(driver):
    policies = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    started(driver, {"name": "a", "policies": policies}, {"name": "b"}, maxRetry=5)
    driver.command("RestartTask", task="b")
    driver.end("a")
    assert driver.of(ActionDeferred)[0].policy == "spec.tasks[0].policies[0]"
    driver.reap()
    assert driver.phase() == "Completed"
    assert driver.job().tasks["a"].slots[0].phase == "Succeeded"


def test_a_restart_without_retries_left_ends_the_job_and_clears_its_memory(driver):
    started(driver, {"name": "a"}, maxRetry=1)
    driver.command("RestartJob")
    assert driver.phase() == "Failed"
    assert driver.job().deferred is None


# --- deletion of the job ----------------------------------------------------------------------------------------------


def test_a_deleted_job_is_terminated(driver):
    started(driver, {"name": "a"})
    driver.delete()
    assert driver.phase() == "Terminating"
    driver.reap()
    assert driver.phase() == "Terminated"
    driver.delete()
    assert driver.outcome == "unchanged"


@pytest.mark.parametrize("when", ["Aborting", "Aborted"])
def test_a_deleted_job_that_was_aborted_comes_to_an_end(driver, when):
    started(driver, {"name": "a"})
    driver.command("AbortJob")
    if when == "Aborted":
        driver.reap()
    driver.delete()
    driver.reap()
    assert driver.path()[-2:] == ["Aborted", "Terminated"]
    driver.command("ResumeJob")
    assert driver.outcome == "refused"


def test_a_job_deleted_during_a_restart_is_terminated_after_it(driver):
    started(driver, {"name": "a"}, maxRetry=5)
    driver.command("RestartJob")
    driver.delete()
    driver.reap()
    assert driver.phase() == "Terminated"


def test_a_deleted_job_that_has_finished_stays_as_it_is(driver):
    started(driver, {"name": "a"})
    driver.end("a")
    driver.delete()
    assert driver.path() == ["Running", "Completed"]
    assert len(driver.of(JobObjectDeleted)) == 1


# --- updates ----------------------------------------------------------------------------------------------------------


def test_a_task_is_scaled_up(driver):
    started(driver, {"name": "a", "replicas": 2})
    made = driver.update(vcjob({"name": "a", "replicas": 4}))
    assert driver.asked("create_pod", made) == [("a", 2, 1), ("a", 3, 1)]
    assert driver.phase() == "Pending"
    driver.run("a", 2, 3)
    assert (driver.phase(), driver.task("a")) == ("Running", "Running")


def test_a_task_is_scaled_down_from_the_highest_index(driver):
    started(driver, {"name": "a", "replicas": 4, "minAvailable": 1}, minAvailable=1)
    driver.end("a", 3)
    made = driver.update(vcjob({"name": "a", "replicas": 2, "minAvailable": 1}, minAvailable=1))
    assert driver.asked("delete_pod", made) == [("a", 2, 1), ("a", 3, 1)]
    driver.reap()
    ended = {(end.index, end.reason) for end in driver.of(AttemptEnded)}
    assert ended == {(3, None), (2, "KilledByAction")}
    assert driver.asked("create_pod") == [("a", index, 1) for index in range(4)]
    driver.end("a", 0, 1)
    assert driver.phase() == "Completed"


def test_a_task_that_was_scaled_down_can_grow_again(driver):
    started(driver, {"name": "a", "replicas": 2, "minAvailable": 1}, minAvailable=1)
    driver.update(vcjob({"name": "a", "replicas": 1, "minAvailable": 1}, minAvailable=1))
    driver.reap()
    made = driver.update(vcjob({"name": "a", "replicas": 2, "minAvailable": 1}, minAvailable=1))
    assert driver.asked("create_pod", made) == [("a", 1, 2)]


def test_a_task_that_grows_while_its_surplus_is_going_waits_for_it(driver):
    started(driver, {"name": "a", "replicas": 2, "minAvailable": 1}, minAvailable=1)
    driver.update(vcjob({"name": "a", "replicas": 1, "minAvailable": 1}, minAvailable=1))
    made = driver.update(vcjob({"name": "a", "replicas": 2, "minAvailable": 1}, minAvailable=1))
    assert driver.asked("create_pod", made) == []
    made = driver.reap()
    assert driver.asked("create_pod", made) == [("a", 1, 2)]


def test_an_update_of_anything_else_is_rejected_with_its_path(driver):
    started(driver, {"name": "a"})
    driver.update(vcjob({"name": "a"}, queue="default", maxRetry=8))
    assert driver.outcome == "rejected"
    assert [fault.path for fault in driver.of(JobRejected)[-1].faults] == ["spec.maxRetry"]
    assert driver.of(JobRejected)[-1].update


def test_an_update_that_changes_nothing_is_unchanged(driver):
    started(driver, {"name": "a"})
    driver.update(vcjob({"name": "a"}))
    assert driver.outcome == "unchanged"
    assert driver.of(JobRevised) == []


def test_a_smaller_minimum_lets_a_waiting_job_run(driver):
    driver.submit(vcjob({"name": "a", "replicas": 2}))
    driver.run("a", 0)
    driver.update(vcjob({"name": "a", "replicas": 2}, minAvailable=1))
    assert driver.phase() == "Running"


# --- dependencies -----------------------------------------------------------------------------------------------------


def test_a_task_waits_for_those_that_it_depends_on(driver):
    driver.submit(vcjob({"name": "a", "replicas": 2}, {"name": "b", "dependsOn": {"name": ["a"]}}))
    assert driver.asked("create_pod") == [("a", 0, 1), ("a", 1, 1)]
    assert driver.task("b") == "Waiting"
    driver.run("a", 0, ready=True)
    driver.run("a", 1)
    assert driver.task("b") == "Waiting"
    made = driver.run("a", 1, ready=True)
    assert driver.asked("create_pod", made) == [("b", 0, 1)]
    assert driver.task("b") == "Pending"


def test_succeeded_pods_count_as_ready(driver):
    driver.submit(vcjob({"name": "a"}, {"name": "b", "dependsOn": {"name": ["a"]}}))
    driver.run("a")
    driver.end("a")
    assert driver.task("b") == "Pending"


@pytest.mark.parametrize(("iteration", "starts"), [("any", True), ("all", False)])
def test_one_of_several_dependencies_is_enough_with_any(driver, iteration, starts):
    depends = {"name": ["a", "b"], "iteration": iteration}
    driver.submit(vcjob({"name": "a"}, {"name": "b"}, {"name": "c", "dependsOn": depends}))
    made = driver.run("b", ready=True)
    assert (driver.asked("create_pod", made) == [("c", 0, 1)]) == starts
    driver.run("a", ready=True)
    assert driver.task("c") == "Pending"


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_job_that_is_active_for_too_long_is_terminated(driver):
    driver.submit(vcjob({"name": "a"}, lahar={"activeDeadlineSeconds": 100}))
    driver.run("a")
    driver.wait(99)
    assert driver.phase() == "Running"
    driver.wait(1)
    assert driver.phase() == "Terminating"
    driver.reap()
    assert (driver.phase(), driver.of(AttemptEnded)[-1].reason) == ("Terminated", "KilledByAction")


def test_a_deadline_during_a_restart_is_remembered(driver):
    driver.submit(vcjob({"name": "a"}, maxRetry=5, lahar={"activeDeadlineSeconds": 100}))
    driver.run("a")
    driver.wait(90)
    driver.command("RestartJob")
    driver.wait(20)
    assert driver.phase() == "Restarting"
    driver.reap()
    assert driver.phase() == "Terminated"


def test_a_job_that_ends_in_time_cancels_its_deadline(driver):
    driver.submit(vcjob({"name": "a"}, lahar={"activeDeadlineSeconds": 100}))
    driver.run("a")
    driver.end("a")
    assert len(driver.of(TimerCancelled)) == 1
    driver.wait(1000)
    assert driver.phase() == "Completed"


def test_a_finished_job_is_deleted_after_its_time_to_live(driver):
    started(driver, {"name": "a"}, ttlSecondsAfterFinished=60)
    driver.wait(10)
    driver.end("a")
    (timer,) = driver.of(TimerSet)
    assert (timer.timer, timer.due) == ("ttl", START + 70 * SECOND)
    made = driver.wait(60)
    assert [one.effect for one in driver.of(EffectRequested, made)] == ["delete_job"]


def test_a_node_with_a_fast_clock_does_not_delay_a_jobs_deletion(driver):
    started(driver, {"name": "a"}, ttlSecondsAfterFinished=60)
    driver.wait(10)
    driver.end("a", ended=100 * 365 * 86_400)
    made = driver.wait(60)
    assert [one.effect for one in driver.of(EffectRequested, made)] == ["delete_job"]


def test_an_aborted_job_is_kept(driver):
    started(driver, {"name": "a"}, ttlSecondsAfterFinished=60)
    driver.command("AbortJob")
    driver.reap()
    assert driver.of(TimerSet) == []


# --- restarts of tasks and their phases -------------------------------------------------------------------------------


def test_a_task_tells_its_own_story(driver):
    started(driver, {"name": "a", "replicas": 2}, maxRetry=9)
    driver.command("RestartTask", task="a")
    driver.reap()
    driver.run("a")
    driver.end("a")
    phases = [change.phase for change in driver.of(TaskPhaseChanged)]
    assert phases == ["Running", "Restarting", "Pending", "Running", "Completed"]


def test_tasks_of_a_failed_job_that_did_not_complete_have_failed(driver):
    started(driver, {"name": "a"}, {"name": "b"})
    driver.end("a")
    driver.end("b", code=1)
    assert (driver.task("a"), driver.task("b")) == ("Completed", "Failed")


def test_job_phases_carry_the_counts_after_the_change(driver):
    started(driver, {"name": "a"}, maxRetry=5)
    driver.command("RestartJob")
    change = driver.of(JobPhaseChanged)[-1]
    assert (change.phase, change.reason, change.retry_count, change.restarts, change.version) == (
        "Restarting",
        "RestartJob",
        1,
        1,
        1,
    )


def test_a_task_of_an_aborted_job_does_not_run_once_its_pods_have_ended(driver):
    """One pod failed by itself and keeps its object; the other one is stopped by the abort."""
    driver.submit(vcjob({"name": "w", "replicas": 2}))
    driver.run("w", 0, 1)
    driver.end("w", 0, code=1)
    driver.command("AbortJob")
    assert (driver.phase(), driver.task("w")) == ("Aborting", "Running")
    driver.reap()
    assert (driver.phase(), driver.task("w")) == ("Aborted", "Pending")
    driver.command("ResumeJob")
    driver.reap()
    driver.run("w", 0, 1)
    assert (driver.phase(), driver.task("w")) == ("Running", "Running")
