"""Errors of exports.

ExportError   an export cannot be written
"""

__all__ = ["ExportError"]


class ExportError(ValueError):
    """Raised when an export cannot be written: the format is not known, needs what the bill lacks, or is not installed."""
