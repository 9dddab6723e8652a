"""Lifecycle and scheduling on one log, and a cluster whose nodes do as they are asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from engine.events import Data, Event, Message, decode, encode
from engine.events.actions import EffectRequested
from engine.events.ids import observation_id
from engine.events.inputs import (
    CommandIssued,
    EffectReported,
    JobSubmitted,
    JobUpdated,
    NodeDeleted,
    NodeObserved,
    ObjectApplied,
    PodDeleted,
    PodObserved,
)
from engine.events.outcomes import Accounted
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.log.port import Partition
from engine.processor.processor import Processor
from engine.scheduling.stage import SchedulingStage
from statemachines.spec import Requests

SECOND = 1_000_000
START = 1_000_000 * SECOND
CLUSTER = "c1"


def task(name: str = "w", replicas: int = 1, cpu: int = 1, **pod: Any) -> dict[str, Any]:
    """A task of a vcjob; `pod` goes into the spec of its pods."""
    container = {"name": "c", "image": "busybox:1.36", "resources": {"requests": {"cpu": str(cpu), "memory": "1Gi"}}}
    gpus = pod.pop("gpus", 0)
    if gpus:
        container["resources"]["requests"]["nvidia.com/gpu"] = str(gpus)
    more: dict[str, Any] = {key: pod.pop(key) for key in ("minAvailable", "policies") if key in pod}
    labels = pod.pop("labels", None)
    template = {"spec": {"containers": [container], "restartPolicy": "Never", **pod}}
    if labels:
        template["metadata"] = {"labels": labels}
    return {"name": name, "replicas": replicas, "template": template, **more}


def vcjob(name: str, *tasks: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A vcjob that we schedule."""
    metadata = {"name": name, "namespace": spec.pop("namespace", "default")}
    spec = {"schedulerName": "lahar", "tasks": list(tasks), **spec}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": spec}


@dataclass
class Pod:
    """A pod of the cluster."""

    now: PodObserved
    version: int = 1


class FakeCluster:
    """Nodes that do as lifecycle asks, on any log."""

    def __init__(self, log: Any, partitions: int, now: int) -> None:
        self.log = log
        self.partitions = partitions
        self.now = now
        self.pods: dict[str, Pod] = {}
        self.lazy = False
        """Pods that have a node do not start by themselves."""
        self.failing = False
        """The next binding fails."""
        self._read = [0] * partitions
        self._number = 0
        self._namespaces: dict[str, str] = {}
        """By job."""

    # --- what comes from outside ------------------------------------------------------------------------------------------

    def give(self, topic: Any, data: Data, subject: str, ident: str | None = None) -> None:
        """Append an input, recorded now."""
        self._number += 1
        event = Event(ident or f"i{self._number}", "test", data.TYPE, subject, self.now, self.now, 0, subject, "", CLUSTER, data)
        self.log.append(topic, [encode(event, CLUSTER if topic == "cluster" else None)])

    def node(self, name: str, cpu: int = 8, gpu: int = 0, pods: int = 20, **fields: Any) -> None:
        resources = {"nvidia.com/gpu": gpu * 1000} if gpu else {}
        labels = {"kubernetes.io/hostname": name, **fields.pop("labels", {})}
        seen = NodeObserved(
            name, cpu_milli=cpu * 1000, memory_bytes=64 << 30, gpu=gpu, pods=pods, resources=resources, labels=labels, **fields
        )
        self.give("cluster", seen, name)

    def lose_node(self, name: str) -> None:
        self.give("cluster", NodeDeleted(name), name)
        for uid, pod in list(self.pods.items()):
            if pod.now.node == name:
                self.gone(uid)

    def apply(self, kind: Any, name: str, **spec: Any) -> None:
        self.give("cluster", ObjectApplied(kind, name, spec), name)

    def submit(self, job: str, manifest: dict[str, Any]) -> None:
        self._namespaces[job] = manifest["metadata"]["namespace"]
        self.give("jobs", JobSubmitted(manifest), job)

    def update(self, job: str, manifest: dict[str, Any]) -> None:
        self.give("jobs", JobUpdated(manifest), job)

    def command(self, job: str, action: Any) -> None:
        self.give("jobs", CommandIssued(action, "ann"), job)

    # --- the nodes --------------------------------------------------------------------------------------------------------

    def obey(self) -> bool:
        """Do what lifecycle has asked for since the last time; returns whether there was anything."""
        asked = False
        for number in range(self.partitions):
            while records := self.log.read(Partition("job-events", number), self._read[number], 500):
                self._read[number] = records[-1].offset + 1
                for record in records:
                    if record.message.type == EffectRequested.TYPE:
                        self.do(decode(record.message))
                        asked = True
        return asked

    def do(self, event: Event[Any]) -> None:
        effect, uid = event.data, f"{event.subject}-{event.data.task}-{event.data.index}-{event.data.attempt}"
        if effect.effect == "create_pod":
            seen = PodObserved(
                uid, event.subject, effect.pod, "Pending", self.now, kind="VCJob", managed=True, requests=Requests(1000, 1 << 30)
            )
            seen = replace(seen, namespace=self._namespaces.get(event.subject, seen.namespace))
            self.pods[uid] = Pod(replace(seen, task=effect.task, index=effect.index, attempt=effect.attempt))
            self.see(uid)
        elif effect.effect == "bind_pod" and self.failing:
            self.failing = False
            self.give("jobs", EffectReported(event.id, "failed"), event.subject)
        elif effect.effect == "bind_pod" and uid in self.pods:
            self.see(uid, phase="Bound", node=effect.node, bound=self.now)
            if not self.lazy:
                self.run(uid)
        elif effect.effect == "delete_pod":
            found = effect.uid or uid
            if found in self.pods:
                self.gone(found)

    def see(self, uid: str, **change: Any) -> None:
        """Show a pod."""
        pod = self.pods[uid]
        pod.version += 1
        pod.now = replace(pod.now, version=str(pod.version), proof=self.now, **change)
        self.give("pods", pod.now, pod.now.job, observation_id(uid, str(pod.version), deleted=False))

    def running(self) -> list[str]:
        """The pods that run."""
        return sorted(uid for uid, pod in self.pods.items() if pod.now.phase == "Running")

    def run(self, uid: str) -> None:
        self.see(uid, phase="Running", running=self.now)

    def end(self, uid: str, phase: Any = "Succeeded") -> None:
        """Let a pod end by itself."""
        code = 0 if phase == "Succeeded" else 1
        self.see(uid, phase=phase, exit_code=code, ended=self.now, reason=None if code == 0 else "AppFailed")

    def gone(self, uid: str) -> None:
        """Delete a pod."""
        pod = self.pods.pop(uid)
        last = pod.now
        if last.phase not in {"Succeeded", "Failed", "Lost"}:
            last = replace(last, phase="Failed", reason="KilledByAction", ended=self.now)
        last = replace(last, version=str(pod.version + 1))
        self.give("pods", PodDeleted(last), last.job, observation_id(uid, last.version or "", deleted=True))

    # --- what was said ----------------------------------------------------------------------------------------------------

    def messages(self, *topics: Any) -> list[Message]:
        """What stands in topics of the stages' output, without what depends on how inputs fall into commits."""
        return [record.message for record in self.log.scan(topics) if record.message.type != Accounted.TYPE]

    def events(self, *kinds: type[Data], job: str | None = None) -> list[Event[Any]]:
        """All events of some types, in the order of their topic."""
        names = {kind.TYPE for kind in kinds}
        found = [m for m in self.messages(*dict.fromkeys(kind.TOPIC for kind in kinds)) if m.type in names]
        return [decode(message) for message in found if job is None or message.subject == job]

    def places(self, job: str) -> dict[str, str | None]:
        """Pod → node of the pods of a job."""
        return {uid: pod.now.node for uid, pod in sorted(self.pods.items()) if pod.now.job == job}


class Deployment(FakeCluster):
    """The stages, the log and the cluster."""

    def __init__(self, stage: Callable[[], SchedulingStage] = SchedulingStage, every: int = 100_000, partitions: int = 2) -> None:
        super().__init__(MemoryLog(partitions, clock=lambda: 1 << 60), partitions, START)
        self.stage = stage
        self.every = every
        self.deaf = False
        """Lifecycle takes nothing for a while."""
        self.lifecycle = [self._opened(LifecycleStage(), number) for number in range(partitions)]
        self.scheduling = self._opened(stage(), 0)

    def _opened(self, stage: Any, number: int, batch: int = 500) -> Processor[Any]:
        processor = Processor(self.log, stage, number, batch=batch, snapshot_every=self.every)
        processor.open()
        return processor

    def restart(self) -> None:
        """Have another process take over the shard of scheduling."""
        self.scheduling = self._opened(self.stage(), 0)

    # --- time -------------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let everything happen that follows now."""
        while True:
            done = 0
            for processor in [] if self.deaf else self.lifecycle:
                done += processor.step() or processor.fire_due(self.now)
            done += self.scheduling.step() or self.scheduling.fire_due(self.now)
            if not self.obey() and not done:
                return

    def wait(self, seconds: int = 1) -> None:
        """Let time pass, second by second."""
        for _ in range(seconds):
            self.now = (self.now // SECOND + 1) * SECOND
            self.settle()


def refused() -> Deployment:
    """One in which a decision was refused and its job waits, so that every metric of the stage has a value."""
    deployment = Deployment()
    deployment.node("n1")
    deployment.submit("j1", vcjob("train", task()))
    deployment.settle()
    deployment.wait()
    deployment.deaf = True
    deployment.wait()
    deployment.node("n1", unschedulable=True)
    deployment.settle()
    deployment.deaf = False
    deployment.wait(2)
    return deployment
