"""The stage protocol: three pure functions and the codec of the state.

    decide(state, input) -> events        the events of this input; no I/O, no clock, no randomness
    evolve(state, event)                  apply one event; total, cannot fail
    due(state) -> time | None             when the earliest timer of this state fires

`decide` is a generator: the caller applies each event before it requests the next, so later decisions about the same input see the
state after the earlier ones. `decide` never changes the state itself.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Literal, Protocol, TypeVar, runtime_checkable

from engine.events import Data, Event, Topic

__all__ = ["Counting", "Decision", "Figure", "Outcome", "Reads", "Stage", "TakesTurns"]

Outcome = Literal["dead", "duplicate", "parked", "waiting", "rejected", "refused", "late", "anomalous", "unchanged", "applied"]
"""Outcome of an input; exactly one, tested in this order (design rule 4)."""

Reads = tuple[Topic, Literal["own", "all"]]
"""An input topic of a stage: each shard takes its own partition, or all partitions (see `engine.processor.partitions`)."""

Decision = Generator[Event[Data], None, Outcome]
"""Events in order; returns the input's outcome."""

Figure = tuple[str, str, Literal["counter", "gauge"], tuple[tuple[str, str], ...], float]
"""A metric of a stage: name without `lahar_`, meaning, kind, labels beside those of the shard, value."""

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)


@runtime_checkable
class Counting(Protocol[S_contra]):
    """A stage that counts something of its own."""

    def figures(self, state: S_contra) -> Iterable[Figure]:
        """Return what it counts, for metrics; called after each commit."""


@runtime_checkable
class TakesTurns(Protocol[S_contra]):
    """A stage of jobs that acts on some facts of the cluster at once, and therefore not before their time."""

    def in_turn(self, state: S_contra, event: Event[Data]) -> bool:
        """Return whether a fact waits for inputs about jobs that were recorded before it, instead of overtaking them."""


class Stage(Protocol[S]):
    """One stage of the engine."""

    @property
    def name(self) -> str:
        """`lifecycle`, `scheduling`, `billing`."""

    @property
    def state_version(self) -> int:
        """Version of the snapshot codec; a snapshot of another version is not read, and the shard refolds."""

    @property
    def inputs(self) -> tuple[Reads, ...]:
        """Its input topics, in order of precedence at equal recorded times. A shard of jobs takes `cluster` before all others."""

    @property
    def outputs(self) -> tuple[Topic, ...]:
        """Topics that it writes, none of which it takes; the first also holds the accounts of its shards."""

    @property
    def exact(self) -> tuple[str, ...]:
        """Snapshot records that recovery reads as of the snapshot's position, not of a later moment.

        Those on which it depends how events about other subjects are applied. They are small and change seldom, for each change is
        kept in memory until the position has passed it.
        """

    def initial(self) -> S:
        """Return the state of a shard that has taken no input."""

    def decide(self, state: S, event: Event[Data], now: int) -> Decision:
        """Yield the events of an input. `now`: largest recorded time so far, this input's included (microseconds).

        May raise `NotKeptError` before the first event; the input then becomes a dead letter.
        """

    def fire(self, state: S, now: int, error: str | None = None) -> Generator[Event[Data], None, None]:
        """Fire the earliest timer, due at or before `now`.

        Args:
            state: not to be changed.
            now: the shard's time (microseconds).
            error: why the timer could not be decided; then its job is parked, and no other event is written.
        """

    def drop(self, state: S, now: int, error: str) -> Generator[Event[Data], None, None]:
        """Drop the earliest timer because its job could not be parked either; an event records the reason.

        Args:
            state: not to be changed.
            now: the shard's time (microseconds).
            error: why its job could not be parked.
        """

    def timer(self, state: S) -> str:
        """Return the id (ASCII) of the timer that `fire` fires next; called only after `due` returned a time. Total, as `due`."""

    def park(self, state: S, event: Event[Data], now: int, error: str) -> Decision:
        """Park an input that `decide` failed on (an exception or a broken invariant), with its job.

        Raises:
            NotKeptError: the input becomes a dead letter, as does every absorbed input: recovery absorbs all others.
        """

    def evolve(self, state: S, event: Event[Data]) -> None:
        """Apply one event of the stage's own output."""

    def absorb(self, state: S, event: Event[Data], offset: int | None = None, /) -> None:
        """Apply one input that the stage absorbs whole (for lifecycle: `cluster`). Total, like `evolve`.

        Args:
            state: to be changed.
            event: the input.
            offset: of the input in its partition. A subject that keeps that of the last input about it can tell which inputs its
                record holds: recovery applies them again. `None`: it is not read from a partition, and new.
        """

    def contains(self, state: S, event: Event[Data]) -> bool:
        """Return whether the state already contains an event of the stage's own output, by its `sequence`.

        Called only at recovery: subjects of a snapshot may be newer than the start of the tail, so the tail repeats their events.
        An event that changes several subjects is contained if all of them contain it, and applying it to those that do changes
        nothing. (An absorbed fact is simply absorbed again, with all later ones.)
        """

    def absorbs(self, topic: Topic) -> bool:
        """Return whether inputs of the topic are absorbed (before they are decided on)."""

    def due(self, state: S) -> int | None:
        """Return when the earliest timer fires (microseconds), or `None`.

        Total, like `evolve`: no input could be blamed for a failure.
        """

    def fires_at(self, state: S, due: int, horizon: int) -> int:
        """Return when the earliest timer fires: when it is due, or later if one firing replaces several.

        Args:
            state: not to be changed.
            due: when it is due (microseconds), at most `horizon`.
            horizon: end of the time within which timers fire.
        """

    def unfinished(self, state: S) -> int | None:
        """Return when the stage continues postponed work (microseconds), or `None`.

        A timer like others, for callers that run a stage until it is idle.
        """

    def touched(self, state: S) -> list[str]:
        """Return the names of the snapshot records changed since the last call, each once; the call empties the list.

        The names `_manifest` and `_accounts` belong to the processor.
        """

    def outcome(self, event: Event[Data]) -> Outcome | None:
        """Return the outcome that the first event of an input shows; `None` if a timer caused the event."""

    def subject(self, record: str) -> str:
        """Return the subject of a record name, whether the record exists or not.

        A subject may have several records, so that none grows without bound and a change rewrites only a few. One commit writes all
        changed records of a subject, so a snapshot holds it as of one moment. Records are named by the subject of their events, or
        by a word for their kind, a slash and the subject.
        """

    def dump(self, state: S, record: str) -> bytes | None:
        """Return the canonical content of one record; `None` if it is empty."""

    def load(self, state: S, records: Iterable[tuple[str, bytes]]) -> None:
        """Restore records into an initial state."""

    def parked(self, state: S) -> Iterable[str]:
        """Return the ids of the parked jobs.

        Called when a shard is opened; later changes are `JobParked` and `JobUnparked` events.
        """

    def records(self, state: S) -> Iterable[str]:
        """Return the names of all records of the state, in any order."""
