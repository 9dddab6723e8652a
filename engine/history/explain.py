"""`why` for a job, a replica, or an event, by the name that the user gives."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from engine.history.errors import LaterError, NotFoundError
from engine.history.explanation import Explanation
from engine.history.noticed import noticed_of
from engine.history.reading import JobHistory, find_event, history_of
from engine.history.waiting import waiting_of
from engine.history.why import why_event, why_job
from engine.history.why_replica import read_replica, why_replica
from engine.log.port import SearchableLog

_ID: Final = re.compile("[0-9a-f]+")


def explain(
    log: SearchableLog,
    meant: Callable[[str], str],
    what: str,
    replica: str | None = None,
    known: int | None = None,
    clock: int | None = None,
) -> Explanation:
    """Explain a job or one of its replicas; or an event, if no job has that name.

    Args:
        log: log to search.
        meant: resolves a job reference to a job id, as `job_reference` does.
        what: job reference, or an event id or a prefix of one.
        replica: replica of the job, as `TASK[INDEX]`.
        known: latest recorded time to consider (microseconds); `None`: now.
        clock: current time, before which due timers are overdue, unless `known` is given; `None`: no timer is.

    Raises:
        NotFoundError: there is no such job, event or replica.
        AmbiguousError: several match.
        ValueError: the replica does not have the form `TASK[INDEX]`.
    """
    slot = None if replica is None else read_replica(replica)
    try:
        job = meant(what)
    except NotFoundError as error:
        if not _ID.fullmatch(what) or slot is not None:
            raise
        try:
            event = find_event(log, what)
        except NotFoundError:
            raise error from None
        return why_event(history_of(log, event.subject), event)
    history = history_of(log, job)
    if known is not None:
        history = JobHistory([event for event in history.events if event.recordedtime <= known], history.inputs)
        if not history.events:
            raise LaterError(what, known)
    if slot is None:
        notice = noticed_of(log, job, history.events, known)
        answer = why_job(history, waiting_of(log, job, known), notice, clock if known is None else known)
    else:
        answer = why_replica(history, *slot)
    if answer is None:
        raise NotFoundError("job", what) if replica is None else NotFoundError("replica", replica)
    return answer
