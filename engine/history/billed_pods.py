"""Pods whose usage is billed more than once: a pod is one attempt of one job, which logs of earlier releases may violate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from engine.billing.corrections import voided
from engine.billing.evolve import run_of
from engine.billing.state import Run
from engine.billing.usage_segments import WAITING
from engine.events import Event
from engine.events.billing import UsageRecorded, UsageWithdrawn
from engine.history.phrases import attempt_of

_Place = tuple[str, str]
"""Job id, and name of the attempt."""


class BilledPods:
    """Attempts with records of each pod, collected in one pass over the billing events."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], _Place] = {}
        self._several: set[tuple[str, str]] = set()

    def add(self, event: Event[Any]) -> None:
        """Add the attempt of a record."""
        if isinstance(event.data, UsageRecorded):
            pod, place = (event.clusterid, event.data.uid), (event.subject, attempt_of(event.data))
            if self._first.setdefault(pod, place) != place:
                self._several.add(pod)

    def twice(self, events: Iterable[Event[Any]]) -> Iterator[tuple[_Place, str, _Place]]:
        """Yield each further attempt that bills a pod, the uid, and the attempt that billed it first.

        Args:
            events: all billing events again; read only if several attempts have records of one pod. Voided records do not count.
        """
        runs: dict[tuple[str, str], dict[_Place, list[Run]]] = {}
        for event in events if self._several else ():
            data = event.data
            if isinstance(data, UsageRecorded | UsageWithdrawn) and (pod := (event.clusterid, data.uid)) in self._several:
                recorded = runs.setdefault(pod, {}).setdefault((event.subject, attempt_of(data)), [])
                left = voided(recorded, data)
                if left is not None:
                    recorded[:] = left
                elif isinstance(data, UsageRecorded):
                    recorded.append(run_of(data))
        for (_, uid), places in runs.items():
            billed = [place for place, left in places.items() if any(run.kind not in WAITING for run in left)]
            yield from ((place, uid, billed[0]) for place in billed[1:])
