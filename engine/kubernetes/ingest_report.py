"""Counts of a source's objects by outcome."""

from __future__ import annotations

from collections import Counter
from typing import Final

from engine.kubernetes.edge import Ignored, Outcome, Refused
from engine.kubernetes.reading.documents import Document, Unreadable

_KINDS: Final = 20
"""Maximum number of kinds counted separately, because the author of an object chooses its kind."""
_OTHERS: Final = "of other kinds"


class IngestReport:
    """Counter of objects.

    Attributes:
        objects: all objects.
        taken: inputs of the objects.
        ignored: objects without an input, including bookmarks.
        kinds: ignored objects by kind.
        unreadable: parts of the source that are not an object, or objects without a valid input.
        first: first of these faults: `pods.json: line 12: metadata.uid: missing`.
        errors: errors that servers reported in place of objects.
        error: first of these errors.
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
        """True if the whole source was readable and no server reported an error."""
        return not self.unreadable and not self.errors

    def add(self, prefix: str, item: Document | Unreadable, outcome: Outcome | None = None) -> str:
        """Count an object; return its fault with its location, or an empty text.

        Args:
            prefix: prefix of the location, such as `pods.json: `.
            item: object, or an unreadable part of the source.
            outcome: outcome of the object; `None`: it is not used.
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
        """Count an unreadable part of the source; return its fault."""
        self.objects += objects
        self.unreadable += 1
        self.first = self.first or fault
        return fault

    def shortfall(self) -> str:
        """Return a summary such as `3 of 10 objects could not be read; the first: …`; empty if all were readable."""
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
