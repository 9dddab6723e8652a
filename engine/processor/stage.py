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

Outcome = Literal["dead", "duplicate", "parked", "waiting", "rejected", "refused", "late", "anomalous", "unchanged", "applied"]
"""Outcome of an input; exactly one, tested in this order (design rule 4)."""

Reads = tuple[Topic, Literal["own", "all"]]
"""Input topic of a stage: each shard reads its own partition, or all partitions (see `engine.processor.partitions`)."""

Decision = Generator[Event[Data], None, Outcome]
"""Events in order; returns the input's outcome."""

Figure = tuple[str, str, Literal["counter", "gauge"], tuple[tuple[str, str], ...], float]
"""Metric of a stage: name without `lahar_`, description, kind, labels beside those of the shard, value."""

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)


@runtime_checkable
class Counting(Protocol[S_contra]):
    """A stage with metrics of its own."""

    def figures(self, state: S_contra) -> Iterable[Figure]:
        """Return its metrics; called after each commit."""


@runtime_checkable
class TakesTurns(Protocol[S_contra]):
    """A stage of jobs that acts at once on some facts of the cluster, which are therefore not processed early."""

    def in_turn(self, state: S_contra, event: Event[Data]) -> bool:
        """Return true if a fact waits for inputs about jobs that were recorded before it."""


class Stage(Protocol[S]):
    """One stage of the engine."""

    @property
    def name(self) -> str:
        """Name, such as `lifecycle`, `scheduling`, `billing`."""

    @property
    def state_version(self) -> int:
        """Version of the snapshot codec; a snapshot of another version is not read, and the shard refolds."""

    @property
    def inputs(self) -> tuple[Reads, ...]:
        """Input topics, in order of precedence at equal recorded times. A shard of jobs processes `cluster` before all others."""

    @property
    def outputs(self) -> tuple[Topic, ...]:
        """Output topics, none of which it reads; the first also has the accounts of its shards."""

    @property
    def exact(self) -> tuple[str, ...]:
        """Snapshot records that recovery needs exactly as of the snapshot's position.

        The application of events about other subjects depends on them. They must be small and change rarely, because each change is
        kept in memory until the position has passed it.
        """

    def initial(self) -> S:
        """Return the state of a shard without inputs."""

    def decide(self, state: S, event: Event[Data], now: int) -> Decision:
        """Yield the events of an input; return its outcome.

        May raise `NotKeptError` before the first event; the input then becomes a dead letter.

        Args:
            state: must not be changed.
            event: the input.
            now: largest recorded time so far, including this input's (microseconds).
        """

    def fire(self, state: S, now: int, error: str | None = None) -> Generator[Event[Data], None, None]:
        """Fire the earliest timer, due at or before `now`.

        Args:
            state: must not be changed.
            now: the shard's time (microseconds).
            error: reason of an earlier failure on the timer; its job is then parked, and no other event is written.
        """

    def drop(self, state: S, now: int, error: str) -> Generator[Event[Data], None, None]:
        """Drop the earliest timer because its job could not be parked either; an event records the reason.

        Args:
            state: must not be changed.
            now: the shard's time (microseconds).
            error: reason why its job could not be parked.
        """

    def timer(self, state: S) -> str:
        """Return the id (ASCII) of the timer that `fire` fires next; called only after `due` returned a time. Must not fail."""

    def park(self, state: S, event: Event[Data], now: int, error: str) -> Decision:
        """Park an input on which `decide` failed (an exception or a broken invariant), with its job.

        Raises:
            NotKeptError: the input becomes a dead letter. Raised for every absorbed input, because recovery absorbs all inputs that
                are not dead letters.
        """

    def evolve(self, state: S, event: Event[Data]) -> None:
        """Apply one event of the stage's own output."""

    def absorb(self, state: S, event: Event[Data], offset: int | None = None, /) -> None:
        """Apply one input that the stage absorbs unconditionally (for lifecycle: `cluster`). Must not fail, like `evolve`.

        Args:
            state: state to change.
            event: the input.
            offset: offset of the input in its partition. Recovery may apply an input again; a subject that stores the offset of its
                last input can detect that. `None`: the input is new and not from a partition.
        """

    def contains(self, state: S, event: Event[Data]) -> bool:
        """Return true if the state already includes an event of the stage's own output, by its `sequence`.

        Called only during recovery: subjects of a snapshot may be newer than the start of the tail, which then repeats their
        events. An event that changes several subjects is included if all of them include it, and applying it again to some of them
        changes nothing. (An absorbed fact is simply absorbed again, with all later ones.)
        """

    def absorbs(self, topic: Topic) -> bool:
        """Return true if inputs of the topic are absorbed, before they are decided."""

    def due(self, state: S) -> int | None:
        """Return the due time of the earliest timer (microseconds), or `None`.

        Must not fail, like `evolve`: a failure could not be attributed to an input.
        """

    def fires_at(self, state: S, due: int, horizon: int) -> int:
        """Return the time at which the earliest timer fires: its due time, or later if one firing replaces several.

        Args:
            state: must not be changed.
            due: due time (microseconds), at most `horizon`.
            horizon: end of the period in which timers fire.
        """

    def unfinished(self, state: S) -> int | None:
        """Return the time of the stage's next postponed work (microseconds), or `None`.

        It is a timer too; callers that run a stage until it is idle use this time.
        """

    def touched(self, state: S) -> list[str]:
        """Return the names of the snapshot records changed since the last call, each once; the call empties the list.

        The names `_manifest` and `_accounts` belong to the processor.
        """

    def outcome(self, event: Event[Data]) -> Outcome | None:
        """Return the outcome of an input from its first event; `None` if a timer caused the event."""

    def subject(self, record: str) -> str:
        """Return the subject of a record name, whether or not the record exists.

        A subject may have several records, so that none grows without bound and a change rewrites only a few. One commit writes all
        changed records of a subject, so that they match. A record's name is the subject of its events, or a prefix for its kind, a
        slash and the subject.
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
