"""DRF: the job with the smallest dominant share comes first (dominant resource fairness).

Extension points: `job_order`, `queue_order`, `preemptable`, `reclaimable`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar, Final

from engine.scheduling.cluster.amounts import Amounts, add, dominant_share, subtract
from engine.scheduling.cluster.entities import Job, PodClass, Task
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.plugins.hdrf import Tree, build_tree
from engine.scheduling.session import Plugin, Session

_DELTA: Final = 0.000001
"""Shares that differ by less are equal (Volcano `shareDelta`)."""


class Drf(Plugin):
    """Fair shares of jobs; with the switch `hierarchy` also of branches in the tree of queues (Volcano `drf`)."""

    NAME: ClassVar[str] = "drf"
    COUNTS_VICTIMS_BY = "job"

    def open(self, session: Session) -> None:
        """Record the cluster's total; the tree is built on first use."""
        super().open(session)
        self._total = session.total
        self._hierarchy = "hierarchy" in self.option.enabled
        self._tree: Tree | None = None
        self._followed = 0
        """Number of entries of `Cluster.moved` that the tree has followed."""
        self._revision = -1
        """Revision of the cluster for which `_kinds` and `_answers` hold."""
        self._kinds: dict[str, Hashable] = {}
        self._asked: Hashable = None
        """Kind of task to which `_answers` belong."""
        self._answers: dict[Hashable, bool] = {}
        self._without: dict[tuple[Job, PodClass], tuple[int, float]] = {}
        """Job and class → the job's `allocations`, and its share without one pod of the class."""

    def _share(self, allocated: Amounts) -> float:
        return dominant_share(allocated, self._total)

    def alike(self, job: Job) -> tuple[()]:
        """Return the same for all jobs without pods: they hold nothing."""
        del job
        return ()

    def job_order(self, job: Job) -> float:
        """Order by smaller dominant share."""
        return self._share(job.allocated)

    def preemptable(self, task: Task, candidates: list[Task]) -> list[Task]:
        """Return tasks of jobs whose share without them is still at least that of the preemptor's job with its task."""
        mine = dict(task.job.allocated)
        add(mine, task.pod_class.items)
        share = self._share(mine)
        taken: dict[Job, list[Task]] = {}
        victims = []
        for victim in candidates:
            earlier = taken.setdefault(victim.job, [])
            if share < (self._share_without(*earlier, victim) if earlier else self._share_without_one(victim)) + _DELTA:
                victims.append(victim)
            earlier.append(victim)
        return victims

    def _share_without_one(self, task: Task) -> float:
        """Return the share of a task's job without the task; cached, since most jobs lose nothing while victims are searched."""
        key, now = (task.job, task.pod_class), task.job.allocations
        at, share = self._without.get(key, (-1, 0.0))
        if at != now:
            share = self._share_without(task)
            self._without[key] = now, share
        return share

    def _share_without(self, *tasks: Task) -> float:
        """Return the share of a job without some of its tasks."""
        left = dict(tasks[0].job.allocated)
        for task in tasks:
            subtract(left, task.pod_class.items)
        return self._share(left)

    def queue_order(self, queue: Queue) -> tuple[object, ...]:
        """Order from the root down: unsaturated branches first, then by smaller share per weight."""
        if not self._hierarchy:
            return ()
        return self.present_tree().path_key(self.session.cluster.path_of(queue.name))

    def reclaimable(self, task: Task, candidates: list[Task]) -> list[Task] | None:
        """Return tasks whose branch of the tree still comes after the reclaimer's without them."""
        if not self._hierarchy:
            return None
        tree, answers = self.present_tree(), self._answers_for(task)
        tree.change(task.job, task.pod_class.items, 1)
        for victim in candidates:
            kind = self._kind(victim)
            if kind not in answers:
                tree.change(victim.job, victim.pod_class.items, -1)
                answers[kind] = tree.before(task.job.path, victim.job.path)
                tree.change(victim.job, victim.pod_class.items, 1)
        tree.change(task.job, task.pod_class.items, -1)
        return [victim for victim in candidates if answers[self._kinds[victim.key]]]

    def _answers_for(self, task: Task) -> dict[Hashable, bool]:
        """Return the cached answers for a kind of task, by kind of victim: each answer takes a pass over the tree."""
        if self._revision != self.session.cluster.revision:
            self._revision, self._kinds, self._asked = self.session.cluster.revision, {}, None
        asked = self._kind(task)
        if self._asked != asked:
            self._asked, self._answers = asked, {}
        return self._answers

    def _kind(self, task: Task) -> Hashable:
        """Return the key of tasks that are equal in the tree: class, queue, and their job's held and requested resources."""
        kind = self._kinds.get(task.key)
        if kind is None:
            job = task.job
            kind = job.path, frozenset(job.allocated.items()), frozenset(job.requested.items()), task.pod_class
            self._kinds[task.key] = kind
        return kind

    def present_tree(self) -> Tree:
        """Return the tree, brought up to date; it is built on first use in a session."""
        cluster = self.session.cluster
        if self._tree is None:
            self._tree = build_tree(cluster, self._total)
        else:
            for job in dict.fromkeys(task.job for task in cluster.moved[self._followed :]):
                self._tree.follow(job)
        self._followed = len(cluster.moved)
        return self._tree
