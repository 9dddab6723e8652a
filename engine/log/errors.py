"""Errors of the log.

LogError
├── LogUnavailableError   the log cannot be reached or written now
│   └── LogBusyError      another process holds a lock on it
├── RecordTooLargeError   a record exceeds the log's size limit
├── FencedError           another holder has opened the shard
├── LogDamagedError       stored bytes differ from the bytes written
├── NotALogError          the file is not a Lahar log that this release can read
└── LayoutError           the partitions differ from the expected ones
"""

from __future__ import annotations

from collections.abc import Sequence

from statemachines.errors import LaharError


class LogError(LaharError):
    """Base of all errors of this package; the message states the problem and the remedy."""


class LogUnavailableError(LogError):
    """Raised when the log cannot be reached or written (full disk, missing permission, lost broker)."""

    transient: bool = False
    """True if the log does not answer or does not exist yet, so that a starting process may retry (`engine.log.start`)."""


class LogBusyError(LogUnavailableError):
    """Raised when another live process holds a lock that this one needs."""


class FencedError(LogError):
    """Raised when another holder has opened the shard with a higher epoch; the caller must stop at once."""

    def __init__(self, shard: str, mine: int, current: int | None = None) -> None:
        """Format the shard, the epoch of this holder and, if known, the epoch of the current holder."""
        known = f"epoch {mine} is over" if current is None else f"epoch {current}, this one has {mine}"
        super().__init__(f"shard {shard} was taken over by another process ({known}); stop this one")
        self.shard = shard


class RecordTooLargeError(LogError):
    """Raised when a record exceeds the log's size limit; nothing was written."""

    def __init__(self, place: int, text: str) -> None:
        """Store the index of the record.

        Args:
            place: index, from 0, of the message in the appended batch or of the output in the commit.
            text: error message.
        """
        super().__init__(text)
        self.place = place


class LogDamagedError(LogError):
    """Raised when stored bytes do not match their checksum or the file is torn.

    Args:
        text: description of the damage, and the remedy.
        place: topic, partition and offset of the first unreadable record; `None` if the records behind it are unreadable too.
        count: number of unreadable offsets, beginning at `place`.
    """

    def __init__(self, text: str, place: tuple[str, int, int] | None = None, count: int = 1) -> None:
        super().__init__(text)
        self.place = place
        self.count = count


class NotALogError(LogError):
    """Raised when a file is not a Lahar log, or was written by a newer release."""


class LayoutError(LogError):
    """Raised when the partitions of a topic or a shard's inputs differ from the stored ones."""

    @classmethod
    def of_inputs(cls, shard: object, before: Sequence[tuple[str, int]], now: Sequence[tuple[str, int]]) -> LayoutError:
        """Return the error for a shard whose inputs differ from the inputs that it ran with before."""
        known, given = (", ".join(f"{topic}/{number}" for topic, number in inputs) for inputs in (before, now))
        return cls(
            f"shard {shard} was built on the inputs {known} and is opened with {given}; "
            "run the release that wrote it, or export the log and import it into a new one"
        )
