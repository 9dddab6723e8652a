"""Uncommitted work of a shard in memory: inputs processed, timers fired, and the events for the next commit.

A crash loses it, and recovery from the log repeats it; `processor` commits or drops it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from engine.events import SMALL, Data, Event, EventError, NotKeptError, Topic, decode, encode
from engine.events.ids import output_id
from engine.events.outcomes import Accounted
from engine.events.vocabulary import INPUT_TOPICS
from engine.log.partitioner import partition_of
from engine.log.port import Output, Position, Record, ShardId, ShardLog, Vector, size_of
from engine.processor.accounts import SILENT
from engine.processor.crash_probe import child_survives
from engine.processor.dead_letters import dead_letter, too_large
from engine.processor.inputs import Inputs, Taken
from engine.processor.partitions import single_shard
from engine.processor.poison_guard import Name
from engine.processor.recovery import Recovered
from engine.processor.stage import Counting, Figure, Stage

OUTPUT_LIMIT: Final = 750
"""Number of outputs at which a commit takes no further input (kafka.md, Transactions). This many hour marks, the slowest outputs of
all, take about 60 ms."""

COMMIT_BYTES: Final = 16 << 20
"""Bytes of inputs and outputs (`size_of`) at which a commit takes no further input. A thousand inputs of 2 MiB would need
gigabytes, and an out-of-memory crash at the commit cannot be attributed to an input."""

S = TypeVar("S")


class BrokenStageError(Exception):
    """Raised when a stage breaks its contract."""


class UnfiredError(Exception):
    """Raised when the stage failed on a timer."""

    def __init__(self, sequence: int, reason: str) -> None:
        super().__init__(reason)
        self.sequence = sequence
        """Number of outputs before it, which identifies the timer in the retry."""
        self.reason = reason


class Limit:
    """Size limit of a commit, lowered after a failure, because the commit may have been too large to be written in time."""

    def __init__(self, most: int) -> None:
        """Start at the largest limit."""
        self._most: Final = most
        self.now = most

    def failed(self, held: int) -> None:
        """Halve the limit after a failed commit of this size."""
        if held:
            self.now = max(min(self.now, held) // 2, 1)

    def written(self) -> None:
        """Raise the limit by an eighth after a successful commit."""
        self.now = min(self.now + max(self.now // 8, 1), self._most)


class ShardRun(Generic[S]):
    """State of an open shard, ahead of the log by at most one commit."""

    def __init__(
        self,
        stage: Stage[S],
        shard: ShardId,
        held: ShardLog,
        recovered: Recovered[S],
        inputs: Inputs,
        limit: Limit,
        begin: Callable[[Name], Sequence[str]] = lambda _name: (),
        patience: float = 0,
        *,
        counts: bool,
    ) -> None:
        """Continue at the shard's position.

        Args:
            stage: stage to run.
            shard: shard to run.
            held: opened shard, for commits.
            recovered: state at `held.position`.
            inputs: inputs after that position.
            limit: limit on the outputs of a commit.
            begin: called with the name of an input or a timer before its decision; returns reasons not to decide it
                (`PoisonGuard.begin`).
            patience: limit of processor time of a trial in a child process (seconds).
            counts: true if the stage's counters are observed.
        """
        position = held.position
        self.stage: Final[Stage[S]] = stage
        self._outcome: Final = stage.outcome
        # `isinstance` checks all members of the protocol, which is too slow for each commit.
        self._counting: Final = stage if counts and isinstance(stage, Counting) else None
        self.shard: Final = shard
        self.held: Final = held
        self.state: Final = recovered.state
        self.accounts: Final = recovered.accounts
        self.snapshots: Final = recovered.snapshots
        self.inputs = inputs
        self._limit = limit
        self._begin = begin
        self._patience = patience
        self._urgent = False
        """True after an input was dropped because processes ended during it: commit before another process can end."""
        self._names = [f"{topic}/{number}" for topic, number in inputs.partitions]
        self.now = position.now
        self.sequence = position.shardsequence
        self.vector = list(position.vector)
        self.basis: Vector = position.vector
        """The vector as a tuple."""
        self.outputs: list[Output] = []
        self._bytes = 0
        """Bytes of inputs and outputs since the last commit."""
        self.begun: list[tuple[int, Taken | None]] = []
        """Inputs taken since the last commit (`None`: a timer fired), each with the shardsequence before it."""
        # For observers in other threads, which must not call the stage while the shard's thread uses its state.
        self.committed: dict[str, int] = dict(self.accounts.outcomes)
        """Inputs by outcome, as of the last commit."""
        self.received: int = self.accounts.received
        """Number of inputs processed, as of the last commit."""
        self.figures: tuple[Figure, ...] = self._figures()
        """Counters of the stage, as of the last commit."""
        self.due: int | None = stage.due(self.state)
        """Due time of the earliest timer (microseconds), as of the last commit."""
        self._silent = dict.fromkeys(SILENT, 0)
        self._absorbs = [stage.absorbs(partition.topic) for partition in inputs.partitions]
        # Absorbed and other inputs are on different topics; topics of one group may replace each other.
        topics = [topic for topic, _ in stage.inputs]
        self._topics = [{topic for topic in topics if stage.absorbs(topic) == absorbed} for absorbed in self._absorbs]
        self._counts = [inputs.log.partitions(partition.topic) for partition in inputs.partitions]
        # With one partition every key is right, and the topic alone determines whether an event belongs there. The same holds if
        # the stage's only shard reads all partitions.
        self._single = single_shard(stage)
        free = [self._single or count == 1 for count in self._counts]
        self._right = [topics if is_free else set() for topics, is_free in zip(self._topics, free, strict=True)]

    def position(self) -> Position:
        """Return the shard's position after this commit."""
        return Position(self.basis, self.now, self.sequence)

    def full(self) -> bool:
        """Return true if the commit is full."""
        return self._urgent or len(self.outputs) >= self._limit.now or self._bytes >= COMMIT_BYTES

    def fire(self, horizon: int, errors: Mapping[int, Sequence[str]]) -> int:
        """Fire the timers due by a time until none is left or the commit is full; return their number.

        Args:
            horizon: time (microseconds).
            errors: reasons of earlier failures on a timer, by the shardsequence before it. After one failure the job is parked;
                after two, because parking failed too, the timer is dropped.

        Raises:
            UnfiredError: the stage fails on a timer.
            Exception: any error of the stage while it drops a timer.
        """
        fired = 0
        while (due := self.stage.due(self.state)) is not None and due <= horizon and not self.full():
            self.now = max(self.now, self.stage.fires_at(self.state, due, horizon))
            written = self.sequence
            self.begun.append((written, None))
            reasons = (*self._begun(("timer", self.stage.timer(self.state))), *errors.get(written, ()))
            try:
                for event in self._fired(reasons):
                    self._emit(event)
                self._must_have_written(written, due)
            except Exception as failure:
                if len(reasons) > 1:
                    raise
                raise UnfiredError(written, f"{type(failure).__name__}: {failure}") from failure
            fired += 1
        return fired

    def rehearse(self) -> bool:
        """Return true if a child process survives the next decision."""
        return child_survives(self._decide_next, self._patience)

    def _decide_next(self) -> None:
        self._begin = lambda _name: ()
        _, taken = self.begun[-1]
        if taken is not None:
            self.take(taken, ())
        else:
            for event in self._fired(()):
                self._emit(event)

    def _fired(self, reasons: Sequence[str]) -> Iterable[Event[Data]]:
        if len(reasons) > 1:
            return self.stage.drop(self.state, self.now, reasons[-1])
        return self.stage.fire(self.state, self.now, reasons[0] if reasons else None)

    def _must_have_written(self, before: int, due: int) -> None:
        if self.sequence == before:
            raise BrokenStageError(f"stage {self.stage.name} has a timer due at {due} that fires without an event")

    def take(self, taken: Taken, reasons: Sequence[str]) -> None:
        """Decide one input, or make it a dead letter.

        Args:
            taken: input to decide.
            reasons: reasons of earlier failures. After one failure the input is parked; after two, because parking failed too, it
                becomes a dead letter.

        Raises:
            BrokenStageError: the stage returns an outcome without an event, or events without an outcome.
            Exception: any other error of the stage.
        """
        place, record, _ = taken
        self._receive(taken)
        ended = self._begin((self._names[place], record.offset))
        if ended:
            self._urgent = True
            reasons = *ended, *reasons
        if len(reasons) > 1:
            self._dead_letter(record, reasons[-1])
            return
        try:
            event = decode(record.message, bounded=not 0 < record.size <= SMALL)
        except EventError as error:
            self._dead_letter(record, str(error))
            return
        stage, state = self.stage, self.state
        fault = None if event.data.TOPIC in self._right[place] else self._fault(place, event)
        if fault is not None:
            self._dead_letter(record, fault)
            return
        if self._absorbs[place] and not reasons:  # dead letters are not part of the state: recovery skips them
            stage.absorb(state, event, record.offset)
        now = max(self.now, event.recordedtime)  # an early fact with outputs advances the time too
        decision = stage.park(state, event, now, reasons[0]) if reasons else stage.decide(state, event, now)
        first: Event[Any] | None = None
        while True:
            try:
                made = next(decision)
            except StopIteration as stop:
                outcome = stop.value
                break
            except NotKeptError as error:
                if first is not None:
                    raise
                self._dead_letter(record, str(error))
                return
            if first is None:
                first, self.now = made, now
            stage.evolve(state, made)
            self._write(made, made.data.TOPIC, None)
        if first is None:
            if outcome not in SILENT:
                raise BrokenStageError(f"outcome {outcome!r} without an event")
            self._silent[outcome] += 1
        elif self._outcome(first) is None:
            raise BrokenStageError(f"outcome {outcome!r}, but {first.type} has none")

    def drop_large(self, taken: Taken, reason: str) -> None:
        """Make an input a dead letter because one of its outputs is too large for the log.

        Args:
            taken: input with the output.
            reason: error of the log.
        """
        self._receive(taken)
        _, record, _ = taken
        letter = too_large(self.shard, record, reason, self.now, self.accounts.outcomes["dead"] + 1)
        self._write(letter, "dead-letters", letter.data.key)

    def _begun(self, name: Name) -> Sequence[str]:
        reasons = self._begin(name)
        self._urgent = self._urgent or bool(reasons)
        return reasons

    def _receive(self, taken: Taken) -> None:
        place, record, time = taken
        self.now = max(self.now, time)
        self.vector[place] = record.offset + 1
        self.basis = tuple(self.vector)
        self.accounts.received += 1
        self._bytes += record.size
        self.begun.append((self.sequence, taken))

    def _fault(self, place: int, event: Event[Data]) -> str | None:
        """Return the reason why an event is in the wrong partition or topic; `None` if it is right.

        Two shards must never decide about the same subject.
        """
        topic = event.data.TOPIC
        if isinstance(event.data, Accounted) and self.inputs.partitions[place].topic not in INPUT_TOPICS:
            return None  # its key is the name of the shard that writes the partition
        if topic not in self._topics[place]:
            if not any(topic in topics for topics in self._topics):
                return f"{event.type} is not an input: it belongs on the topic {topic}"
            return f"{event.type} belongs on the topic {topic}, not on {self.inputs.partitions[place].topic}"
        partition, count = self.inputs.partitions[place].number, self._counts[place]
        if count > 1 and not self._single and (right := partition_of(event.subject, count)) != partition:
            return f"its subject {event.subject!r} belongs to partition {right}: use the subject as the key"
        return None

    def account(self) -> None:
        """Write the account of inputs without an event, if any; called last before the commit."""
        if not any(self._silent.values()):
            return
        event = Event(
            output_id(self.stage.name, f"{self.shard}/accounted", self.sequence + 1),
            f"lahar/{self.stage.name}",
            Accounted.TYPE,
            str(self.shard),
            self.now,
            self.now,
            self.accounts.accounted + 1,
            "",
            "",
            "",
            Accounted(self.now, **self._silent),
        )
        self._silent = dict.fromkeys(SILENT, 0)
        self._write(event, self.stage.outputs[0], str(self.shard))

    def settle(self) -> None:
        """Clear inputs and outputs after their commit."""
        self.outputs = []
        self._bytes = 0
        self.begun = []
        self._urgent = False
        self.committed = dict(self.accounts.outcomes)
        self.received = self.accounts.received
        self.figures = self._figures()
        self.due = self.stage.due(self.state)

    def _figures(self) -> tuple[Figure, ...]:
        return () if self._counting is None else tuple(self._counting.figures(self.state))

    def _emit(self, event: Event[Data]) -> None:
        self.stage.evolve(self.state, event)
        self._write(event, event.data.TOPIC, None)

    def _write(self, event: Event[Data], topic: Topic, key: str | None) -> None:
        message = encode(event, key)
        self._bytes += size_of(message)
        number = partition_of(message.key, self.inputs.log.partitions(topic)) if self._single else None
        self.outputs.append(tuple.__new__(Output, (topic, message, self.basis, number)))  # bypasses the constructor
        self.sequence += 1
        self.accounts.fold(event, self.basis, self.sequence, self._outcome)

    def _dead_letter(self, record: Record, reason: str) -> None:
        letter = dead_letter(self.shard, record, reason, self.now, self.accounts.outcomes["dead"] + 1)
        self._write(letter, "dead-letters", record.message.key)
