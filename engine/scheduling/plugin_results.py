"""Results of plugins: order keys, votes, verdicts on nodes.

The smaller key comes first; the next plugin decides between equal ones. Masks and scores are arrays over the nodes of the
session's table.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import mul, sub
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engine.scheduling.cluster.amounts import Amounts
from engine.scheduling.cluster.entities import PodClass
from engine.scheduling.cluster.nodes import NodeTable
from engine.scheduling.pending.reasons import ReasonCode

Vote = Literal[-1, 0, 1]
PERMIT: Final[Vote] = 1
ABSTAIN: Final[Vote] = 0
REJECT: Final[Vote] = -1

Key: TypeAlias = "float | tuple[object, ...]"
Mask = NDArray[np.bool_]
Scores = NDArray[np.float64]
Preference = tuple[float, Scores]
"""Weight, and scores of all nodes in any unit; larger is better."""


@dataclass(slots=True, frozen=True)
class Verdict:
    """Result of one predicate for all nodes."""

    reason: ReasonCode
    """Reason of nodes that fail."""
    passes: Mask
    resolvable: bool = True
    """Evictions could change it (Kubernetes `Unschedulable`; else `UnschedulableAndUnresolvable`)."""


@dataclass(slots=True, frozen=True)
class Invalid:
    """Reason why a job cannot be scheduled at all."""

    reason: ReasonCode
    subject: str
    """Role or sub-group concerned; empty: the job."""


@dataclass(slots=True, frozen=True)
class QueueShare:
    """Share that a queue deserves, from the plugin that limits queues."""

    plugin: str
    deserved: Amounts
    limit: Amounts
    """Greatest amounts; an absent or infinite resource is not limited."""
    share: float
    """Share of its deserved resources that the queue holds, the largest over all resources."""


class Rows:
    """Free resources of some nodes with one more pod of a class, the basis of scores.

    Arrays are resources by nodes, in the order of `NodeTable.resources`; of one node, given by its number, lists by resource.
    """

    __slots__ = ("after", "left", "room", "rows")

    def __init__(self, table: NodeTable, pod_class: PodClass, rows: slice | NDArray[np.intp] | int) -> None:
        self.rows = rows
        """Rows of the nodes, or the row of one."""
        self.room: Any
        """Idle and future idle amounts, as `NodeTable.room`."""
        if isinstance(rows, int):
            taken = pod_class.vector[:, 0].tolist()
            self.room = [list(map(sub, side, taken)) for side in table.room[:, :, rows].tolist()]
        else:
            self.room = table.room[:, :, rows] - pod_class.vector
        self.after: Any = self.room[0]
        """Free amounts; below 0 where the pod does not fit."""
        inverse = table.inverse[:, rows]
        self.left: Any = list(map(mul, self.after, inverse.tolist())) if isinstance(rows, int) else self.after * inverse
        """`after` as fractions of allocatable resources; 0 where a node has none."""
