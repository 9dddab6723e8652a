"""Random worlds and the scheduler's model of them, kept alike through what happens between rounds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random

from world import PlainJob, PlainNode, PlainPod, World

from engine.events.pod_shape import PREEMPTABLE, LabelSelector, PodShape, PodTerm, Toleration, pairs
from engine.scheduling.cluster.entities import EFFECTS, Job, Node, Taint, Task
from engine.scheduling.cluster.model import Cluster
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.configuration import Configuration, PluginOption
from engine.scheduling.outcome import Outcome
from engine.scheduling.scheduler import Scheduler

SECOND = 1_000_000
HOSTNAME = "kubernetes.io/hostname"


def configuration(*names: str, actions: str = "enqueue allocate backfill preempt reclaim") -> Configuration:
    tiers = (("priority", "gang", "conformance"), ("overcommit", "drf", "predicates", *names, "nodeorder", "binpack"))
    return Configuration(tuple(actions.split()), tuple(tuple(PluginOption(name) for name in tier) for tier in tiers))


class Twin:
    """A world and a cluster that agree."""

    def __init__(self, seed: int, queue_plugin: str) -> None:
        self.chance = Random(seed)  # noqa: S311 - a story, not a secret
        self.world = World()
        self.cluster = Cluster()
        self.now = 0
        self._number = 0
        for at in range(self.chance.randint(1, 5)):
            self.add_node(f"n{at}")
        for at in range(self.chance.randint(1, 3)):
            self._add_queue(f"q{at}")
        self.scheduler = Scheduler(self.cluster, configuration(queue_plugin))

    def add_node(self, name: str) -> None:
        chance = self.chance
        allocatable = {
            "cpu": chance.choice((2000, 4000, 8000)),
            "memory": chance.choice((4, 8)),
            "pods": chance.choice((2, 5)) * 1000,
        }
        if chance.random() < 0.3:
            allocatable["nvidia.com/gpu"] = 2000
        labels = {"zone": chance.choice("ab"), HOSTNAME: name}
        taint = "special" if chance.random() < 0.2 else None
        cordoned = chance.random() < 0.1
        self.world.nodes[name] = PlainNode(name, allocatable, labels, taint, cordoned)
        taints = () if taint is None else (Taint(taint),)
        self.cluster.set_node(Node(name, dict(allocatable), dict(labels), taints, unschedulable=cordoned))

    def _add_queue(self, name: str) -> None:
        chance = self.chance
        capability = {"cpu": chance.choice((3000, 6000))} if chance.random() < 0.5 else {}
        self.world.queues[name] = capability
        deserved = {"cpu": min(2000, capability.get("cpu", 2000)), "memory": 4}
        self.cluster.set_queue(Queue(name, chance.randint(1, 3), capability=dict(capability), deserved=deserved))

    def add_job(self) -> None:
        chance, number = self.chance, self._number
        self._number += 1
        size = chance.randint(1, 5)
        minimum, priority = chance.randint(1, size), chance.choice((0, 0, 5))
        key = f"ns/job{number}"
        queue = chance.choice(sorted(self.world.queues))
        self.world.jobs[key] = PlainJob(key, queue, minimum, priority)
        job = Job(key, "ns", queue, min_member=minimum, priority=priority, created=self.now)
        self.cluster.add_job(job)
        request = {"cpu": chance.choice((500, 1000, 2000)), "memory": chance.choice((1, 2))}
        if chance.random() < 0.2:
            request["nvidia.com/gpu"] = 1000
        selector = {"zone": chance.choice("ab")} if chance.random() < 0.3 else {}
        tolerates = "special" if chance.random() < 0.3 else None
        preemptable = chance.random() < 0.8
        labels = {"job": key} if preemptable else {"job": key, PREEMPTABLE: "false"}
        apart = chance.random() < 0.2
        shape = PodShape(
            requests=pairs(request),
            node_selector=pairs(selector),
            tolerations=(Toleration(tolerates, "Exists"),) if tolerates else (),
            labels=pairs(labels),
            pod_anti_affinity=(PodTerm(HOSTNAME, LabelSelector(pairs({"job": key}))),) if apart else (),
        )
        for index in range(size):
            pod = PlainPod(f"{key}-{index}", key, {**request, "pods": 1000}, selector, tolerates, preemptable, apart)
            self.world.pods[pod.key] = pod
            self.cluster.add_task(Task(pod.key, job, self.cluster.class_of(shape), index=index))

    def task(self, key: str) -> Task:
        return self.cluster.jobs[self.world.pods[key].job].tasks[key]

    def happen(self) -> None:
        """Let something happen between two rounds: pods start, end or leave, jobs and nodes come and go."""
        for pod in [pod for pod in self.world.pods.values() if pod.node is not None]:
            task = self.task(pod.key)
            if pod.leaving:
                if self.chance.random() < 0.7:
                    self._gone(pod)
            elif task.status == "Binding":
                self.cluster.move(task, "Running", task.node)
            elif self.chance.random() < 0.15:
                self._gone(pod)
        if self.chance.random() < 0.8:
            self.add_job()
        if self.chance.random() < 0.1:
            self.add_node(f"n{len(self.world.nodes) + self._number}")
        if self.chance.random() < 0.1 and len(self.world.nodes) > 1:
            self._lose_node(self.chance.choice(sorted(self.world.nodes)))

    def _gone(self, pod: PlainPod) -> None:
        """A pod ends. It counts for its gang no more, so neither does the gang's minimum that was met with it."""
        self.cluster.remove_task(self.task(pod.key))
        del self.world.pods[pod.key]
        job = self.cluster.jobs[pod.job]
        job.min_member = max(0, job.min_member - 1)
        self.world.jobs[pod.job].minimum = job.min_member

    def _lose_node(self, name: str) -> None:
        for pod in [pod for pod in self.world.pods.values() if pod.node == name]:
            self._gone(pod)
        del self.world.nodes[name]
        self.cluster.remove_node(name)

    def round(self) -> tuple[Outcome, list[str]]:
        """Run a round; return what it decided and what that broke."""
        self.now += SECOND
        outcome = self.scheduler.round(self.now)
        bound = [(task.key, node) for task, node in outcome.bound]
        faults = self.world.take(bound, [(task.key, action) for task, action in outcome.evicted])
        for pod in self.world.pods.values():
            if self.task(pod.key).status == "Releasing" and not pod.leaving:
                faults.append(f"{pod.key} leaves and was not evicted")
        return outcome, faults


def recounted(cluster: Cluster) -> list[str]:
    """Say which sums and arrays of a cluster differ from what its tasks say."""
    cluster.settle()
    wrong = []
    for node in cluster.table.nodes:
        for name, row in cluster.table.resources.items():
            idle = future = node.allocatable.get(name, 0)
            for task in node.tasks.values():
                amount = task.pod_class.request.get(name, 0)
                idle -= amount * EFFECTS[task.status].idle
                future -= amount * EFFECTS[task.status].future
            if (cluster.table.idle[row, node.row], cluster.table.future[row, node.row]) != (idle, future):
                wrong.append(f"{node.name}: {name}")
    queues: dict[str, dict[str, float]] = {name: {} for name in cluster.queues}
    for job in cluster.jobs.values():
        held: dict[str, float] = {}
        ready = 0
        for task in job.tasks.values():
            ready += EFFECTS[task.status].ready
            for name, amount in task.pod_class.items:
                if EFFECTS[task.status].counted:
                    held[name] = held.get(name, 0) + amount
                    for queue in job.path:
                        queues[queue.name][name] = queues[queue.name].get(name, 0) + amount
        if nonzero(job.allocated) != held or job.ready != ready:
            wrong.append(job.key)
    wrong += [name for name, held in queues.items() if nonzero(cluster.queues[name].allocated) != held]
    return wrong


def nonzero(amounts: dict[str, float]) -> dict[str, float]:
    return {name: amount for name, amount in amounts.items() if amount}


def work(function: Callable[[], object]) -> int:
    """How many calls a function makes, those of builtins and each step of a generator among them."""
    count = 0

    def note(*_: object) -> None:
        nonlocal count
        count += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count
