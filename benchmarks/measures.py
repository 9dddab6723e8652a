"""A measure, its budget, and the record of its runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of a measure."""

    value: float
    floor: float | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """One measure, its budget, and how it is taken."""

    name: str
    unit: str
    about: str
    limit: float | None
    """`None`: reported only."""
    sense: Literal["at least", "at most"]
    take: Callable[[], Measured]
    runs: int = 3

    def met(self, value: float) -> bool | None:
        """Return whether a value is within the budget; `None`: there is no budget."""
        if self.limit is None:
            return None
        return value >= self.limit if self.sense == "at least" else value <= self.limit


def measure(budget: Budget, runs: int | None = None) -> dict[str, Any]:
    """Take a measure and return its record: the median of the runs, and the floor's.

    Args:
        budget: the measure.
        runs: number of runs; default that of the measure.
    """
    taken = [budget.take() for _ in range(runs or budget.runs)]
    values = sorted(run.value for run in taken)
    value = statistics.median(values)
    floors = [run.floor for run in taken if run.floor is not None]
    return {
        "measure": budget.name,
        "value": _round(value),
        "unit": budget.unit,
        "floor": _round(statistics.median(floors)) if floors else None,
        "budget": budget.limit,
        "met": budget.met(value),
        "runs": len(taken),
        "spread": _round((values[-1] - values[0]) / value) if value else 0.0,
    }


def _round(number: float) -> float:
    return float(f"{number:.4g}")
