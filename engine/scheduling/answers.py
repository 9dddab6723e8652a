"""What plugins answer with: keys that order, votes, verdicts on nodes.

What has the smaller key comes first, and the next plugin decides between equals. Masks and scores are arrays over the nodes of the
session's table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engine.scheduling.model.nodes import NodeTable
from engine.scheduling.reasons import ReasonCode

__all__ = [
    "ABSTAIN",
    "PERMIT",
    "REJECT",
    "Invalid",
    "Key",
    "Mask",
    "Rows",
    "Scores",
    "Verdict",
    "Vote",
]

Vote = Literal[-1, 0, 1]
PERMIT: Final[Vote] = 1
ABSTAIN: Final[Vote] = 0
REJECT: Final[Vote] = -1

Key: TypeAlias = "float | tuple[object, ...]"
Mask = NDArray[np.bool_]
Scores = NDArray[np.float64]


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


class Rows:
    """Some nodes of the table, whose resources a plugin scores by."""

    __slots__ = ("_table", "rows")

    def __init__(self, table: NodeTable, rows: slice | NDArray[np.intp]) -> None:
        self._table = table
        self.rows = rows

    def _of(self, array: NDArray[np.int64], resources: NDArray[np.intp]) -> NDArray[np.int64]:
        if isinstance(self.rows, slice):
            return array[resources, self.rows]
        return array[resources[:, None], self.rows]

    def allocatable(self, resources: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return what the nodes have of some resources (resources by nodes)."""
        return self._of(self._table.allocatable, resources)

    def idle(self, resources: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return what is idle of some resources (resources by nodes)."""
        return self._of(self._table.idle, resources)

    def future(self, resources: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return what will be idle of some resources (resources by nodes)."""
        return self._of(self._table.future, resources)
