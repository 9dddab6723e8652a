"""Custom events, raise rules, main tasks."""

from __future__ import annotations

import pytest
from lifecycle_driver import SECOND, START, Driver, vcjob

from engine.events.actions import ActionTaken, EventRaised, TimerSet
from engine.events.attempts import AttemptEnded
from engine.events.inputs import CommandIssued
from engine.events.outcomes import Anomaly, CommandRefused


@pytest.fixture
def driver():
    return Driver()


def started(driver, *tasks, **spec):
    driver.submit(vcjob(*tasks, **spec))
    assert driver.outcome == "applied", driver.events[-1].data
    for task in tasks:
        driver.run(task["name"])


def raised(driver, events=None):
    return [one.event for one in driver.of(EventRaised, events)]


def taken(driver):
    return [one.action for one in driver.of(ActionTaken)]


# --- from outside ---------------------------------------------------------------------------------------------------------------


DECLARED = {"customEvents": {"Checkpointed": {"type": "object", "required": ["step"], "properties": {"step": {"type": "integer"}}}}}


def test_a_declared_event_is_answered_by_a_policy(driver):
    started(driver, {"name": "a"}, policies=[{"event": "Checkpointed", "action": "CompleteJob"}], lahar=DECLARED)
    made = driver.custom("Checkpointed", data={"step": 7}, by="ann")
    (event,) = driver.of(EventRaised, made)
    assert (event.data, event.by, event.rule) == ({"step": 7}, "ann", None)
    assert driver.phase() == "Completing"


def test_a_policy_for_any_event_answers_custom_ones_too(driver):
    started(driver, {"name": "a"}, policies=[{"event": "*", "action": "AbortJob"}], lahar=DECLARED)
    driver.custom("Checkpointed", data={"step": 7})
    assert driver.phase() == "Aborting"


def test_a_custom_event_of_a_task_asks_the_policies_of_the_task_first(driver):
    policies = [{"event": "Checkpointed", "action": "RestartTask"}]
    task = {"name": "a", "policies": policies}
    started(driver, task, {"name": "b"}, policies=[{"event": "Checkpointed", "action": "AbortJob"}], lahar=DECLARED, maxRetry=9)
    made = driver.custom("Checkpointed", data={"step": 7}, task="a")
    assert driver.asked("delete_pod", made) == [("a", 0, 1)]


def test_a_custom_event_of_a_task_in_partitions_is_of_none_of_them(driver):
    task = {"name": "a", "replicas": 4, "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2}}
    policies = [{"event": "Checkpointed", "action": "RestartTask"}]
    started(driver, task, policies=policies, lahar=DECLARED, maxRetry=9)
    made = driver.custom("Checkpointed", data={"step": 7}, task="a")
    assert [(one.task, one.partition) for one in driver.of(ActionTaken, made)] == [("a", None)]
    assert len(driver.asked("delete_pod", made)) == 4


def test_a_custom_event_may_lead_to_a_delayed_action(driver):
    started(driver, {"name": "a"}, policies=[{"event": "Checkpointed", "action": "AbortJob", "timeout": "10s"}], lahar=DECLARED)
    driver.custom("Checkpointed", data={"step": 7})
    assert len(driver.of(TimerSet)) == 1
    driver.wait(10)
    assert driver.phase() == "Aborting"


@pytest.mark.parametrize(
    ("event", "fields", "why"),
    [
        ("Ghost", {}, "does not declare"),
        ("Checkpointed", {"data": {"step": "seven"}}, "data.step"),
        ("Checkpointed", {"data": {}}, "step"),
        ("Checkpointed", {"data": {"step": 1}, "task": "ghost"}, "no task"),
        ("PodFailed", {}, "does not declare"),
    ],
)
def test_an_event_that_was_not_declared_so_is_refused(driver, event, fields, why):
    started(driver, {"name": "a"}, lahar=DECLARED)
    driver.custom(event, **fields)
    assert driver.outcome == "refused"
    assert why in driver.of(CommandRefused)[-1].reason


def test_an_event_of_a_finished_or_unknown_job_is_refused(driver):
    started(driver, {"name": "a"}, lahar=DECLARED)
    driver.end("a")
    driver.custom("Checkpointed", data={"step": 1})
    assert driver.outcome == "refused"
    driver.custom("Checkpointed", "ghost", data={"step": 1})
    assert driver.outcome == "refused"


def test_a_custom_event_counts_once(driver):
    started(driver, {"name": "a"}, lahar=DECLARED)
    driver.custom("Checkpointed", data={"step": 1}, key="same")
    driver.custom("Checkpointed", data={"step": 1}, key="same")
    assert (driver.outcome, raised(driver)) == ("duplicate", ["Checkpointed"])


# --- by a rule --------------------------------------------------------------------------------------------------------------------


def test_a_rule_raises_an_event_on_a_transition(driver):
    rule = {"raise": "Merged", "when": {"task": "a", "phase": "Completed"}}
    started(driver, {"name": "a"}, {"name": "b"}, policies=[{"event": "Merged", "action": "CompleteJob"}], lahar={"raise": [rule]})
    made = driver.end("a")
    (event,) = [one for one in driver.of(EventRaised, made) if one.event == "Merged"]
    assert (event.task, event.rule, event.depth) == ("a", 0, 1)
    assert driver.phase() == "Completing"


@pytest.mark.parametrize(
    ("when", "code", "hit"),
    [
        ({"level": "replica", "phase": "Failed"}, 3, True),
        ({"level": "replica", "exitCode": 3}, 3, True),
        ({"level": "replica", "exitCode": 4}, 3, False),
        ({"level": "replica", "reason": "AppFailed"}, 3, True),
        ({"level": "replica", "reason": "OomKilled"}, 3, False),
        ({"level": "replica", "phase": "Failed", "task": "a"}, 3, True),
        ({"level": "replica", "phase": "Failed", "task": "b"}, 3, False),
        ({"level": "job", "phase": "Failed"}, 3, True),
        ({"level": "task", "phase": "Failed"}, 3, True),
        ({"level": "task", "phase": "Failed"}, 0, False),
        ({"level": "job", "phase": "Completed"}, 0, True),
    ],
)
def test_every_condition_of_a_rule_counts(driver, when, code, hit):
    started(driver, {"name": "a"}, {"name": "b"}, lahar={"raise": [{"raise": "It", "when": when}]})
    driver.end("b")
    driver.end("a", code=code)
    assert ("It" in raised(driver)) == hit


def test_what_a_rule_has_counted_is_forgotten_when_its_job_begins_anew(driver):
    rule = {"raise": "Half", "when": {"level": "replica", "phase": "Succeeded", "count": 2}}
    started(driver, {"name": "a", "replicas": 3}, maxRetry=9, lahar={"raise": [rule]})
    driver.end("a", 0)
    driver.command("RestartJob")
    driver.reap()
    driver.run("a")
    driver.end("a", 1)
    assert raised(driver).count("Half") == 0
    driver.end("a", 2)
    assert raised(driver).count("Half") == 1


def test_a_rule_with_a_count_fires_once_when_so_many_subjects_have_matched(driver):
    rule = {"raise": "Half", "when": {"level": "replica", "phase": "Succeeded", "count": 2}}
    started(driver, {"name": "a", "replicas": 4}, lahar={"raise": [rule]})
    driver.end("a", 0)
    assert raised(driver) == []
    driver.crash()
    driver.end("a", 1)
    assert raised(driver) == ["Half"]
    driver.end("a", 2)
    assert raised(driver) == ["Half"]


def test_a_rule_fires_once_for_each_subject_and_job_version(driver):
    rule = {"raise": "Died", "when": {"level": "replica", "phase": "Failed", "reason": "OomKilled"}}
    policies = [{"event": "PodFailed", "action": "RestartPod"}]
    started(driver, {"name": "a", "replicas": 2, "policies": policies}, lahar={"raise": [rule]}, maxRetry=99)
    for _ in range(2):
        driver.run("a", 0)
        driver.end("a", 0, code=137, reason="OomKilled")
    assert raised(driver).count("Died") == 1
    driver.run("a", 0)
    driver.end("a", 1, code=137, reason="OomKilled")
    assert raised(driver).count("Died") == 2
    driver.run("a", 1)
    driver.command("RestartJob")
    driver.reap()
    driver.run("a")
    driver.end("a", 0, code=137, reason="OomKilled")
    assert raised(driver).count("Died") == 3


def test_a_chain_of_events_deeper_than_eight_ends_in_an_anomaly(driver):
    rule = {"raise": "Again", "when": {"level": "job", "phase": "Pending"}}
    driver.submit(vcjob({"name": "a"}, maxRetry=99, policies=[{"event": "Again", "action": "RestartJob"}], lahar={"raise": [rule]}))
    assert driver.outcome == "applied"
    assert raised(driver) == ["Again"] * 8
    assert [one.depth for one in driver.of(EventRaised)] == list(range(1, 9))
    (anomaly,) = driver.of(Anomaly)
    assert "chain of 8" in anomaly.what
    assert driver.phase() == "Pending"


@pytest.mark.parametrize(
    "answers",
    [{"Pending": "RestartJob"}, {"Pending": "AbortJob", "Aborted": "ResumeJob"}],
    ids=["restarted", "aborted and resumed"],
)
def test_a_chain_whose_actions_are_delayed_is_no_longer(answers):
    """Else one job of no replicas keeps a shard busy for ever: its timers come before the next input, a microsecond apart."""
    driver = Driver()
    rules = [{"raise": phase, "when": {"level": "job", "phase": phase}} for phase in answers]
    policies = [{"event": phase, "action": action, "timeout": "1us"} for phase, action in answers.items()]
    manifest = vcjob({"name": "a", "replicas": 0}, minAvailable=0, maxRetry=2**31 - 1, policies=policies, lahar={"raise": rules})
    driver.submit(manifest)
    for _ in range(20):
        driver.crash()
        driver.wait(1)
    assert [one.depth for one in driver.of(EventRaised)] == list(range(1, 9))
    assert ["chain of 8" in anomaly.what for anomaly in driver.of(Anomaly)] == [True]
    assert driver.job().timers == {}


def test_what_a_pod_shows_begins_a_chain_of_its_own(driver):
    """A job may be restarted by a delayed action as often as its pods run."""
    rule = {"raise": "Again", "when": {"level": "job", "phase": "Running"}}
    policies = [{"event": "Again", "action": "RestartJob", "timeout": "1h"}]
    driver.submit(vcjob({"name": "a"}, maxRetry=99, policies=policies, lahar={"raise": [rule]}))
    for _ in range(12):
        driver.run("a")
        driver.wait(3_600)
        driver.reap()
    assert [one.depth for one in driver.of(EventRaised) if one.event == "Again"] == [1] * 12
    assert driver.of(Anomaly) == []


def test_chains_of_inputs_released_together_stay_separate_chains(driver):
    rules = [{"raise": f"E{number}", "when": {"level": "replica", "phase": "Running"}} for number in range(3)]
    policies = [{"event": f"E{number}", "action": "RestartPod"} for number in range(3)]
    manifest = vcjob({"name": "a", "replicas": 20}, maxRetry=99, policies=policies, lahar={"raise": rules}, minAvailable=1)
    driver.submit(manifest)
    driver.drain(driver.stage.park(driver.state, driver.event(CommandIssued("RestartPod"), "j1"), driver.now, "broken"))
    for index in range(20):
        driver.run("a", index)
    driver.command("Unpark")
    driver.wait(60)
    assert [one.depth for one in driver.of(EventRaised) if one.rule is not None] == [1] * 60
    assert driver.of(Anomaly) == []


# --- main tasks ----------------------------------------------------------------------------------------------


def ensemble(driver, **spec):
    spec.setdefault("lahar", {"tasks": {"combiner": {"main": True}}})
    started(driver, {"name": "combiner"}, {"name": "learner", "replicas": 3}, **spec)


def test_the_job_completes_with_its_main_task_and_the_others_are_stopped(driver):
    """Ensemble learning (Octopus): one combiner and N learners."""
    ensemble(driver)
    made = driver.end("combiner")
    assert raised(driver, made) == ["TaskCompleted", "MainTaskEvent"]
    assert driver.asked("delete_pod", made) == [("learner", 0, 1), ("learner", 1, 1), ("learner", 2, 1)]
    assert driver.phase() == "Completing"
    driver.reap()
    assert driver.path() == ["Running", "Completing", "Completed"]
    assert {end.reason for end in driver.of(AttemptEnded) if end.task == "learner"} == {"KilledByAction"}


def test_the_job_completes_with_its_main_task_whatever_the_others_did(driver):
    ensemble(driver)
    driver.end("learner", code=1)
    driver.end("combiner")
    assert driver.phase() == "Completed"


def test_the_job_is_aborted_as_soon_as_its_main_task_fails(driver):
    ensemble(driver)
    made = driver.end("combiner", code=1)
    assert raised(driver, made) == ["PodFailed", "MainTaskFailedEvent"]
    assert (driver.task("combiner"), driver.phase()) == ("Failed", "Aborting")
    driver.reap()
    assert driver.phase() == "Aborted"


def test_policies_for_the_main_events_come_before_their_defaults(driver):
    ensemble(driver, policies=[{"event": "MainTaskFailedEvent", "action": "TerminateJob"}])
    driver.end("combiner", code=1)
    assert taken(driver) == ["TerminateJob"]


def test_a_main_task_that_its_policy_restarts_has_not_failed(driver):
    ensemble(driver, policies=[{"event": "PodFailed", "action": "RestartTask"}], maxRetry=9)
    driver.end("combiner", code=1)
    assert driver.task("combiner") == "Restarting"
    driver.reap()
    assert driver.task("combiner") == "Pending"
    assert "MainTaskFailedEvent" not in raised(driver)
    driver.run("combiner")
    driver.end("combiner")
    assert driver.phase() == "Completing"


def test_a_main_task_that_a_delayed_policy_will_restart_has_not_failed_yet(driver):
    ensemble(driver, policies=[{"event": "PodFailed", "action": "RestartTask", "timeout": "10s"}], maxRetry=9)
    driver.end("combiner", code=1)
    assert driver.task("combiner") == "Running"
    driver.wait(10)
    driver.reap()
    assert driver.task("combiner") == "Pending"
    assert driver.asked("create_pod")[-1] == ("combiner", 0, 2)


@pytest.mark.parametrize(
    ("action", "of", "phase"),
    [
        ("RestartJob", "a", "Running"),
        ("RestartJob", "b", "Running"),
        ("RestartTask", "a", "Running"),
        ("RestartTask", "b", "Failed"),
        ("AbortJob", "a", "Failed"),
    ],
)
def test_a_main_task_has_not_failed_while_it_is_to_be_restarted(driver, action, of, phase):
    policies = [{"event": "PodFailed", "action": action, "timeout": "10s"}]
    tasks = [{"name": name, "replicas": 2, "minAvailable": 0} | ({"policies": policies} if name == of else {}) for name in "ab"]
    started(driver, *tasks, minAvailable=1, maxRetry=9, lahar={"tasks": {"a": {"main": True}}})
    driver.end("b", 0, code=1)
    driver.end("a", 0, code=1)
    assert driver.job().tasks["a"].phase == phase


def test_the_main_event_during_a_restart_completes_the_job_after_it(driver):
    ensemble(driver, maxRetry=9)
    driver.command("RestartTask", task="learner")
    driver.end("combiner")
    assert driver.phase() == "Restarting"
    driver.reap()
    assert driver.phase() == "Completed"
    assert driver.asked("create_pod")[4:] == []


def test_the_failure_of_another_task_does_not_abort_the_job(driver):
    ensemble(driver)
    driver.end("learner", code=1)
    assert (driver.phase(), driver.task("learner")) == ("Running", "Running")


def test_an_aborted_main_job_resumes_and_aborts_again_if_nothing_restarts(driver):
    ensemble(driver, maxRetry=9)
    driver.end("combiner", code=1)
    driver.reap()
    driver.command("ResumeJob")
    assert driver.phase() == "Aborted"
    assert driver.path().count("Aborted") == 2


def test_what_is_lost_one_after_the_other_is_no_chain():
    """Each wait for the next begins where the one before has ended."""
    many = 12
    rule = {"raise": "Gone", "when": {"level": "replica", "phase": "Lost"}}
    driver = Driver()
    driver.node("n1", ready="True")
    driver.submit(
        vcjob(
            {"name": "w", "replicas": many, "minAvailable": 0},
            minAvailable=0,
            maxRetry=100,
            policies=[{"event": "Gone", "action": "RestartPod"}],
            lahar={"customEvents": {"Gone": None}, "raise": [rule]},
        )
    )
    shown = {"phase": "Running", "node": "n1", "bound": 0, "running": 0}
    for index in range(many):
        driver.see(driver.replica("w", index, **shown))
    for index in range(many):
        driver.wait(70)
        driver.see(driver.replica("w", index, **shown, proof=(driver.now - START) / SECOND, restarts=1))
        if not index:
            driver.node("n1", gone=True)
    driver.wait(4_000)
    assert [one.depth for one in driver.of(EventRaised) if one.event == "Gone"] == [1] * many
    assert driver.of(Anomaly) == []
