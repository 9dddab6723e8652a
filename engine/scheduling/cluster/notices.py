"""Notices of preemption, and the facts about jobs and tenants that their rules read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec import Struct

from engine.events.times import Micros
from statemachines.vocabulary import JobPhase

PLACED: Final = ("Running", "Bound", "Binding")
"""Statuses of tasks that have a node and are not releasing it."""


def cluster_of(notice: str) -> str:
    """Return the cluster of a notice, from its id."""
    return notice.rpartition("/")[0]


def number_of(notice: str) -> int:
    """Return the number of a notice in its cluster, from its id."""
    return int(notice.rpartition("/")[2])


class Notice(Struct, array_like=True):
    """Notice that is open, or executed with its places still reserved."""

    id: str
    """`CLUSTER/NUMBER`"""
    preemptor: str
    """Job for which the victims are stopped."""
    victims: dict[str, bool]
    """Victim job → whether it has acknowledged; empty once the notice is executed."""
    queue: str
    deadline: Micros
    written: int = 1
    """Number of records about it."""
    reserved: Micros | None = None
    """End of the reservation (microseconds) of an executed notice; `None`: it is open."""

    @property
    def due(self) -> Micros:
        """Time at which it is executed, or its reservation ends (microseconds)."""
        return self.deadline if self.reserved is None else self.reserved


class Tenant(NamedTuple):
    """Rights of a tenant."""

    priority: int = 0
    """Compared before the priorities of jobs."""
    may_preempt: bool = False


@dataclass(slots=True, frozen=True)
class Preemption:
    """Facts about a job that the rules of notices read."""

    tenant: str = ""
    privileged: bool = False
    """It requests preemption with notice."""
    phase: JobPhase = "Pending"
    since: Micros = 0
    """Start of its run (microseconds), whatever its phase; 0: not running."""
    min_run: Micros | None = None
    """Least run before it is given notice (microseconds); `None`: its queue's."""
    left: bool = False
    """It is in a notice by the stage's records only, or cannot obey it because it is parked."""
