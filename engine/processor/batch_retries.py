"""Retries of a batch: inputs that could not be decided or written, and their treatment in the next attempt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.log.errors import RecordTooLargeError
from engine.processor.inputs import Taken

Reasons = dict[tuple[int, int], list[str]]
"""Reasons why the stage failed on an input, one per attempt; keys are (index of the partition, offset)."""

_MOST_REASONS: Final = 2
"""The first failure parks the job of the input or timer; the second makes the input a dead letter or drops the timer
(`ShardRun.take`, `fire`)."""

Begun = Sequence[tuple[int, Taken | None]]
"""Inputs (`None`: timers), each with the last shardsequence before it."""


class UndecidedError(Exception):
    """Raised when a batch stops at an input, or at a timer that fires between inputs."""

    def __init__(self, taken: list[Taken], reason: str, *, timer: int | None = None, large: Taken | None = None) -> None:
        """Store the failure.

        Args:
            taken: inputs to process again; the stage failed on the last one, unless `timer` or `large` is given.
            reason: error message.
            timer: last shardsequence before the timer that failed.
            large: input with an output that is too large for the log.
        """
        super().__init__(reason)
        self.taken: Final = taken
        self.reason: Final = reason
        self.timer: Final = timer
        self.large: Final = large


class Failures:
    """Failures of earlier attempts at a batch."""

    def __init__(self) -> None:
        """Begin without failures."""
        self.inputs: Reasons = {}
        self.timers: dict[int, list[str]] = {}
        """Reasons why the stage failed on a timer, one per attempt, by the last shardsequence before it."""
        self.large: dict[tuple[int, int], str] = {}
        """The log's errors about inputs whose outputs are too large; keys as in `inputs`."""

    @property
    def any(self) -> bool:
        """True if an earlier attempt failed."""
        return bool(self.inputs or self.timers or self.large)

    def note(self, failure: UndecidedError) -> None:
        """Add a failure.

        Raises:
            UndecidedError: its input or timer could neither be parked nor dropped; no retry can help.
        """
        if failure.large is not None:
            key = _key(failure.large)
            self.large[key] = failure.reason
            self.inputs.pop(key, None)
            return
        if failure.timer is not None:
            reasons = self.timers.setdefault(failure.timer, [])
        else:
            reasons = self.inputs.setdefault(_key(failure.taken[-1]), [])
        if len(reasons) == _MOST_REASONS:
            raise failure
        reasons.append(failure.reason)


def not_written(begun: Begun, first: int, error: RecordTooLargeError, before: Failures) -> UndecidedError:
    """Return the failure with which to retry after the log rejected a commit.

    Args:
        begun: inputs and timers of the commit.
        first: shardsequence of its first output.
        error: error with the index of the rejected output.
        before: failures of earlier attempts.

    Raises:
        RecordTooLargeError: the input of the output is a dead letter already; no retry can help.
    """
    sequence, cause = next(found for found in reversed(begun) if found[0] < first + error.place)
    taken = [found for _, found in begun if found is not None]
    if cause is None:
        if len(before.timers.get(sequence, ())) == _MOST_REASONS:
            raise error
        # Later inputs may have other sequence numbers in the retry; their failures are detected again.
        before.timers = {timer: reasons for timer, reasons in before.timers.items() if timer <= sequence}
        return UndecidedError(taken, str(error), timer=sequence)
    if _key(cause) in before.large:
        raise error
    before.timers = {timer: reasons for timer, reasons in before.timers.items() if timer <= sequence}
    return UndecidedError(taken, str(error), large=cause)


def _key(taken: Taken) -> tuple[int, int]:
    place, record, _ = taken
    return place, record.offset
