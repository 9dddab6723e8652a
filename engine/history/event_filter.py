"""Filters on the events of a history, by their own fields."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from engine.events import Data
from engine.events.transitions import transition_of
from statemachines.vocabulary import ATTEMPT_PHASES, JOB_PHASES, TASK_PHASES

__all__ = ["PHASES", "Selection", "full_type"]

PHASES: Final = tuple(dict.fromkeys((*JOB_PHASES, *TASK_PHASES, *ATTEMPT_PHASES)))
"""Phases of all levels."""

_VERSION: Final = re.compile(r"\.v[0-9]+$|\*$")


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions on an event; `None` or empty matches all."""

    node: str | None = None
    reasons: frozenset[str] = frozenset()
    phases: frozenset[str] = frozenset()
    """Phases entered, at any level."""

    def passes(self, data: Data) -> bool:
        """Return whether an event matches."""
        if self.phases:
            entered = transition_of(data)
            if entered is None or entered.phase not in self.phases:
                return False
        return self.node in {None, getattr(data, "node", None)} and (
            not self.reasons or getattr(data, "reason", None) in self.reasons
        )


def full_type(given: str) -> str:
    """Return the pattern of event types for a short name: `job.phase_changed` is `lahar.job.phase_changed` of any version."""
    named = given if given.startswith(("lahar.", "*")) else f"lahar.{given}"
    return named if _VERSION.search(named) else f"{named}.v*"
