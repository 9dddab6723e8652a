"""Names of jobs, for lists of events that belong to several."""

from __future__ import annotations

from typing import Final

from engine.events import Data, Event
from engine.events.jobs import JobOpened
from engine.history.reading import events_of
from engine.log.port import Searchable

__all__ = ["JobNames"]

_ID: Final = 8
"""Characters shown of the id of what is no job."""


class JobNames:
    """Names of the jobs that events are about; a job whose opening was not given is looked up in the log once."""

    def __init__(self, log: Searchable) -> None:
        """Use a log."""
        self._log: Final = log
        self._names: Final[dict[str, str]] = {}

    def name_of(self, event: Event[Data]) -> str:
        """Return `namespace/name` of an event's job; for what is no job the beginning of its id."""
        job = event.subject
        if isinstance(event.data, JobOpened):
            self._names[job] = _name(event.data)
        elif job not in self._names:
            opened = (one.data for one in events_of(self._log, job) if isinstance(one.data, JobOpened))
            self._names[job] = next(map(_name, opened), job[:_ID])
        return self._names[job]


def _name(data: JobOpened) -> str:
    return f"{data.namespace}/{data.name}"
