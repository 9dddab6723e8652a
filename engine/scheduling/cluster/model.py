"""Model of a cluster: nodes, queues, jobs and tasks. One function moves a task, and updates every sum that it counts for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Final

import numpy as np

from engine.events.pod_shape import PodShape
from engine.events.scheduling import GroupPhase
from engine.scheduling.cluster.amounts import PODS, Amounts, add, subtract
from engine.scheduling.cluster.budgets import Budget, Quota
from engine.scheduling.cluster.changes import Changes
from engine.scheduling.cluster.entities import EFFECTS, NO_EFFECT, Effect, Job, Node, PodClass, Status, Task
from engine.scheduling.cluster.nodes import NodeTable
from engine.scheduling.cluster.notices import Notice, Tenant
from engine.scheduling.cluster.presence import Presence
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.cluster.transaction import Transaction

_ROOT: Final = "root"
_ANYTHING: Final = np.iinfo(np.int64).min
_MORE_THAN_THERE_IS: Final = np.iinfo(np.int64).max


class Cluster:
    """State that scheduling decides on. Events change it; a round changes it within a transaction, which is always discarded."""

    def __init__(self) -> None:
        self.table = NodeTable()
        self.nodes: dict[str, Node] = {}
        self.queues: dict[str, Queue] = {}
        self.jobs: dict[str, Job] = {}
        self.classes: dict[PodShape, PodClass] = {}
        self.presence = Presence()
        self.quotas: list[Quota] = []
        self.budgets: list[Budget] = []
        self.namespace_weights: dict[str, int] = {}
        """Namespace → weight of its share (label `volcano.sh/namespace.weight` of a quota); absent: 1."""
        self.tenants: dict[str, Tenant] = {}
        self.notices: dict[str, Notice] = {}
        """Open notices of preemption, and executed ones whose reservation lasts, by id; oldest first."""
        self.noticed: dict[str, str] = {}
        """Job → its notice: a preemptor's until the reservation ends, a victim's while the notice is open."""
        self.claimants: set[str] = set()
        """Jobs with claims, by key."""
        self.touched: dict[str, Job] = {}
        """Jobs changed since the last round ended, by key."""
        self.changes = Changes()
        self.jobs_of_queue: dict[str, int] = {}
        """Queue name → number of jobs that name it, at least one; the queue itself may not exist."""
        self.moved: list[Task] = []
        """Tasks moved since the last round ended, in that order: plugins update their sums from it."""
        self.allocated_by_namespace: dict[str, Amounts] = {}
        """Namespace → sum over its jobs."""
        self.revision = 0
        """Number of changes so far; a round at the same revision would find the same as the last one."""
        self.noted = 0
        """Number of those changes that `note` recorded: jobs added or changed."""
        self.outdated: Callable[[], None] | None = None
        """Reads `quotas`, `budgets`, `namespace_weights` and `tenants` again; `None`: they are up to date."""
        self._unsettled = False
        self._transaction: Transaction | None = None
        self._former_jobs: dict[Job, tuple[GroupPhase, bool, bool]] = {}
        """Phase, `held` and `backing_off` of the jobs that the open transaction changed, before that."""

    # Transactions ---------------------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Discard what is written to tasks and jobs within the context, however it ends; one is open at a time.

        Counters that readers follow (revision, changes, the node table's clock) still only increase.

        Raises:
            RuntimeError: one is open.
        """
        if self._transaction is not None:
            raise RuntimeError("a transaction is open on this cluster")
        self._transaction = level = Transaction(self.move)
        try:
            yield
        finally:
            self._transaction = None
            try:
                level.discard()
            finally:
                self._restore_jobs()

    def _restore_jobs(self) -> None:
        while self._former_jobs:
            job, former = self._former_jobs.popitem()
            if (job.phase, job.held, job.backing_off) != former:
                job.phase, job.held, job.backing_off = former
                self.note(job)

    # Nodes ----------------------------------------------------------------------------------------------------------------

    def set_node(self, node: Node) -> None:
        """Add or replace a node; its tasks stay on it."""
        known = self.nodes.get(node.name)
        if known is not None:
            node.tasks = known.tasks
            for task in node.tasks.values():
                task.node = node
        self.nodes[node.name] = node
        self._unsettled = True
        self.revision += 1

    def remove_node(self, name: str) -> None:
        """Remove a node. Its tasks refer to it until they are moved, but no sum or array includes it."""
        if self.nodes.pop(name, None) is not None:
            self._unsettled = True
            self.revision += 1

    def settle(self) -> None:
        """Read limits again, and rebuild arrays after nodes or resources changed; each session starts with it."""
        self._read_limits()
        if self._unsettled:
            self.table.lay_out(self.nodes.values())
            self.presence.forget()
            for pod_class in self.classes.values():
                self._set_vector(pod_class)
            for node in self.table.nodes:
                for task in node.tasks.values():
                    effect = EFFECTS[task.status]
                    self.table.take(node.row, task.pod_class, effect.idle, effect.future)
            self._unsettled = False

    def _set_vector(self, pod_class: PodClass) -> None:
        width, rows = len(self.table.resources), self.table.resources
        pod_class.vector = np.zeros((width, 1), np.int64)
        pod_class.least = np.full((width, 1), _ANYTHING)
        for name, amount in pod_class.items:
            if name in rows:
                pod_class.vector[rows[name]], pod_class.least[rows[name]] = amount, 0
        if not pod_class.request.keys() <= rows.keys():  # no node has room
            pod_class.least[rows[PODS]] = _MORE_THAN_THERE_IS

    # Queues ---------------------------------------------------------------------------------------------------------------

    def set_queue(self, queue: Queue) -> None:
        """Add or replace a queue."""
        self.queues[queue.name] = queue
        self._rebuild_paths()

    def remove_queue(self, name: str) -> None:
        """Remove a queue; its jobs wait until a queue of that name exists again."""
        if self.queues.pop(name, None) is not None:
            self._rebuild_paths()

    def _rebuild_paths(self) -> None:
        """Rebuild the paths of jobs and the sums of all queues; queues change rarely."""
        for queue in self.queues.values():
            queue.allocated, queue.requested = {}, {}
        for job in self.jobs.values():
            self._enter_queue(job)
        self.changes.note_all()
        self.revision += 1

    def path_of(self, name: str) -> tuple[Queue, ...]:
        """Return a queue and its ancestors, nearest first; a cycle is cut where it closes.

        The parent of a queue that names none is the root queue, if it exists (Volcano).
        """
        path: list[Queue] = []
        queue = self.queues.get(name)
        while queue is not None and queue not in path:
            path.append(queue)
            queue = self.queues.get(queue.parent or _ROOT)
        return tuple(path)

    def _enter_queue(self, job: Job) -> None:
        job.path = self.path_of(job.queue)
        for queue in job.path:
            add(queue.allocated, job.allocated.items())
            add(queue.requested, job.requested.items())

    # Jobs and tasks -------------------------------------------------------------------------------------------------------

    def add_job(self, job: Job) -> None:
        """Add a job without tasks."""
        self.jobs[job.key] = job
        self.jobs_of_queue[job.queue] = self.jobs_of_queue.get(job.queue, 0) + 1
        self._enter_queue(job)
        self.note(job)

    def note(self, job: Job) -> None:
        """Record that a job changed."""
        (self.claimants.add if job.claims else self.claimants.discard)(job.key)
        self.touched[job.key] = job
        self.changes.note(job)
        self.noted += 1
        self.revision += 1

    def set_phase(self, job: Job, phase: GroupPhase) -> None:
        """Set the phase of a job's group."""
        self._record(job)
        job.phase = phase
        self.note(job)

    def pause(self, job: Job, *, held: bool, backing_off: bool) -> None:
        """Set whether a job is held, and whether nobody is evicted for it."""
        if (job.held, job.backing_off) != (held, backing_off):
            self._record(job)
            job.held, job.backing_off = held, backing_off
            self.note(job)

    def _record(self, job: Job) -> None:
        if self._transaction is not None:
            self._former_jobs.setdefault(job, (job.phase, job.held, job.backing_off))

    def remove_job(self, key: str) -> None:
        """Remove a job and its tasks."""
        job = self.jobs.pop(key, None)
        if job is not None:
            for task in list(job.tasks.values()):
                self.remove_task(task)
            self.touched.pop(key, None)
            self.claimants.discard(key)
            self.changes.note(job)
            self.jobs_of_queue[job.queue] -= 1
            if not self.jobs_of_queue[job.queue]:
                del self.jobs_of_queue[job.queue]
            self.forget_namespace(job.namespace)
            self.revision += 1

    def forget_namespace(self, namespace: str) -> None:
        """Drop the sum of a namespace if it is zero."""
        if not any(self.allocated_by_namespace.get(namespace, {}).values()):
            self.allocated_by_namespace.pop(namespace, None)

    def with_reservations(self) -> list[Job]:
        """Return the preemptors of executed notices whose reservation lasts.

        Sorted by key: the order of notices' jobs in memory differs after a restart.
        """
        found = [self.jobs.get(notice.preemptor) for notice in self.notices.values() if notice.reserved is not None]
        return sorted((job for job in found if job is not None), key=attrgetter("key"))

    def may_preempt(self, job: Job) -> bool:
        """Return whether a job may preempt with notice: it is privileged, and its tenant may preempt."""
        self._read_limits()
        tenant = self.tenants.get(job.preemption.tenant)
        return job.preemption.privileged and tenant is not None and tenant.may_preempt

    def _read_limits(self) -> None:
        if self.outdated is not None:
            self.outdated()
            self.outdated = None

    def class_of(self, shape: PodShape) -> PodClass:
        """Return the class of pods with a shape."""
        found = self.classes.get(shape)
        if found is None:
            found = self.classes[shape] = PodClass.of(shape)
            self._set_vector(found)
        return found

    def add_task(self, task: Task, status: Status = "Pending", node: str = "") -> None:
        """Add a task to its job.

        Args:
            task: the task.
            status: its status.
            node: name of its node; an unknown name counts as no node.
        """
        job = task.job
        job.tasks[task.key] = task
        task.pod_class.users += 1
        if job.sub_groups is not None:
            task.sub_group = next((key for _, key in job.sub_groups.of(task.role, task.index, task.pod_class.labels)), "")
        task.status = status
        task.node = self.nodes.get(node)
        if task.node is not None:
            self._put(task, task.node, EFFECTS[status], 1)
        job.by_status.setdefault(status, {})[task.key] = task
        self._count(task, NO_EFFECT, EFFECTS[status])
        self.revision += 1

    def remove_task(self, task: Task) -> None:
        """Remove a task from its job and node."""
        self._count(task, EFFECTS[task.status], NO_EFFECT)
        if task.node is not None:
            self._put(task, task.node, EFFECTS[task.status], -1)
            task.node = None
        del task.job.by_status[task.status][task.key]
        task.job.tasks.pop(task.key, None)
        task.pod_class.users -= 1
        if not task.pod_class.users:
            self.classes.pop(task.pod_class.shape, None)
            self.presence.drop(task.pod_class)
        self.revision += 1

    def move(self, task: Task, status: Status, node: Node | None) -> None:
        """Set the status and the node of a task."""
        if self._transaction is not None:
            self._transaction.record(task)
        old, new = EFFECTS[task.status], EFFECTS[status]
        if not (node is task.node and new.idle == old.idle and new.future == old.future):
            if task.node is not None:
                self._put(task, task.node, old, -1)
            if node is not None:
                self._put(task, node, new, 1)
        by_status = task.job.by_status
        del by_status[task.status][task.key]
        by_status.setdefault(status, {})[task.key] = task
        task.status, task.node = status, node
        self._count(task, old, new)
        self.revision += 1

    def _put(self, task: Task, node: Node, effect: Effect, by: int) -> None:
        """Add a task to a node (1), or remove it (-1)."""
        if not (effect.idle or effect.future):
            return
        if by > 0:
            node.tasks[task.key] = task
        elif node.tasks.pop(task.key, None) is None:
            return
        if node.row >= 0:
            self.table.take(node.row, task.pod_class, by * effect.idle, by * effect.future)
        self.presence.change(task, node, by, len(self.table.nodes))

    def _count(self, task: Task, old: Effect, new: Effect) -> None:
        """Update the sums of a task's job, its namespace and its queues."""
        job, pod_class = task.job, task.pod_class
        self.touched[job.key] = job
        self.changes.note(job)
        self.moved.append(task)
        if new.ready != old.ready:
            by = new.ready - old.ready
            job.ready += by
            job.role_ready[task.role] = job.role_ready.get(task.role, 0) + by
        if new.waiting != old.waiting:
            by = new.waiting - old.waiting
            job.role_pending[task.role] = job.role_pending.get(task.role, 0) + by
            if pod_class.best_effort:
                job.waiting_best_effort += by
                job.role_best_effort[task.role] = job.role_best_effort.get(task.role, 0) + by
        if job.sub_groups is not None:
            job.sub_groups.count(task.role, task.index, pod_class.labels, new.placed - old.placed, new.ready - old.ready)
        if new.counted != old.counted:
            change = add if new.counted else subtract
            change(job.allocated, pod_class.items)
            job.allocations += 1
            change(self.allocated_by_namespace.setdefault(job.namespace, {}), pod_class.items)
            for queue in job.path:
                change(queue.allocated, pod_class.items)
        if new.wanted != old.wanted:
            change = add if new.wanted else subtract
            change(job.requested, pod_class.items)
            for queue in job.path:
                change(queue.requested, pod_class.items)

    def total(self) -> Amounts:
        """Return the allocatable resources of all nodes; read-only."""
        return self.table.total()

    def used(self) -> Amounts:
        """Return the allocated resources of all nodes; read-only."""
        return self.table.used()
