"""Notices of preemption as the stage keeps them, and what their rules read of jobs and tenants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec import Struct

from engine.events.times import Micros
from statemachines.vocabulary import JobPhase

__all__ = ["PLACED", "Notice", "Preemption", "Tenant", "cluster_of", "number_of"]

PLACED: Final = ("Running", "Bound", "Binding")
"""States of tasks with a place that they are not leaving."""


def cluster_of(notice: str) -> str:
    """Return the cluster of a notice, from its id."""
    return notice.rpartition("/")[0]


def number_of(notice: str) -> int:
    """Return the number of a notice in its cluster, from its id."""
    return int(notice.rpartition("/")[2])


class Notice(Struct, array_like=True):
    """A notice that is open, or whose place is reserved."""

    id: str
    """`CLUSTER/NUMBER`"""
    preemptor: str
    """Job that the victims are to be stopped for."""
    victims: dict[str, bool]
    """Job that is to be stopped → whether it has acknowledged; empty once the notice is executed."""
    queue: str
    deadline: Micros
    written: int = 1
    """Records about it."""
    reserved: Micros | None = None
    """It is executed, and until then at most its place is reserved."""

    @property
    def due(self) -> Micros:
        """When its time comes."""
        return self.deadline if self.reserved is None else self.reserved


class Tenant(NamedTuple):
    """What a tenant may do."""

    priority: int = 0
    """Compared before the priorities of jobs."""
    may_preempt: bool = False


@dataclass(slots=True, frozen=True)
class Preemption:
    """What the rules of notices read of a job."""

    tenant: str = ""
    privileged: bool = False
    """It asks for others to be stopped for it."""
    phase: JobPhase = "Pending"
    since: Micros = 0
    """Since when it runs, whatever its phase; 0: it does not."""
    min_run: Micros | None = None
    """How long it runs before it is given notice; `None`: as its queue says."""
    left: bool = False
    """It is in a notice by the stage's records only, or cannot follow it: it is parked."""
