"""How much room could be made on each node by evicting: an upper bound that spares looking at victims one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from engine.scheduling.answers import Mask
from engine.scheduling.model.cluster import Cluster
from engine.scheduling.model.entities import PodClass, Task
from engine.scheduling.model.queues import Queue

__all__ = ["Evictable"]


class Evictable:
    """What running and bound pods that may be evicted take of each node, by queue.

    It is not kept up to date: what is evicted meanwhile is counted here and among what will be idle, so it stays an upper bound.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._table = cluster.table
        self._queues = cluster.queues
        rows: dict[tuple[str, PodClass], list[int]] = {}
        for node in cluster.table.nodes:
            for task in node.tasks.values():
                if task.status in {"Running", "Bound"} and task.pod_class.preemptable:
                    rows.setdefault((task.job.queue, task.pod_class), []).append(node.row)
        self._of: dict[str, NDArray[np.int64]] = {}
        for (queue, pod_class), found in rows.items():
            taken = pod_class.vector * np.bincount(found, minlength=len(cluster.table.nodes))
            self._of[queue] = self._of[queue] + taken if queue in self._of else taken

    def possible(self, task: Task, gives: Callable[[Queue], bool]) -> Mask:
        """Return which nodes could have room for a task if all that some queues have there were evicted.

        Args:
            task: the task.
            gives: whether a queue is one of them.
        """
        future = self._table.future
        for name, taken in self._of.items():
            if name in self._queues and gives(self._queues[name]):
                future = future + taken
        found: Mask = (future - task.pod_class.vector >= task.pod_class.least).all(axis=0)
        return found
