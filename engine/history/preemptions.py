"""Notices of preemption, folded from their records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.events import Event, decode
from engine.events.preemptions import (
    NoticeAcknowledged,
    NoticeExecuted,
    NoticeNarrowed,
    NoticeOpened,
    NoticeRecord,
    NoticeWithdrawn,
    ReservationEnd,
    ReservationEnded,
)
from engine.events.times import Micros, format_time
from engine.formatting import listed, moment
from engine.history.errors import NotFoundError
from engine.log.port import SearchableLog
from statemachines.notice import NoticeChange, NoticeState

VictimState = Literal["told", "acknowledged", "left", "not needed", "spared", "stopped"]
"""told: it will be stopped. acknowledged: the same, and it may be stopped at once. left: it ended, or was stopped otherwise. not
needed: the preemptor fits without its resources. spared: the notice was withdrawn. stopped: the notice was executed."""


@dataclass(slots=True)
class NoticeView:
    """A notice of preemption. Times are microseconds."""

    id: str
    """Id, `CLUSTER/NUMBER`."""
    cluster: str
    queue: str
    preemptor: str
    """Id of the job for which the victims are stopped."""
    victims: dict[str, VictimState]
    """State by id of each victim."""
    reason: str
    opened: Micros
    deadline: Micros
    state: NoticeState = "Open"
    change: NoticeChange | None = None
    """Change that ended it."""
    ended: Micros | None = None
    reserved: Micros | None = None
    """Time until which the resources are reserved at most."""
    reservation: ReservationEnd | None = None
    """Outcome of the reservation; `None`: the notice is not executed, or the resources are still reserved."""
    records: list[Event[Any]] = field(default_factory=list)

    def jobs(self) -> list[str]:
        """Return the ids of its jobs, the preemptor first."""
        return [self.preemptor, *self.victims]

    def add(self, event: Event[NoticeRecord]) -> None:
        """Apply its next record."""
        self.records.append(event)
        match event.data:
            case NoticeAcknowledged(victim=victim):
                self.victims[victim] = "acknowledged"
            case NoticeNarrowed(victim=victim, change=change):
                self.victims[victim] = "left" if change == "VictimLeft" else "not needed"
            case NoticeWithdrawn(change=change, victims=victims):
                self.state, self.change, self.ended = "Withdrawn", change, event.time
                self.victims |= dict.fromkeys(victims, "spared")
            case NoticeExecuted(change=change, victims=victims, reserved=reserved):
                self.state, self.change, self.ended, self.reserved = "Executed", change, event.time, reserved
                self.victims |= dict.fromkeys(victims, "stopped")
            case ReservationEnded(outcome=outcome):
                self.reservation = outcome

    def document(self, names: Mapping[str, str]) -> dict[str, Any]:
        """Return it as JSON.

        Args:
            names: name by job id.
        """
        return {
            "notice": self.id,
            "cluster": self.cluster,
            "queue": self.queue,
            "state": self.state,
            "change": self.change,
            "preemptor": {"job": self.preemptor, "name": names.get(self.preemptor, self.preemptor)},
            "victims": [{"job": job, "name": names.get(job, job), "state": state} for job, state in self.victims.items()],
            "reason": self.reason,
            "opened": format_time(self.opened),
            "deadline": format_time(self.deadline),
            "ended": None if self.ended is None else format_time(self.ended),
            "reserved": None if self.reserved is None else format_time(self.reserved),
            "reservation": self.reservation,
        }


def told(event: Event[Any], names: Mapping[str, str]) -> str:
    """Return a clause that describes a record.

    Args:
        event: the record.
        names: name by job id.
    """

    def called(jobs: Iterable[str]) -> str:
        return listed([names.get(job, job) for job in jobs]) or "nobody"

    match event.data:
        case NoticeOpened(preemptor=preemptor, victims=victims, deadline=deadline):
            return f"notice to {called(victims)} for {called([preemptor])}, until {moment(deadline)}"
        case NoticeAcknowledged(victim=victim):
            return f"{called([victim])} may be stopped before the deadline"
        case NoticeNarrowed(victim=victim, change=change):
            return f"{called([victim])} is no longer part of it ({change})"
        case NoticeWithdrawn(victims=victims, change=change):
            return f"withdrawn ({change}); {called(victims)} spared"
        case NoticeExecuted(victims=victims, change=change, reserved=reserved):
            return f"executed ({change}): {called(victims)} stopped; reserved until {moment(reserved)}"
        case ReservationEnded(outcome=outcome):
            return f"reservation ended: {outcome}"
        case _:
            return event.type


def _folded(events: Iterable[Event[Any]], known: Micros | None) -> list[NoticeView]:
    found: dict[str, NoticeView] = {}
    for event in events:
        data, ident = event.data, event.subject
        if not isinstance(data, NoticeRecord) or (known is not None and event.recordedtime > known):
            continue
        if isinstance(data, NoticeOpened):
            victims: dict[str, VictimState] = dict.fromkeys(data.victims, "told")
            found[ident] = NoticeView(
                ident, event.clusterid, data.queue, data.preemptor, victims, data.reason, event.time, data.deadline
            )
            found[ident].records.append(event)
        elif ident in found:
            found[ident].add(event)
    return list(found.values())


def notices(log: SearchableLog, known: Micros | None = None) -> list[NoticeView]:
    """Return all notices, in log order.

    Args:
        log: log to search.
        known: latest recorded time to consider (microseconds); `None`: now.
    """
    return _folded((decode(record.message) for record in log.scan(("preemptions",))), known)


def notice_named(log: SearchableLog, name: str, known: Micros | None = None) -> NoticeView:
    """Return one notice.

    Args:
        log: log to search.
        name: id of the notice, `CLUSTER/NUMBER`.
        known: latest recorded time to consider (microseconds); `None`: now.

    Raises:
        NotFoundError: there is no such notice.
    """
    found = _folded((decode(record.message) for record in log.records_of(name, ("preemptions",))), known)
    if not found:
        raise NotFoundError("notice", name)
    return found[0]
