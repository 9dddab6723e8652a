"""The stage protocol: three pure functions and the codec of the state.

    decide(state, input) -> events        the events of this input; no I/O, no clock, no randomness
    evolve(state, event)                  apply one event; total, cannot fail
    due(state) -> time | None             when the earliest timer of this state fires

`decide` is a generator: the caller evolves each event before it asks for the next, so that later decisions about the same input
see the state that the earlier ones made. It never changes the state itself.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Literal, Protocol, TypeVar

from engine.events import Data, Event, Topic

__all__ = ["Decision", "Outcome", "Reads", "Stage"]

Outcome = Literal["dead", "duplicate", "parked", "waiting", "rejected", "refused", "late", "anomalous", "unchanged", "applied"]
"""Outcome of an input; exactly one, tested in this order (design rule 4)."""

Reads = tuple[Topic, Literal["own", "all"]]
"""A topic that a stage takes: of each shard its own partition, or all partitions (see `engine.processor.partitions`)."""

Decision = Generator[Event[Data], None, Outcome]
"""Events in order; returns the input's outcome."""

S = TypeVar("S")


class Stage(Protocol[S]):
    """One stage of the engine."""

    @property
    def name(self) -> str:
        """`lifecycle`, `scheduling`, `billing`."""

    @property
    def state_version(self) -> int:
        """Version of the snapshot codec; a snapshot of another version is not read, the shard refolds."""

    @property
    def inputs(self) -> tuple[Reads, ...]:
        """What it takes, in order of precedence at equal recorded times. `cluster` is taken before all others."""

    @property
    def outputs(self) -> tuple[Topic, ...]:
        """Topics it writes, none of which it takes; the first one takes the accounts of its shards as well.

        Of the stages only those that take `job-events` may take that one: on other topics accounts are no inputs.
        """

    def initial(self) -> S:
        """Return the state of a shard that has taken nothing."""

    def decide(self, state: S, event: Event[Data], now: int) -> Decision:
        """Yield the events of an input. `now`: largest recorded time so far, this input's included (microseconds).

        It may raise `NotKeptError` instead of giving the first event; the input becomes a dead letter then.
        """

    def fire(self, state: S, now: int, error: str | None = None) -> Generator[Event[Data], None, None]:
        """Fire the earliest timer, which is due at or before `now`.

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
        """Return the id, in ASCII, of the timer that `fire` fires next; asked only after `due` gave a time. Total, as `due` is."""

    def park(self, state: S, event: Event[Data], now: int, error: str) -> Decision:
        """Set aside an input that `decide` failed on (an exception or a broken invariant), and the job with it.

        Raises:
            NotKeptError: it becomes a dead letter. So does every input that the stage absorbs: recovery absorbs all others.
        """

    def evolve(self, state: S, event: Event[Data]) -> None:
        """Apply one event of the stage's own output."""

    def absorb(self, state: S, event: Event[Data]) -> None:
        """Apply one input of the truth that the stage absorbs whole (for lifecycle: `cluster`). Total, like `evolve`."""

    def contains(self, state: S, event: Event[Data]) -> bool:
        """Return whether the state holds an event of the stage's own output already, by its `sequence`.

        Asked at recovery only: subjects of a snapshot may be newer than the point from which the tail is folded, so the tail
        repeats what they hold. An event that changes several subjects is contained when all of them hold it, and applying it
        to those that do changes nothing. (An absorbed fact is simply absorbed again, with all that followed it.)
        """

    def absorbs(self, topic: Topic) -> bool:
        """Return whether inputs of the topic are absorbed (before they are decided on)."""

    def due(self, state: S) -> int | None:
        """Return when the earliest timer fires (microseconds), or `None`.

        Total, like `evolve`: a failure could be attributed to no input.
        """

    def fires_at(self, state: S, due: int, horizon: int) -> int:
        """Return when the earliest timer fires: when it is due, or later where one does at once what several would have done.

        Args:
            state: not to be changed.
            due: when it is due (microseconds), by the horizon.
            horizon: until when timers fire; it fires no later.
        """

    def unfinished(self, state: S) -> int | None:
        """Return when the stage continues postponed work (microseconds), or `None`.

        It is a timer like others, used by callers that run a stage until it is idle.
        """

    def touched(self, state: S) -> list[str]:
        """Return the names of the snapshot records changed since the last call, each once; the call empties the list.

        The names `_manifest` and `_accounts` belong to the processor.
        """

    def outcome(self, event: Event[Data]) -> Outcome | None:
        """Return the outcome that the first event of an input stands for; `None` if no input but a timer caused it."""

    def subject(self, record: str) -> str:
        """Return the subject of a record name, whether the record exists or not.

        A subject may have several records, so that none grows with it and a change rewrites only a few. Those that have changed
        are written by one commit: a snapshot holds all of a subject as of one moment. What the stage's events are about has their
        subject for its name, or a word that says what it is, a slash and their subject.
        """

    def dump(self, state: S, record: str) -> bytes | None:
        """Return the canonical content of one record; `None` if there is nothing for it to hold."""

    def load(self, state: S, records: Iterable[tuple[str, bytes]]) -> None:
        """Restore records into an initial state."""

    def parked(self, state: S) -> Iterable[str]:
        """Return the ids of the parked jobs.

        Called when a shard is opened; later changes are `JobParked` and `JobUnparked` events.
        """

    def records(self, state: S) -> Iterable[str]:
        """Return the names of all records of the state, in any order."""
