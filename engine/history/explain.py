"""Answers to why, from what somebody names: a job, one of its replicas, or an event."""

from __future__ import annotations

from collections.abc import Callable

from engine.history.errors import NotFoundError
from engine.history.reading import find_event, history_of
from engine.history.why import Explanation, why_event, why_job
from engine.history.why_replica import read_replica, why_replica
from engine.log.port import SearchableLog

__all__ = ["explain"]


def explain(log: SearchableLog, meant: Callable[[str], str], what: str, replica: str | None = None) -> Explanation:
    """Explain a job or one of its replicas, or an event where no job is meant.

    Args:
        log: where to look.
        meant: returns the id of the job that is named, as `job_reference` does.
        what: a job as `meant` takes it, or an event's id or the beginning of it.
        replica: `TASK[INDEX]` of the job.

    Raises:
        NotFoundError: there is no such job, event or replica.
        AmbiguousError: several are meant.
        ValueError: the replica is not written as one.
    """
    slot = None if replica is None else read_replica(replica)
    try:
        job = meant(what)
    except NotFoundError:
        if "/" in what or slot is not None:
            raise
        event = find_event(log, what)
        return why_event(history_of(log, event.subject), event)
    history = history_of(log, job)
    answer = why_job(history) if slot is None else why_replica(history, *slot)
    if answer is None:
        raise NotFoundError("job", what) if replica is None else NotFoundError("replica", replica)
    return answer
