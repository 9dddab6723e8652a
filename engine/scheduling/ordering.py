"""A heap of jobs or queues whose keys grow while they wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

from engine.scheduling.cluster.model import Cluster

__all__ = ["Ordered"]

T = TypeVar("T")


class Ordered(Generic[T]):
    """Items, the one with the smallest key first.

    A key is asked again when its item comes first and the cluster has changed: if it has grown meanwhile, the item takes its new
    place. Shares grow while pods are placed, and what is discarded is restored before anything else is asked, so no item waits
    behind its turn.
    """

    def __init__(self, cluster: Cluster, key: Callable[[T], tuple[object, ...]], items: Iterable[T] = ()) -> None:
        self._cluster = cluster
        self._key = key
        # A key ends with the item's name, so two are never equal and what follows them is not compared.
        self._heap = [(key(item), cluster.revision, item) for item in items]
        heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, item: T) -> None:
        """Add an item."""
        heappush(self._heap, (self._key(item), self._cluster.revision, item))

    def pop(self) -> T:
        """Take the first item.

        Raises:
            IndexError: there is none.
        """
        revision = self._cluster.revision
        while len(self._heap) > 1:
            stored, asked_at, item = self._heap[0]
            if asked_at == revision or (present := self._key(item)) <= stored:
                return heappop(self._heap)[2]
            heapreplace(self._heap, (present, revision, item))
        return self._heap.pop()[2]
