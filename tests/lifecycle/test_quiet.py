"""Whatever rules and policies a tenant writes, the job comes to rest: nothing goes on for ever by itself, nor for long at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lifecycle_driver import SECOND, Driver, vcjob

from engine.lifecycle.stage import LifecycleStage

ACTIONS = ("RestartJob", "AbortJob", "ResumeJob", "RestartTask", "RestartPod", "RestartPartition", "TerminateJob", "CompleteJob")
PHASES = {
    "job": ("Pending", "Running", "Restarting", "Aborting", "Aborted"),
    "task": ("Pending", "Running", "Restarting", "Completed", "Failed"),
    "replica": ("Pending", "Running", "Failed", "Succeeded"),
}
BUILT_IN = ("PodPending", "PodFailed", "PodEvicted", "TaskCompleted", "TaskFailed")

whens = st.sampled_from(list(PHASES)).flatmap(
    lambda level: st.sampled_from(PHASES[level]).map(lambda phase: {"level": level, "phase": phase})
)
answers = st.tuples(st.sampled_from(ACTIONS), st.sampled_from(["1us", None, "0s", "1ms"]))


def policy(event: str, action: str, timeout: str | None) -> dict[str, Any]:
    return {"event": event, "action": action} | ({} if timeout is None else {"timeout": timeout})


@st.composite
def manifests(draw: st.DrawFn) -> dict[str, Any]:
    whole = [
        policy(event, *answer) for event, answer in draw(st.dictionaries(st.sampled_from(BUILT_IN), answers, max_size=2)).items()
    ]
    tasks: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 3))):
        replicas = draw(st.integers(0, 2))
        tasks.append({"name": f"t{number}", "replicas": replicas, "minAvailable": 0, "policies": []})
        if number and draw(st.booleans()):
            tasks[-1]["dependsOn"] = {"name": ["t0"]}
        if replicas and draw(st.booleans()):
            tasks[-1]["partitionPolicy"] = {"totalPartitions": replicas, "partitionSize": 1}
    rules = []
    for number, (when, answer) in enumerate(draw(st.lists(st.tuples(whens, answers), max_size=5))):
        rules.append({"raise": f"E{number}", "when": when})
        draw(st.sampled_from([whole, *(task["policies"] for task in tasks)])).append(policy(f"E{number}", *answer))
    lahar: dict[str, Any] = {"raise": rules, "customEvents": {rule["raise"]: None for rule in rules}}
    if draw(st.booleans()):
        lahar["tasks"] = {"t0": {"main": True}}
    return vcjob(*tasks, minAvailable=0, maxRetry=2**31 - 1, policies=whole, lahar=lahar)


@given(manifests(), st.lists(st.tuples(st.sampled_from(["run", "end", "fail", "reap"]), st.integers(0, 2)), max_size=6))
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
def test_a_job_comes_to_rest_whatever_its_rules_and_policies_say(manifest, inputs):
    _comes_to_rest(manifest, inputs)


def _comes_to_rest(manifest: dict[str, Any], inputs: list[tuple[str, int]]) -> None:
    driver = Driver(checked=False)
    driver.submit(manifest)
    assert driver.outcome == "applied", driver.events[-1].data
    _rest(driver)
    for what, number in inputs:
        task = f"t{number}"
        if task not in driver.job().tasks or driver.job().parked:
            continue
        before = len(driver.events)
        if what == "reap":
            driver.reap()
        elif what == "run":
            driver.run(task)
        else:
            driver.end(task, code=int(what == "fail"))
        assert len(driver.events) - before < 2_000
        _rest(driver)
    assert not driver.job().parked


def _rest(driver: Driver) -> None:
    """Let timers fire for an hour: a pod that nobody sees is waited for 60 s, so a chain ends within that."""
    end, fired = driver.now + 3_600 * SECOND, 0
    while (due := driver.stage.due(driver.state)) is not None and due <= end:
        made = driver.until(due)
        assert len(made) < 2_000
        fired += 1
        assert fired < 300, made[:5]


def endless(level: str, replicas: int, timeout: str | None) -> dict[str, Any]:
    return vcjob(
        {"name": "t0", "replicas": replicas, "minAvailable": 0},
        minAvailable=0,
        maxRetry=2**31 - 1,
        policies=[policy("E0", "RestartJob", timeout)],
        lahar={"raise": [{"raise": "E0", "when": {"level": level, "phase": "Pending"}}], "customEvents": {"E0": None}},
    )


def test_the_law_finds_a_chain_that_begins_anew_at_each_timer(plant):
    def forgetful(self, factory, job, timer, error):
        return act(self, factory, job, replace(timer, depth=0), error)

    act = plant(LifecycleStage, "_act", forgetful)
    with pytest.raises(AssertionError, match="assert 300 < 300"):
        _comes_to_rest(endless("job", 0, "1us"), [])


@pytest.mark.parametrize("replicas", [1, 300])
def test_a_job_that_restarts_itself_ends_that_though_nobody_sees_its_pods(replicas):
    """Each round waits a minute for pods that do not come, and all of them are kept."""
    driver = Driver(checked=False)
    driver.submit(endless("replica", replicas, None))
    driver.wait(3_600)
    many = len(driver.events)
    assert len(driver.job().attempts) <= 10 * replicas
    driver.wait(86_400)
    assert len(driver.events) == many
