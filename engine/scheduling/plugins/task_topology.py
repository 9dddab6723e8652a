"""Task-topology: tasks of a job that belong together share a node, those that do not keep apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np

from engine.scheduling.answers import Scores
from engine.scheduling.model.amounts import Amounts, add
from engine.scheduling.model.entities import EFFECTS, Job, Node, Task
from engine.scheduling.session import Plugin, Session

__all__ = ["TaskTopology"]

_AFFINITY: Final = "volcano.sh/task-topology-affinity"
_ANTI_AFFINITY: Final = "volcano.sh/task-topology-anti-affinity"
_ORDER: Final = "volcano.sh/task-topology-task-order"
_BEST: Final = 100.0
_ANTI_INTER, _SELF, _INTER, _ANTI_SELF = 1, 2, 3, 4
"""Roles with stronger demands are put into buckets first (Volcano)."""


@dataclass(slots=True)
class _Bucket:
    """Tasks that should share a node."""

    number: int
    tasks: dict[str, Task] = field(default_factory=dict)
    """Those without a node, by key."""
    roles: dict[str, int] = field(default_factory=dict)
    """Members by role, with and without a node."""
    nodes: dict[str, int] = field(default_factory=dict)
    """Node → members there."""


class _Topology:
    """What a job's annotations demand, and its tasks in buckets by it."""

    def __init__(self, job: Job) -> None:
        self.affine = _pairs(job, _AFFINITY)
        self.apart = _pairs(job, _ANTI_AFFINITY)
        order = [role.strip() for role in job.annotations.get(_ORDER, "").split(",") if role.strip()]
        self._rank = {role: at for at, role in enumerate(order)}
        self.buckets: list[_Bucket] = []
        self.of_task: dict[str, _Bucket] = {}
        for task in sorted(job.tasks.values(), key=self.first):
            if task.node is not None and EFFECTS[task.status].idle:
                self._enter(task, self._on_node(task.node.name))
        for task in sorted(job.with_status("Pending").values(), key=self.first):
            self._enter(task, self._best(task))
        self.largest = max([len(bucket.tasks) + sum(bucket.nodes.values()) for bucket in self.buckets], default=0)

    def first(self, task: Task) -> tuple[object, ...]:
        """Return a task's place: in the stated order of roles, then by how strong their demands are."""
        role = task.role
        pairs = (
            (self.apart, True, _ANTI_SELF),
            (self.affine, False, _INTER),
            (self.affine, True, _SELF),
            (self.apart, False, _ANTI_INTER),
        )
        strength = max(
            [worth for found, own, worth in pairs if any(role in pair and (len(pair) == 1) == own for pair in found)] or [0]
        )
        return (self._rank.get(role, len(self._rank)), -strength, task.index, task.created, task.key)

    def affinity(self, role: str, members: dict[str, int]) -> int:
        """Return how many members a role goes with, less those that it keeps apart from."""
        near = sum(count for other, count in members.items() if frozenset((role, other)) in self.affine)
        return near - sum(count for other, count in members.items() if frozenset((role, other)) in self.apart)

    def _on_node(self, name: str) -> _Bucket | None:
        return next((bucket for bucket in self.buckets if name in bucket.nodes), None)

    def _best(self, task: Task) -> _Bucket | None:
        """Return the bucket that a task goes with best; `None`: none, it starts one."""
        best: tuple[int, _Bucket] | None = None
        for bucket in self.buckets:
            if any(frozenset((task.role, other)) in self.apart for other in bucket.roles):
                continue
            worth = self.affinity(task.role, bucket.roles)
            if worth > 0 and (best is None or worth > best[0]):
                best = (worth, bucket)
        return None if best is None else best[1]

    def _enter(self, task: Task, bucket: _Bucket | None) -> None:
        if bucket is None:
            bucket = _Bucket(len(self.buckets))
            self.buckets.append(bucket)
        bucket.roles[task.role] = bucket.roles.get(task.role, 0) + 1
        if task.node is None:
            bucket.tasks[task.key] = task
        else:
            bucket.nodes[task.node.name] = bucket.nodes.get(task.node.name, 0) + 1
        self.of_task[task.key] = bucket


class TaskTopology(Plugin):
    """Buckets of tasks by the annotations of their job (Volcano `task-topology`).

    `volcano.sh/task-topology-affinity`, `…-anti-affinity`: groups of roles as `ps,worker;worker`;
    `volcano.sh/task-topology-task-order`: roles with commas.
    """

    NAME: ClassVar[str] = "task-topology"

    def open(self, session: Session) -> None:
        """Put the tasks of jobs with such annotations into buckets when they are first asked about."""
        super().open(session)
        self._topologies: dict[str, _Topology] = {}

    def _topology(self, job: Job) -> _Topology | None:
        if not (job.annotations.keys() & {_AFFINITY, _ANTI_AFFINITY, _ORDER}):
            return None
        if job.key not in self._topologies:
            self._topologies[job.key] = _Topology(job)
        return self._topologies[job.key]

    def task_order(self, task: Task) -> tuple[object, ...]:
        """Tasks of larger buckets first, a bucket's together, in the stated order of roles."""
        topology = self._topology(task.job)
        bucket = topology.of_task.get(task.key) if topology is not None else None
        if topology is None or bucket is None:
            return ()
        return (-sum(bucket.roles.values()), bucket.number, topology.first(task))

    def task_node_order(self, task: Task) -> Scores | None:
        """Score nodes by the mates that are there and would still fit, less those to keep apart from."""
        topology = self._topology(task.job)
        bucket = topology.of_task.get(task.key) if topology is not None else None
        if topology is None or bucket is None or not topology.largest:
            return None
        table = self.session.cluster.table
        return np.array([self._score(topology, bucket, task, node) for node in table.nodes]) * (_BEST / topology.largest)

    def _score(self, topology: _Topology, bucket: _Bucket, task: Task, node: Node) -> float:
        roles: dict[str, int] = {}
        for other in node.tasks.values():
            if other.job is task.job:
                roles[other.role] = roles.get(other.role, 0) + 1
        bound = sum(other.job is task.job and topology.of_task.get(other.key) is bucket for other in node.tasks.values())
        apart = sum(count for role, count in roles.items() if frozenset((task.role, role)) in topology.apart)
        return float(bound + self._fitting(bucket, node) - apart)

    def _fitting(self, bucket: _Bucket, node: Node) -> int:
        """Return how many of a bucket's waiting tasks fit on a node together."""
        table = self.session.cluster.table
        used: Amounts = {}
        count = 0
        for mate in bucket.tasks.values():
            if mate.status != "Pending":
                continue
            add(used, mate.pod_class.items)
            if any(amount > table.future_of(name)[node.row] for name, amount in used.items()):
                break
            count += 1
        return count


def _pairs(job: Job, annotation: str) -> set[frozenset[str]]:
    """Return the pairs of roles that an annotation groups; a group of one role is that role with itself."""
    found = set()
    for group in job.annotations.get(annotation, "").split(";"):
        roles = [role.strip() for role in group.split(",") if role.strip()]
        if len(roles) == 1:
            found.add(frozenset(roles))
        found |= {frozenset((one, other)) for at, one in enumerate(roles) for other in roles[at + 1 :]}
    return found
