"""Work on a large job goes in steps: others are taken in between, and it ends as if it had been done at once."""

from __future__ import annotations

from itertools import pairwise
from time import process_time

import pytest
from lifecycle_driver import SECOND, Driver, pod, vcjob

from engine.events import Event, encode
from engine.events.actions import ActionDeferred, ActionTaken, EventRaised
from engine.events.inputs import JobObserved, JobSubmitted
from engine.events.outcomes import InputParked, InputReleased, JobParked
from engine.lifecycle import inputs, pods
from engine.lifecycle.errors import InvariantError
from engine.lifecycle.stage import LifecycleStage
from engine.lifecycle.steps import PACE, PODS
from engine.log.memory import MemoryLog
from engine.log.port import Partition
from engine.processor.processor import Processor

STEP = PACE / SECOND


@pytest.fixture
def small_steps(monkeypatch):
    monkeypatch.setattr(pods, "PODS", 2)
    monkeypatch.setattr(inputs, "RELEASED", 2)


@pytest.fixture
def driver(small_steps):
    return Driver(quiet=False)


def test_a_job_asks_for_its_pods_step_by_step(driver):
    made = driver.submit(vcjob({"name": "a", "replicas": 3}, {"name": "b", "replicas": 2}))
    assert driver.asked("create_pod", made) == [("a", 0, 1), ("a", 1, 1)]
    driver.crash()
    made = driver.wait(STEP)
    assert driver.asked("create_pod", made) == [("a", 2, 1), ("b", 0, 1)]
    made = driver.wait(STEP)
    assert driver.asked("create_pod", made) == [("b", 1, 1)]
    assert (driver.job().timers, driver.stage.unfinished(driver.state)) == ({}, None)


def test_what_happens_to_the_job_meanwhile_does_not_hurry_it(driver):
    driver.submit(vcjob({"name": "a", "replicas": 6}, minAvailable=1))
    driver.run("a", 0)
    assert driver.phase() == "Running"
    assert len(driver.asked("create_pod")) == 2
    driver.wait(10 * STEP)
    assert len(driver.asked("create_pod")) == 6


def test_a_half_begun_job_is_not_taken_for_a_whole_one(driver):
    """All of its pods that there are have succeeded, more than its minimum; it is not complete."""
    driver.submit(vcjob({"name": "a", "replicas": 4, "minAvailable": 1}, minAvailable=1))
    driver.end("a", 0, 1)
    assert driver.phase() == "Running"
    assert driver.task("a") == "Running"
    driver.wait(STEP)
    driver.end("a", 2, 3)
    assert (driver.phase(), driver.task("a")) == ("Completed", "Completed")


def test_a_job_that_is_aborted_meanwhile_asks_for_nothing_more(driver):
    driver.submit(vcjob({"name": "a", "replicas": 6}))
    driver.command("AbortJob")
    driver.wait(61)
    assert len(driver.asked("create_pod")) == 2
    assert driver.phase() == "Aborted"
    driver.command("ResumeJob")
    driver.wait(10 * STEP)
    assert len(driver.asked("create_pod")) == 8


@pytest.mark.parametrize(
    ("action", "phase"),
    [("RestartJob", "Restarting"), ("RestartTask", "Restarting"), ("AbortJob", "Aborting"), ("CompleteJob", "Completing")],
)
def test_a_kill_is_judged_as_a_whole_and_carried_out_step_by_step(driver, action, phase):
    driver.submit(vcjob({"name": "a", "replicas": 5}, maxRetry=9))
    driver.wait(10 * STEP)
    driver.run("a")
    made = driver.command(action, task="a")
    assert driver.phase() == phase
    assert len(driver.asked("delete_pod", made)) == 2
    driver.crash()
    made = driver.wait(STEP)
    assert len(driver.asked("delete_pod", made)) == 2
    driver.end("a", 0, code=137)
    assert driver.phase() == phase, "half a kill is no end of it"
    made = driver.wait(10 * STEP)
    assert len(driver.asked("delete_pod", made)) == 1
    assert driver.job().counts.running == 0


def test_an_action_during_a_kill_is_judged_as_if_that_were_done(driver):
    """Else enough pods seem to run for the restart to be over, which is half carried out."""
    driver.submit(vcjob({"name": "a", "replicas": 7}, {"name": "b"}, minAvailable=1, maxRetry=9))
    driver.wait(10 * STEP)
    driver.run("a")
    driver.run("b")
    driver.command("RestartJob")
    driver.command("RestartTask", task="b")
    assert driver.phase() == "Restarting"
    driver.wait(10 * STEP)
    assert driver.job().counts.terminating == 8
    driver.reap()
    driver.wait(10 * STEP)
    assert driver.path() == ["Running", "Restarting", "Pending"]


def test_a_surplus_pod_that_fails_before_its_step_comes_fails_nothing(driver):
    task = {"name": "a", "replicas": 8, "policies": [{"event": "PodFailed", "action": "AbortJob"}]}
    driver.submit(vcjob(task))
    driver.wait(10 * STEP)
    driver.run("a")
    driver.update(vcjob(task | {"replicas": 2}))
    assert len(driver.job().kills) == 1
    driver.end("a", 7, code=1)
    assert (driver.phase(), driver.of(ActionTaken)) == ("Running", [])
    driver.end("a", 1, code=1)
    assert driver.phase() == "Aborting"


def test_a_kill_that_goes_on_does_not_reach_the_pods_of_other_tasks(driver):
    driver.submit(vcjob({"name": "a", "replicas": 7}, {"name": "b", "policies": [{"event": "PodFailed", "action": "AbortJob"}]}))
    driver.wait(10 * STEP)
    driver.run("a")
    driver.run("b")
    driver.command("RestartTask", task="a")
    assert len(driver.job().kills) == 1
    driver.end("b", 0, code=1)
    assert [one.action for one in driver.of(ActionDeferred)] == ["AbortJob"]


def test_the_first_surplus_pod_of_a_task_fails_nothing_either(driver):
    tasks = [{"name": name, "replicas": 4, "policies": [{"event": "PodFailed", "action": "AbortJob"}]} for name in "ab"]
    driver.submit(vcjob(*tasks))
    driver.wait(10 * STEP)
    driver.run("a")
    driver.run("b")
    driver.update(vcjob(*(task | {"replicas": 1} for task in tasks)))
    assert driver.job().tasks["b"].slots[1].kill is None, "the first step has not come so far"
    driver.end("b", 1, code=1)
    assert (driver.phase(), driver.of(ActionTaken)) == ("Running", [])
    driver.end("b", 0, code=1)
    assert driver.phase() == "Aborting"


@pytest.mark.parametrize("action", [{"action": "RestartTask", "task": "a"}, {"action": "RestartJob"}])
def test_a_pod_that_fails_before_its_restart_step_does_not_fail_its_task(driver, action):
    policies = [{"event": "TaskFailed", "action": "AbortJob"}]
    driver.submit(vcjob({"name": "a", "replicas": 6, "policies": policies}, lahar={"tasks": {"a": {"maxFailed": 0}}}))
    driver.wait(10 * STEP)
    driver.run("a")
    driver.command(**action)
    driver.end("a", 5, code=1)
    assert [one.action for one in driver.of(ActionTaken)] == [action["action"]]
    assert driver.of(EventRaised) == []
    for _ in range(9):
        driver.wait(STEP)
        driver.reap()
    assert driver.phase() == "Pending"


@pytest.mark.parametrize("action", ["RestartTask", "RestartPod", "RestartPartition"])
def test_pods_that_end_before_their_step_of_a_kill_comes_ask_for_nothing(driver, action):
    """Volcano marks all pods of a kill first; else each that fails meanwhile would begin another kill of all that are left."""
    parts = {"totalPartitions": 2, "partitionSize": 6}
    policy = {"event": "*", "action": action}
    driver.submit(vcjob({"name": "a", "replicas": 12, "partitionPolicy": parts, "policies": [policy]}, maxRetry=9))
    driver.wait(10 * STEP)
    driver.run("a")
    whole = "RestartTask" if action == "RestartPod" else action
    driver.command(whole, task="a", partition=1)
    driver.end("a", 10, 11, code=1)
    assert len(driver.job().kills) == 1
    assert [one.action for one in driver.of(ActionTaken)] == [whole]
    driver.command(whole, task="a", partition=1)
    assert len(driver.job().kills) == 1, "the same kill is under way"
    driver.wait(10 * STEP)
    assert len(driver.asked("delete_pod")) == (6 if action == "RestartPartition" else 12)
    driver.end("a", 0, code=1)
    assert (driver.of(ActionTaken)[-1].policy is not None) == (action == "RestartPartition")


def test_a_task_is_scaled_down_step_by_step(driver):
    driver.submit(vcjob({"name": "a", "replicas": 6}, minAvailable=1))
    driver.wait(10 * STEP)
    driver.run("a")
    made = driver.update(vcjob({"name": "a", "replicas": 1}, minAvailable=1))
    assert len(driver.asked("delete_pod", made)) == 2
    made = driver.wait(10 * STEP)
    assert {index for _, index, _ in driver.asked("delete_pod")} == {1, 2, 3, 4, 5}
    assert driver.phase() == "Running"


def test_pods_to_be_replaced_are_deleted_step_by_step(driver):
    """Evicted while their job was being aborted, they still stand when it is resumed."""
    driver.submit(vcjob({"name": "a"}, {"name": "b", "replicas": 7}, maxRetry=9))
    driver.wait(10 * STEP)
    driver.run("a")
    driver.run("b")
    driver.command("RestartTask", task="a")
    driver.command("AbortJob")
    driver.end("b", *reversed(range(7)), code=137, reason="EvictedByNode")
    driver.reap()
    assert driver.phase() == "Aborted"
    driver.crash()
    made = [driver.command("ResumeJob"), *(driver.wait(STEP) for _ in range(4))]
    assert [[index for _, index, _ in driver.asked("delete_pod", one)] for one in made] == [[0], [1, 2], [3, 4], [5, 6], []]
    assert driver.job().counts.terminating == 7
    assert driver.job().timers == {}


class Broken(LifecycleStage):
    """Parks the job at its first pod that says so."""

    broken = True

    def decide(self, state, event, now):
        if self.broken and getattr(event.data, "name", "") == "bad":
            raise InvariantError(event.subject, "broken on purpose")
        return super().decide(state, event, now)


def test_what_is_held_is_released_step_by_step_and_before_anything_new(small_steps):
    driver = Driver(Broken(), quiet=False)
    bad = driver.event(pod("bad", "j1", 1, "Running", name="bad", node="n", running=0), "j1")
    for made in driver.stage.park(driver.state, bad, driver.now, "broken"):
        driver.stage.evolve(driver.state, made)
        driver.stage.evolve(driver.shadow, made)
        driver.sequences["j1"] = made.sequence
    driver.stage.broken = False
    for number in range(4):
        driver.see(pod(f"u{number}", "j1", 1, "Running", node="n", running=0))
    made = driver.command("Unpark")
    assert len(driver.of(InputReleased, made)) == 2
    assert not driver.job().parked
    driver.see(pod("new", "j1", 1, "Running", node="n", running=0))
    assert driver.outcome == "parked"
    driver.crash()
    driver.wait(10 * STEP)
    assert [attempt.uid for attempt in driver.job().attempts] == ["bad", "u0", "u1", "u2", "u3", "new"]
    assert (driver.job().held, driver.job().timers) == ({}, {})
    assert {one.outcome for one in driver.of(InputReleased)} == {"applied"}
    assert driver.of(JobParked) == []
    assert len(driver.of(InputParked)) == 5


# --- a step that parks its job ---


def fail_step(driver):
    """Fire the next timer as the processor does after its decision failed."""
    driver.now = driver.stage.due(driver.state)
    driver.drain(driver.stage.fire(driver.state, driver.now, "ValueError: broken"))
    assert driver.stage.unfinished(driver.state) is None
    driver.check()


def test_a_job_asks_for_the_rest_of_its_pods_after_the_unparking(driver):
    driver.submit(vcjob({"name": "a", "replicas": 7}))
    fail_step(driver)
    driver.crash()
    driver.wait(10 * STEP)
    assert len(driver.asked("create_pod")) == 2
    driver.command("Unpark")
    driver.wait(10 * STEP)
    assert len(driver.asked("create_pod")) == 7
    assert driver.job().timers == {}


def test_a_kill_goes_on_after_the_unparking(driver):
    driver.submit(vcjob({"name": "a", "replicas": 7}, maxRetry=9))
    driver.wait(10 * STEP)
    driver.run("a")
    driver.command("RestartJob")
    fail_step(driver)
    driver.command("Unpark")
    assert driver.phase() == "Restarting", "half a kill is no end of it"
    driver.wait(10 * STEP)
    assert len(driver.asked("delete_pod")) == 7
    driver.reap()
    driver.wait(10 * STEP)
    assert driver.phase() == "Pending"
    assert len(driver.asked("create_pod")) == 14


def early_pods(driver, many):
    for index in range(many):
        fields = {"task": "a", "index": index, "attempt": 1, "managed": True, "namespace": "default"}
        driver.see(pod(f"u{index}", "j1", 1, "Running", name=f"train-a-{index}", node="n", bound=0, running=0, **fields))


def test_pods_that_waited_for_their_job_are_taken_in_after_the_unparking(driver):
    early_pods(driver, 5)
    driver.submit(vcjob({"name": "a", "replicas": 5}))
    fail_step(driver)
    driver.wait(10 * STEP)
    assert len(driver.job().waiting) == 3, "nothing is decided on while the job is parked"
    driver.command("Unpark")
    driver.wait(10 * STEP)
    assert driver.job().waiting == {}
    assert driver.phase() == "Running"


def test_pods_go_on_waiting_for_their_job_while_it_is_parked(driver):
    early_pods(driver, 5)
    driver.submit(vcjob({"name": "a", "replicas": 5}))
    bad = driver.event(pod("bad", "j1", 1, "Running", name="bad", node="n", running=0), "j1")
    driver.drain(driver.stage.park(driver.state, bad, driver.now, "broken"))
    driver.wait(10 * STEP)
    assert len(driver.job().waiting) == 3
    driver.command("Unpark")
    driver.wait(10 * STEP)
    assert (driver.job().waiting, driver.job().held) == ({}, {})


def test_a_job_that_comes_while_its_pods_are_given_up_takes_in_the_rest(driver):
    early_pods(driver, 5)
    driver.wait(60)
    assert len(driver.job().waiting) == 3
    driver.submit(vcjob({"name": "a", "replicas": 5}))
    driver.wait(10 * STEP)
    assert driver.job().waiting == {}
    assert sorted(attempt.uid for attempt in driver.job().attempts if attempt.uid) == ["u2", "u3", "u4"]


def test_observations_meanwhile_do_not_hurry_the_pods_waiting_for_a_job(driver):
    early_pods(driver, 7)
    driver.owner(JobObserved("train", "VCJob", version="5", phase="Running"))
    driver.owner(JobObserved("train", "VCJob", version="6", phase="Running", queue="other"))
    assert driver.outcome == "applied"
    assert len(driver.job().waiting) == 5
    driver.wait(10 * STEP)
    assert driver.job().waiting == {}


def test_a_job_terminated_meanwhile_takes_in_the_pods_that_waited(driver):
    for index in range(5):
        fields = {"task": "a", "index": index, "attempt": 1, "managed": True, "namespace": "default"}
        driver.gone(pod(f"u{index}", "j1", 1, "Succeeded", name=f"train-a-{index}", node="n", running=0, ended=0, **fields))
    driver.submit(vcjob({"name": "a", "replicas": 5}))
    driver.command("TerminateJob")
    assert (driver.phase(), len(driver.job().waiting)) == ("Terminated", 3)
    driver.wait(10 * STEP)
    assert driver.job().waiting == {}


# --- in the processor -------------------------------------------------------------------------------------------------


def submission(name: str, replicas: int, at: int) -> Event[JobSubmitted]:
    data = JobSubmitted(vcjob({"name": "a", "replicas": replicas}, minAvailable=1))
    return Event(f"submit-{name}", "test", data.TYPE, name, at, at, 0, name, "", "c1", data)


def test_nobody_else_waits_for_a_large_job():
    """What another tenant sends while 5,000 replicas are asked for is decided on between two steps."""
    log = MemoryLog()
    begin = 1_700_000_000 * SECOND
    log.append("jobs", [encode(submission("large", 5_000, begin))])
    for number in range(20):
        log.append("jobs", [encode(submission(f"small-{number}", 1, begin + number * PACE + 1))])
    processor = Processor(log, LifecycleStage())
    processor.open()
    processor.run_until_quiet()
    subjects = [record.message.subject for record in log.read(Partition("job-events", 0), 0, 100_000)]
    assert subjects.count("large") > 10_000
    places = [subjects.index(f"small-{number}") for number in range(20)]
    gaps = [later - earlier for earlier, later in pairwise(places)]
    assert max(gaps) < 3 * PODS
    assert processor.stage.unfinished(processor.state) is None


def test_no_step_is_long():
    """20,000 replicas begun and killed again: each turn is bounded in events and in time."""
    driver = Driver(checked=False, quiet=False)
    driver.submit(vcjob({"name": "a", "replicas": 20_000}, minAvailable=1))
    most, longest = 0, 0.0
    steps = 0
    while (due := driver.stage.unfinished(driver.state)) is not None:
        began = process_time()
        made = driver.until(due)
        longest = max(longest, process_time() - began)
        most = max(most, len(made))
        steps += 1
        if steps == 5:
            driver.command("AbortJob")
    assert len(driver.asked("delete_pod")) == len(driver.asked("create_pod")) == 6 * PODS
    assert most <= 2 * PODS + 10
    assert longest < 1.0  # 20 ms on a free core; encoding, decoding and two folds of the driver included


def test_kills_of_different_parts_go_on_beside_each_other(driver):
    driver.submit(vcjob({"name": "a", "replicas": 6}, {"name": "b", "replicas": 6}, maxRetry=9))
    driver.wait(10 * STEP)
    driver.command("RestartTask", task="a")
    driver.command("RestartTask", task="b")
    driver.command("RestartTask", task="b")
    driver.wait(10 * STEP)
    assert sorted(driver.asked("delete_pod")) == [(task, index, 1) for task in "ab" for index in range(6)]


def test_a_job_stopped_while_scaled_down_loses_all_of_its_pods(driver):
    driver.submit(vcjob({"name": "a", "replicas": 9}, minAvailable=1))
    driver.wait(10 * STEP)
    driver.update(vcjob({"name": "a", "replicas": 3}, minAvailable=1))
    driver.command("TerminateJob")
    driver.wait(10 * STEP)
    assert sorted(driver.asked("delete_pod")) == [("a", index, 1) for index in range(9)]
