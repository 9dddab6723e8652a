"""Jobs that have neither pods nor been let in, in lines: thousands may wait, and most of them are alike.

Jobs of one kind get the same answer from every plugin, so that only the first of them is asked whether it is let in. Lines are kept
from round to round: a round brings those jobs up to date that changed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeAlias

from engine.scheduling.cluster.entities import Job
from engine.scheduling.cluster.model import Cluster

__all__ = ["EquivalenceClass", "Member", "PendingQueue", "Position"]

Position: TypeAlias = tuple[int, str]
"""Among jobs that plugins rank equal: when it was created, and its key."""
Member: TypeAlias = tuple[int, str, Job]


class EquivalenceClass:
    """Jobs of one queue that wait and are alike."""

    __slots__ = ("fresh", "members", "queue")

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.members: list[Member] = []
        """In order; changed by `add` and `remove` alone."""
        self.fresh: dict[str, Job] = {}
        """Those that came since reasons were last looked at; cleared by who looks."""

    @property
    def first(self) -> Job:
        """The job that comes first; there is one."""
        return self.members[0][2]

    def before(self, position: Position) -> int:
        """Return how many jobs come before a position."""
        return bisect_left(self.members, position)  # the shorter of such tuples comes first

    def add(self, job: Job) -> None:
        """Add a job."""
        insort(self.members, (job.created, job.key, job))
        self.fresh[job.key] = job

    def remove(self, job: Job) -> None:
        """Take a job out."""
        del self.members[self.before((job.created, job.key))]
        self.fresh.pop(job.key, None)


class PendingQueue:
    """The kinds of jobs that wait to be let in, and all other jobs."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._next = -1
        """Number of the first change of the cluster that is not taken."""
        self._kinds: dict[str, dict[Hashable, EquivalenceClass]] = {}
        self._place: dict[str, tuple[Job, Hashable, EquivalenceClass]] = {}
        self.others: dict[str, Job] = {}
        """Jobs that have pods, have been let in, are held or have no queue, by key."""
        self.asking: set[str] = set()
        """Those of them that waited to be let in when lines were brought up to date, and …"""
        self.pending: set[str] = set()
        """… those that had pods without a place; held ones are in neither."""
        self.left: set[str] = set()
        """Jobs that left a kind since reasons were last looked at; cleared by who looks."""
        self.shifts: dict[str, tuple[int, int]] = {}
        """Queue → how often meanwhile a job came or went, and how often one came that was the newest: nobody stands behind it, if
        all kinds have one rank. Cleared by who looks."""
        self._newest: dict[str, Position] = {}
        """Queue → the newest job that came."""

    def __iter__(self) -> Iterator[EquivalenceClass]:
        for kinds in self._kinds.values():
            yield from kinds.values()

    def member(self, key: str) -> tuple[Job, EquivalenceClass] | None:
        """Return a job that waits to be let in, and its kind."""
        found = self._place.get(key)
        return None if found is None else (found[0], found[2])

    def update(self, alike: Callable[[Job], Hashable]) -> bool:
        """Take what has changed of the jobs of the cluster.

        Args:
            alike: the same of two jobs of a queue that plugins do not tell apart while these wait; they stand in one order then.

        Returns:
            Whether nothing has, but that jobs came that stand behind others of their kind.
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
        self._next = -1  # whoever fails begins anew
        for job in changed:
            if self._file(job.key, alike):
                behind.add(job.key)
            others = others or job.key not in behind
        self._next = changes.end
        return not others

    def _file(self, key: str, alike: Callable[[Job], Hashable]) -> bool:
        """Put a job where it belongs; return whether it is a new one behind others of its kind."""
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
        """Take out a job that is let in."""
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
