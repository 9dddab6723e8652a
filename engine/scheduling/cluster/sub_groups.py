"""Sub-groups (gangs within a job): the one of each task, and whether enough of them are complete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class SubGroupPolicy:
    """Sub-groups of a job (Volcano `subGroupPolicy`): tasks equal in all named labels, or partitions of a role."""

    name: str
    size: int = 0
    """Least number of tasks in a gang; 0: none."""
    min_groups: int = 0
    """Least number of complete gangs; 0: not set."""
    label_keys: tuple[str, ...] = ()
    partition: int = 0
    """Replicas in each partition of the role named like the policy; 0: labels define the gangs."""

    def key_of(self, role: str, index: int, labels: Mapping[str, str]) -> str:
        """Return the gang of a task; empty: it lacks one of the labels, or has another role."""
        if self.partition:
            return f"{self.name}/{index // self.partition}" if role == self.name else ""
        if not all(key in labels for key in self.label_keys):
            return ""
        return "/".join([self.name, *[labels[key] for key in self.label_keys]])


class SubGroups:
    """Gangs of one job, with counts that each move of a task updates, so that queries take constant time."""

    def __init__(self, policies: Iterable[SubGroupPolicy]) -> None:
        """Begin without tasks."""
        self.policies = tuple(policies)
        self._of_role = {policy.name: policy for policy in self.policies if policy.partition}
        self._by_labels = [policy for policy in self.policies if not policy.partition]
        self._sizes = {policy.name: policy.size for policy in self.policies}
        self._placed: dict[str, int] = {}
        self._ready: dict[str, int] = {}
        """Gang → number of its tasks that are placed or promised a place, and of those that are ready."""
        self._complete = dict.fromkeys(self._sizes, 0)
        """Policy → number of complete gangs."""
        self._lacking = sum(policy.min_groups > 0 for policy in self.policies)

    def of(self, role: str, index: int, labels: Mapping[str, str]) -> Iterator[tuple[SubGroupPolicy, str]]:
        """Yield the gangs of a task, each with its policy."""
        partitioned = self._of_role.get(role)
        for policy in self._by_labels if partitioned is None else (partitioned, *self._by_labels):
            key = policy.key_of(role, index, labels)
            if key:
                yield policy, key

    def count(self, role: str, index: int, labels: Mapping[str, str], placed: int, ready: int) -> None:
        """Count a task: 1 if it becomes placed (ready), -1 if it no longer is, 0 if that is unchanged."""
        for policy, key in self.of(role, index, labels):
            self._placed[key] = self._placed.get(key, 0) + placed
            before, least = self._ready.get(key, 0), max(policy.size, 1)
            self._ready[key] = after = before + ready
            if (before >= least) != (after >= least):
                lacked = self._complete[policy.name] < policy.min_groups
                self._complete[policy.name] += ready
                self._lacking += (self._complete[policy.name] < policy.min_groups) - lacked

    def needed(self, key: str) -> int:
        """Return the number of tasks of a gang that must be placed together, at least one."""
        return max(self._sizes.get(key.partition("/")[0], 0) - self._placed.get(key, 0), 1)

    def enough(self) -> bool:
        """Return whether each policy has enough complete gangs."""
        return not self._lacking

    def lacking(self) -> str:
        """Return the first policy with too few complete gangs; empty: none."""
        return next((policy.name for policy in self.policies if self._complete[policy.name] < policy.min_groups), "")
