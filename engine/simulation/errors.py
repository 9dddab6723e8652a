"""Errors of the simulation package.

SimulationError
├── TraceError     a trace cannot be imported
└── RowError       a row of a trace is invalid
"""

from __future__ import annotations

from statemachines.errors import LaharError


class SimulationError(LaharError, ValueError):
    """Base of all errors of this package."""


class TraceError(SimulationError):
    """Raised when a trace cannot be imported: unknown format, unreadable file, wrong header."""


class RowError(SimulationError):
    """Raised when a row of a trace is invalid; the import records it as rejected and continues."""
