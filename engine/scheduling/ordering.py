"""A heap of jobs or queues whose keys grow while they wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

from engine.scheduling.cluster.model import Cluster

T = TypeVar("T")


class Ordered(Generic[T]):
    """Heap of items, smallest key first.

    The key of the first item is computed again if the cluster has changed; if it has grown, the item moves back. Keys only grow:
    shares grow with placements, and discarded ones are undone before the next key is computed.
    """

    def __init__(self, cluster: Cluster, key: Callable[[T], tuple[object, ...]], items: Iterable[T] = ()) -> None:
        self._cluster = cluster
        self._key = key
        # A key ends with the item's name, so no two are equal and the items are never compared.
        self._heap = [(key(item), cluster.revision, item) for item in items]
        heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, item: T) -> None:
        """Push an item."""
        heappush(self._heap, (self._key(item), self._cluster.revision, item))

    def pop(self) -> T:
        """Remove and return the first item.

        Raises:
            IndexError: the heap is empty.
        """
        revision = self._cluster.revision
        while len(self._heap) > 1:
            stored, asked_at, item = self._heap[0]
            if asked_at == revision or (present := self._key(item)) <= stored:
                return heappop(self._heap)[2]
            heapreplace(self._heap, (present, revision, item))
        return self._heap.pop()[2]
