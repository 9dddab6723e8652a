"""A change of phase at any of the three levels, as raise rules and callback selectors see it."""

from __future__ import annotations

from dataclasses import dataclass

from statemachines.vocabulary import Level


@dataclass(slots=True)
class Transition:
    """One change of phase."""

    level: Level
    phase: str
    """Phase entered."""
    previous: str | None = None
    """Phase left; `None`: it is the first one."""
    task: str | None = None
    index: int | None = None
    """Replica of the task (level replica)."""
    reason: str | None = None
    exit_code: int | None = None
