"""Three stories of managed jobs, told with pods in the API server's form."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from lifecycle_driver import SECOND, START, Driver, vcjob

from engine.events.actions import ActionTaken, EffectRequested, EventRaised
from engine.events.attempts import AttemptEnded
from engine.events.jobs import JobPhaseChanged
from engine.kubernetes.observation.pods import delete_pod, observe_pod


class Story(Driver):
    """A shard and the API server whose pods it hears of."""

    def __init__(self) -> None:
        super().__init__()
        self.pods: dict[str, dict[str, Any]] = {}
        self.version = 1000
        self.answered = 0

    @property
    def stamp(self) -> str:
        return datetime.fromtimestamp(self.now // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def obey(self) -> None:
        """Make the pods that were asked for; begin to delete those that are to go."""
        asked = [event for event in self.events[self.answered :] if isinstance(event.data, EffectRequested)]
        self.answered = len(self.events)
        for event in asked:
            effect = event.data
            if effect.effect == "create_pod":
                self._create(event.subject, effect)
            elif effect.effect == "delete_pod" and effect.pod in self.pods:
                self.change(effect.pod, deletionTimestamp=self.stamp, deletionGracePeriodSeconds=0)

    def _create(self, job: str, effect: EffectRequested) -> None:
        name = effect.pod or ""
        annotations = {
            "lahar/job": job,
            "lahar/task": effect.task,
            "lahar/index": str(effect.index),
            "lahar/attempt": str(effect.attempt),
        }
        annotations |= {"volcano.sh/task-spec": effect.task, "volcano.sh/task-index": str(effect.index)}
        resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
        self.pods[name] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"{name}-{effect.attempt}",
                "creationTimestamp": self.stamp,
                "annotations": annotations,
            },
            "spec": {"containers": [{"name": "c", "image": "busybox:1.36", "resources": resources}], "restartPolicy": "Never"},
            "status": {"phase": "Pending"},
        }
        self.observe(name)

    def observe(self, name: str) -> None:
        self.version += 1
        pod = self.pods[name]
        pod["metadata"]["resourceVersion"] = str(self.version)
        self.see(observe_pod(pod))

    def change(self, name: str, **metadata: Any) -> None:
        self.pods[name]["metadata"] |= metadata
        self.observe(name)
        self.obey()

    def start(self, name: str, node: str) -> None:
        """The pod gets a node, and its container starts two seconds later."""
        pod = self.pods[name]
        pod["spec"]["nodeName"] = node
        pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": self.stamp}]
        self.observe(name)
        self.wait(2)
        self._container(name, "Running", {"running": {"startedAt": self.stamp}}, ready=True)

    def exit(self, name: str, code: int, reason: str) -> None:
        """Its container ends."""
        started = self.pods[name]["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
        ended = {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": self.stamp}
        self._container(name, "Failed" if code else "Succeeded", {"terminated": ended}, ready=False)
        if "deletionTimestamp" in self.pods[name]["metadata"]:
            self.remove(name)

    def _container(self, name: str, phase: str, state: dict[str, Any], *, ready: bool) -> None:
        status = self.pods[name]["status"]
        status["phase"] = phase
        status["containerStatuses"] = [{"name": "c", "restartCount": 0, "ready": ready, "state": state}]
        self.observe(name)
        self.obey()

    def remove(self, name: str) -> None:
        self.version += 1
        pod = self.pods.pop(name)
        pod["metadata"]["resourceVersion"] = str(self.version)
        self.gone(delete_pod(pod).last)
        self.obey()

    def play(self, manifest: dict[str, Any]) -> None:
        self.submit(manifest)
        assert self.outcome == "applied"
        self.obey()
        for number, name in enumerate(list(self.pods)):
            self.start(name, f"node-{number}")

    def ends(self) -> list[tuple[str, int, str, str | None]]:
        return [(end.task, end.attempt, end.phase, end.reason) for end in self.of(AttemptEnded)]


@pytest.fixture
def story():
    return Story()


def test_ensemble_learning(story):
    """The combiner's end completes the job while learners still run."""
    rule = {"raise": "MainTaskEvent", "when": {"task": "combiner", "phase": "Completed"}}
    story.play(
        vcjob(
            {"name": "combiner"},
            {"name": "learner", "replicas": 2},
            name="ensemble",
            policies=[{"event": "MainTaskEvent", "action": "CompleteJob"}],
            lahar={"raise": [rule]},
        )
    )
    assert story.phase() == "Running"
    story.wait(60)
    story.exit("ensemble-combiner-0", 0, "Completed")
    assert story.phase() == "Completing"
    assert [event.event for event in story.of(EventRaised)] == ["TaskCompleted", "MainTaskEvent"]
    story.wait(1)
    for name in ("ensemble-learner-0", "ensemble-learner-1"):
        story.exit(name, 143, "Error")
    assert story.path() == ["Running", "Completing", "Completed"]
    assert story.ends() == [
        ("combiner", 1, "Succeeded", None),
        ("learner", 1, "Failed", "KilledByAction"),
        ("learner", 1, "Failed", "KilledByAction"),
    ]


def test_a_worker_that_runs_out_of_memory_is_restarted(story):
    """A parameter server and a worker; the policy restarts the worker's task, then the training completes."""
    story.play(
        vcjob(
            {"name": "ps"},
            {"name": "worker", "policies": [{"event": "PodFailed", "action": "RestartTask"}]},
            name="train",
            policies=[{"event": "TaskCompleted", "action": "CompleteJob"}],
        )
    )
    story.wait(30)
    story.exit("train-worker-0", 137, "OOMKilled")
    assert story.phase() == "Pending"
    assert (story.job().retry_count, story.job().restarts) == (1, 1)
    story.start("train-worker-0", "node-7")
    assert story.phase() == "Running"
    story.wait(60)
    story.exit("train-worker-0", 0, "Completed")
    assert story.phase() == "Completing"
    story.exit("train-ps-0", 143, "Error")
    assert story.phase() == "Completed"
    assert story.ends() == [
        ("worker", 1, "Failed", "OomKilled"),
        ("worker", 2, "Succeeded", None),
        ("ps", 1, "Failed", "KilledByAction"),
    ]
    assert [(one.action, one.policy) for one in story.of(ActionTaken)] == [
        ("RestartTask", "spec.tasks[1].policies[0]"),
        ("CompleteJob", "spec.policies[0]"),
    ]
    assert [end.ran // SECOND for end in story.of(AttemptEnded)] == [30, 60, 94]


def test_a_gang_that_loses_a_node_is_aborted_during_the_restart(story):
    """A lost node burns no retry; the user's abort waits for the restart."""
    story.play(vcjob({"name": "gang", "replicas": 3}, name="sim", policies=[{"event": "PodEvicted", "action": "RestartJob"}]))
    story.wait(30)
    story.node("node-1", ready="Unknown", unreachable=True)
    assert story.job().tasks["gang"].slots[1].reason == "Suspect"
    story.wait(300)
    lost = story.pods["sim-gang-1"]
    lost["status"]["phase"] = "Failed"
    lost["status"]["conditions"].append(
        {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "lastTransitionTime": story.stamp}
    )
    story.observe("sim-gang-1")
    story.obey()
    story.remove("sim-gang-1")
    assert story.phase() == "Restarting"
    assert (story.job().retry_count, story.job().restarts) == (0, 1)
    story.command("AbortJob", by="ann", reason="the data are wrong")
    assert story.phase() == "Restarting"
    story.wait(1)
    for name in ("sim-gang-0", "sim-gang-2"):
        story.exit(name, 143, "Error")
    assert story.path() == ["Running", "Restarting", "Pending", "Aborting", "Aborted"]
    assert story.ends() == [
        ("gang", 1, "Lost", "NodeLost"),
        ("gang", 1, "Failed", "KilledByAction"),
        ("gang", 1, "Failed", "KilledByAction"),
    ]
    taken = story.of(ActionTaken)[-1]
    assert (taken.action, taken.by, taken.deferred) == ("AbortJob", "ann", True)
    assert story.asked("create_pod") == [("gang", index, 1) for index in range(3)]
    assert all(change.retry_count == 0 for change in story.of(JobPhaseChanged))
    assert story.now >= START
