"""Gangs within a job: which one a task belongs to, and whether enough of them are complete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

__all__ = ["SubGroupPolicy", "SubGroups"]


@dataclass(slots=True, frozen=True)
class SubGroupPolicy:
    """Gangs within a job (Volcano `subGroupPolicy`): tasks that agree in all of the named labels, or a role's partitions."""

    name: str
    size: int = 0
    """Tasks that a gang needs; 0: none."""
    min_groups: int = 0
    """Gangs that must be complete; 0: not set."""
    label_keys: tuple[str, ...] = ()
    partition: int = 0
    """Replicas of each partition of the role that is called as the policy is; 0: gangs are told apart by labels."""

    def key_of(self, role: str, index: int, labels: Mapping[str, str]) -> str:
        """Return the gang that a task belongs to; empty: it lacks one of the labels, or is of another role."""
        if self.partition:
            return f"{self.name}/{index // self.partition}" if role == self.name else ""
        if not all(key in labels for key in self.label_keys):
            return ""
        return "/".join([self.name, *[labels[key] for key in self.label_keys]])


class SubGroups:
    """The gangs of one job, with counts that follow its tasks: what is asked costs the same for any number of them."""

    def __init__(self, policies: Iterable[SubGroupPolicy]) -> None:
        """Begin without tasks."""
        self.policies = tuple(policies)
        self._of_role = {policy.name: policy for policy in self.policies if policy.partition}
        self._by_labels = [policy for policy in self.policies if not policy.partition]
        self._sizes = {policy.name: policy.size for policy in self.policies}
        self._placed: dict[str, int] = {}
        self._ready: dict[str, int] = {}
        """Gang → its tasks that have a place or a promise of one, and those that count for it."""
        self._complete = dict.fromkeys(self._sizes, 0)
        """Policy → gangs that have as many ready tasks as they need."""
        self._lacking = sum(policy.min_groups > 0 for policy in self.policies)

    def of(self, role: str, index: int, labels: Mapping[str, str]) -> Iterator[tuple[SubGroupPolicy, str]]:
        """Yield the gangs that a task belongs to, each with its policy."""
        partitioned = self._of_role.get(role)
        for policy in self._by_labels if partitioned is None else (partitioned, *self._by_labels):
            key = policy.key_of(role, index, labels)
            if key:
                yield policy, key

    def count(self, role: str, index: int, labels: Mapping[str, str], placed: int, ready: int) -> None:
        """Follow a task: 1 if it is placed, or ready, from now on, -1 if it is so no more, 0 if that stays."""
        for policy, key in self.of(role, index, labels):
            self._placed[key] = self._placed.get(key, 0) + placed
            before, least = self._ready.get(key, 0), max(policy.size, 1)
            self._ready[key] = after = before + ready
            if (before >= least) != (after >= least):
                lacked = self._complete[policy.name] < policy.min_groups
                self._complete[policy.name] += ready
                self._lacking += (self._complete[policy.name] < policy.min_groups) - lacked

    def needed(self, key: str) -> int:
        """Return how many tasks of a gang must be placed at once, at least one."""
        return max(self._sizes.get(key.partition("/")[0], 0) - self._placed.get(key, 0), 1)

    def enough(self) -> bool:
        """Return whether each policy has as many complete gangs as it needs."""
        return not self._lacking

    def lacking(self) -> str:
        """Return the first policy that has too few complete gangs; empty: there is none."""
        return next((policy.name for policy in self.policies if self._complete[policy.name] < policy.min_groups), "")
