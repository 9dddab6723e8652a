"""What one input or timer leads to at once is as many events in a large job as in one twice as large: the rest comes in steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lifecycle_driver import Driver, vcjob

from engine.events.actions import DelaysCancelled, TimerCancelled
from engine.lifecycle import inputs, pod_inputs, pods

REPLICAS = 24
"""More than are begun in one step here."""


class Counting(Driver):
    """Counts the events of each turn, which one commit writes."""

    def __init__(self) -> None:
        super().__init__(quiet=False)
        self.turns: list[int] = []

    def drain(self, decision: Any) -> tuple[list[Any], Any]:
        made, outcome = super().drain(decision)
        self.turns.append(len(made))
        return made, outcome

    def finish(self) -> None:
        """Let all steps come that are to come."""
        while (due := self.stage.unfinished(self.state)) is not None:
            self.until(due)


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "PODS", 3)
    monkeypatch.setattr(pod_inputs, "PODS", 3)
    monkeypatch.setattr(inputs, "RELEASED", 3)


def waiting(replicas: int, action: str) -> Counting:
    """A job of which each pod has a delayed action."""
    driver = Counting()
    delayed = [{"event": event, "action": action, "timeout": "600s"} for event in ("PodPending", "PodFailed")]
    driver.submit(vcjob({"name": "a", "replicas": replicas, "policies": delayed}, maxRetry=9, minAvailable=1))
    driver.finish()
    for index in range(replicas):
        driver.see(driver.replica("a", index, phase="Pending"))
    assert len(driver.job().timers) == replicas
    driver.turns.clear()
    return driver


def most(scenario: Callable[[Counting], Any], replicas: int, action: str) -> tuple[int, Counting]:
    """The most events of one turn."""
    driver = waiting(replicas, action)
    scenario(driver)
    driver.finish()
    return max(driver.turns), driver


def end(driver: Counting) -> None:
    """All pods fail but the last, which is waited for; by then each has another delayed action."""
    replicas = len(driver.job().tasks["a"].slots)
    driver.end("a", *range(1, replicas), code=1)
    assert len(driver.job().timers) == replicas
    driver.turns.clear()
    driver.end("a", 0)
    assert driver.phase() == "Completed"


def unpark(driver: Counting) -> None:
    """The timers of all pods were due while the job was parked."""
    event = driver.event(driver.replica("a", 0, phase="Running", node="n"), "j1")
    driver.drain(driver.stage.park(driver.state, event, driver.now, "broken"))
    driver.wait(601)
    assert all(timer.held for timer in driver.job().timers.values())
    driver.command("Unpark")
    driver.wait(10)


@pytest.mark.parametrize("action", ["RestartJob", "RestartTask", "RestartPod"])
@pytest.mark.parametrize(
    "scenario",
    [
        *[
            pytest.param(lambda driver, action=action: driver.command(action, task="a"), id=action)
            for action in ("AbortJob", "RestartJob", "RestartTask", "TerminateJob", "CompleteJob")
        ],
        pytest.param(lambda driver: driver.wait(600), id="the first fires"),
        pytest.param(Counting.delete, id="the job is deleted"),
        end,
        unpark,
    ],
)
def test_delayed_actions_of_all_replicas_cost_as_many_events_as_of_half(scenario: Any, action: str) -> None:
    few, _ = most(scenario, REPLICAS, action)
    many, driver = most(scenario, 2 * REPLICAS, action)
    assert few == many
    assert not [timer for timer in driver.job().timers.values() if timer.action == action and driver.job().finished]


@pytest.mark.parametrize(
    ("action", "commanded"), [("RestartJob", "AbortJob"), ("RestartTask", "RestartTask"), ("RestartPartition", "RestartPartition")]
)
def test_delayed_actions_of_one_class_are_cancelled_by_one_event(action: str, commanded: str) -> None:
    driver = Counting()
    delayed = {"event": "PodPending", "action": action, "timeout": "600s"}
    parts = {"totalPartitions": 2, "partitionSize": 4}
    tasks = [{"name": name, "replicas": 8, "policies": [delayed], "partitionPolicy": parts} for name in ("a", "b")]
    driver.submit(vcjob(*tasks, maxRetry=9))
    driver.finish()
    for task in ("a", "b"):
        for index in range(8):
            driver.see(driver.replica(task, index, phase="Pending"))
    made = driver.command(commanded, task="a", partition=1)
    assert (len(driver.of(DelaysCancelled, made)), driver.of(TimerCancelled, made)) == (1, [])
    left = {(timer.task, timer.index) for timer in driver.job().timers.values() if timer.kind == "policy"}
    kept = {"RestartJob": set(), "RestartTask": {("b", index) for index in range(8)}}
    assert left == kept.get(
        action, {(task, index) for task in "ab" for index in range(8)} - {("a", index) for index in range(4, 8)}
    )
