"""Errors of the state machines and their rules, and the base of all errors of Lahar.

LaharError
└── RuleError
    ├── TableError          a transition table that cannot be compiled
    ├── SelectorError       a callback selector with an unknown field, level, phase or label
    └── UnknownNameError    a name that its closed vocabulary does not have
"""

from __future__ import annotations


class LaharError(Exception):
    """Base of all errors that a caller of Lahar may have to handle."""


class RuleError(LaharError, ValueError):
    """Base of all errors of this package."""


class TableError(RuleError):
    """Raised when a transition table names a state or a condition that does not exist."""


class SelectorError(RuleError):
    """Raised when a callback selector has an unknown field, or an impossible level, phase or label."""


class UnknownNameError(RuleError):
    """Raised when a name is not in its closed vocabulary: a phase, a reason, a type of events."""

    def __init__(self, what: str, name: str, hint: str) -> None:
        super().__init__(f"there is no {what} {name[:100]!r}; {hint}")
        self.name = name
