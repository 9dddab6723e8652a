"""Heap of keys by age, for expiry and eviction of the oldest key."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TypeVar

K = TypeVar("K")
S = TypeVar("S")


class OldestFirst(list[tuple[int, K]]):
    """Heap of times and keys. `since` of the state and a key is authoritative; `None`: the key was removed.

    A stale entry is dropped when it reaches the top, or when stale entries outnumber valid ones.
    """

    def first(self, state: S, since: Callable[[S, K], int | None]) -> tuple[int, K] | None:
        """Return the oldest key and its time."""
        while self:
            entry = self[0]
            if since(state, entry[1]) == entry[0]:
                return entry
            heappop(self)
        return None

    def note(self, at: int, key: K, state: S, since: Callable[[S, K], int | None], most: int) -> None:
        """Add a key with its time; `most` is the maximum number of valid keys."""
        heappush(self, (at, key))
        if len(self) > 2 * most + 64:  # fewer are not worth a search
            self[:] = {entry for entry in self if since(state, entry[1]) == entry[0]}
            heapify(self)
