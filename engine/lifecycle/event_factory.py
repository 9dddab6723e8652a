"""Event factory: creates all events that one input or one fired timer causes.

It gives its events their identity: ids are hashes of (stage, root cause, index), sequences continue the job's, the recorded time is
the processor's `now`. So two shards that process the same inputs in the same order write the same bytes.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, Literal

from msgspec.structs import force_setattr

from engine.events import Data, Event
from engine.events.attempts import AttemptEvent
from engine.events.ids import output_id
from engine.events.inputs import Input
from engine.events.jobs import JobOpened
from engine.events.transitions import transition_of
from engine.lifecycle.job import Attempt, Job
from engine.lifecycle.state import ShardState
from statemachines.transition import Transition

STAGE: Final = "lifecycle"
SOURCE: Final = "lahar/lifecycle"

Events = Generator[Event[Data], None, None]
"""Events in order; each is evolved before the next is requested."""
Outcome = Literal["duplicate", "parked", "waiting", "rejected", "refused", "late", "anomalous", "unchanged", "applied"]
Decision = Generator[Event[Data], None, Outcome]
"""The events of one input; returns its outcome."""


def arrival(event: Event[Data], now: int) -> int:
    """Return the arrival of an input (microseconds): its recorded time, unless that was raised to keep the order of lines."""
    arrived = event.data.arrived if isinstance(event.data, Input) else None
    return min(event.recordedtime if arrived is None else arrived, now)


class EventFactory:
    """Creates the events of one input or one fired timer; the decisions about it share its state."""

    __slots__ = (
        "arrived",
        "cause",
        "cluster",
        "depth",
        "index",
        "last",
        "moved",
        "now",
        "origin",
        "root",
        "state",
        "time",
        "transitions",
        "work",
    )

    def __init__(self, state: ShardState, root: str, now: int, cluster: str, arrived: int | None = None) -> None:
        """Start an input or a fired timer.

        Args:
            state: the shard; must not be changed.
            root: id of the input, or of the `timer.fired`.
            now: recorded time of its events (microseconds).
            cluster: cluster of jobs that it opens.
            arrived: arrival of the input (`arrival`; microseconds); `None` for a timer.
        """
        self.state = state
        self.root = root
        """Root cause, of which the events' ids are hashes."""
        self.origin = root
        """Id of the input, or of the `timer.fired`."""
        self.cause = root
        """Id of the direct cause of the next event."""
        self.now = now
        self.arrived = now if arrived is None else arrived
        """Arrival of the input. `now` is later if the shard has processed another input with a later time before."""
        self.time = now
        """Time of the current fact."""
        self.cluster = cluster
        self.index = 0
        self.last = root
        """Id of the last event."""
        self.depth = 0
        """Length of the chain of custom events that led to the current decision."""
        self.work = 0
        """Work so far: pods examined by actions, tasks checked, and `steps.RAISING` for each rule that fired."""
        self.moved: tuple[str, Attempt] | None = None
        """Job from which the input's pod moves to the input's job, with its attempt there."""
        self.transitions: list[tuple[Transition, str, int]] = []
        """Changes of phase not yet matched against the job's raise rules: (transition, its event, depth)."""

    def about(self, job: Job) -> EventFactory:
        """Return the factory for one of several jobs, or for a job that the input does not name.

        Every shard processes a cluster fact, so its events' ids depend on the job too: they neither clash with those of another
        shard nor depend on the assignment of jobs to shards. The job's sequence distinguishes two events of one fact.
        """
        part = EventFactory(self.state, f"{self.root}\x1f{job.id}\x1f{job.sequence}", self.now, self.cluster, self.arrived)
        part.origin = part.cause = part.last = self.origin
        return part

    def event(self, job: Job, data: Data, time: int | None = None, cause: str | None = None) -> Event[Any]:
        """Create the next event.

        Args:
            job: job of the event.
            data: data of the event.
            time: time of the event (microseconds); default: the arrival of the input, or `now` for a managed job, on which Lahar
                acts at that time.
            cause: id of the direct cause; default: `self.cause`.
        """
        index = self.index
        self.index = index + 1
        self.last = output_id(STAGE, self.root, index)
        if job.rules or isinstance(data, JobOpened):
            transition = transition_of(data)
            if transition is not None:
                self.transitions.append((transition, self.last, self.depth))
        if isinstance(data, AttemptEvent) and self.arrived != self.now:
            # Created for this event alone: a copy would take 6 % of an observation.
            force_setattr(data, "arrived", self.arrived)
        if time is None:
            time = self.now if job.managed else self.arrived
        return Event(
            self.last,
            SOURCE,
            data.TYPE,
            job.id,
            time,
            self.now,
            job.sequence + 1,
            job.id,
            self.cause if cause is None else cause,
            job.cluster if job.opened else self.cluster,
            data,
        )
