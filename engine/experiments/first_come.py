"""Plain first come, first served: the comparison for schedulers that let no job wait behind one that does not fit."""

from __future__ import annotations

from typing import ClassVar, Final

from engine.scheduling.model.entities import Job
from engine.scheduling.model.queues import Queue
from engine.scheduling.session import Plugin

__all__ = ["FIRST_COME", "FirstCome"]


class FirstCome(Plugin):
    """Jobs are placed in the order of their creation; the first one that finds no place blocks those behind it."""

    NAME: ClassVar[str] = "first-come"

    def job_order(self, job: Job) -> int:
        """The earlier job comes first."""
        return job.created

    def overused(self, queue: Queue) -> bool:
        """Return whether a job of the queue has found no place in this session."""
        jobs = self.session.cluster.jobs
        return any(roles and jobs[key].queue == queue.name for key, roles in self.session.failed_roles.items())


FIRST_COME: Final[dict[str, type[Plugin]]] = {FirstCome.NAME: FirstCome}
