"""Errors of the log.

LogError
├── LogUnavailableError   it cannot be reached or written now
│   └── LogBusyError      another process holds it
├── RecordTooLargeError   the log takes no record of that size
├── FencedError           another holder has taken over the shard
├── LogDamagedError       what is stored is not what was written
├── NotALogError          the file is something else
└── LayoutError           the log's partitions are not what this process expects
"""

from __future__ import annotations

from collections.abc import Sequence

from statemachines.errors import LaharError

__all__ = [
    "FencedError",
    "LayoutError",
    "LogBusyError",
    "LogDamagedError",
    "LogError",
    "LogUnavailableError",
    "NotALogError",
    "RecordTooLargeError",
]


class LogError(LaharError):
    """Base of all errors of this package; the text says what happened and what to do."""


class LogUnavailableError(LogError):
    """Raised when the log cannot be reached, or not be written (full disk, no permission)."""

    transient: bool = False
    """The log does not answer or does not exist yet: a starting process may wait for it (`engine.log.start`)."""


class LogBusyError(LogUnavailableError):
    """Raised when another live process holds what this one needs."""


class FencedError(LogError):
    """Raised when another holder has opened the shard; the caller must stop at once."""

    def __init__(self, shard: str, mine: int, current: int | None = None) -> None:
        """Name the shard and the holders' epochs; that of the current one is not always known."""
        known = f"epoch {mine} is over" if current is None else f"epoch {current}, this one has {mine}"
        super().__init__(f"shard {shard} was taken over by another process ({known}); stop this one")
        self.shard = shard


class RecordTooLargeError(LogError):
    """Raised when a record is larger than the log takes; nothing was written."""

    def __init__(self, place: int, text: str) -> None:
        """Describe it.

        Args:
            place: of the message among those that were appended, of the output among those of the commit, from 0.
            text: the log's own message.
        """
        super().__init__(text)
        self.place = place


class LogDamagedError(LogError):
    """Raised when stored bytes do not match their checksum or the file is torn.

    Args:
        text: what is damaged, and what to do.
        place: topic, partition and offset of the first record that cannot be read, if those behind it can be.
        count: how many offsets from there on cannot be read.
    """

    def __init__(self, text: str, place: tuple[str, int, int] | None = None, count: int = 1) -> None:
        super().__init__(text)
        self.place = place
        self.count = count


class NotALogError(LogError):
    """Raised when a file is no Lahar log, or one of a newer release."""


class LayoutError(LogError):
    """Raised when the partitions of a topic differ from what the shard was built on."""

    @classmethod
    def of_inputs(cls, shard: object, before: Sequence[tuple[str, int]], now: Sequence[tuple[str, int]]) -> LayoutError:
        """Say which inputs a shard was built on and which it is opened with."""
        known, given = (", ".join(f"{topic}/{number}" for topic, number in inputs) for inputs in (before, now))
        return cls(
            f"shard {shard} was built on the inputs {known} and is opened with {given}; "
            "run the release that wrote it, or export the log and import it into a new one"
        )
