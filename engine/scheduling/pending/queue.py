"""Jobs without pods that await admission, by equivalence class: thousands may wait, and most are alike.

Plugins give equal answers for all jobs of a class, so only its first job is examined. Classes are kept between rounds; a round
updates the jobs that changed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeAlias

from engine.scheduling.cluster.entities import Job
from engine.scheduling.cluster.model import Cluster

Position: TypeAlias = tuple[int, str]
"""Order among jobs of equal rank: creation time and key."""
Member: TypeAlias = tuple[int, str, Job]


class EquivalenceClass:
    """Pending jobs of one queue that no plugin distinguishes."""

    __slots__ = ("fresh", "members", "queue")

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.members: list[Member] = []
        """Members in order; changed by `add` and `remove` only."""
        self.fresh: dict[str, Job] = {}
        """Members added since pending reasons were last chosen; cleared by that choice."""

    @property
    def first(self) -> Job:
        """First job; requires a member."""
        return self.members[0][2]

    def before(self, position: Position) -> int:
        """Return the number of jobs before a position."""
        return bisect_left(self.members, position)  # the shorter tuple sorts first

    def add(self, job: Job) -> None:
        """Add a job."""
        insort(self.members, (job.created, job.key, job))
        self.fresh[job.key] = job

    def remove(self, job: Job) -> None:
        """Take a job out."""
        del self.members[self.before((job.created, job.key))]
        self.fresh.pop(job.key, None)


class PendingQueue:
    """Jobs awaiting admission, by equivalence class, and all other jobs."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._next = -1
        """Number of the first change of the cluster that is not applied yet."""
        self._kinds: dict[str, dict[Hashable, EquivalenceClass]] = {}
        self._place: dict[str, tuple[Job, Hashable, EquivalenceClass]] = {}
        self.others: dict[str, Job] = {}
        """Jobs that have pods, are admitted, are held or have no queue, by key."""
        self.asking: set[str] = set()
        """Of these, jobs that awaited admission at the last update; without held ones."""
        self.pending: set[str] = set()
        """Of these, jobs that had pending pods at the last update; without held ones."""
        self.left: set[str] = set()
        """Jobs that left a class since pending reasons were last chosen; cleared by that choice."""
        self.shifts: dict[str, tuple[int, int]] = {}
        """Queue → (arrivals and departures since then, arrivals of the newest job: no job follows it if all classes
        have one rank); cleared by that choice."""
        self._newest: dict[str, Position] = {}
        """Queue → newest job that was added."""

    def __iter__(self) -> Iterator[EquivalenceClass]:
        for kinds in self._kinds.values():
            yield from kinds.values()

    def member(self, key: str) -> tuple[Job, EquivalenceClass] | None:
        """Return a job that awaits admission, and its class."""
        found = self._place.get(key)
        return None if found is None else (found[0], found[2])

    def update(self, alike: Callable[[Job], Hashable]) -> bool:
        """Apply the changes of the cluster's jobs.

        Args:
            alike: returns equal keys for jobs of a queue that no plugin distinguishes while they await admission.

        Returns:
            Whether the only changes are new jobs behind others of their class.
        """
        changes = self._cluster.changes
        changed: Iterable[Job] | None = changes.since(self._next)
        behind: set[str] = set()
        others = changed is None
        if changed is None:
            changed = list(self._cluster.jobs.values())
            self.left.update(self._place)
            self._kinds, self._place, self.others, self._newest = {}, {}, {}, {}
            self.asking, self.pending = set(), set()
        self._next = -1  # set again below: after a failure all jobs are filed anew
        for job in changed:
            if self._file(job.key, alike):
                behind.add(job.key)
            others = others or job.key not in behind
        self._next = changes.end
        return not others

    def _file(self, key: str, alike: Callable[[Job], Hashable]) -> bool:
        """File a job by its class; return whether it is new and behind others of its class."""
        job, found = self._cluster.jobs.get(key), self._place.get(key)
        new = found is None and key not in self.others
        self.asking.discard(key)
        self.pending.discard(key)
        if job is not None and job.path and not (job.held or job.tasks) and job.phase in {"", "Pending"}:
            name = alike(job)
            if found is not None and found[0] is job and found[1] == name:
                return False
            self._leave(key)
            self.others.pop(key, None)
            kinds = self._kinds.setdefault(job.queue, {})
            kind = kinds.get(name)
            if kind is None:
                kind = kinds[name] = EquivalenceClass(job.queue)
            kind.add(job)
            self._place[key] = (job, name, kind)
            position = (job.created, job.key)
            newest = self._newest[job.queue] = max(position, self._newest.get(job.queue, position))
            self._shift(job.queue, newest=position == newest)
            return new and kind.first is not job
        self._leave(key)
        if job is None:
            self.others.pop(key, None)
            return False
        self.others[key] = job
        if not job.held:
            if job.phase in {"", "Pending"}:
                self.asking.add(key)
            if job.count("Pending", "Pipelined"):
                self.pending.add(key)
        return False

    def take_out(self, job: Job) -> None:
        """Remove an admitted job."""
        self._leave(job.key)
        self.others[job.key] = job

    def _shift(self, queue: str, *, newest: bool = False) -> None:
        others, newcomers = self.shifts.get(queue, (0, 0))
        self.shifts[queue] = (others, newcomers + 1) if newest else (others + 1, newcomers)

    def _leave(self, key: str) -> None:
        found = self._place.pop(key, None)
        if found is None:
            return
        job, name, kind = found
        kind.remove(job)
        self.left.add(key)
        self._shift(kind.queue)
        if not kind.members:
            kinds = self._kinds[kind.queue]
            del kinds[name]
            if not kinds:
                del self._kinds[kind.queue], self._newest[kind.queue]
