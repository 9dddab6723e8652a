"""What plugins answer with: keys that order, votes, verdicts on nodes.

What has the smaller key comes first, and the next plugin decides between equals. Masks and scores are arrays over the nodes of the
session's table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engine.scheduling.cluster.amounts import Amounts
from engine.scheduling.cluster.entities import PodClass
from engine.scheduling.cluster.nodes import NodeTable
from engine.scheduling.pending.reasons import ReasonCode

__all__ = ["ABSTAIN", "PERMIT", "REJECT", "Invalid", "Key", "Mask", "Preference", "QueueShare", "Rows", "Scores", "Verdict", "Vote"]

Vote = Literal[-1, 0, 1]
PERMIT: Final[Vote] = 1
ABSTAIN: Final[Vote] = 0
REJECT: Final[Vote] = -1

Key: TypeAlias = "float | tuple[object, ...]"
Mask = NDArray[np.bool_]
Scores = NDArray[np.float64]
Preference = tuple[float, Scores]
"""A weight and scores of all nodes in any unit, the larger the better."""


@dataclass(slots=True, frozen=True)
class Verdict:
    """What one predicate says of all nodes."""

    reason: ReasonCode
    """Why a node is refused."""
    passes: Mask
    resolvable: bool = True
    """Evicting pods could change it (Kubernetes `Unschedulable`; else `UnschedulableAndUnresolvable`)."""


@dataclass(slots=True, frozen=True)
class Invalid:
    """Why a job cannot be scheduled at all."""

    reason: ReasonCode
    subject: str
    """The role or the sub-group that is meant; empty: the job."""


@dataclass(slots=True, frozen=True)
class QueueShare:
    """What a queue is to have, by the plugin that limits queues."""

    plugin: str
    deserved: Amounts
    limit: Amounts
    """At most; a resource that it lacks, or of which there may be any amount, is not limited."""
    share: float
    """What the queue holds of what it deserves: of the resource of which that is most."""


class Rows:
    """What is left of some nodes with one more pod of a class, which plugins score by.

    Arrays are resources by nodes, in the order of `NodeTable.resources`.
    """

    __slots__ = ("after", "left", "rows")

    def __init__(self, table: NodeTable, pod_class: PodClass, rows: slice | NDArray[np.intp]) -> None:
        self.rows = rows
        """Which nodes."""
        self.after = table.idle[:, rows] - pod_class.vector
        """Amounts; below 0 where it does not fit."""
        self.left = self.after * table.inverse[:, rows]
        """`after` as fractions of what the nodes have; 0 where they have nothing."""
