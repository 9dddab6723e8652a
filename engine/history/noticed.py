"""What `why` says of the notice of preemption that a job is part of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine.events import Data, Event
from engine.events.jobs import JobPhaseChanged
from engine.history.errors import NotFoundError
from engine.history.formatting import listed, moment, plural, sentence
from engine.history.preemptions import NoticeView, notice_named
from engine.history.reading import job_called
from engine.log.port import SearchableLog

__all__ = ["Noticed", "noticed_of"]


@dataclass(slots=True, frozen=True)
class Noticed:
    """An open notice, seen from one of its jobs."""

    job: str
    notice: NoticeView
    names: dict[str, str]
    """Ids of its jobs → what they are called."""

    def sentences(self) -> list[str]:
        """Return who is stopped for whom, and when."""
        notice = self.notice
        if self.job == notice.preemptor:
            left = [job for job, state in notice.victims.items() if state in {"told", "acknowledged"}]
            ready = sum(notice.victims[job] == "acknowledged" for job in left)
            found = f"{listed([self.names[job] for job in left])} of queue {notice.queue} are to be stopped for it"
            if len(left) == 1:
                found = found.replace(" are to be ", " is to be ")
            found += f" at {moment(notice.deadline)} (notice {notice.id}); {ready} of {plural(len(left), 'job')} acknowledged"
        else:
            found = f"it is to be stopped at {moment(notice.deadline)} for {self.names[notice.preemptor]} (notice {notice.id})"
            if notice.victims.get(self.job) == "acknowledged":
                found += ", and has acknowledged"
        return [sentence(found)]

    def advice(self) -> str:
        """Return what somebody can do."""
        if self.job == self.notice.preemptor:
            return f"NoticeGiven: wait, or take it back: `lahar preemptions withdraw {self.notice.id}`"
        return f"WillEvicted: save its work, then let it go early: `lahar preemptions ack {self.names[self.job]}`"

    def document(self) -> dict[str, Any]:
        """Return the notice as JSON."""
        return self.notice.document(self.names)


def noticed_of(log: SearchableLog, job: str, events: Iterable[Event[Data]], known: int | None = None) -> Noticed | None:
    """Return the open notice that a job is part of; `None`: it is part of none.

    Args:
        log: the log to search.
        job: its id.
        events: of the job.
        known: as of this recorded time (microseconds); `None`: now.
    """
    name = ""
    for event in events:
        if isinstance(event.data, JobPhaseChanged):
            name = event.data.notice
    if not name:
        return None
    try:
        notice = notice_named(log, name, known)
    except NotFoundError:  # the records of the notice were recorded later
        return None
    return Noticed(job, notice, {ident: job_called(log, ident) for ident in notice.jobs()}) if notice.state == "Open" else None
