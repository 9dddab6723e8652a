"""One shard of a stage on Kafka: a transactional id, a consumer group and a part of the compacted topic `snapshots`.

Opening goes in this order, and each step closes a way in which outputs were doubled:
1. The producer asks for its id. That fences the holder before it and ends its open transaction; only now is the position final.
2. All that was written before must be readable: another producer's open transaction in a partition hides what stands behind it.
3. Position and snapshot are read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, get_args

from aiokafka.errors import KafkaTimeoutError, ProducerFenced
from aiokafka.structs import TopicPartition

from engine.events import Topic
from engine.events.vocabulary import INPUT_TOPICS
from engine.log.errors import FencedError, LayoutError, LogDamagedError, LogError, RecordTooLargeError
from engine.log.port import Commit, Output, Partition, Position, ShardId, ShardView, size_of
from streams.client.producer import BATCH_BYTES, Batches, BatchTooLargeError, Producer
from streams.codec import decode, encode
from streams.errors import unavailable, unavailable_if
from streams.layout import remedy
from streams.position import Stored, from_group, from_record, latest, to_group, to_record

if TYPE_CHECKING:
    from streams.log import KafkaLog

__all__ = ["KafkaShard", "last_known", "look", "must_not_have_moved", "shards_of", "standing"]

_STAGES: Final = ("lifecycle", "scheduling", "billing")
"""Whose shards may have written what stands in the topics: readers of several topics wait for their last transactions."""
_TAIL: Final = 50
"""Offsets of `snapshots` that hold the last position of a shard that has just committed."""

_WRITTEN: Final[tuple[Topic, ...]] = tuple(topic for topic in get_args(Topic) if topic != "snapshots")
"""What a stage may write, but for what it takes itself; one may write what another one takes."""
_STATE: Final = b"\x00"
"""Before each state in the topic: a value is never empty."""
_PAUSE_SECONDS: Final = 0.01
_VISIBLE_SECONDS: Final = 1.0
"""In which a transaction that was committed can be read."""
_SMALLER: Final = 8
_MARGIN_SECONDS: Final = 15.0
"""A broker looks every 10 s for transactions whose time is over."""


class KafkaShard:
    """The right to process one shard of a `KafkaLog`."""

    def __init__(self, log: KafkaLog, shard: ShardId, inputs: Sequence[Partition]) -> None:
        """Take it over.

        Raises:
            LogUnavailableError: the cluster cannot be reached, or another producer's transaction does not end.
            LayoutError: the shard was run before with other inputs, or over fewer partitions.
            LogDamagedError: the shard has written before, but where it stood is lost.
        """
        self._log = log
        self._shard = shard
        self._inputs = tuple(inputs)
        self._group = log.settings.group(shard.stage, shard.number)
        self._marks = log.settings.group(shard.stage, shard.number, "marks")
        self._marked = log.place("snapshots", shard.number)
        self._closed = False
        self._failure: LogError | None = None
        self._batch_bytes = BATCH_BYTES
        with unavailable_if(f"shard {shard} cannot be opened on {log.settings.where}"):
            self._producer = Producer(log.background, log.settings, self._group)
        try:
            self._epoch = self._producer.epoch
            stored, records = _read(log, shard)
            self._records: list[tuple[str, bytes]] | None = records
            self._position = self._checked(stored)
        except BaseException:
            self._producer.close()
            raise

    @property
    def position(self) -> Position:
        """What is committed, by this holder or the ones before it."""
        return self._position

    def snapshot(self) -> Iterator[tuple[str, bytes]]:
        """Yield every snapshot record of the shard as of `position`."""
        # What was read when the shard was opened is good until the first commit.
        records, self._records = self._records, None
        if records is None:
            _, records = _read(self._log, self._shard)
        return iter(records)

    def commit(self, commit: Commit) -> Position:
        """Write a transaction and return the new position.

        Raises:
            FencedError: another holder has opened the shard; nothing was written.
            RecordTooLargeError: a broker does not take an output of that size; nothing was written.
            LogUnavailableError: the shard must be opened again: it may be that the transaction was written.
            LayoutError: a topic has grown.
        """
        if self._closed:
            raise LogError(f"shard {self._shard} was given back; open it again")
        if self._failure is not None:
            raise self._failure
        if any(output.topic == "dead-letters" for output in commit.outputs):
            # It may be a record of a new layout, under a key that has moved here.
            self._log.learn()
        self._log.must_not_have_grown()
        self._records = None
        position = Position(commit.vector, commit.now, self._position.shardsequence + len(commit.outputs))
        stored = Stored(self._inputs, position, self._log.width)
        offsets = {self._log.name(partition): found for partition, found in to_group(stored).items()}
        try:
            written = self._write(commit, stored, offsets)
        except RecordTooLargeError:
            raise
        except BaseException as error:
            self._failure = self._error(error)
            if not isinstance(self._failure, FencedError):
                self._log.unsure(self._shard, self._epoch, self._position, position)
            self._producer.close()
            if self._failure is error or not isinstance(error, Exception):
                raise
            # aiokafka keeps its error for a while, and its traceback holds the callers of this, and with them the state.
            raise self._failure from error.with_traceback(None)
        self._log.wrote(written)
        self._position = position
        return position

    marks_are_free: Final = False

    def mark(self, text: str) -> None:
        """Note what is being done, outside of all transactions: as metadata of a group that is the shard's own.

        Raises:
            LogUnavailableError: the cluster cannot be written.
        """
        log = self._log
        with unavailable_if(f"the mark of shard {self._shard} on {log.settings.where} cannot be written"):
            log.background.run(log.wire.commit_group(self._marks, {log.name(self._marked): 0}, text))

    def marked(self) -> str:
        """Return the mark that an earlier holder has made last.

        Raises:
            LogUnavailableError: the cluster cannot be read.
        """
        log = self._log
        with unavailable_if(f"the mark of shard {self._shard} on {log.settings.where} cannot be read"):
            return log.background.run(log.group_offsets(self._marks)).get(self._marked, (0, ""))[1]

    def close(self) -> None:
        """Give the right back. Idempotent."""
        if not self._closed:
            self._closed = True
            # Its traceback holds those who called, and with them the state: together they would keep each other.
            self._failure = None
            self._producer.close()
            self._log.closed(self)

    def _write(
        self, commit: Commit, stored: Stored, offsets: Mapping[TopicPartition, tuple[int, str]]
    ) -> dict[TopicPartition, int]:
        while True:
            try:
                return self._producer.transact(self._batches(commit, stored), offsets, self._group)
            except BatchTooLargeError as error:
                if error.count > 1:
                    # Together they are more than the topic takes; each for itself may be less. So it stays while the shard is open.
                    self._batch_bytes //= _SMALLER
                self._begin_anew()
                if error.count == 1:
                    raise self._too_large(commit, error) from error

    def _batches(self, commit: Commit, stored: Stored) -> Batches:
        batches = self._producer.batches()
        name, number = str(self._shard), self._shard.number
        sequence = self._position.shardsequence
        for output in commit.outputs:
            sequence += 1
            batches.add(self._place(output), encode(output.message, name, sequence, output.basis))
        snapshots = self._log.name(self._log.place("snapshots", number))
        for subject, state in commit.snapshot:
            batches.add_state(snapshots, f"{name}/{subject}".encode(), None if state is None else _STATE + state)
        batches.add_state(snapshots, name.encode(), to_record(stored))
        return batches

    def _begin_anew(self) -> None:
        """Give the transaction up and go on as a new producer: brokers count batches, and miss the one that was not taken."""
        # Tells a holder that was fenced; a new producer would fence the one that has taken over.
        self._producer.abort()
        self._producer.close()
        self._producer = Producer(self._log.background, self._log.settings, self._group, self._batch_bytes)
        self._epoch = self._producer.epoch
        # Between the two another one may have had the shard, and this one has just fenced it.
        must_not_have_moved(self._log, self._shard, self._epoch, self._position, self._position)

    def _place(self, output: Output) -> TopicPartition:
        return self._log.name(output.partition(self._shard.number, self._log.partitions(output.topic)))

    def _too_large(self, commit: Commit, error: BatchTooLargeError) -> LogError:
        places = [place for place, output in enumerate(commit.outputs) if self._place(output) == error.partition]
        if error.first < len(places):
            place = places[error.first]
            size = size_of(commit.outputs[place].message)
            return RecordTooLargeError(place, f"a record of {size} bytes: {error}, see its max.message.bytes")
        return LogError(f"{error}: the snapshot of shard {self._shard} cannot be written; raise its max.message.bytes")

    def _error(self, error: BaseException) -> LogError:
        if isinstance(error, LogError):
            return error
        if isinstance(error, ProducerFenced):
            return FencedError(str(self._shard), self._epoch)
        return unavailable(f"shard {self._shard} could not commit and must be opened again", error)

    def _checked(self, stored: Stored | None) -> Position:
        if stored is None:
            _must_not_have_written(self._log, self._shard, self._inputs)
            return Position((0,) * len(self._inputs))
        if stored.inputs != self._inputs:
            if any(stored.position.vector) or stored.position.shardsequence:
                raise LayoutError.of_inputs(self._shard, stored.inputs, self._inputs)
            return Position((0,) * len(self._inputs))
        if stored.partitions != self._log.width:
            raise LayoutError(
                f"shard {self._shard} was built on topics of {stored.partitions} partitions, now they have {self._log.width}: keys "
                f"have moved and their order is lost. {remedy(stored.partitions)}"
            )
        return stored.position


def must_not_have_moved(log: KafkaLog, shard: ShardId, epoch: int, before: Position, attempted: Position) -> None:
    """Check that nobody else has run a shard since this process failed to commit to it; nobody is fenced by that.

    A process that was frozen in a commit finds its time over when it goes on; the shard may be another one's by then.

    Args:
        log: where the shard stands.
        shard: to be opened again.
        epoch: of this process.
        before: where it stood before the commit that failed.
        attempted: where it stands if that was written after all.

    Raises:
        FencedError: somebody else has.
        LogUnavailableError: the cluster cannot be reached.
    """
    partition = log.place("snapshots", shard.number)
    with unavailable_if(f"the position of shard {shard} on {log.settings.where} cannot be read"):
        # What another one has committed may become readable some milliseconds later; a transaction that this process has left open
        # stays so for longer, and then there is no other one.
        with suppress(KafkaTimeoutError):
            log.background.run(_settled(log, [partition], _VISIBLE_SECONDS))
        stored = from_group(log.background.run(_offsets(log, shard)))
    # A group's offsets may be seen a little later than the records of the transaction. Its last record tells the same.
    end = log.reader.ends([partition])[0]
    stored = latest(stored, *(found for _, found in _recorded(log, partition, max(end - _TAIL, 0), end, {str(shard)})))
    if stored is not None and stored.position != attempted and _advance(stored.position) > _advance(before):
        raise FencedError(str(shard), epoch)


def _advance(position: Position) -> tuple[int, int]:
    return position.shardsequence, sum(position.vector)


def look(log: KafkaLog, shard: ShardId) -> ShardView | None:
    """Return how a shard stands, without taking it over; `None` if it has never committed.

    Raises:
        LogUnavailableError: the cluster cannot be reached, or a transaction does not end.
    """
    stored, records = _read(log, shard)
    return None if stored is None else ShardView(stored.position, records)


def last_known(log: KafkaLog, shard: ShardId, snapshots: Partition) -> Stored | None:
    """Return where a shard stood when it last committed, as its group says or else its snapshot; `None` if it never has.

    Args:
        log: whose numbers of partitions need not be known yet.
        shard: the shard.
        snapshots: the partition in which its snapshot stands.

    Raises:
        LogUnavailableError: the cluster cannot be reached.
    """
    with unavailable_if(f"the position of shard {shard} on {log.settings.where} cannot be read"):
        stored = from_group(log.background.run(_offsets(log, shard)))
    if stored is not None:
        return stored
    end = log.reader.ends([snapshots])[0]
    tail = max(end - _TAIL, 0)
    # A commit ends with its position, so the last one stands at the end, unless much that was given up stands behind it.
    return latest(*(found for _, found in _recorded(log, snapshots, tail, end, {str(shard)}))) or latest(
        *(found for _, found in _recorded(log, snapshots, 0, tail, {str(shard)}))
    )


def _recorded(
    log: KafkaLog, partition: Partition, start: int, end: int, shards: Container[str]
) -> Iterator[tuple[str, Stored | None]]:
    """Yield the positions of some shards that stand in a part of `snapshots`, with the names of the shards."""
    for chunk in log.reader.chunks(partition, start, end):
        for raw in chunk:
            if (name := (raw.key or b"").decode(errors="replace")) in shards:
                yield name, from_record(raw.value or b"")


def _read(log: KafkaLog, shard: ShardId) -> tuple[Stored | None, list[tuple[str, bytes]]]:
    """Return the position and the snapshot, all output up to it being readable."""
    name = str(shard)
    outputs = _outputs(log, shard)
    with unavailable_if(f"the position of shard {shard} on {log.settings.where} cannot be read"):
        committed = log.background.run(_settled_offsets(log, shard, [*outputs, log.place("snapshots", shard.number)]))
    found: dict[bytes, bytes] = {}
    partition = log.place("snapshots", shard.number)
    whole, prefix = name.encode(), f"{name}/".encode()
    for chunk in log.reader.chunks(partition, 0, log.reader.ends([partition])[0]):
        for raw in chunk:
            key = raw.key or b""
            if key != whole and not key.startswith(prefix):
                continue
            if raw.value:
                found[key] = raw.value
            else:
                found.pop(key, None)
    stored = latest(from_record(found.pop(whole, b"")), from_group(committed))
    if stored is not None:
        outputs = _outputs(log, shard, stored.inputs)
    with unavailable_if(f"the outputs of shard {shard} on {log.settings.where} cannot be read"):
        # Its holder may have gone on, and what it wrote last be seen in `snapshots` first.
        log.background.run(_settled(log, outputs))
    # A subject that is no text is none of ours, and cannot be deleted under its name.
    subjects = {key[len(prefix) :].decode(): value for key, value in found.items() if _is_text(key)}
    return stored, [(subject, value[len(_STATE) :]) for subject, value in subjects.items()]


def _outputs(log: KafkaLog, shard: ShardId, inputs: Sequence[Partition] = ()) -> list[Partition]:
    """Return the partitions that a shard may have written; the only shard of its stage (`Log.open`) writes to any."""
    taken = {topic for topic, _ in inputs} or INPUT_TOPICS
    topics = [topic for topic in _WRITTEN if topic not in taken]
    if len(taken) < len(inputs):
        return [Partition(topic, number) for topic in topics for number in range(log.partitions(topic))]
    return [log.place(topic, shard.number) for topic in topics]


def _is_text(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


def standing(log: KafkaLog, partitions: Sequence[Partition]) -> dict[str, Stored]:
    """Return where the shards stand that may have written some partitions, by their names; all of it can be read then.

    A shard is not named if it has never committed, or long ago, so that brokers have forgotten its group.

    Raises:
        LogUnavailableError: the cluster cannot be reached, or a transaction does not end.
    """
    shards = {str(shard): shard for number in {0, *(partition.number for partition in partitions)} for shard in shards_of(number)}
    snapshots = sorted({log.place("snapshots", shard.number) for shard in shards.values()})
    with unavailable_if(f"the positions of shards on {log.settings.where} cannot be read"):
        log.background.run(_settled(log, snapshots))
        committed = log.background.run(_offsets_of(log, shards.values()))
    found = {name: from_group(offsets) for name, offsets in zip(shards, committed, strict=True)}
    # A group's offsets may be seen a little later than the records of the transaction. Its last record tells the same.
    for partition, end in zip(snapshots, log.reader.ends(snapshots), strict=True):
        for name, stored in _recorded(log, partition, max(end - _TAIL, 0), end, found):
            found[name] = latest(found[name], stored)
    with unavailable_if(f"the outputs of shards on {log.settings.where} cannot be read"):
        log.background.run(_settled(log, partitions))
    return {name: stored for name, stored in found.items() if stored is not None}


def shards_of(number: int) -> list[ShardId]:
    """Return the shards with a number, one of each stage."""
    return [ShardId(stage, number) for stage in _STAGES]


async def _offsets_of(log: KafkaLog, shards: Iterable[ShardId]) -> list[dict[Partition, tuple[int, str]]]:
    return await asyncio.gather(*(_offsets(log, shard) for shard in shards))


async def _settled_offsets(log: KafkaLog, shard: ShardId, partitions: Sequence[Partition]) -> dict[Partition, tuple[int, str]]:
    """Return the group's offsets; what was written to some partitions up to them can be read."""
    # What the last holder has left open is ended first; offsets of a transaction are not shown before.
    await _settled(log, partitions)
    offsets = await _offsets(log, shard)
    # A holder that goes on may have committed since, and its offsets be seen before its records.
    await _settled(log, partitions)
    return offsets


async def _offsets(log: KafkaLog, shard: ShardId) -> dict[Partition, tuple[int, str]]:
    return await log.group_offsets(log.settings.group(shard.stage, shard.number))


async def _settled(log: KafkaLog, partitions: Sequence[Partition], seconds: float | None = None) -> None:
    """Return as soon as all that stands in some partitions now can be read.

    Transactions that are open now end within their time; those begun later stand behind what is of interest.

    Raises:
        KafkaTimeoutError: not within `seconds`, or, without them, within the time that a transaction may take.
    """
    names = [log.name(partition) for partition in partitions]
    written = await log.wire.ends(names, committed=False)
    deadline = time.monotonic() + (log.settings.transaction_seconds + _MARGIN_SECONDS if seconds is None else seconds)
    while any(end < written[name] for name, end in (await log.wire.ends(names)).items()):
        if time.monotonic() > deadline:
            raise KafkaTimeoutError("another producer's transaction does not end")
        await asyncio.sleep(_PAUSE_SECONDS)


def _must_not_have_written(log: KafkaLog, shard: ShardId, inputs: Sequence[Partition]) -> None:
    # A shard that begins anew although it has written would write all of it again.
    for partition in _outputs(log, shard, inputs):
        for raw in next(log.reader.chunks(partition, 0, log.reader.ends([partition])[0]), []):
            if decode(raw.key, raw.value, raw.headers, raw.timestamp)[1].shard == str(shard):
                raise LogDamagedError(
                    f"shard {shard} has written to {partition.topic}/{partition.number}, but neither its snapshot nor the offsets "
                    f"of its group {log.settings.group(shard.stage, shard.number)} are there; restore one of them from a backup"
                )
