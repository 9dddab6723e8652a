"""A cluster as plain facts, and what must hold in it: knows nothing of how the scheduler decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass
class PlainNode:
    name: str
    allocatable: dict[str, int]
    labels: dict[str, str] = field(default_factory=dict)
    taint: str | None = None
    cordoned: bool = False


@dataclass
class PlainPod:
    key: str
    job: str
    request: dict[str, int]
    selector: dict[str, str] = field(default_factory=dict)
    tolerates: str | None = None
    preemptable: bool = True
    apart: bool = False
    """Pods of its job go to different nodes."""
    node: str | None = None
    """Where it is, until it is gone."""
    leaving: bool = False


@dataclass
class PlainJob:
    key: str
    queue: str
    minimum: int
    priority: int = 0


@dataclass
class World:
    nodes: dict[str, PlainNode] = field(default_factory=dict)
    queues: dict[str, dict[str, int]] = field(default_factory=dict)
    """Queue → capability; a resource that it lacks is not limited."""
    jobs: dict[str, PlainJob] = field(default_factory=dict)
    pods: dict[str, PlainPod] = field(default_factory=dict)

    def take(self, bound: Iterable[tuple[str, str]], evicted: Iterable[tuple[str, str]]) -> list[str]:
        """Let a round's decisions come true; return what they broke."""
        broken = []
        touched = set()
        for key, node in bound:
            pod = self.pods[key]
            touched.add(pod.job)
            if pod.node is not None:
                broken.append(f"{key} is bound twice: {pod.node}, {node}")
            broken += self._misplaced(pod, node)
            pod.node = node
        broken += self._broken_gangs(touched)
        for key, action in evicted:
            pod = self.pods[key]
            if pod.node is None or pod.leaving:
                broken.append(f"{key} is evicted by {action} from nowhere")
            if not pod.preemptable:
                broken.append(f"{key} is evicted by {action} and not preemptable")
            pod.leaving = True
        return broken + self.faults()

    def _misplaced(self, pod: PlainPod, name: str) -> list[str]:
        node = self.nodes.get(name)
        if node is None:
            return [f"{pod.key} is bound to {name}, which is gone"]
        broken = []
        if node.cordoned:
            broken.append(f"{pod.key} is bound to {name}, which is cordoned")
        if node.taint is not None and node.taint != pod.tolerates:
            broken.append(f"{pod.key} does not tolerate the taint of {name}")
        if pod.apart and any(other.node == name and other.job == pod.job for other in self.pods.values()):
            broken.append(f"{pod.key} is bound to {name}, where another of its job is")
        if any(node.labels.get(key) != value for key, value in pod.selector.items()):
            broken.append(f"{pod.key} does not select {name}")
        return broken

    def faults(self) -> list[str]:
        """Say which nodes and queues hold more than they may."""
        broken = []
        for node in self.nodes.values():
            held = total(pod.request for pod in self.pods.values() if pod.node == node.name)
            broken += [f"{node.name} has too much {name}" for name in held if held[name] > node.allocatable.get(name, 0)]
        for queue, capability in self.queues.items():
            held = total(
                pod.request
                for pod in self.pods.values()
                if pod.node is not None and not pod.leaving and self.jobs[pod.job].queue == queue
            )
            broken += [f"{queue} holds too much {name}" for name, most in capability.items() if held.get(name, 0) > most]
        return broken

    def _broken_gangs(self, jobs: Iterable[str]) -> list[str]:
        """A gang of which something was bound just now has as many pods as it needs.

        What is evicted in the same round still counts: in Volcano a later tier may evict what an earlier one protects.
        """
        broken = []
        for key in sorted(jobs):
            placed = sum(pod.job == key and pod.node is not None and not pod.leaving for pod in self.pods.values())
            if placed < self.jobs[key].minimum:
                broken.append(f"{key} is bound with {placed} of {self.jobs[key].minimum}")
        return broken


def total(requests: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for request in requests:
        for name, amount in request.items():
            found[name] = found.get(name, 0) + amount
    return found
