"""Priority: jobs and tasks of higher priority come first, and may preempt those of lower priority.

Extension points: `job_order`, `task_order`, `job_starving`, `preemptable`.
"""

from __future__ import annotations

from typing import ClassVar

from engine.scheduling.cluster.entities import Job, Task
from engine.scheduling.session import Plugin


class Priority(Plugin):
    """Order by priority (Volcano `priority`); reclaim between queues does not depend on it."""

    NAME: ClassVar[str] = "priority"
    COUNTS_VICTIMS_BY = "job"

    def alike(self, job: Job) -> int:
        """Return the priority: jobs with equal ones are equal here."""
        return job.priority

    def job_order(self, job: Job) -> float:
        """Higher priority first."""
        return -job.priority

    def task_order(self, task: Task) -> float:
        """Higher priority first."""
        return -task.priority

    def job_starving(self, job: Job) -> bool:
        """Return whether some task of a job has neither a node nor a promised one."""
        return job.ready + job.count("Pipelined") < len(job.tasks)

    def preemptable(self, task: Task, candidates: list[Task]) -> list[Task]:
        """Return tasks of jobs of strictly lower priority; within the job, tasks of strictly lower priority."""
        return [
            victim
            for victim in candidates
            if (victim.priority < task.priority if victim.job is task.job else victim.job.priority < task.job.priority)
        ]
