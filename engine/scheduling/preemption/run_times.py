"""Least run times of pods and jobs before they may be evicted."""

from __future__ import annotations

from collections.abc import Iterable

from engine.scheduling.cluster.entities import Job, Task
from engine.scheduling.session import Session


def least_run(job: Job) -> int:
    """Return the least run time of a job's pods (microseconds): its own, else its queue's."""
    least = job.preemption.min_run
    return least if least is not None else job.path[0].min_run if job.path else 0


def least_run_before_notice(session: Session, job: Job, pods: Iterable[Task]) -> int:
    """Return the least run time of a job before a notice (microseconds), by itself, its queue and plugins.

    Args:
        session: the session.
        job: the job.
        pods: its placed pods.
    """
    one_of_each = {task.pod_class: task for task in pods}.values()
    asked: list[int] = [function(task) for tier in session.functions("least_run") for function in tier for task in one_of_each]
    return max([least_run(job), *asked])


def has_run(session: Session, least: int, since: int) -> bool:
    """Return whether a pod has run for long enough; otherwise a session is requested for when it has.

    Args:
        session: the session.
        least: least run time (microseconds).
        since: start of that time (microseconds).
    """
    if not least or since + least <= session.now:
        return True
    session.look_again(since + least)
    return False
