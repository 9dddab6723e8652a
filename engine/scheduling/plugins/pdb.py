"""Pdb: evictions respect disruption budgets.

Extension points: `preemptable`, `reclaimable`, `protected`.
"""

from __future__ import annotations

from typing import ClassVar

from engine.scheduling.cluster.budgets import Budget
from engine.scheduling.cluster.entities import Task
from engine.scheduling.cluster.selectors import selects
from engine.scheduling.session import Plugin


class Pdb(Plugin):
    """PodDisruptionBudgets (Volcano `pdb`)."""

    NAME: ClassVar[str] = "pdb"

    def protected(self, victims: list[Task]) -> list[Task]:
        """Return the victims, in order, that their budgets allow beside the session's evictions."""
        budgets = self.session.cluster.budgets
        left = [budget.allowed - sum(_covers(budget, task) for task in self.session.evicted) for budget in budgets]
        found = []
        for victim in victims:
            own = [at for at, budget in enumerate(budgets) if _covers(budget, victim)]
            if all(left[at] > 0 for at in own):
                for at in own:
                    left[at] -= 1
                found.append(victim)
        return found

    def preemptable(self, task: Task, candidates: list[Task]) -> list[Task]:
        """Return the same as `protected`."""
        del task
        return self.protected(candidates)

    def reclaimable(self, task: Task, candidates: list[Task]) -> list[Task]:
        """Return the same as `protected`."""
        del task
        return self.protected(candidates)


def _covers(budget: Budget, task: Task) -> bool:
    return budget.namespace == task.job.namespace and selects(budget.selector, task.pod_class.labels)
