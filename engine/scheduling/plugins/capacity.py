"""Capacity: each queue of a list or tree has a deserved, a maximum and a guaranteed amount of each resource.

Extension points: `queue_order`, `reclaimable`, `allocatable`, `preemptive`, `excess`, `lacking`, `share_of`, `job_enqueueable`,
`job_enqueued`, `victim_queue_order`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import ClassVar, Final

from engine.scheduling.cluster.amounts import (
    CPU,
    MEMORY,
    PODS,
    TOLERANCE,
    Amounts,
    add,
    at_most,
    is_nothing,
    largest,
    missing,
    share,
    subtract,
    within,
)
from engine.scheduling.cluster.entities import Job, Task
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.configuration import PluginOption
from engine.scheduling.plugin_results import REJECT, QueueShare, Vote
from engine.scheduling.plugins.queue_limits import LimitsQueues, excess, real_capability
from engine.scheduling.session import Session

_ROOT: Final = "root"


@dataclass(slots=True, eq=False)
class Portion:
    """Limits and deserved resources of a queue."""

    queue: Queue
    limit: Amounts = field(default_factory=dict)
    """The most that the queue may hold (Volcano `realCapability`)."""
    deserved: Amounts = field(default_factory=dict)
    guarantee: Amounts = field(default_factory=dict)
    capability: Amounts = field(default_factory=dict)
    children: list[Portion] = field(default_factory=list)
    first: tuple[float, str] = (inf, "")
    """Creation time and name of the oldest queue with jobs at or below this one; used in a tree only."""

    @property
    def share(self) -> float:
        """Share of its deserved resources that the queue holds."""
        return queue_share(self.deserved, self.queue.allocated)


def queue_share(deserved: Amounts, allocated: Amounts) -> float:
    """Return the held share of deserved resources: the largest over all resources.

    Volcano: a queue that deserves nothing has 1, so every queue that holds less than it deserves comes before it.
    """
    if is_nothing(deserved):
        return 1.0
    return max(share(allocated.get(name, 0), amount) for name, amount in deserved.items() if amount)


class Capacity(LimitsQueues):
    """Queues with explicit shares (Volcano `capacity`), in a tree with the switch `hierarchy`.

    Argument `ancestorReclaimLevel`, 0: number of levels above a queue that may reclaim for it, and that must exceed their
    deserved resources before a queue below gives some.
    """

    NAME: ClassVar[str] = "capacity"

    def __init__(self, option: PluginOption) -> None:
        super().__init__(option)
        self._level = max(0, int(option.arguments.number("ancestorReclaimLevel", 0)))

    def open(self, session: Session) -> None:
        """Compute the limits of each queue."""
        super().open(session)
        self._hierarchy = "hierarchy" in self.option.enabled
        self._paths: dict[str, list[Portion]] = {}
        self._portions = {name: Portion(queue) for name, queue in session.cluster.queues.items()}
        self._fault = ""
        """Fault in the tree of queues, by which no job is admitted (Volcano); empty: none."""
        if self._hierarchy:
            self._fault = self._build_tree()
        else:
            self._build_list()

    def _build_list(self) -> None:
        guaranteed: Amounts = {}
        for portion in self._portions.values():
            add(guaranteed, portion.queue.guarantee.items())
        for portion in self._portions.values():
            queue = portion.queue
            portion.limit = real_capability(queue.capability, self.session.total, guaranteed, queue.guarantee)
            portion.guarantee = queue.guarantee
            capped = {name: min(amount, portion.limit.get(name, inf)) for name, amount in queue.deserved.items()}
            portion.deserved = largest(capped, queue.guarantee)

    def _build_tree(self) -> str:
        """Pass limits from the root down; return why the queues are not one tree with jobs in leaves only (empty: they are)."""
        if _ROOT not in self._portions:
            return "queue root does not exist"
        for name, portion in self._portions.items():
            last = (path := self.session.cluster.path_of(name))[-1]
            if last.name != _ROOT:
                above = last.parent or _ROOT
                missing = f"queue {above} above queue {last.name} does not exist"
                return f"queue {name} stands above itself" if above in self._portions else missing
            if name != _ROOT:
                self._portions[path[1].name].children.append(portion)
        busy = [self._portions[name] for name in self.session.cluster.jobs_of_queue if name in self._portions]
        for portion in busy:
            if portion.children:
                return f"queue {portion.queue.name} has jobs of its own and queues below it"
        for leaf in busy:
            for portion in self._path(leaf.queue):
                portion.first = min(portion.first, (leaf.queue.created, leaf.queue.name))
        root = self._portions[_ROOT]
        root.capability = dict(root.queue.capability) or dict.fromkeys([CPU, MEMORY, *self.session.total], inf)
        root.limit = root.capability
        _hand_down(root)
        for part in (root.guarantee, root.deserved):
            part.clear()
        for child in root.children:
            add(root.guarantee, child.guarantee.items())
            add(root.deserved, child.deserved.items())
        return ""

    def _path(self, queue: Queue) -> list[Portion]:
        """Return the portions to which a queue's jobs count: its own first, then those above it."""
        found = self._paths.get(queue.name)
        if found is None:
            queues = self.session.cluster.path_of(queue.name) if self._hierarchy else (queue,)
            found = self._paths[queue.name] = [self._portions[one.name] for one in queues]
        return found

    # Orders ---------------------------------------------------------------------------------------------------------------

    def queue_order(self, queue: Queue) -> tuple[object, ...]:
        """Order by priority, then by smaller share; of equal shares queues with deserved resources come first.

        In a tree the shares directly below the nearest common queue decide, so shares are compared from the root down; of equal
        branches the one with the oldest queue that has jobs comes first.
        """
        key: list[object] = [-queue.priority]
        if self._hierarchy:
            key.append(bool(self._portions[queue.name].children))
        for portion in reversed(self._path(queue)):
            key += [portion.share, is_nothing(portion.deserved), portion.first]
        return tuple(key)

    def victim_queue_order(self, queue: Queue, preemptor: Task) -> float:
        """Order queues of victims: in a tree those nearest to the preemptor's queue first."""
        if not self._hierarchy:
            return 0.0
        own, other = self.session.cluster.path_of(preemptor.job.queue)[:0:-1], self.session.cluster.path_of(queue.name)[:0:-1]
        common = sum(one is another for one, another in zip(own, other, strict=False))
        return -float(common)

    def share_of(self, queue: Queue) -> QueueShare:
        """Return the share that a queue deserves."""
        portion = self._portions[queue.name]
        return QueueShare(self.NAME, portion.deserved, portion.limit, portion.share)

    # Limits ---------------------------------------------------------------------------------------------------------------

    def allocatable(self, queue: Queue, task: Task) -> bool:
        """Return whether a queue is open, and with the task it and all queues above it stay within their limits."""
        if not (queue.open and self._takes_jobs(queue)):
            return False
        return all(within(one.queue.allocated, task.pod_class.items, one.limit) for one in self._path(queue))

    def lacking(self, queue: Queue, task: Task) -> tuple[str, Amounts]:
        """Return the amounts by which a task exceeds the limit of its queue, or of the first full queue above."""
        lacks = (missing(one.queue.allocated, task.pod_class.items, one.limit) for one in self._path(queue))
        return self.NAME, next(filter(None, lacks), {})

    def preemptive(self, queue: Queue, task: Task) -> bool:
        """Return whether a queue may reclaim: it is open, within its limit, and deserves more of a requested resource.

        With `ancestorReclaimLevel` it suffices that a queue above it deserves more.
        """
        if self._fault or not queue.open:
            return False
        levels = self._levels(queue)
        if not within(queue.allocated, task.pod_class.items, levels[0].limit):
            return False
        return any(_deserves_more(one, task) for one in levels)

    def _levels(self, queue: Queue) -> list[Portion]:
        """Return a queue and the queues above it that may reclaim for it."""
        path = self._path(queue)
        if not self._hierarchy:
            return path[:1]
        return [path[0], *(one for one in path[1 : 1 + self._level] if one.queue.name != _ROOT)]

    def excess(self, queue: Queue, other: Queue, names: Iterable[str], change: Mapping[str, float]) -> float:
        """Return the largest relative excess over the deserved amount of some resources, after a change.

        With `ancestorReclaimLevel` the least excess of the queue and of those above it that are not above `other` counts.
        """
        others = self._levels(other)
        return min(_excess(one, names, change) for one in self._levels(queue) if one not in others)

    def limits(self, queue: Queue) -> Iterable[tuple[Queue, Amounts]]:
        """Return the limits of the job's queue and of all queues above it."""
        return ((portion.queue, portion.limit) for portion in self._path(queue))

    def job_enqueueable(self, job: Job) -> Vote:
        """Reject jobs while the tree has a fault, and jobs of queues that have queues below them."""
        queue = job.path[0]
        if self._takes_jobs(queue):
            return super().job_enqueueable(job)
        self.session.explain(job, "QueueHierarchyInvalid", self.NAME, queue.name, message=self._fault)
        return REJECT

    def _takes_jobs(self, queue: Queue) -> bool:
        return not (self._fault or (self._hierarchy and self._portions[queue.name].children))

    # Victims --------------------------------------------------------------------------------------------------------------

    def reclaimable(self, task: Task, candidates: list[Task]) -> list[Task]:
        """Return tasks of queues that exceed what they deserve of the tasks' resources, until they no longer do."""
        if self._fault:
            return []
        wanted = {name for name, _ in task.pod_class.items if name != PODS}
        left: dict[str, Amounts] = {}
        victims = []
        for victim in self.session.victims_in_order(candidates, task):
            if not wanted.intersection(name for name, _ in victim.pod_class.items):
                continue
            path = self._path(victim.job.path[0])
            own = path[0]
            allocated = left.setdefault(own.queue.name, dict(own.queue.allocated))
            without = dict(allocated)
            subtract(without, victim.pod_class.items)
            if not at_most(own.guarantee, without):
                continue
            if not _relevant(own.deserved, victim):
                if self._sheltered(task, victim):
                    continue
            elif not _exceeds(allocated, own.deserved, victim):
                continue
            above = self._to_check(task, path)
            held = [left.setdefault(one.queue.name, dict(one.queue.allocated)) for one in above]
            if any(
                _relevant(one.deserved, victim) and not _exceeds(holds, one.deserved, victim)
                for one, holds in zip(above, held, strict=True)
            ):
                continue
            for holds in (allocated, *held):
                subtract(holds, victim.pod_class.items)
            victims.append(victim)
        return victims

    def _sheltered(self, task: Task, victim: Task) -> bool:
        """Return whether a victim is spared: the reclaimer is in the same branch and deserves none of the requested resources."""
        if not (self._hierarchy and self._level):
            return False
        own, other = self._path(task.job.path[0]), self._path(victim.job.path[0])
        kin = {one.queue.name for one in own[1 : 1 + self._level]} & {one.queue.name for one in other[1 : 1 + self._level]}
        return bool(kin - {_ROOT}) and not _relevant(own[0].deserved, task)

    def _to_check(self, task: Task, path: list[Portion]) -> list[Portion]:
        """Return the queues above a victim's, but not above the reclaimer's, that must exceed their deserved resources too."""
        if not (self._hierarchy and self._level):
            return []
        own = self._path(task.job.path[0])
        return [
            one
            for level, one in enumerate(path[1 : 1 + self._level], 1)
            if one.queue.name != _ROOT and not (level < len(own) and own[level] is one)
        ]


def _hand_down(portion: Portion) -> None:
    """Set the limits of the queues below: a queue inherits the capabilities that it leaves out."""
    guaranteed: Amounts = {}
    for child in portion.children:
        child.guarantee = dict(child.queue.guarantee)
        add(guaranteed, child.guarantee.items())
    for child in portion.children:
        stated = {name: amount for name, amount in child.queue.capability.items() if amount > 0 or name not in {CPU, MEMORY}}
        child.capability = {**portion.capability, **stated}
        child.limit = {
            name: min(child.capability.get(name, inf), max(0.0, amount - guaranteed.get(name, 0)) + child.guarantee.get(name, 0))
            for name, amount in portion.limit.items()
        }
        child.deserved = largest(child.queue.deserved, child.guarantee)
        _hand_down(child)


def _deserves_more(portion: Portion, task: Task) -> bool:
    """Return whether with a task a queue stays within its deserved amount of at least one requested resource."""
    return any(
        portion.queue.allocated.get(name, 0) + amount < portion.deserved.get(name, 0) + TOLERANCE
        for name, amount in task.pod_class.items
        if name != PODS
    )


def _excess(portion: Portion, names: Iterable[str], change: Mapping[str, float]) -> float:
    """Return the largest relative excess of a queue over its deserved amount of some resources.

    A resource of which it deserves nothing does not count; where it deserves nothing at all, everything held is excess.
    """
    deserved = [name for name in names if portion.deserved.get(name, 0) > 0]
    return excess(portion.queue.allocated, change, portion.deserved, deserved) if deserved else inf


def _relevant(deserved: Amounts, task: Task) -> bool:
    return any(deserved.get(name, 0) > 0 for name, _ in task.pod_class.items)


def _exceeds(allocated: Amounts, deserved: Amounts, task: Task) -> bool:
    """Return whether a deserved resource that a task takes is held beyond the deserved amount."""
    return any(
        deserved.get(name, 0) > 0 and allocated.get(name, 0) >= deserved[name] + TOLERANCE
        for name, _ in task.pod_class.items
        if name != PODS
    )
