"""The shards of a stage that a process runs: assigned by a group, or fixed by ordinal.

Membership assigns every shard to a process. It does not keep two processes from running one shard: opening a shard fences the
earlier holder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from engine.log.errors import FencedError


class Membership(Protocol):
    """A process's part in a stage. Its methods may be called from any thread and return at once, except `start` and `close`."""

    def start(self, changed: Callable[[], object]) -> None:
        """Join.

        Args:
            changed: called, in any thread, when `shards` may have changed.

        Raises:
            LogUnavailableError: the group cannot be reached.
        """

    def shards(self) -> frozenset[int]:
        """Return the shards last assigned to this process.

        Raises:
            LogError: it is no longer a member and cannot rejoin; stop.
        """

    def is_settled(self) -> bool:
        """Return true once an assignment was received, even an empty one."""

    def fenced(self, shard: int, error: FencedError) -> None:
        """Handle the takeover of one of this process's shards by another process.

        The shard is left out of `shards` until its assignment to this process is confirmed; then it may be opened again.

        Args:
            shard: number of the shard.
            error: error of the fenced commit.

        Raises:
            FencedError: `error` itself, if a process outside the group or this process's replacement has taken over; stop.
        """

    def close(self) -> None:
        """Leave the group, after the caller has closed its shards. Idempotent."""


class RebalanceObserver(Protocol):
    """Observer of rebalances."""

    def rebalanced(self, stage: str, seconds: float) -> None:
        """Called when a process has received its assignment.

        Args:
            stage: stage of the shards.
            seconds: time since the process noticed the rebalance. Its held shards kept running meanwhile.
        """


class StaticMembership:
    """Shards by ordinal: of `workers` workers, the one with ordinal n runs the shards s with s % workers == n.

    A restarted or replacement worker fences its predecessor; no other worker takes over.
    """

    def __init__(self, ordinal: int, workers: int, shards: int) -> None:
        """Select a worker's shards.

        Args:
            ordinal: ordinal of this worker, from 0.
            workers: number of workers.
            shards: number of the stage's shards.

        Raises:
            ValueError: there is no such worker, or no shard for it.
        """
        if not 0 <= ordinal < workers:
            raise ValueError(f"ordinal {ordinal} does not exist among {workers} workers; the first is 0")
        if ordinal >= shards:
            raise ValueError(f"worker {ordinal} of {workers} has no shard to run; run at most {shards} workers, one per shard")
        self._shards = frozenset(range(ordinal, shards, workers))

    def start(self, changed: Callable[[], object]) -> None:
        """Do nothing: the assignment is fixed."""

    def shards(self) -> frozenset[int]:
        """Return the shards of this ordinal."""
        return self._shards

    def is_settled(self) -> bool:
        """Return True: the assignment is fixed."""
        return True

    def fenced(self, shard: int, error: FencedError) -> None:  # noqa: ARG002  the error names it
        """Raise: another process has this ordinal now.

        Raises:
            FencedError: `error` itself.
        """
        raise error

    def close(self) -> None:
        """Do nothing: there is no group."""
