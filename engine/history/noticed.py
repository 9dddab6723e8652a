"""Description of a job's notice of preemption, for `why`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine.events import Data, Event
from engine.events.jobs import JobPhaseChanged
from engine.formatting import listed, moment, plural, sentence
from engine.history.errors import NotFoundError
from engine.history.preemptions import NoticeView, notice_named
from engine.history.reading import job_called
from engine.log.port import SearchableLog


@dataclass(slots=True, frozen=True)
class Noticed:
    """Open notice from the point of view of one of its jobs."""

    job: str
    notice: NoticeView
    names: dict[str, str]
    """Names by id of its jobs."""

    def sentences(self) -> list[str]:
        """Return sentences with preemptor, victims and time."""
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
        """Return the possible commands."""
        if self.job == self.notice.preemptor:
            return f"NoticeGiven: wait, or take it back: `lahar preemptions withdraw {self.notice.id}`"
        return f"WillEvicted: save its work, then let it go early: `lahar preemptions ack {self.names[self.job]}`"

    def document(self) -> dict[str, Any]:
        """Return the notice as JSON."""
        return self.notice.document(self.names)


def noticed_of(log: SearchableLog, job: str, events: Iterable[Event[Data]], known: int | None = None) -> Noticed | None:
    """Return the open notice of a job; `None`: it has none.

    Args:
        log: log to search.
        job: id of the job.
        events: events of the job.
        known: latest recorded time to consider (microseconds); `None`: now.
    """
    name = ""
    for event in events:
        if isinstance(event.data, JobPhaseChanged):
            name = event.data.notice
    if not name:
        return None
    try:
        notice = notice_named(log, name, known)
    except NotFoundError:  # the notice was recorded later
        return None
    return Noticed(job, notice, {ident: job_called(log, ident) for ident in notice.jobs()}) if notice.state == "Open" else None
