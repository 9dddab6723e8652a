"""The stage itself holds the bounds: whoever wrote the input, and by whichever way it came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from lifecycle_driver import SECOND, START, Driver, pod, vcjob

from engine.events import Event, encode
from engine.events.actions import ActionTaken, EventRaised, TimerFired, TimerSet
from engine.events.attempts import AttemptEnded
from engine.events.bounds import EVENT_DATA_BYTES, NAME_CHARACTERS, RAISE_RULES, REPLICAS, TASKS
from engine.events.inputs import CommandIssued, CustomEventRaised, JobObserved, JobSubmitted, JobUpdated, ObjectApplied
from engine.events.outcomes import Anomaly, CommandRefused, InputReleased, JobRejected
from engine.lifecycle import actions
from engine.lifecycle.stage import LifecycleStage
from engine.lifecycle.steps import PODS, WORK


def submitted(driver: Driver, manifest: dict[str, Any], job: str = "j") -> list[Any]:
    return [event.data for event in driver.take(driver.event(JobSubmitted(manifest), job))]


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (vcjob({"name": "a", "replicas": 2_000_000_000}), "(max_replicas)"),
        ({**vcjob({"name": "a"}), "metadata": {"name": "a", "annotations": {"lahar/spec": "main: " + "[" * 60_000}}}, "nested"),
        (vcjob({"name": "a"}, lahar={"customEvents": {"E": {"pattern": "(?=a)"}}}), "linear time"),
    ],
)
def test_a_submission_beyond_a_bound_is_rejected(manifest: dict[str, Any], message: str) -> None:
    driver = Driver()
    (rejected,) = submitted(driver, manifest)
    assert driver.outcome == "rejected"
    assert message in rejected.faults[0].message


@pytest.mark.parametrize("principals", [["somebody"], ["*"]])
def test_the_name_of_what_is_rejected_is_bounded(principals: list[str]) -> None:
    driver = Driver()
    driver.take(driver.event(ObjectApplied("Grant", "g", {"principals": principals, "namespaces": ["*"]}), "c1"))
    manifest = vcjob({"name": "a"})
    manifest["metadata"]["name"] = "x" * 1_000_000
    (rejected,) = submitted(driver, manifest)
    assert len(encode(driver.events[-1]).data) < 4_000
    assert rejected.name == "x" * NAME_CHARACTERS


def test_a_job_that_grows_beyond_the_bound_keeps_its_size() -> None:
    driver = Driver(LifecycleStage(max_replicas=5))
    submitted(driver, vcjob({"name": "a", "replicas": 2}))
    made = driver.take(driver.event(JobUpdated(vcjob({"name": "a", "replicas": 6})), "j"))
    assert [type(event.data) for event in made] == [JobRejected]
    assert driver.state.jobs["j"].spec.total_replicas == 2
    driver.take(driver.event(JobUpdated(vcjob({"name": "a", "replicas": 5})), "j"))
    assert driver.state.jobs["j"].spec.total_replicas == 5


def test_an_observed_job_that_claims_too_many_replicas_is_rejected() -> None:
    driver = Driver()
    huge = JobObserved("n", "Job", version="1", tasks={"a": 2_000_000_000})
    (made,) = driver.take(driver.event(huge, "j"))
    assert isinstance(made.data, JobRejected)
    assert made.data.faults[0].message == "the job has 2,000,000,000 replicas, more than 20,000 (max_replicas)"
    driver.take(driver.event(JobObserved("n", "Job", version="2", tasks={"a": 3}), "j"))
    assert driver.outcome == "applied"
    driver.take(driver.event(JobObserved("n", "Job", version="3", tasks={"a": REPLICAS + 1}), "j"))
    assert driver.outcome == "rejected"
    assert driver.state.jobs["j"].spec.total_replicas == 3


def test_a_pod_of_a_replica_that_no_job_has_is_an_anomaly_of_its_job() -> None:
    driver = Driver()
    (made,) = driver.see(pod("u", "j", 1, "Pending", index=REPLICAS))
    assert isinstance(made.data, Anomaly)
    assert "(max_replicas)" in made.data.what
    driver.see(pod("v", "j", 1, "Pending", index=REPLICAS - 1))
    assert driver.outcome == "applied"
    (made,) = driver.see(pod("w", "j", 1, "Pending"))  # the next slot would be one too many
    assert isinstance(made.data, Anomaly)


def test_pods_cannot_give_a_job_more_tasks_than_it_may_have() -> None:
    driver = Driver(checked=False)
    for number in range(TASKS):
        driver.see(pod(f"u{number}", "j", 1, "Pending", task=f"t{number}", index=0))
    assert driver.outcome == "applied"
    driver.see(pod("v", "j", 1, "Pending", task="another", index=0))
    assert driver.outcome == "anomalous"
    driver.see(pod("w", "j", 1, "Pending", task="t0", index=1))
    assert driver.outcome == "applied"


@pytest.mark.parametrize(
    ("schema", "data", "message"),
    [
        (None, {"a": "x" * EVENT_DATA_BYTES}, "65,536 bytes"),
        ({"pattern": "^(a+)+$", "properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * 40 + "!"}, "does not match"),
        ({"$ref": "#"}, {}, "100 deep"),
    ],
)
def test_the_data_of_an_event_are_judged_at_a_bounded_cost(schema: Any, data: dict[str, Any], message: str) -> None:
    driver = Driver()
    submitted(driver, vcjob({"name": "a"}, lahar={"customEvents": {"E": schema}}))
    made = driver.take(driver.event(CustomEventRaised("E", data), "j"))
    assert [type(event.data) for event in made] == [CommandRefused]
    assert message in made[0].data.reason


def test_deadlines_of_the_largest_number_set_a_timer_that_never_fires() -> None:
    driver = Driver()
    submitted(driver, vcjob({"name": "a"}, lahar={"activeDeadlineSeconds": 2**63 - 1}))
    assert driver.outcome == "applied"
    driver.crash()
    assert driver.stage.due(driver.state) > START


def ruled(replicas: int, phase: str, action: str, many: int = RAISE_RULES) -> dict[str, Any]:
    """A job with many rules about each replica, each answered by a policy."""
    rules = [{"raise": f"E{number}", "when": {"level": "replica", "phase": phase}} for number in range(many)]
    policies = [{"event": f"E{number}", "action": action} for number in range(many)]
    return vcjob({"name": "a", "replicas": replicas}, policies=policies, lahar={"raise": rules}, maxRetry=2**31 - 1)


def steps(driver: Driver) -> Iterator[list[Event[Any]]]:
    while (due := driver.stage.unfinished(driver.state)) is not None:
        yield driver.until(due)


def test_what_rules_ask_for_about_every_replica_is_done_step_by_step() -> None:
    driver = Driver(checked=False, quiet=False)
    driver.submit(ruled(400, "Pending", "RestartPod"))
    assert max(len(made) for made in steps(driver)) < PODS * RAISE_RULES / 2
    assert driver.of(Anomaly) == [], "nothing is left out"
    raised = Counter((one.task, one.index) for one in driver.of(EventRaised))
    assert raised == {("a", index): RAISE_RULES for index in range(400)}


@pytest.mark.parametrize("action", ["RestartTask", "RestartJob"])
def test_what_rules_ask_for_about_one_pod_of_a_large_job_is_bounded(action: str) -> None:
    """Each action looks at every pod of the job."""
    driver = Driver(checked=False, quiet=False)
    driver.submit(ruled(REPLICAS, "Running", action))
    for _ in steps(driver):
        pass
    made = driver.run("a", 0)
    assert 0 < len(driver.of(ActionTaken, made)) <= 2 * WORK // REPLICAS + 1
    assert ["raise rules are no longer evaluated" in anomaly.what for anomaly in driver.of(Anomaly, made)] == [True]
    driver.command("RestartJob")
    assert driver.outcome == "applied"


def test_pods_of_the_past_are_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "WORK", 20)
    driver = Driver()
    driver.submit(ruled(8, "Succeeded", "RestartJob", many=2))
    for _ in range(3):
        driver.run("a")
        driver.command("RestartJob")
        driver.reap()
    driver.run("a")
    driver.end("a", 0)
    assert len(driver.of(ActionTaken)) == 3 + 2
    assert driver.of(Anomaly) == []


def test_what_rules_request_for_small_parts_of_a_large_job_is_done_at_once() -> None:
    driver = Driver(checked=False, quiet=False)
    manifest = ruled(10_000, "Running", "RestartPartition")
    manifest["spec"]["tasks"][0]["partitionPolicy"] = {"totalPartitions": 1_000, "partitionSize": 10}
    driver.submit(manifest)
    for _ in steps(driver):
        pass
    made = driver.run("a", 0)
    assert len(driver.of(ActionTaken, made)) == RAISE_RULES
    assert driver.of(Anomaly, made) == []


def test_inputs_that_are_released_share_the_work_of_a_step() -> None:
    driver = Driver(checked=False, quiet=False)
    driver.submit(ruled(1_000, "Running", "RestartTask", many=20))
    for _ in steps(driver):
        pass
    driver.drain(driver.stage.park(driver.state, driver.event(CommandIssued("RestartPod"), "j1"), driver.now, "broken"))
    for index in range(20):
        driver.see(driver.replica("a", index, "j1", phase="Running", node="n", running=1))
    made = [len(driver.of(InputReleased, part)) for part in (driver.command("Unpark"), *steps(driver))]
    assert (sum(made), max(made)) == (21, 2)
    assert driver.of(Anomaly) == []


@pytest.mark.parametrize(("rules", "action", "a_step"), [(20, "ResumeJob", 2), (100, None, 25)])
def test_ends_that_are_assumed_share_the_work_of_a_step(rules: int, action: str | None, a_step: int) -> None:
    driver = Driver(checked=False, quiet=False)
    manifest = ruled(1_000, "Lost", action or "AbortJob", rules)
    if action is None:
        del manifest["spec"]["policies"]
    driver.submit(manifest)
    for _ in steps(driver):
        pass
    driver.node("n")
    for index in range(10 * a_step):
        driver.see(driver.replica("a", index, "j1", phase="Running", node="n", running=1))
    driver.node("n", gone=True)
    ends = []
    while len(driver.of(AttemptEnded)) < 10 * a_step:
        ends.append(len(driver.of(AttemptEnded, driver.until(driver.stage.due(driver.state)))))
    assert [count for count in ends if count] == [a_step] * 10
    assert driver.of(Anomaly) == []


def killing(*tasks: dict[str, Any], **fields: Any) -> Driver:
    """A job of which the kill of a large task goes on step by step."""
    driver = Driver(checked=False, quiet=False)
    driver.submit(vcjob({"name": "big", "replicas": 15_000}, *tasks, maxRetry=2**31 - 1, **fields))
    for _ in steps(driver):
        pass
    driver.run(tasks[0]["name"])
    driver.command("RestartTask", task="big")
    return driver


def test_actions_look_at_what_kills_under_way_will_reach() -> None:
    driver = killing({"name": "small", "replicas": 100}, policies=[{"event": "PodFailed", "action": "RestartPod"}])
    driver.drain(driver.stage.park(driver.state, driver.event(CommandIssued("RestartPod"), "j1"), driver.now, "broken"))
    for index in range(9):
        driver.end("small", index, code=1)
    made = [len(driver.of(InputReleased, part)) for part in (driver.command("Unpark"), *steps(driver))]
    assert (sum(made), made[0]) == (10, 3)


def test_pods_that_are_released_to_another_job_share_the_work_of_a_step() -> None:
    driver = Driver(checked=False, quiet=False)
    theirs = ruled(1_000, "Running", "RestartTask", many=20)
    theirs["metadata"]["namespace"] = "evil"
    for index in range(30):
        known = {"managed": True, "kind": "VCJob", "node": "n", "running": 1, "attempt": 1, "index": index}
        driver.see(pod(f"u{index}", "j1", 1, "Running", namespace="evil", owner="a", task="a", name=f"a-a-{index}", **known))
        driver.see(pod(f"o{index}", "j1", 1, "Running", owner="train", task="w", name=f"train-w-{index}", **known))
    driver.submit(vcjob({"name": "w", "replicas": 30}))
    driver.take(driver.event(JobSubmitted(theirs), "j1"))
    made = [len(driver.of(ActionTaken, part)) for part in steps(driver)]
    assert sum(made) > 100
    assert max(made) <= 50


def test_each_end_that_one_timer_assumes_begins_a_chain_of_its_own() -> None:
    driver = Driver(checked=False)
    driver.submit(ruled(20, "Lost", "RestartPod", many=1))
    for index in range(20):
        driver.see(driver.replica("a", index, phase="Running", node="n", running=1))
    driver.node("n")
    driver.node("n", gone=True)
    driver.wait(3_000)
    assert Counter(one.event for one in driver.of(EventRaised))["E0"] == 20
    assert driver.of(Anomaly) == []
    causes = {event.causationid for event in driver.events if isinstance(event.data, AttemptEnded)}
    fired = {event.id for event in driver.events if isinstance(event.data, TimerFired)}
    assert causes <= fired


def test_the_back_off_of_an_effect_costs_the_same_after_any_failures() -> None:
    driver = Driver(checked=False)
    driver.submit(vcjob({"name": "w"}))
    (attempt,) = driver.job().attempts
    attempt.tries = 1 << 60
    made = driver.report(attempt.effect, "failed", reason="Conflict")
    assert [timer.due for timer in driver.of(TimerSet, made)] == [driver.now + 300 * SECOND]
