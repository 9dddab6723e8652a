"""Pending jobs of a queue at the end of a round, in order: single jobs and equivalence classes."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import TypeAlias

from engine.scheduling.cluster.entities import Job
from engine.scheduling.pending.queue import EquivalenceClass, Position
from engine.scheduling.pending.reasons import Reason

Key: TypeAlias = tuple[object, ...]
"""Order of a job by plugins, its creation time, its key."""

_key = itemgetter(0)


@dataclass(slots=True, eq=False)
class Waiting:
    """Jobs of one queue with a pending reason."""

    own: list[tuple[Key, Job]] = field(default_factory=list)
    """Jobs that were examined one by one."""
    held: list[Job] = field(default_factory=list)
    """Held jobs: they come last, by key."""
    kinds: list[tuple[Key, EquivalenceClass]] = field(default_factory=list)
    """Equivalence classes, each with its order by plugins."""

    def settle(self) -> None:
        """Sort, once all are added."""
        self.own.sort(key=_key)
        self.held.sort(key=lambda job: job.key)

    def __len__(self) -> int:
        return len(self.own) + len(self.held) + sum([len(kind.members) for _, kind in self.kinds])

    @property
    def oldest(self) -> int:
        """Earliest submission time of the jobs (microseconds); requires a job."""
        times = [job.created for _, job in self.own] + [job.created for job in self.held]
        return min(times + [kind.members[0][0] for _, kind in self.kinds])

    def first(self, count: int) -> list[tuple[Key, Job]]:
        """Return the first jobs that are not held, with their keys."""
        kinds = [[((*rank, created, name), job) for created, name, job in kind.members[:count]] for rank, kind in self.kinds]
        return list(islice(merge(self.own, *kinds, key=_key), count))

    def place(self, key: Key) -> int:
        """Return the position of a job that is not held, from 1."""
        return bisect_left(self.own, key, key=_key) + 1 + sum(self._in_kinds(key))

    def _in_kinds(self, key: Key) -> list[int]:
        """Return by class the number of jobs before a job."""
        of, position = key[:-2], key[-2:]
        return [
            kind.before(position) if rank == of else len(kind.members) if rank < of else 0  # type: ignore[arg-type]  # the order of `Key`
            for rank, kind in self.kinds
        ]

    def ahead(self, key: Key, count: int) -> list[str]:
        """Return the keys of the jobs directly before a job that is not held, the nearest last."""
        at = bisect_left(self.own, key, key=_key)
        found = self.own[max(at - count, 0) : at]
        for (rank, kind), end in zip(self.kinds, self._in_kinds(key), strict=True):
            found = found + [((*rank, created, name), job) for created, name, job in kind.members[max(end - count, 0) : end]]
        return [job.key for _, job in sorted(found, key=_key)[-count:]]

    def last(self, count: int) -> list[str]:
        """Return the keys of the last jobs that are not held."""
        found = self.own[-count:]
        for rank, kind in self.kinds:
            found = found + [((*rank, created, name), job) for created, name, job in kind.members[-count:]]
        return [job.key for _, job in sorted(found, key=_key)[-count:]]


@dataclass(slots=True)
class PendingJobs:
    """Jobs that a session leaves pending, one by one and by equivalence class."""

    explained: dict[str, Reason] = field(default_factory=dict)
    """Key of a pending job without promised nodes → reason; without jobs of refused classes."""
    refused: dict[EquivalenceClass, list[tuple[Position, Reason]]] = field(default_factory=dict)
    """Refused equivalence class → (position from which it holds, reason), in order."""
    waiting: dict[str, Waiting] = field(default_factory=dict)
    """Queue → its jobs that have a reason."""

    def refuse(self, kind: EquivalenceClass, job: Job) -> None:
        """Apply the reason of one job to all jobs of its class from that job on."""
        self.refused.setdefault(kind, []).append(((job.created, job.key), self.explained.pop(job.key)))

    @property
    def reasons(self) -> dict[str, Reason]:
        """Key of a pending job without promised nodes → reason: all of them, however many."""
        found = dict(self.explained)
        for kind, parts in self.refused.items():
            for at, (start, reason) in enumerate(parts):
                end = kind.before(parts[at + 1][0]) if at + 1 < len(parts) else len(kind.members)
                found |= {key: reason for _, key, _ in kind.members[kind.before(start) : end]}
        return found
