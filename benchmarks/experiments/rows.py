"""Rows of the experiments' table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """A number of a row, for the plots."""

    plot: str
    """What is measured, with its unit: columns with the same are in one plot."""
    case: str
    """Columns of a case stand side by side; empty if the plot has one case."""
    variant: str
    """What the measure's name ends with, such as `, without gang`; empty: with the feature."""
    value: float
    """Infinite: never."""


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
    columns: tuple[Column, ...] = ()
