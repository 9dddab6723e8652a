"""How long pods run at least before others may take their places."""

from __future__ import annotations

from collections.abc import Iterable

from engine.scheduling.cluster.entities import Job, Task
from engine.scheduling.session import Session

__all__ = ["has_run", "least_run", "least_run_before_notice"]


def least_run(job: Job) -> int:
    """Return how long a job's pods run at least (microseconds): as it says, or else its queue."""
    least = job.preemption.min_run
    return least if least is not None else job.path[0].min_run if job.path else 0


def least_run_before_notice(session: Session, job: Job, pods: Iterable[Task]) -> int:
    """Return how long a job runs at least before it is given notice (microseconds), as it, its queue and plugins say.

    Args:
        session: the session.
        job: the job.
        pods: its pods that have a place.
    """
    one_of_each = {task.pod_class: task for task in pods}.values()
    asked: list[int] = [function(task) for tier in session.functions("least_run") for function in tier for task in one_of_each]
    return max([least_run(job), *asked])


def has_run(session: Session, least: int, since: int) -> bool:
    """Return whether a pod has run for long enough; if not, another session looks when it has.

    Args:
        session: the session.
        least: how long it runs at least (microseconds).
        since: from when that counts (microseconds).
    """
    if not least or since + least <= session.now:
        return True
    session.look_again(since + least)
    return False
