"""Errors of the simulation package.

SimulationError
├── TraceError     a trace that cannot be imported at all
└── RowError       one row of a trace that makes no sense
"""

from __future__ import annotations

from statemachines.errors import LaharError

__all__ = ["RowError", "SimulationError", "TraceError"]


class SimulationError(LaharError, ValueError):
    """Base of all errors of this package."""


class TraceError(SimulationError):
    """Raised when a trace cannot be imported at all: an unknown format, a file that cannot be read, a wrong header."""


class RowError(SimulationError):
    """Raised when one row of a trace makes no sense; the row is recorded as rejected and the import goes on."""
