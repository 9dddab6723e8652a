"""Which jobs changed, for whoever keeps something about each job and brings only that up to date."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from engine.scheduling.cluster.entities import Job

__all__ = ["Changes"]

_KEPT: Final = 20_000


class Changes:
    """The last changes of jobs, in order. Each reader goes on where it stopped; one that is too far behind looks at all jobs."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._first = 0
        """Number of the first change that is kept."""
        self._read = 0
        """Number of the change up to which somebody has read."""

    @property
    def end(self) -> int:
        """The number of the next change."""
        return self._first + len(self._jobs)

    def note(self, job: Job) -> None:
        """Note that a job came, went or is not as it was."""
        jobs = self._jobs
        if jobs and jobs[-1] is job and self._first + len(jobs) > self._read:
            return
        jobs.append(job)
        if len(jobs) > _KEPT:
            del jobs[: _KEPT // 2]
            self._first += _KEPT // 2

    def note_all(self) -> None:
        """Note that any job may have changed."""
        self._first = self.end + 1
        self._jobs = []

    def since(self, number: int) -> Iterable[Job] | None:
        """Return the jobs of the changes from a number on, some of them repeatedly; `None`: these are not kept any more."""
        self._read = self.end
        return None if number < self._first else self._jobs[number - self._first :]
