"""Progress messages for people; the face that started the process decides how they look."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Reporter"]


class Reporter(Protocol):
    """Takes sentences for people, from the process's own thread."""

    as_json: bool
    """Standard output is for programs: what callbacks print does not belong there."""

    def note(self, text: str) -> None:
        """Report progress."""

    def warn(self, text: str) -> None:
        """Say that something is odd but was dealt with."""

    def flush(self) -> None:
        """Flush."""
