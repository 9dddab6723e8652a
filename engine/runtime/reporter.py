"""Progress messages for people; the interface that started the process formats them."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Reporter"]


class Reporter(Protocol):
    """Receives sentences for people, from the process's own thread."""

    as_json: bool
    """Whether standard output is for programs: callbacks' output must then go elsewhere."""

    def note(self, text: str) -> None:
        """Report progress."""

    def warn(self, text: str) -> None:
        """Report a problem that was handled."""

    def flush(self) -> None:
        """Flush."""
