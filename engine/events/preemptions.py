"""Notices of preemption: what the scheduling stage announces, changes and carries out, in `preemptions`.

A notice is the subject, `CLUSTER/NUMBER`; within it the records are ordered and gapless (`sequence`). It ends with exactly one of
`lahar.notice.executed` and `lahar.notice.withdrawn`; an executed one is followed by `lahar.reservation.ended`.
"""

from __future__ import annotations

from typing import Literal

from engine.events.times import Micros
from engine.events.vocabulary import Data, event
from statemachines.notice import NoticeChange

ReservationEnd = Literal["bound", "expired", "void"]
"""bound: the preemptor's gang has its places. expired: it could not be bound in time. void: the preemptor needs none any more."""


class NoticeRecord(Data):
    """Base of the records of a notice."""


@event("lahar.notice.opened.v1", topic="preemptions")
class NoticeOpened(NoticeRecord):
    """Victims are given notice: at the deadline they are stopped as jobs, for the preemptor."""

    preemptor: str
    """Id of the job for which the victims are to be stopped; it becomes Privileged."""
    victims: list[str]
    """Ids of the jobs that are to be stopped; they become WillEvicted."""
    queue: str
    """Queue of all these jobs."""
    reason: str
    """For people: why these victims."""
    deadline: Micros
    """When the victims are stopped, unless all have acknowledged before."""
    delay: Micros
    """From the notice to its execution (microseconds): as the queue says, less if the victims have left earlier notices."""


@event("lahar.notice.acknowledged.v1", topic="preemptions")
class NoticeAcknowledged(NoticeRecord):
    """A victim may be stopped before the deadline: it has saved its work."""

    victim: str
    """Id of the job."""


@event("lahar.notice.narrowed.v1", topic="preemptions")
class NoticeNarrowed(NoticeRecord):
    """A victim is no longer part of the notice."""

    victim: str
    """Id of the job."""
    change: NoticeChange
    """`VictimLeft`: it is no longer WillEvicted. `VictimNotNeeded`: the preemptor fits without its place."""


@event("lahar.notice.withdrawn.v1", topic="preemptions")
class NoticeWithdrawn(NoticeRecord):
    """The notice ends without effect: no victim is stopped."""

    change: NoticeChange
    """What led to it; `DeadlinePassed`: a job of the notice could not be told in time, or is parked, or the round that was to stop
    them could not look at it."""
    victims: list[str]
    """Ids of the victims that were left; they are Running again."""


@event("lahar.notice.executed.v1", topic="preemptions")
class NoticeExecuted(NoticeRecord):
    """The victims that were left are stopped, and their place is reserved for the preemptor."""

    change: NoticeChange
    """`DeadlinePassed`, or `Acknowledged`: by all victims that were left."""
    victims: list[str]
    """Ids of the victims that are stopped."""
    reserved: Micros
    """Until when their place is reserved for the preemptor at most."""


@event("lahar.reservation.ended.v1", topic="preemptions")
class ReservationEnded(NoticeRecord):
    """The place that an executed notice has freed is no longer reserved."""

    outcome: ReservationEnd
    """`bound`: the preemptor's gang has it. `expired`: the gang could not be bound in time. `void`: the preemptor is stopped."""
