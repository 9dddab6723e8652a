"""What must hold of decisions, checked from a log alone: facts and job events as the scheduler had taken them, and what it wrote.

It knows nothing of the scheduler but the meaning of its events. Outputs come in the order of their shardsequence; before each one,
whatever its basis says had been taken is taken here as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from notice_checker import NoticeChecker
from world import PlainJob, PlainNode, PlainPod, World

from engine.events import Event, decode
from engine.events.actions import ActionTaken, EffectRequested, EffectSettled
from engine.events.attempts import AttemptBound, AttemptEnded, AttemptStarted
from engine.events.decisions import SCHEDULER, DecidedBound, DecidedEnqueued, DecidedEvicted, DecisionAccepted, DecisionRefused
from engine.events.inputs import NodeDeleted, NodeObserved, ObjectApplied
from engine.events.jobs import JobOpened, JobRevised
from engine.kubernetes.reading.quantity import milli, parse_quantity
from engine.log.port import Partition, Record

WHOLE = {"AbortJob", "RestartJob", "TerminateJob", "CompleteJob", "ResumeJob", "RequeueJob"}


def faults_of(log: Any) -> list[str]:
    """Return what the decisions in a log have broken."""
    checker = Checker()
    found: list[str] = []
    partitions = [Partition("cluster", 0), *(Partition("job-events", n) for n in range(log.partitions("job-events")))]
    taken = [deque(_records(log, partition)) for partition in partitions]
    for record in _outputs(log):
        for waiting, end in zip(taken, record.basis, strict=True):
            while waiting and waiting[0].offset < end:
                checker.absorb(decode(waiting.popleft().message))
        found += checker.decided(decode(record.message))
    for last in chain(*taken):
        checker.absorb(decode(last.message))
    return found + checker.broken + checker.notices.at_end()


def _outputs(log: Any) -> list[Record]:
    topics = ("scheduling", "decisions", "preemptions")
    partitions = [Partition(topic, number) for topic in topics for number in range(log.partitions(topic))]
    records = [record for partition in partitions for record in _records(log, partition) if record.shard == "scheduling/0"]
    return sorted(records, key=lambda record: record.shardsequence)


def _records(log: Any, partition: Partition) -> Iterator[Record]:
    start = 0
    while records := log.read(partition, start, 100_000):  # fewer, if they are large
        yield from records
        start = records[-1].offset + 1


@dataclass
class Checker:
    """Plain facts, and the pods as decisions and job events place them."""

    world: World = field(default_factory=World)
    pods: dict[str, dict[tuple[str, int, int], PlainPod]] = field(default_factory=dict)
    """Job → its attempts that have not ended."""
    specs: dict[str, Any] = field(default_factory=dict)
    shapes: dict[str, Any] = field(default_factory=dict)
    succeeded: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    let_in: set[str] = field(default_factory=set)
    open: dict[str, tuple[str, Any]] = field(default_factory=dict)
    """Decision → its job and what it says, until it is answered."""
    bindings: dict[str, PlainPod] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    """What answers have broken."""

    def __post_init__(self) -> None:
        self.notices = NoticeChecker(self.world, self.pods, self.specs, self.succeeded)

    # --- what was taken ---------------------------------------------------------------------------------------------------

    def absorb(self, event: Event[Any]) -> None:
        job, data = event.subject, event.data
        self.broken += self.notices.absorb(event)
        match data:
            case NodeObserved():
                amounts = {"cpu": data.cpu_milli, "memory": data.memory_bytes, "pods": data.pods * 1000, **data.resources}
                taint = data.taints[0].key if data.taints else None
                self.world.nodes[data.name] = PlainNode(data.name, amounts, dict(data.labels), taint, data.unschedulable)
            case NodeDeleted():
                self.world.nodes.pop(data.name, None)
            case ObjectApplied(kind="Queue"):
                capability = data.spec.get("capability") or {}
                self.world.queues[data.name] = {name: milli(parse_quantity(text)) for name, text in capability.items()}
            case JobOpened() if data.managed and data.spec.scheduler_name == SCHEDULER:
                self.specs[job], self.shapes[job] = data.spec, data.shapes
                self.pods[job], self.succeeded[job] = {}, set()
                self.world.jobs[job] = PlainJob(job, data.spec.queue, data.spec.min_available)
            case JobRevised() if job in self.specs and data.spec is not None:
                self.specs[job] = data.spec
                self.world.jobs[job].minimum = data.spec.min_available
            case ActionTaken() if data.action in WHOLE:
                self.let_in.discard(job)
                # What was asked for the group that goes is going to be refused; the next one is asked about anew.
                for decision in self._asking(job):
                    del self.open[decision]
            case DecisionAccepted():
                self._accept(job, data)
            case DecisionRefused():
                self._free(data.decision)
            case EffectRequested() if job in self.pods and data.effect in {"bind_pod", "delete_pod"}:
                pod = self.pods[job].get((data.task or "", data.index or 0, data.attempt or 0))
                if pod is not None and data.effect == "bind_pod":
                    self.bindings[event.id] = pod
                elif pod is not None:
                    pod.leaving = True
                else:
                    self.succeeded[job].discard((data.task or "", data.index or 0))
            case EffectSettled() if data.outcome == "failed" and data.effect in self.bindings:
                self.bindings.pop(data.effect).node = None
            case AttemptStarted() | AttemptBound() | AttemptEnded():
                self._attempt(job, data)

    def _attempt(self, job: str, data: Any) -> None:
        slot = (data.task, data.index, data.attempt)
        if job not in self.pods:
            return
        if isinstance(data, AttemptStarted):
            shape = self.shapes[job][data.task]
            request = {"pods": 1000, **dict(shape.requests)}
            tolerates = next((one.key for one in shape.tolerations), None)
            key = f"{job}/{data.task}/{data.index}/{data.attempt}"
            pod = PlainPod(key, job, request, dict(shape.node_selector), tolerates, shape.preemptable)
            self.pods[job][slot] = self.world.pods[key] = pod
            self.succeeded[job].discard(slot[:2])
        elif slot in self.pods[job]:
            pod = self.pods[job][slot]
            if isinstance(data, AttemptBound):
                pod.node = data.node
            else:
                del self.pods[job][slot], self.world.pods[pod.key]
                if data.phase == "Succeeded":
                    self.succeeded[job].add(slot[:2])

    def _accept(self, job: str, data: DecisionAccepted) -> None:
        if self.open.pop(data.decision, None) is None and data.kind in {"enqueued", "bound", "evicted"}:
            self.broken.append(f"{job}: a decision is accepted for which nothing is held any more")
        if data.kind == "enqueued":
            self.let_in.add(job)
        for placed in data.placements if data.kind == "bound" else ():
            pod = self.pods[job].get((placed.task, placed.index, placed.attempt))
            if pod is not None:
                pod.node = placed.node
        for key in data.attempts:
            pod = self.pods[job].get((key.task, key.index, key.attempt))
            if pod is not None:
                pod.leaving = True

    def _free(self, decision: str) -> None:
        job, data = self.open.pop(decision, ("", None))
        for placed in data.placements if isinstance(data, DecidedBound) else ():
            pod = self.pods[job].get((placed.task, placed.index, placed.attempt))
            if pod is not None:
                pod.node = None
        for key in data.attempts if isinstance(data, DecidedEvicted) else ():
            pod = self.pods[job].get((key.task, key.index, key.attempt))
            if pod is not None:
                pod.leaving = False

    # --- what was decided -------------------------------------------------------------------------------------------------

    def decided(self, event: Event[Any]) -> list[str]:
        """Take one event of the scheduler; return what it breaks."""
        job, data, broken = event.subject, event.data, list(self.notices.decided(event))
        if not isinstance(data, DecidedEnqueued | DecidedBound | DecidedEvicted):
            return broken
        if job not in self.specs:
            return [f"{event.type} about {job}, which is not ours"]
        asked = bool(self._asking(job))
        self.open[event.id] = job, data
        match data:
            case DecidedEnqueued():
                return broken + ([f"{job} is let in twice"] if asked or job in self.let_in else [])
            case DecidedBound():
                return broken + self._bound(job, data)
            case _:
                return broken + self._evicted(job, data)

    def _asking(self, job: str) -> list[str]:
        """Return the decisions to let a job in that have no answer yet."""
        return [decision for decision, (about, said) in self.open.items() if about == job and isinstance(said, DecidedEnqueued)]

    def _bound(self, job: str, data: DecidedBound) -> list[str]:
        broken = [] if self._asking(job) or job in self.let_in else [f"{job} is bound and was not let in"]
        placed: list[tuple[str, str]] = []
        for one in data.placements:
            pod = self.pods[job].get((one.task, one.index, one.attempt))
            if pod is None or pod.leaving:
                broken.append(f"{job} {one} is bound and not there")
            else:
                placed.append((pod.key, one.node))
        minimum = self.world.jobs[job].minimum
        self.world.jobs[job].minimum = max(0, minimum - len(self.succeeded[job]))
        broken += self.world.take(placed, [])
        self.world.jobs[job].minimum = minimum
        return broken

    def _evicted(self, job: str, data: DecidedEvicted) -> list[str]:
        pods = [self.pods[job].get((one.task, one.index, one.attempt)) for one in data.attempts]
        broken = [f"{job} {data.reason}: a pod is evicted that is not there" for pod in pods if pod is None]
        victims = [(pod.key, data.reason) for pod in pods if pod is not None]
        return broken + self.world.take([], victims)
