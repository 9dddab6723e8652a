"""Errors of exports.

ExportError   an export cannot be written
"""

from __future__ import annotations

from statemachines.errors import LaharError


class ExportError(LaharError, ValueError):
    """Raised when an export cannot be written: the format is unknown, needs data that the bill lacks, or is not installed."""
