"""Change log of jobs, for readers that update their own data job by job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from engine.scheduling.cluster.entities import Job

_KEPT: Final = 20_000


class Changes:
    """Latest changes of jobs, in order. A reader continues from its position; one too far behind rereads all jobs."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._first = 0
        """Number of the oldest kept change."""
        self._read = 0
        """Number of the change up to which any reader has read."""

    @property
    def end(self) -> int:
        """Number of the next change."""
        return self._first + len(self._jobs)

    def note(self, job: Job) -> None:
        """Record that a job was added, removed or changed."""
        jobs = self._jobs
        if jobs and jobs[-1] is job and self._first + len(jobs) > self._read:
            return
        jobs.append(job)
        if len(jobs) > _KEPT:
            del jobs[: _KEPT // 2]
            self._first += _KEPT // 2

    def note_all(self) -> None:
        """Record that any job may have changed."""
        self._first = self.end + 1
        self._jobs = []

    def since(self, number: int) -> Iterable[Job] | None:
        """Return the changed jobs from a number on, possibly repeated; `None`: these changes are no longer kept."""
        self._read = self.end
        return None if number < self._first else self._jobs[number - self._first :]
