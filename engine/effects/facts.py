"""Facts of jobs in notices, besides the transition: kind, name and labels at each offset of the log.

They are folded from the job events and cached for recently used jobs. Evicted ones are read again from the log, so eviction never
changes a notice.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from copy import copy
from typing import Final, cast

from engine.events import Data, Event
from engine.events.job_state import LabelledJob
from engine.events.jobs import JobForgotten, JobOpened, JobRevised

FACT_TYPES: Final = frozenset({JobOpened.TYPE, JobRevised.TYPE, JobForgotten.TYPE})
"""Event types that `JobBook.fold` uses."""

_KEPT: Final = 100_000
"""Number of cached jobs: about 60 MB with a few labels each."""


UNKNOWN: Final = LabelledJob()
"""Facts of a job whose `opened` event is no longer in the log."""

Versions = list[tuple[int, LabelledJob]]
"""Facts of one job, each with the first offset of its validity."""

History = Callable[[str], Iterable[tuple[int, Event[Data]]]]
"""Reads the events of a job again, with their offsets, up to the last folded one."""


class JobBook:
    """Facts of the jobs of one partition, up to the last folded event."""

    def __init__(self, history: History, kept: int = _KEPT) -> None:
        """Start empty.

        Args:
            history: reads the events of evicted jobs.
            kept: maximum number of cached jobs.
        """
        self._history = history
        self._kept = kept
        self._jobs: OrderedDict[str, Versions] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of cached jobs."""
        return len(self._jobs)

    def fold(self, offset: int, event: Event[Data]) -> None:
        """Apply the next event of the partition."""
        if isinstance(event.data, JobForgotten):
            # Lagging receivers may still need a forgotten job; it is evicted first.
            if event.subject in self._jobs:
                self._jobs.move_to_end(event.subject, last=False)
        elif isinstance(event.data, JobOpened):
            self._keep(event.subject, _extended([], offset, event))
        elif event.subject in self._jobs:
            _extended(self._jobs[event.subject], offset, event)

    def at(self, job: str, offset: int) -> LabelledJob:
        """Return the facts of a job at an offset, inclusive."""
        versions = self._jobs.get(job)
        if versions is None:
            versions = []
            for place, event in self._history(job):
                _extended(versions, place, event)
            self._keep(job, versions)
        else:
            self._jobs.move_to_end(job)
        for place, facts in reversed(versions):
            if place <= offset:
                return facts
        return UNKNOWN

    def _keep(self, job: str, versions: Versions) -> None:
        self._jobs[job] = versions
        if len(self._jobs) > self._kept:
            self._jobs.popitem(last=False)


def _extended(versions: Versions, offset: int, event: Event[Data]) -> Versions:
    data = event.data
    if isinstance(data, JobOpened):
        versions.append((offset, LabelledJob.begin(cast("Event[JobOpened]", event))))
    elif isinstance(data, JobRevised):
        job = copy(versions[-1][1] if versions else UNKNOWN)
        job.change(data, event.time)
        versions.append((offset, job))
    return versions
