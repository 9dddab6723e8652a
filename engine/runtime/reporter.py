"""Progress messages for people; the interface that started the process formats them."""

from __future__ import annotations

from typing import Protocol


class Reporter(Protocol):
    """Receiver of messages for people, called from the process's main thread."""

    as_json: bool
    """True if standard output is JSON, so that callbacks' output must go elsewhere."""

    def note(self, text: str) -> None:
        """Report progress."""

    def warn(self, text: str) -> None:
        """Report a problem that was handled."""

    def flush(self) -> None:
        """Flush."""
