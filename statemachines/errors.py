"""Errors of the state machines and their rules.

RuleError
├── TableError       a transition table that cannot be compiled
└── SelectorError    a callback selector with an unknown field, level, phase or label
"""

from __future__ import annotations

__all__ = ["RuleError", "SelectorError", "TableError"]


class RuleError(ValueError):
    """Base of all errors of this package."""


class TableError(RuleError):
    """Raised when a transition table names a state or a condition that does not exist."""


class SelectorError(RuleError):
    """Raised when a callback selector has an unknown field, or an impossible level, phase or label."""
