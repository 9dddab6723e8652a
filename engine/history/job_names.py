"""Names of jobs, for lists of events of several jobs."""

from __future__ import annotations

from typing import Final

from engine.events import Data, Event
from engine.events.jobs import JobOpened
from engine.events.outcomes import Accounted
from engine.history.reading import job_called
from engine.log.port import Searchable

_ID: Final = 8
"""Number of characters shown of an id that is no job."""


class JobNames:
    """Names of the jobs of events; a job whose opening is not among them is looked up in the log once."""

    def __init__(self, log: Searchable) -> None:
        """Use a log."""
        self._log: Final = log
        self._names: Final[dict[str, str]] = {}

    def name_of(self, event: Event[Data]) -> str:
        """Return `namespace/name` of an event's job; the beginning of an id that is no job."""
        job = event.subject
        if isinstance(event.data, Accounted):
            return job  # a shard
        if isinstance(event.data, JobOpened):
            self._names[job] = f"{event.data.namespace}/{event.data.name}"
        elif job not in self._names:
            called = job_called(self._log, job)
            self._names[job] = job[:_ID] if called == job else called
        return self._names[job]
