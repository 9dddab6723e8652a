"""Outcomes of inputs that are events of their own: refused, parked, released, unreadable, only counted (design rule 4)."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from engine.events.times import Micros
from engine.events.vocabulary import Data, event
from statemachines.value import Value
from statemachines.vocabulary import Level


class Fault(Value):
    """One fault of a specification."""

    path: str
    """`spec.tasks[1].replicas`"""
    message: str


@event("lahar.job.rejected.v1", topic="job-events")
class JobRejected(Data):
    """A submission or update breaks the rules; it has no other effect."""

    name: str
    faults: list[Fault]
    update: bool = False
    principal: str | None = None
    """Sender of a submission. It is recognised as a repeat from this sender only."""
    manifest: str | None = None
    """Digest of the submission: with another manifest the same submission is decided again."""
    input: str | None = None
    """Id of the submission if it was held; `None`: the submission is the cause."""


@event("lahar.command.refused.v1", topic="job-events")
class CommandRefused(Data):
    """A command or custom event cannot be carried out in the job's present state."""

    command: str
    reason: str
    by: str = ""
    principal: str | None = None
    """Sender without the right, or about an id that is no job; the request is recognised as a repeat from this sender only. `None`:
    an authorised sender."""
    cluster: str | None = None
    """Cluster of the sender; `None`: the job's."""


@event("lahar.job.parked.v1", topic="job-events")
class JobParked(Data):
    """A decision on an input broke an invariant: this and all later inputs of the job wait for `lahar job unpark`."""

    error: str


@event("lahar.job.unparked.v1", topic="job-events")
class JobUnparked(Data):
    """The job is unparked: its parked inputs are decided again in order, then its timers continue."""

    inputs: int
    by: str = ""
    principal: str | None = None
    """Sender, if the id is no job; the request is recognised as a repeat from this sender only. `None`: it is a job."""


@event("lahar.input.parked.v1", topic="job-events", stability="operational")
class InputParked(Data):
    """An input of a parked job, kept whole."""

    input: dict[str, Any]
    """The input as a CloudEvent."""


@event("lahar.input.orphaned.v1", topic="job-events", stability="operational")
class InputOrphaned(Data):
    """A pod that names a managed job which is not known yet waits for it."""

    input: dict[str, Any]


@event("lahar.input.released.v1", topic="job-events", stability="operational")
class InputReleased(Data):
    """A parked or waiting input was decided again, with this outcome; its events come before this one."""

    input: str
    """Id of the input."""
    kept: Literal["parked", "waiting"]
    outcome: Literal["parked", "waiting", "rejected", "refused", "late", "anomalous", "duplicate", "unchanged", "applied"]
    job: str | None = None
    """Job of the input, if it is not the job that held it."""


@event("lahar.anomaly.v1", topic="job-events")
class Anomaly(Data):
    """An observation that the tables do not list, or that contradicts known facts. It has no other effect."""

    what: str
    level: Level = "job"
    task: str | None = None
    index: int | None = None
    attempt: int | None = None
    pod: str | None = None


@event("lahar.import.row_rejected.v1", topic="job-events")
class RowRejected(Data):
    """An invalid row of an imported trace."""

    format: str
    line: int
    reason: str


@event("lahar.shard.dead_lettered.v1", topic="dead-letters", stability="operational")
class DeadLettered(Data):
    """Unreadable bytes, with their origin.

    On Kafka the bytes are the value of the record and the other fields are headers; only a letter without bytes is JSON there.
    """

    reason: str
    topic: str
    partition: int
    """Partition of the topic."""
    offset: int
    key: str
    content: str
    """Data of the record, base64; empty if there is a `digest`."""
    attributes: dict[str, str] = field(default_factory=dict)
    """CloudEvents attributes of the record."""
    digest: str = ""
    """SHA-256 of the data, hexadecimal, in place of content and attributes that are too large for the log. The record itself is
    still in its topic."""


@event("lahar.dead_letter.discarded.v1", topic="job-events", stability="operational")
class LetterDiscarded(Data):
    """A dead letter, whose id is the subject, was reviewed and is no longer open. Nothing is deleted."""

    by: str = ""
    """Stated sender."""
    reason: str = ""
    principal: str = ""
    """Sender as known to the interface that received it; empty: unknown."""


@event("lahar.shard.accounted.v1", topic="job-events", stability="operational")
class Accounted(Data):
    """Inputs of one commit without an event of their own. Depends on how inputs were batched into commits."""

    now: Micros
    duplicate: int = 0
    unchanged: int = 0
    late: int = 0
    """Inputs about forgotten jobs."""
