"""How many pods one decision about a job may place, so that its record is never larger than a log takes."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from msgspec import json

from engine.events.bounds import DECISION_BYTES
from engine.scheduling.cluster.entities import Job
from engine.scheduling.cluster.model import Cluster

__all__ = ["DecisionSizes"]

_PLACEMENT: Final = 64
"""Bytes of a place without its names: `{"task":…,"index":…,"attempt":…,"node":…},`."""


class DecisionSizes:
    """The bound for each job of a session; by its longest task name and the longest name of a node."""

    def __init__(self, cluster: Cluster) -> None:
        self._longest = cluster.table.longest_name
        self._most: dict[str, int] = {}

    def most(self, job: Job) -> int:
        """Return how many pods of a job one decision may place."""
        found = self._most.get(job.key)
        if found is None:
            role = max(map(_bytes, job.role_pending), default=0)
            found = self._most[job.key] = DECISION_BYTES // (_PLACEMENT + role + self._longest)
        return found


@lru_cache(1_000)
def _bytes(role: str) -> int:
    return len(json.encode(role))
