"""Pods that plugins are asked about once for all alike, before nodes are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet

from engine.scheduling.cluster.entities import PodClass, Task

__all__ = ["VictimClasses"]


class VictimClasses:
    """Pods that stand for those of the same job and class, in rounds of which no two count down the same thing."""

    def __init__(self, every: Sequence[Task]) -> None:
        """Take one pod of each job and class."""
        self.every = every
        self._of_queue: dict[tuple[str, PodClass], list[Task]] = {}
        for one in every:
            self._of_queue.setdefault((one.job.queue, one.pod_class), []).append(one)
        self.rounds = {
            "job": _in_rounds(every, lambda one: one.job.key),
            "queue": _in_rounds([alike[0] for alike in self._of_queue.values()], lambda one: one.job.queue),
        }

    def alike(self, by: str, some: AbstractSet[Task]) -> Iterable[Task]:
        """Return those that share the fate of some pods of a round."""
        return some if by == "job" else [one for first in some for one in self._of_queue[first.job.queue, first.pod_class]]


def _in_rounds(tasks: Iterable[Task], owner: Callable[[Task], str]) -> list[list[Task]]:
    """Return tasks in lists that have at most one of each owner."""
    rounds: list[list[Task]] = []
    seen: dict[str, int] = {}
    for one in tasks:
        at = seen[owner(one)] = seen.get(owner(one), -1) + 1
        if at == len(rounds):
            rounds.append([])
        rounds[at].append(one)
    return rounds
