"""Greatest number of pods in one decision, so that its record never exceeds the log's limit."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from msgspec import json

from engine.events.bounds import DECISION_BYTES
from engine.scheduling.cluster.entities import Job
from engine.scheduling.cluster.model import Cluster

_PLACEMENT: Final = 64
"""Bytes of a placement without its names: `{"task":…,"index":…,"attempt":…,"node":…},`."""


class DecisionSizes:
    """Bounds for the jobs of a session, by a job's longest task name and the longest node name."""

    def __init__(self, cluster: Cluster) -> None:
        self._longest = cluster.table.longest_name
        self._most: dict[str, int] = {}

    def most(self, job: Job) -> int:
        """Return the greatest number of pods of a job in one decision."""
        found = self._most.get(job.key)
        if found is None:
            role = max(map(_bytes, job.role_pending), default=0)
            found = self._most[job.key] = DECISION_BYTES // (_PLACEMENT + role + self._longest)
        return found


@lru_cache(1_000)
def _bytes(role: str) -> int:
    return len(json.encode(role))
