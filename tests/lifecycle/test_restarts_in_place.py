"""Managed jobs whose containers restart in place: when the limit was reached, and what a `batch/v1` Job makes of it."""

from __future__ import annotations

from typing import Any

import pytest
from lifecycle_driver import SECOND, START, Driver, vcjob

from engine.events.actions import EventRaised
from engine.events.attempts import AttemptRunning
from engine.events.jobs import JobPhaseChanged

HOUR = 3_600


@pytest.fixture
def driver() -> Driver:
    return Driver()


def looping(driver: Driver, restarts: int, restarted: float | None, task: str = "a", **fields: Any) -> list[Any]:
    return driver.see(driver.replica(task, phase="Running", node="n0", running=0, restarts=restarts, restarted=restarted, **fields))


def batch(driver: Driver, *, policy: str = "OnFailure", completions: int = 1, **spec: Any) -> None:
    pod = {"restartPolicy": policy, "containers": [{"name": "c", "image": "i"}]}
    sizes = {"completions": completions, "parallelism": completions}
    spec = {"template": {"spec": pod}, **sizes, **spec}
    driver.submit({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "etl"}, "spec": spec})


@pytest.mark.parametrize(("restarted", "when"), [(3 * HOUR, 3 * HOUR), (None, 10 * HOUR)])
def test_a_task_fails_at_its_last_allowed_restart_or_when_that_was_seen(driver, restarted, when):
    driver.submit(vcjob({"name": "a"}, policies=[{"event": "TaskFailed", "action": "RestartJob"}]))
    for restarts in range(3):
        looping(driver, restarts, restarts * HOUR)
    driver.now = START + 10 * HOUR * SECOND
    made = looping(driver, 3, restarted)
    (raised,) = [event for event in made if isinstance(event.data, EventRaised)]
    (changed,) = [event for event in made if isinstance(event.data, JobPhaseChanged)]
    assert (raised.time, changed.time) == (START + when * SECOND, START + when * SECOND)
    assert changed.data.phase == "Restarting"


def test_a_pod_first_seen_after_its_last_restart_had_run_until_then(driver):
    driver.submit(vcjob({"name": "a"}, policies=[{"event": "TaskFailed", "action": "AbortJob"}]))
    driver.now = START + 10 * HOUR * SECOND
    made = looping(driver, 3, 3 * HOUR)
    times = [(event.data.phase, event.time) for event in made if isinstance(event.data, JobPhaseChanged)]
    assert times == [("Running", START), ("Aborting", START + 3 * HOUR * SECOND)]


def test_a_job_runs_since_its_pod_began_to_run_not_since_later_news(driver):
    driver.submit(vcjob({"name": "a"}))
    made = looping(driver, 1, 2 * HOUR)
    began = next(event for event in made if isinstance(event.data, AttemptRunning))
    runs = next(event for event in made if isinstance(event.data, JobPhaseChanged))
    assert runs.causationid == began.id


@pytest.mark.parametrize(("limit", "last"), [(None, 6), (2, 2), (1, 1), (0, 1)])
def test_container_restarts_use_up_the_back_off_limit_of_a_batch_job(driver, limit, last):
    batch(driver, **({} if limit is None else {"backoffLimit": limit}))
    for restarts in range(last):
        looping(driver, restarts, restarts * 60, "main")
        assert driver.phase() == "Running"
    looping(driver, last, last * 60, "main")
    assert driver.phase() == "Failed"
    assert driver.asked("delete_pod") == [("main", 0, 1)]
    assert driver.of(JobPhaseChanged)[-1].reason == "RetriesExhausted"


def test_restarts_of_all_live_pods_and_of_init_containers_count_together(driver):
    batch(driver, completions=2, backoffLimit=3)
    driver.run("main", restarts=1)
    assert driver.phase() == "Running"
    driver.see(driver.replica("main", 1, phase="Running", node="n1", running=0, restarts=1, init_restarts=1))
    assert driver.phase() == "Failed"
    assert sorted(driver.asked("delete_pod")) == [("main", 0, 1), ("main", 1, 1)]


def test_containers_of_a_job_that_never_restarts_them_have_no_limit(driver):
    batch(driver, policy="Never", backoffLimit=1)
    looping(driver, 9, 60, "main")  # a sidecar restarts all the same
    assert driver.phase() == "Running"
    assert driver.of(EventRaised) == []
