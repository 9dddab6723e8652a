"""Counts of an input's objects, by outcome."""

from __future__ import annotations

from collections import Counter
from typing import Final

from engine.kubernetes.edge import Ignored, Outcome, Refused
from engine.kubernetes.reading.documents import Document, Unreadable

__all__ = ["IngestReport"]

_KINDS: Final = 20
"""Most kinds counted separately: the author of an object chooses its kind, so their number is unbounded."""
_OTHERS: Final = "of other kinds"


class IngestReport:
    """Counts objects as they come.

    Attributes:
        objects: all of them.
        taken: inputs made of them.
        ignored: objects without an input, bookmarks included.
        kinds: ignored objects by kind.
        unreadable: pieces that are no object or give no input.
        first: of these the first one: `pods.json: line 12: metadata.uid: missing`.
        errors: errors that servers reported instead of objects.
        error: the first of these.
    """

    def __init__(self) -> None:
        self.objects = 0
        self.taken = 0
        self.ignored = 0
        self.kinds: Counter[str] = Counter()
        self.unreadable = 0
        self.first = ""
        self.errors = 0
        self.error = ""

    @property
    def complete(self) -> bool:
        """The whole input was readable, and no server reported an error."""
        return not self.unreadable and not self.errors

    def add(self, prefix: str, item: Document | Unreadable, outcome: Outcome | None = None) -> str:
        """Count an object; return its fault with its place, if it has one.

        Args:
            prefix: of its place, `pods.json: `.
            item: the object, or an unreadable piece.
            outcome: its inputs; `None`: it is not used.
        """
        self.objects += 1
        if isinstance(outcome, Refused):
            return self.miss(f"{prefix}{_placed(item, outcome.reason)}", objects=0)
        if isinstance(item, Unreadable):
            return self.miss(f"{prefix}{_placed(item, item.reason)}", objects=0)
        if not isinstance(outcome, Ignored):
            self.taken += 1 if outcome is None else len(outcome.messages)
            return ""
        self.ignored += 1
        if outcome.error:
            self.errors += 1
            fault = f"{prefix}{_placed(item, outcome.reason)}"
            self.error = self.error or fault
            return fault
        if outcome.kind:
            kind = outcome.kind[:63]
            self.kinds[kind if kind in self.kinds or len(self.kinds) < _KINDS else _OTHERS] += 1
        return ""

    def miss(self, fault: str, objects: int = 1) -> str:
        """Count something that could not be read, with its place and why; returns that."""
        self.objects += objects
        self.unreadable += 1
        self.first = self.first or fault
        return fault

    def shortfall(self) -> str:
        """Return a summary of unreadable objects: `3 of 10 objects could not be read; the first: …`; empty: none."""
        counts = f"{self.unreadable:,} of {self.objects:,} objects"
        return f"{counts} could not be read; the first: {self.first}" if self.unreadable else ""

    def document(self) -> dict[str, object]:
        """Return the counts as JSON."""
        return {
            "taken": self.taken,
            "ignored": self.ignored,
            "unreadable": self.unreadable,
            "objects": self.objects,
            "ignored_kinds": dict(self.kinds.most_common()),
            "first_unreadable": self.first or None,
            "errors": self.errors,
            "first_error": self.error or None,
        }


def _placed(item: Document | Unreadable, reason: str) -> str:
    return reason if reason.startswith(item.place) else f"{item.place}: {reason}"
