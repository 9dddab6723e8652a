"""Names claimed by parked inputs of unopened jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from engine.events import Data, Event
from engine.events.outcomes import InputParked, InputReleased, JobParked, JobUnparked
from engine.lifecycle.claims import Claim, claim_of, restore

CLAIMING: Final[tuple[type[Data], ...]] = (JobParked, InputParked, InputReleased, JobUnparked)
"""Events that change which inputs of a job are held."""


class Claimed:
    """Fold of the events of unopened jobs, in log order."""

    def __init__(self) -> None:
        self._held: dict[str, list[tuple[str, Claim | None, int]]] = {}
        """Held inputs by subject, in order: id, claim of the job's identity, and time of parking."""
        self._parked: set[str] = set()

    def __contains__(self, subject: object) -> bool:
        return subject in self._held

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def take(self, event: Event[Data]) -> None:
        """Apply one event; ignores those that neither park, hold nor release."""
        subject, data = event.subject, event.data
        if isinstance(data, JobParked):
            self._parked.add(subject)
            self._held.setdefault(subject, [])
        elif subject not in self._held:
            return
        elif isinstance(data, InputParked):
            held = restore(data.input)
            self._held[subject].append((held.id, claim_of(held), event.time))
        elif isinstance(data, JobUnparked | InputReleased):
            if isinstance(data, JobUnparked):
                self._parked.discard(subject)
            elif data.kept == "parked":
                self._release(self._held[subject], data.input)
            if subject not in self._parked and not self._held[subject]:
                del self._held[subject]

    @staticmethod
    def _release(held: list[tuple[str, Claim | None, int]], released: str) -> None:
        for at, (ident, _, _) in enumerate(held):
            if ident == released:  # several may have the same id; they are released in order
                del held[at]
                return

    def dump(self, subject: str) -> str | None:
        """Return the state of a subject, for `load`; `None` if there is none."""
        held = self._held.get(subject)
        return None if held is None else json.dumps((subject in self._parked, held))

    def load(self, subject: str, dumped: str) -> None:
        """Restore the state of a subject from `dump`."""
        parked, held = json.loads(dumped)
        self._held[subject] = [(ident, None if claim is None else Claim(*claim), time) for ident, claim, time in held]
        if parked:
            self._parked.add(subject)

    def opened(self, subject: str) -> None:
        """Drop a subject: its job was opened."""
        self._held.pop(subject, None)
        self._parked.discard(subject)

    def claims(self) -> Iterator[tuple[str, Claim, int]]:
        """Yield each claim: the subject, its first claim, and the time of its parking."""
        for subject, held in self._held.items():
            first = next(((claim, time) for _, claim, time in held if claim is not None), None)
            if first is not None:
                yield subject, *first
