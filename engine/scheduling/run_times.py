"""How long pods run at least before others may take their places."""

from __future__ import annotations

from engine.scheduling.model.entities import Job
from engine.scheduling.session import Session

__all__ = ["has_run", "least_run"]


def least_run(job: Job) -> int:
    """Return how long a job's pods run at least (microseconds): as it says, or else its queue."""
    least = job.preemption.min_run
    return least if least is not None else job.path[0].min_run if job.path else 0


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
