"""Plain first come, first served: the comparison for schedulers that let no job wait behind one that does not fit."""

from __future__ import annotations

from typing import ClassVar, Final

from engine.scheduling.cluster.entities import Job, Task
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.session import Plugin, Session


class FirstCome(Plugin):
    """Jobs are placed in the order of their creation; the first one that finds no place blocks those behind it."""

    NAME: ClassVar[str] = "first-come"

    def open(self, session: Session) -> None:
        """Begin without knowing the first jobs of queues."""
        super().open(session)
        self._moved = -1
        """How many moves there were when they were found."""
        self._heads: dict[str, Job] = {}

    def job_order(self, job: Job) -> int:
        """The earlier job comes first."""
        return job.created

    def allocatable(self, queue: Queue, task: Task) -> bool:
        """Return whether the job of a pod is the first of its queue that has pods without a place."""
        moved = len(self.session.cluster.moved)
        if self._moved != moved:
            self._moved, self._heads = moved, {}
            waiting = self.session.schedulable(lambda job: job.with_status("Pending"))
            for job in sorted(waiting, key=self.session.job_key):
                self._heads.setdefault(job.queue, job)
        return self._heads.get(queue.name) is task.job


FIRST_COME: Final[dict[str, type[Plugin]]] = {FirstCome.NAME: FirstCome}
