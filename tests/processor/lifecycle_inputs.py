"""Inputs for the lifecycle stage under crashes: managed and observed jobs, retries, timers, orphans, commands, nodes, garbage."""

from __future__ import annotations

import random
from typing import Any

from engine.events import Data, Event, Message, Topic, encode, raw_message
from engine.events.ids import observation_id, submitted_job_id
from engine.events.inputs import CommandIssued, JobSubmitted, NodeObserved, PodDeleted, PodObserved

_SECOND = 1_000_000
_PHASES = ("Pending", "Bound", "Running", "Succeeded")
_ACTIONS = ("AbortJob", "ResumeJob", "RestartJob", "RestartTask", "TerminateJob", "CompleteJob", "Unpark")


def inputs(jobs: int = 300) -> list[tuple[Topic, Message]]:
    """Make the inputs of some jobs, interleaved, the same in every process."""
    dice = random.Random(4711)  # noqa: S311  a workload, not a secret
    strange = random.Random(4712)  # noqa: S311  as above
    # Every observation of a life may have been left out.
    lives = [life for number in range(jobs) if (life := _life(number, dice))]
    made: list[tuple[Topic, Message]] = []
    at = 1_000_000 * _SECOND
    for number in range(4):
        node = NodeObserved(f"node{number}", cpu_milli=64_000, gpu=8)
        made.append(("cluster", _message(node, f"node{number}", node.name, "", at, key="c1")))
    running: list[list[tuple[Topic, Data, str, str]]] = []
    while lives or running:
        if lives and len(running) < 12:
            running.append(lives.pop(0))
        life = dice.choice(running)
        topic, data, name, job = life.pop(0)
        if not life:
            running.remove(life)
        at += dice.randrange(0, 5 * _SECOND)
        made.append((topic, _message(data, name, job, job, at)))
        if strange.random() < 0.03 and isinstance(data, PodObserved | JobSubmitted):
            made.append(("pods", _claim(job, len(made), at, strange)))
        if dice.random() < 0.05:
            made.append(made[dice.randrange(len(made))])
        if dice.random() < 0.02:
            made.append(("pods", raw_message(job, b"\x00 not an event", at)))
        if dice.random() < 0.02:
            flaky = NodeObserved(f"node{dice.randrange(4)}", ready=dice.choice(["True", "Unknown"]))
            made.append(("cluster", _message(flaky, f"flaky{len(made)}", flaky.name, "", 1_000_001 * _SECOND, key="c1")))
    return made


def _life(number: int, dice: random.Random) -> list[tuple[Topic, Data, str, str]]:
    managed = dice.random() < 0.7
    name = f"job{number}"
    job = submitted_job_id("c1", "default", name, f"submit-{number}")
    replicas = dice.randint(1, 3)
    steps: list[tuple[Topic, Data, str, str]] = []
    for attempt in range(dice.randint(1, 3)):
        for index in range(replicas):
            uid = f"{job}/{index}/{attempt}"
            end = dice.choice(("Succeeded", "Succeeded", "Failed", "gone"))
            for version, phase in enumerate(_PHASES):
                if dice.random() < 0.2:
                    continue
                last = phase == "Succeeded"
                pod = PodObserved(
                    uid=uid,
                    job=job,
                    name=f"{name}-main-{index}",
                    phase="Failed" if last and end == "Failed" else phase,
                    created=1_000_000 * _SECOND,
                    version=str(version + 1),
                    kind="VCJob",
                    owner=name,
                    managed=managed,
                    task="main",
                    index=index if managed else None,
                    reason="AppFailed" if last and end == "Failed" else None,
                    exit_code=1 if last and end == "Failed" else None,
                    node=f"node{dice.randrange(4)}" if version else None,
                )
                if last and end == "gone":
                    steps.append(("pods", PodDeleted(pod), observation_id(uid, "9", deleted=True), job))
                else:
                    steps.append(("pods", pod, observation_id(uid, str(version + 1), deleted=False), job))
        if dice.random() < 0.4:
            command = CommandIssued(dice.choice(_ACTIONS), by="tester", task="main")
            steps.insert(dice.randrange(len(steps) + 1), ("jobs", command, f"command-{number}-{attempt}", job))
    if managed:
        # Sometimes later than its first pods, which wait for it.
        place = 0 if dice.random() < 0.8 else min(2, len(steps))
        steps.insert(place, ("jobs", JobSubmitted(_manifest(name, replicas)), f"submit-{number}", job))
    return steps


def _manifest(name: str, replicas: int) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox:1.36", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "minAvailable": 1,
            "maxRetry": 2,
            "ttlSecondsAfterFinished": 20,
            "policies": [
                {"event": "PodFailed", "action": "RestartJob"},
                {"event": "PodEvicted", "action": "RestartTask", "timeout": "9s"},
            ],
            "tasks": [
                {
                    "name": "main",
                    "replicas": replicas,
                    "template": {"spec": {"containers": [container], "restartPolicy": "Never"}},
                }
            ],
        },
    }


def _message(data: Data, name: str, subject: str, job: str, at: int, key: str | None = None) -> Message:
    return encode(Event(name, "test", data.TYPE, subject, at, at, 0, job, "", "c1", data), key)


def _claim(job: str, number: int, at: int, dice: random.Random) -> Message:
    """A pod of another namespace that says it is of this job."""
    uid = f"strange/{job}"
    phase = dice.choice(("Running", "Failed"))
    pod = PodObserved(
        uid, job, "strange", phase, at, namespace="elsewhere", version=str(number), managed=True, task="main", index=0
    )  # type: ignore[arg-type]  # a phase
    return _message(pod, f"{uid}/{number}", job, job, at)
