"""Which shards of a stage a process runs: assigned by a group, or fixed by ordinal.

Membership assigns every shard to a process. It does not keep two processes from running one shard: opening a shard fences the
earlier holder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from engine.log.errors import FencedError

__all__ = ["Membership", "RebalanceObserver", "StaticMembership"]


class Membership(Protocol):
    """A process's part in a stage. Its methods may be called from any thread and return at once, except `start` and `close`."""

    def start(self, changed: Callable[[], object]) -> None:
        """Take part from now on.

        Args:
            changed: called, in some thread, whenever `shards` may answer otherwise than before.

        Raises:
            LogUnavailableError: the group cannot be reached.
        """

    def shards(self) -> frozenset[int]:
        """Return the shards that this process is to run, as far as it has heard.

        Raises:
            LogError: it takes no part any more, and waiting does not help; stop.
        """

    def is_settled(self) -> bool:
        """Tell whether it has heard yet which shards are this process's; there may be none."""

    def fenced(self, shard: int, error: FencedError) -> None:
        """Hear that another process has opened a shard of this one.

        The shard is none of `shards` until it is certain that it is still this process's; then it may be opened again.

        Raises:
            FencedError: the one given: it was taken over by somebody who should not have, or who replaces this process; stop.
        """

    def close(self) -> None:
        """Take no part any more; whoever held shards has given them back before. Idempotent."""


class RebalanceObserver(Protocol):
    """Is told how often and how long a group spreads its shards anew."""

    def rebalanced(self, stage: str, seconds: float) -> None:
        """Note that a process has heard which shards it is to run, so long after it began to ask.

        Args:
            stage: whose shards.
            seconds: from the moment when it noticed that shards are spread anew. Shards that are held are run meanwhile.
        """


class StaticMembership:
    """Shards by ordinal: of so many workers, the one with ordinal n runs shard s where s % workers == n. Nobody takes over.

    A worker that is started anew, or in the place of another one, fences the one before it.
    """

    def __init__(self, ordinal: int, workers: int, shards: int) -> None:
        """Name one.

        Args:
            ordinal: of this worker, from 0.
            workers: how many there are.
            shards: how many the stage has.

        Raises:
            ValueError: there is no such worker, or no shard for it.
        """
        if not 0 <= ordinal < workers:
            raise ValueError(f"of {workers} workers none has ordinal {ordinal}; the first has 0")
        if ordinal >= shards:
            raise ValueError(f"worker {ordinal} of {workers} has no shard to run: there are {shards}; run at most so many workers")
        self._shards = frozenset(range(ordinal, shards, workers))

    def start(self, changed: Callable[[], object]) -> None:
        """Do nothing: all is known."""

    def shards(self) -> frozenset[int]:
        """Return the shards of this ordinal."""
        return self._shards

    def is_settled(self) -> bool:
        """Tell that all is known."""
        return True

    def fenced(self, shard: int, error: FencedError) -> None:  # noqa: ARG002  the error names it
        """Give up: another process has this ordinal now.

        Raises:
            FencedError: the one given.
        """
        raise error

    def close(self) -> None:
        """Do nothing: there is nobody to tell."""
