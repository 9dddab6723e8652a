"""Every field of what is told of two lives, against golden files: an event that drops one is noticed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from lifecycle_driver import START, Driver, pod, vcjob

from engine.events import encode
from engine.events.inputs import JobObserved

GOLDEN = Path(__file__).parent / "golden"


def observed(driver: Driver) -> None:
    """A pod of somebody else's job is lost with its node, and its end is heard of late."""
    driver.node("n0", type="gpu-large", gpu_model="A100", version="1")
    mine = {"user": "ann", "tenant": "t", "queue": "q", "project": "p", "kind": "Job", "owner": "train", "task": "main", "index": 2}
    ran = {"node": "n0", "bound": 3, "running": 5}
    driver.see(pod("u", "j", 1, "Pending", reason="Unschedulable", **mine))
    driver.see(pod("u", "j", 2, "Bound", reason="Starting", node="n0", bound=3, **mine), at=4)
    driver.see(pod("u", "j", 3, "Running", restarts=1, disruption="EvictionByEvictionAPI", **ran, **mine), at=6)
    driver.see(pod("u", "j", 4, "Terminating", terminating=7, **ran, **mine), at=8)
    driver.owner(JobObserved("train", "Job", version="8", phase="Running", tasks={"main": 3}), "j", at=9)
    driver.node("n0", gone=True)
    driver.wait(700)
    driver.see(pod("u", "j", 6, "Failed", reason="AppFailed", exit_code=3, ended=9, **ran, **mine))
    driver.owner(JobObserved("train", "Job", version="9", phase="Failed", reason="BackoffLimitExceeded", tasks={"main": 3}), "j")


def managed(driver: Driver) -> None:
    """Two tasks: a delayed action, a deletion that fails, a restart, a command that waits for it, a scale-down, the end."""
    policies = [{"event": "PodFailed", "action": "RestartTask", "timeout": "10s"}]
    tasks = {"name": "w", "replicas": 2, "policies": policies}, {"name": "v", "replicas": 1}
    spec = {"minAvailable": 1, "ttlSecondsAfterFinished": 60, "maxRetry": 9, "lahar": {"customEvents": {"Saved": None}}}
    driver.node("n0", type="cpu", version="1")
    driver.submit(vcjob(*tasks, **spec))
    driver.report(driver.job().attempts[0].effect, "failed", reason="AlreadyExists", name="train-w-0", message="it exists")
    driver.wait(2)
    driver.run("w")
    driver.run("v")
    driver.custom("Saved", data={"step": 1}, by="ann")
    driver.end("w", 0, code=3)
    driver.wait(10)
    driver.report(driver.job().tasks["w"].slots[1].effect, "failed", reason="Conflict", message="again")
    driver.command("RestartJob", reason="wrong data")
    driver.command("AbortJob")
    driver.reap()
    driver.wait(2)
    driver.reap()
    driver.command("ResumeJob")
    driver.run("w")
    driver.update(vcjob({**tasks[0], "replicas": 1}, tasks[1], **spec))
    driver.reap()
    seen = driver.replica("w", phase="Running", node="n0", bound=0, running=0)
    driver.gone(replace(seen, phase="Failed", reason="DeletedByApi", ended=None))
    driver.run("w", 0)
    driver.end("w", 0)
    driver.run("v", 0)
    driver.end("v", 0)
    driver.wait(60)
    driver.delete()


@pytest.mark.parametrize("story", [observed, managed], ids=lambda story: story.__name__)
def test_what_is_told_of_a_life(story: Callable[[Driver], None]) -> None:
    driver = Driver()
    story(driver)
    told = "".join(
        f"{event.type} {(event.time - START) / 1e6:g} {(event.recordedtime - START) / 1e6:g} {event.subject} "
        f"{json.dumps(json.loads(encode(event).data), sort_keys=True)}\n"
        for event in driver.events
    )
    golden = GOLDEN / f"told_of_{story.__name__}.txt"
    assert told == golden.read_text(encoding="utf-8"), f"if the change is meant, write {golden.name} anew"
