"""The phase of a pod group at the end of a session (Volcano `jobStatus`)."""

from __future__ import annotations

from engine.events.scheduling import GroupPhase
from engine.scheduling.cluster.entities import Job

__all__ = ["phase_at_end"]


def phase_at_end(job: Job, *, unschedulable: bool) -> GroupPhase:
    """Return the phase that a job's group has from now on.

    Volcano, in this order: Unknown if tasks run and the session found the job unschedulable; with as many tasks scheduled as it
    needs Completed if all of those are over, else Running; else it stays Inqueue, or it is Pending. A task that is on its way out
    of a node is scheduled. Unlike there, a group of which nothing is scheduled is not completed, even if it needs no member.

    Args:
        job: the job.
        unschedulable: the session set the condition Unschedulable.
    """
    if unschedulable and job.with_status("Running"):
        return "Unknown"
    over = job.count("Succeeded", "Failed")
    leaving = sum(task.node is not None for task in job.with_status("Releasing").values())
    scheduled = job.count("Running", "Bound") + over + leaving
    if scheduled and scheduled >= job.min_member:
        return "Completed" if over == scheduled else "Running"
    return "Inqueue" if job.phase == "Inqueue" else "Pending"
