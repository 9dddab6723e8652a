"""Rows of the experiments' table."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Row"]


@dataclass(frozen=True, slots=True)
class Row:
    """One measure beside the published one."""

    name: str
    """Name of the experiment."""
    measure: str
    """What is measured, with its unit, and without which feature if one was switched off."""
    seed: str
    """What the report says; `-`: nothing."""
    ours: str
    ok: bool
    """With the feature: the claim holds. Without it: the claim does not hold, so the check can fail."""
