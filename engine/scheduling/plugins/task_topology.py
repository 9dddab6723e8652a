"""Task-topology: affinity and anti-affinity between the tasks of a job, by buckets of tasks that should share a node.

Extension points: `task_order`, `task_node_order`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from engine.scheduling.cluster.amounts import MEMORY, PODS
from engine.scheduling.cluster.entities import EFFECTS, Job, PodClass, Task
from engine.scheduling.cluster.nodes import NodeTable
from engine.scheduling.plugin_results import Scores
from engine.scheduling.session import Plugin, Session

ROLES: Final = 16
"""Greatest number of roles that a job's annotations may name; the cost of a placement grows with it."""

_CHARACTERS: Final = 4096
"""Characters of an annotation that are read."""
_AFFINITY: Final = "volcano.sh/task-topology-affinity"
_ANTI_AFFINITY: Final = "volcano.sh/task-topology-anti-affinity"
_ORDER: Final = "volcano.sh/task-topology-task-order"
_BEST: Final = 100.0
_ANTI_INTER, _SELF, _INTER, _ANTI_SELF = 1, 2, 3, 4
"""Strengths of demands; roles with stronger ones enter buckets first (Volcano)."""
_MEBIBYTE: Final = 1 << 20
_STORAGE: Final = "ephemeral-storage"

_Roles = dict[str, set[str]]
"""Role → roles grouped with it by one annotation, itself included if it is alone or twice in a group."""


@dataclass(slots=True, eq=False)
class _Bucket:
    """Tasks that should share a node."""

    number: int
    size: int = 0
    """Number of members; `roles`: by role."""
    placeless: int = 0
    """Members that entered without a node."""
    roles: dict[str, int] = field(default_factory=dict)
    waiting: dict[PodClass, int] = field(default_factory=dict)
    """Class → members that entered without a node and still have none."""
    there: dict[int, int] = field(default_factory=dict)
    """Row of a node → members on it."""
    asked: float = 0.0
    """Requests of members without a node, where a millicore, a MiB and a thousandth of any other resource are equal (Volcano
    `reqScore`)."""


class _Topology:
    """Demands of a job's annotations, and its tasks in buckets."""

    def __init__(self, job: Job, table: NodeTable) -> None:
        own = {task.role for task in job.tasks.values()}
        groups = [_groups(job, annotation) for annotation in (_AFFINITY, _ANTI_AFFINITY)]
        mentioned = (role for found in groups for group in found for role in group if role in own)
        named = set(list(dict.fromkeys(mentioned))[:ROLES])
        self._affine, self._apart = (_pairs(found, named) for found in groups)
        self._rank = {role: at for at, role in enumerate(dict.fromkeys(_names(_cut(job, _ORDER), ",")))}
        self._strength = {role: self._demand(role) for role in named}
        self._table = table
        self._ranked: dict[str, list[tuple[int, float, int]]] = {role: [] for role in named}
        """Role → heap of buckets that it may join, best first; holds outdated entries."""
        self._buckets: list[_Bucket] = []
        self.of_task: dict[str, _Bucket] = {}
        self._where: dict[str, int] = {}
        """Task → row of its node."""
        self._waits: dict[str, bool] = {}
        """Task that entered without a node → whether it still has none."""
        self._against: dict[str, NDArray[np.int64]] = {}
        """Role → by node, number of tasks to avoid."""
        self._mates: tuple[_Bucket | None, NDArray[np.int64]] = (None, np.zeros(0, np.int64))
        """Last scored bucket, and its members by node."""
        on_node: dict[str, _Bucket] = {}
        for task in sorted(job.tasks.values(), key=self.first):
            if task.role in named and task.node is not None and EFFECTS[task.status].idle:
                bucket = on_node.get(task.node.name) or self._new_bucket()
                on_node[task.node.name] = bucket
                self._enter(task, bucket)
        for task in sorted(job.with_status("Pending").values(), key=self.first):
            if task.role in named:
                bucket = self._best(task.role) or self._new_bucket()
                bucket.waiting.setdefault(task.pod_class, 0)
                bucket.placeless += 1
                bucket.asked += _asked(task.pod_class)
                self._waits[task.key] = False
                self._enter(task, bucket)
        self._largest = max([bucket.size for bucket in self._buckets], default=1)

    def _demand(self, role: str) -> int:
        affine, apart = self._affine[role], self._apart[role]
        stated = (
            (role in apart, _ANTI_SELF),
            (bool(affine - {role}), _INTER),
            (role in affine, _SELF),
            (bool(apart - {role}), _ANTI_INTER),
        )
        return next((worth for demanded, worth in stated if demanded), 0)

    def first(self, task: Task) -> tuple[object, ...]:
        """Return the order key of a task: the stated order of roles, then the strength of demands."""
        role = task.role
        return (self._rank.get(role, len(self._rank)), -self._strength.get(role, 0), task.index, task.created, task.key)

    # Buckets --------------------------------------------------------------------------------------------------------------

    def _new_bucket(self) -> _Bucket:
        bucket = _Bucket(len(self._buckets))
        self._buckets.append(bucket)
        for ranked in self._ranked.values():
            heappush(ranked, (0, 0.0, bucket.number))
        return bucket

    def _worth(self, role: str, bucket: _Bucket) -> int:
        """Return the number of members with affinity to a role, less those with anti-affinity."""
        count = bucket.roles.get
        return sum(count(other, 0) for other in self._affine[role]) - sum(count(other, 0) for other in self._apart[role])

    def _best(self, role: str) -> _Bucket | None:
        """Return the best bucket for a role, of equal ones the one with the least requests; `None`: it avoids all."""
        ranked = self._ranked[role]
        while ranked:
            worth, asked, number = ranked[0]
            bucket = self._buckets[number]
            if self._worth(role, bucket) != -worth:
                heappop(ranked)
            elif bucket.asked != asked:  # its requests have grown since it was pushed
                heapreplace(ranked, (worth, bucket.asked, number))
            else:
                return bucket
        return None

    def _enter(self, task: Task, bucket: _Bucket) -> None:
        role = task.role
        bucket.size += 1
        bucket.roles[role] = bucket.roles.get(role, 0) + 1
        self.of_task[task.key] = bucket
        for other in self._affine[role] | self._apart[role]:
            worth = self._worth(other, bucket)
            if worth >= 0:
                heappush(self._ranked[other], (-worth, bucket.asked, bucket.number))
        self.follow(task)

    # Places ---------------------------------------------------------------------------------------------------------------

    def follow(self, task: Task) -> None:
        """Update the node of a task, and whether it is pending."""
        bucket = self.of_task.get(task.key)
        if bucket is None:
            return
        before, effect = self._where.pop(task.key, -1), EFFECTS[task.status]
        row = task.node.row if task.node is not None and (effect.idle or effect.future) else -1
        if row >= 0:
            self._where[task.key] = row
        if row != before:
            self._move(task.role, bucket, before, -1)
            self._move(task.role, bucket, row, 1)
        waits = task.status == "Pending"
        if self._waits.get(task.key, waits) != waits:
            self._waits[task.key] = waits
            bucket.waiting[task.pod_class] += 1 if waits else -1

    def _move(self, role: str, bucket: _Bucket, row: int, by: int) -> None:
        if row < 0:
            return
        bucket.there[row] = bucket.there.get(row, 0) + by
        if self._mates[0] is bucket:
            self._mates[1][row] += by
        for other in self._apart.get(role, ()):
            if other not in self._against:
                self._against[other] = np.zeros(len(self._table.nodes), np.int64)
            self._against[other][row] += by

    def scores(self, role: str, bucket: _Bucket) -> Scores:
        """Score all nodes for a member of a bucket: members there, plus members that would still fit, less tasks to avoid."""
        found = self._there(bucket) + _fitting(self._table, bucket.waiting.items())
        if role in self._against:
            found = found - self._against[role]
        return found.astype(np.float64) * (_BEST / self._largest)

    def _there(self, bucket: _Bucket) -> NDArray[np.int64]:
        if self._mates[0] is not bucket:
            counts = np.zeros(len(self._table.nodes), np.int64)
            counts[list(bucket.there)] = list(bucket.there.values())
            self._mates = (bucket, counts)
        return self._mates[1]


class TaskTopology(Plugin):
    """Buckets of tasks by the annotations of their job (Volcano `task-topology`).

    `volcano.sh/task-topology-affinity`, `…-anti-affinity`: groups of roles as `ps,worker;worker`;
    `volcano.sh/task-topology-task-order`: roles separated by commas. Of each annotation 4,096 characters are read, and the first
    `ROLES` named roles count.
    """

    NAME: ClassVar[str] = "task-topology"

    def open(self, session: Session) -> None:
        """Reset: a job's tasks are put into buckets on first use."""
        super().open(session)
        self._topologies: dict[str, _Topology | None] = {}
        self._followed = len(session.cluster.moved)
        """Number of entries of `Cluster.moved` that the topologies have followed."""

    def _topology(self, job: Job) -> _Topology | None:
        if job.key not in self._topologies:
            stated = job.annotations.keys() & {_AFFINITY, _ANTI_AFFINITY, _ORDER}
            self._topologies[job.key] = _Topology(job, self.session.cluster.table) if stated else None
        return self._topologies[job.key]

    def task_order(self, task: Task) -> tuple[object, ...]:
        """Order by buckets with more pending members, then by role as stated; tasks without a bucket last."""
        topology = self._topology(task.job)
        bucket = topology.of_task.get(task.key) if topology is not None else None
        if topology is None:
            return ()
        return (1,) if bucket is None else (0, -bucket.placeless, bucket.number, topology.first(task))

    def task_node_order(self, task: Task) -> Scores | None:
        """Score nodes by bucket members there and still fitting, less tasks to avoid."""
        topology = self._topology(task.job)
        bucket = topology.of_task.get(task.key) if topology is not None else None
        if topology is None or bucket is None:
            return None
        moved = self.session.cluster.moved
        for other in moved[self._followed :]:
            known = self._topologies.get(other.job.key)
            if known is not None:
                known.follow(other)
        self._followed = len(moved)
        return topology.scores(task.role, bucket)


def _asked(pod_class: PodClass) -> float:
    parts = {MEMORY: _MEBIBYTE, _STORAGE: 1000 * _MEBIBYTE}
    return sum(amount / parts.get(name, 1) for name, amount in pod_class.items if name != PODS)


def _fitting(table: NodeTable, waiting: Iterable[tuple[PodClass, int]]) -> NDArray[np.int64]:
    """Return by node how many of some pods fit together, class by class until one does not fit."""
    fits = np.zeros(len(table.nodes), np.int64)
    going, left = np.ones(len(table.nodes), np.bool_), table.future
    for pod_class, count in waiting:
        if not count:
            continue
        rows = [(table.resources.get(name), amount) for name, amount in pod_class.items]
        taken = np.where(going, count, 0)
        for row, amount in rows:
            taken = np.minimum(taken, 0 if row is None else np.maximum(left[row] // int(amount), 0))
        fits += taken
        going = going & (taken == count)
        if not going.any():
            break
        left = left - pod_class.vector * taken
    return fits


def _cut(job: Job, annotation: str) -> str:
    return job.annotations.get(annotation, "")[:_CHARACTERS]


def _names(text: str, by: str) -> list[str]:
    return [name.strip() for name in text.split(by) if name.strip()]


def _groups(job: Job, annotation: str) -> list[list[str]]:
    """Return the groups of roles that an annotation states."""
    return [_names(group, ",") for group in _cut(job, annotation).split(";")]


def _pairs(groups: list[list[str]], named: set[str]) -> _Roles:
    """Return by role the roles grouped with it; a group of one role pairs it with itself."""
    found: _Roles = {role: set() for role in named}
    for group in groups:
        roles = named.intersection(group)
        for role in roles:
            found[role] |= roles if len(group) == 1 or group.count(role) > 1 else roles - {role}
    return found
