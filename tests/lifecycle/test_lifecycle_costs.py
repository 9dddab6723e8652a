"""What an observation costs depends neither on the replicas of its job nor on the number of jobs."""

from __future__ import annotations

import gc
import sys
from dataclasses import replace

import pytest
from lifecycle_driver import SECOND, START, Driver, pod, vcjob

from engine.events.inputs import NodeObserved


class NoScanError(AssertionError):
    """Raised when something goes through all of what must only be looked up."""


def _refuse(*_args, **_kwargs):
    raise NoScanError("a scan over replicas, attempts, timers or jobs")


class Lookup(dict):
    """A dict that cannot be gone through."""

    __iter__ = keys = values = items = copy = _refuse


class Append(list):
    """A list that cannot be gone through."""

    __iter__ = __reversed__ = index = count = copy = sort = _refuse


def guard(driver):
    """Forbid scans over anything that grows with replicas or jobs."""
    for job in driver.state.jobs.values():
        job.by_uid = Lookup(job.by_uid)
        job.timers = Lookup(job.timers)
        job.delays = Lookup(job.delays)
        job.attempts = Append(job.attempts)
        for task in job.tasks.values():
            task.slots = Lookup(task.slots)
    driver.state.jobs = Lookup(driver.state.jobs)


def life(uid, job="j1", **fields):
    yield pod(uid, job, 1, "Pending", reason="Unschedulable", **fields)
    yield pod(uid, job, 2, "Bound", node="n", bound=1, reason="Starting", **fields)
    yield pod(uid, job, 3, "Running", node="n", bound=1, running=2, **fields)
    yield pod(uid, job, 4, "Running", node="n", bound=1, running=2, ready=True, restarts=1, **fields)


POLICIES = [
    {"event": "PodPending", "action": "RestartPod", "timeout": "600s"},
    {"event": "PodFailed", "action": "RestartPod"},
    {"event": "PodEvicted", "action": "RestartPod", "timeout": "600s"},
]
OWN = {
    "raise": [{"raise": "Died", "when": {"level": "replica", "phase": "Failed"}}],
    "tasks": {"w": {"main": True, "minSucceeded": 1}},
}


def managed(replicas):
    driver = Driver(checked=False)
    driver.submit(vcjob({"name": "w", "replicas": replicas, "policies": POLICIES}, {"name": "v"}, maxRetry=9999, lahar=OWN))
    assert driver.outcome == "applied"
    return driver


def gang(driver, replicas):
    """Observations of all pods of a managed job, pod by pod."""
    for index in range(replicas):
        attempt = driver.job().tasks["w"].slots[index].number
        fields = {"task": "w", "index": index, "attempt": attempt, "managed": True, "name": f"train-w-{index}"}
        yield from life(f"u{index}-{attempt}", **fields)


def test_pods_that_end_while_nodes_are_gone_are_never_scanned():
    driver = Driver(checked=False)
    driver.submit(vcjob({"name": "w", "replicas": 30}, maxRetry=9999))
    driver.run("w")
    for node in range(10):
        driver.node(f"n{node}", gone=True)
    driver.take(driver.event(NodeObserved("n9"), "n9"))
    assert len(driver.job().lost) == 9
    seen = [driver.replica("w", index, phase="Failed", node=f"n{index}", running=0, ended=9, exit_code=1) for index in range(12)]
    guard(driver)
    for one in seen:
        driver.see(one)
    assert driver.job().counts.failed == 12
    assert not driver.job().lost


def test_the_pods_of_a_managed_job_are_never_scanned():
    replicas = 30
    driver = managed(replicas)
    guard(driver)
    for seen in gang(driver, replicas):
        assert len(driver.see(seen)) <= 6
    for index in range(3):
        fields = {"task": "w", "index": index, "attempt": 1, "managed": True, "name": f"train-w-{index}", "node": "n"}
        ended = {"running": 2, "ended": 9, "exit_code": 1, "first_exit_code": 1}
        reason = ("AppFailed", "EvictedByApi", "AppFailed")[index]
        made = driver.see(pod(f"u{index}-1", "j1", 9, "Failed", reason=reason, **fields, **ended))
        assert len(made) <= 12
        gone = driver.gone(pod(f"u{index}-1", "j1", 10, "Failed", reason=reason, deleting=True, **fields, **ended))
        assert len(gone) <= 6
    assert driver.asked("create_pod")[-3:] == [("w", index, 2) for index in range(3)]


@pytest.mark.parametrize("index", [None, "given"])
def test_the_pods_of_an_observed_job_are_never_scanned(index):
    driver = Driver(checked=False)
    driver.see(next(life("first", index=None if index is None else 0)))
    guard(driver)
    for number in range(1, 40):
        for seen in life(f"u{number}", index=None if index is None else number):
            assert len(driver.see(seen)) <= 4
        if number % 3 == 0:
            driver.see(pod(f"u{number}", "j1", 9, "Failed", reason="AppFailed", node="n", bound=1, running=2, ended=5))
    assert driver.job().live == 27


def test_the_last_pod_of_a_list_scans_no_others():
    """Whoever forges inputs may say of each that it is the last, also of what is known."""
    driver = Driver(checked=False)
    driver.see(next(life("first", listed="last")))
    guard(driver)
    for number in range(1, 40):
        for seen in life(f"u{number}", listed="last"):
            driver.see(seen)
        ended = {"running": 2, "ended": 5, "reason": "AppFailed", "node": "n", "bound": 1}
        for _ in range(2):
            driver.see(pod(f"u{number}", "j1", 9, "Failed", listed="last", **ended))
    assert (driver.outcome, driver.job().live) == ("duplicate", 1)


def opcodes(driver, seen):
    """Interpreted instructions that one observation takes."""
    event = driver.event(seen, seen.job)
    count = 0

    def trace(frame, what, _arg):
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += what == "opcode"
        return trace

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()  # hypothesis watches the collector with a function in Python, which would be counted
    sys.settrace(trace)
    try:
        for made in driver.stage.decide(driver.state, event, driver.now):
            driver.stage.evolve(driver.state, made)
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return count


def test_an_observation_costs_as_many_instructions_in_large_jobs_as_small():
    costs = []
    for replicas in (40, 300):  # both written down in several pages
        driver = managed(replicas)
        seen = list(gang(driver, replicas))
        for one in seen[:-8]:
            driver.see(one)
        costs.append([opcodes(driver, one) for one in seen[-8:-4]])
    small, large = costs
    assert all(few == pytest.approx(many, abs=40) for few, many in zip(small, large, strict=True)), costs


def test_an_observation_costs_as_many_instructions_among_many_jobs_as_few():
    costs = []
    for jobs in (3, 300):
        driver = Driver(checked=False)
        for number in range(jobs):
            for seen in life(f"u{number}", f"job-{number}"):
                driver.see(replace(seen, proof=START + number * SECOND))
        costs.append([opcodes(driver, seen) for seen in life("new", "job-new")])
    assert costs[0] == costs[1]


def test_a_fact_about_a_node_looks_at_the_pods_of_that_node_only():
    costs = []
    for others in (3, 300):
        driver = Driver(checked=False)
        for number in range(others):
            for seen in life(f"u{number}", f"job-{number}"):
                driver.see(replace(seen, node="elsewhere" if number else seen.node))
        made = driver.node("n", ready="Unknown")
        costs.append(len(made))
    assert costs == [1, 1]


def test_the_last_pod_of_a_list_looks_at_each_task_once():
    """Not at each for each other."""
    took = []
    for tasks in (50, 200):
        driver = Driver(checked=False)
        seen = [pod(f"u{task}", "j1", 1, "Running", task=f"t{task}", node="n", running=0, listed="last") for task in range(tasks)]
        for one in seen:
            driver.see(one)
        took.append(opcodes(driver, seen[0]))
    assert took[1] < 5 * took[0]
