"""Which of many keys has stood longest: what is kept for a while, or in a bounded number, is forgotten in that order."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TypeVar

__all__ = ["Oldest"]

K = TypeVar("K")
S = TypeVar("S")


class Oldest(list[tuple[int, K]]):
    """A heap of (since when, key). What `since` says of the state and a key is what holds; `None`: the key does not stand.

    An entry that holds no longer is dropped when it comes to the top, or when such entries outnumber those that hold.
    """

    def first(self, state: S, since: Callable[[S, K], int | None]) -> tuple[int, K] | None:
        """Return what has stood longest: since when, and its key."""
        while self:
            entry = self[0]
            if since(state, entry[1]) == entry[0]:
                return entry
            heappop(self)
        return None

    def note(self, at: int, key: K, state: S, since: Callable[[S, K], int | None], most: int) -> None:
        """Note that a key stands since `at`; at most so many do."""
        heappush(self, (at, key))
        if len(self) > 2 * most + 64:  # fewer are not worth a search
            self[:] = {entry for entry in self if since(state, entry[1]) == entry[0]}
            heapify(self)
