"""Export and import: a log as JSON Lines of CloudEvents, lossless both ways.

The first line says what the rest is, the last one how many records there are, so that a file that was cut off is known for one.
Each line between is one record: its event in CloudEvents' structured mode, with the metadata of the record as extension attributes
(`topic`, `partition`, `offset`, `shard`, `shardsequence`, `basis`). A message that structured mode would not give back to the last
bit is kept whole in the data of a `lahar.record.kept.v1`.

Records that are damaged are left out; a `lahar.record.left_out.v1` says where they stood. An import goes on without them.

Snapshots are not exported: they are made anew. Neither are cursors: callbacks on the restored log are told everything again, as
`catchup`. A backup keeps both.
"""

from __future__ import annotations

import base64
import json
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

from pydantic_core import from_json

from engine.events import Message, Topic, from_cloudevent, raw_message, to_cloudevent
from engine.events.errors import UndecodableError
from engine.events.ids import digest
from engine.history.errors import TransferError
from engine.history.readable_records import Damage, readable_records
from engine.log.port import Commit, Log, Output, Partition, Record, SearchableLog, ShardId, ShardLog, Vector
from engine.processor.partitions import input_partitions, partition_count, shard_count
from engine.processor.stage import Stage

__all__ = ["Contents", "contents_of", "export_job", "export_log", "import_log"]

_HEAD: Final = "lahar.log.exported.v1"
_END: Final = "lahar.log.export_ended.v1"
_KEPT: Final = "lahar.record.kept.v1"
_LEFT_OUT: Final = "lahar.record.left_out.v1"
_TOPICS: Final[tuple[Topic, ...]] = tuple(topic for topic in get_args(Topic) if topic != "snapshots")
_BATCH: Final = 5_000
_MOST_PARTITIONS: Final = 10_000
"""Far more than a log has; a first line that says more is damaged."""
_VISIBLE_SECONDS: Final = 1.0
_LARGEST: Final = 2**63 - 1
_BLANK: Final = raw_message("", b"", 0)


@dataclass(frozen=True, slots=True)
class Contents:
    """What an export holds."""

    scope: Literal["everything", "job", "range"]
    """`range`: what was recorded within some time that does not begin with the log."""
    partitions: int
    """Of each topic that has several."""
    what: str = ""
    """The job, or the range in words."""


def export_log(
    log: SearchableLog,
    first: int | None = None,
    last: int | None = None,
    on_damage: Callable[[Damage], None] | None = None,
) -> Iterator[bytes]:
    """Yield the lines of an export of everything, or of what was recorded within a range of time.

    Args:
        log: any log with commit order; others may go on writing meanwhile.
        first: first recorded time exported (microseconds); `None`: from the beginning.
        last: last recorded time exported (microseconds); `None`: up to the present end.
        on_damage: told of each record that is damaged and so left out.
    """
    count = partition_count(log)
    if first is None and last is None:
        yield _head(Contents("everything", count))
    else:
        yield _head(Contents("everything" if first is None else "range", count, f"{first or ''}..{'' if last is None else last}"))
    done = 0
    for record in readable_records(log, _TOPICS):
        if isinstance(record, Damage):
            yield _left_out(record, on_damage)
            continue
        recorded = record.message.recordedtime
        if (first is None or recorded >= first) and (last is None or recorded <= last):
            yield _line(record)
            done += 1
    yield _end(done)


def export_job(log: SearchableLog, job: str, on_damage: Callable[[Damage], None] | None = None) -> Iterator[bytes]:
    """Yield the lines of an export of one job: its inputs and all that stages said about it; `on_damage` as for all of a log."""
    yield _head(Contents("job", partition_count(log), job))
    done = 0
    for record in readable_records(log, _TOPICS, job):
        if isinstance(record, Damage):
            yield _left_out(record, on_damage)
            continue
        yield _line(record)
        done += 1
    yield _end(done)


def _left_out(damage: Damage, on_damage: Callable[[Damage], None] | None) -> bytes:
    if on_damage is not None:
        on_damage(damage)
    data = {"topic": damage.partition.topic, "partition": damage.partition.number, "offset": damage.offset}
    if damage.records > 1:
        data["records"] = damage.records
    return _own(_LEFT_OUT, f"{_LEFT_OUT}\x1f{damage}", data)


def contents_of(line: bytes) -> Contents:
    """Return what an export holds, by its first line.

    Raises:
        TransferError: it is not the first line of an export.
    """
    try:
        head = from_json(line)
        contents = Contents(**head["data"])
        sound = (
            head["type"] == _HEAD
            and contents.scope in {"everything", "job", "range"}
            and type(contents.partitions) is int
            and 1 <= contents.partitions <= _MOST_PARTITIONS
        )
    except (ValueError, LookupError, TypeError):
        sound = False
    if not sound:
        raise TransferError("the first line does not begin an export of a log; `lahar export` writes one")
    return contents


def import_log(
    log: Log, lines: Iterable[bytes], stages: Mapping[str, Stage[Any]], on_progress: Callable[[int], None] | None = None
) -> int:
    """Restore an export into an empty log.

    An export of everything gives the same records at the same offsets with the same metadata (those that were not consecutive
    become so), and processing goes on where it stood. One of a job gives a log of that job alone, on which processing goes on
    as well. One of a range, whose beginning is missing, gives a log that is for reading: its inputs count as taken.

    Args:
        log: an empty log with as many partitions as the exported one.
        lines: the export's lines.
        stages: the stages that may have written outputs, by name.
        on_progress: called with the number of records restored so far, after each batch.

    Returns:
        The number of records.

    Raises:
        TransferError: the lines are no export or end too early, a line cannot be read or restored, an output is missing (the line
            is named), the log is not empty or has another number of partitions, or a stage is unknown. What stands before the
            line has been restored, as far as it could be: begin again with a new log.
        LogUnavailableError: the log cannot be written.
    """
    rest = iter(lines)
    contents = contents_of(next(rest, b""))
    count = partition_count(log)
    if count != contents.partitions:
        raise TransferError(f"the export has {contents.partitions} partitions a topic, the log has {count}; make one with as many")
    if any(log.end(Partition(topic, number)) for topic in _TOPICS for number in range(log.partitions(topic))):
        raise TransferError("the log is not empty; import into a new one")
    restore = _Restore(log, stages, contents.scope)
    done = 0
    ended: int | None = None
    for number, line in enumerate(rest, start=2):
        if not line.strip():
            continue
        try:
            record = _record(line) if ended is None else _surplus()
            if isinstance(record, int):
                ended = record
                continue
            if isinstance(record, _LeftOut):
                restore.miss(record.records)
                continue
            restore.add(record)
        except (ValueError, LookupError, TypeError) as error:
            restore.finish()
            why = error if isinstance(error, ValueError) else "it is no record of an export"
            raise TransferError(f"line {number} cannot be read: {why}; the {done} records before it are restored") from None
        done += 1
        if on_progress is not None and done % _BATCH == 0:
            on_progress(done)
    restore.finish()
    if on_progress is not None:
        on_progress(done)
    if ended != done:
        told = "its last line is missing" if ended is None else f"it had {ended}"
        raise TransferError(f"the export is not whole, {told}: {done} records are restored; export again, import into a new log")
    return done


class _Restore:
    """Writes records in the order of the export, neighbours of a kind together."""

    def __init__(self, log: Log, stages: Mapping[str, Stage[Any]], scope: str) -> None:
        self._log = log
        self._stages = stages
        self._readable_only = scope == "range"
        self._gapless = scope == "everything"
        self._run: list[Record] = []
        self._shards: dict[str, tuple[ShardLog, Sequence[Partition]]] = {}
        self._offsets: dict[Partition, array[int]] = {}
        """Of the records restored, in the exported log; 8 bytes each."""
        self._here: dict[Partition, array[int]] = {}
        """Of the same records, in this log: Kafka's markers of transactions have offsets too."""
        self._written: dict[str, int] = {}
        self._now = 0
        self._missing = 0
        """Records that were left out, and after which no output has been seen to be missing."""

    def add(self, record: Record) -> None:
        """Take the next record.

        Raises:
            TransferError: it is an output that cannot be restored behind those before it.
        """
        if record.shard:
            self._check(record)
        if self._run and (len(self._run) >= _BATCH or self._kind(record) != self._kind(self._run[0])):
            self._flush()
        self._run.append(record)

    def miss(self, count: int) -> None:
        """Go on without some records that were left out of the export."""
        self._missing += count

    def finish(self) -> None:
        """Write what is left and give the shards back."""
        self._flush()
        if self._readable_only:
            for name, stage in self._stages.items():
                for number in range(shard_count(self._log, stage)):
                    shard, inputs = self._shard(f"{name}/{number}")
                    shard.commit(Commit(tuple(self._log.end(partition) for partition in inputs), self._now))
        for shard, _ in self._shards.values():
            shard.close()

    def _flush(self) -> None:
        run, self._run = self._run, []
        if not run:
            return
        self._now = max(self._now, *(record.message.recordedtime for record in run))
        name = run[0].shard
        if not name or self._readable_only:
            self._log.append(run[0].partition.topic, [record.message for record in run])
            self._restored(run)
            return
        shard, inputs = self._shards[name]
        outputs = [
            Output(record.partition.topic, record.message, self._basis(record.basis, inputs), record.partition.number)
            for record in run
        ]
        now = max(shard.position.now, run[-1].message.recordedtime)
        shard.commit(Commit(outputs[-1].basis, now, outputs))
        self._restored(run)

    def _restored(self, run: Sequence[Record]) -> None:
        for record in run:
            self._offsets.setdefault(record.partition, array("q")).append(record.offset)

    def _check(self, record: Record) -> None:
        """Make sure that an output can be restored."""
        name, sequence = record.shard, record.shardsequence
        expected = self._written.get(name, 0) + 1
        missing = sequence - expected
        if self._gapless and 0 < missing <= self._missing:
            self._missing -= missing
        elif self._gapless and missing:
            raise TransferError(f"it is output {sequence} of {name}, and output {expected} is missing")
        self._written[name] = sequence
        if self._readable_only:
            return
        _, inputs = self._shard(name)
        if len(record.basis) != len(inputs):
            raise TransferError(
                f"it follows from {len(record.basis)} inputs and {name} has {len(inputs)}; use the release that wrote it"
            )

    def _shard(self, name: str) -> tuple[ShardLog, Sequence[Partition]]:
        if name not in self._shards:
            kind, _, number = name.partition("/")
            stage = self._stages.get(kind)
            if stage is None:
                raise TransferError(f"the export holds outputs of {name}, a stage that this release does not have")
            if not number.isdecimal() or int(number) >= shard_count(self._log, stage):
                raise TransferError(f"the log has no shard {name}")
            inputs = input_partitions(self._log, stage, int(number))
            self._shards[name] = (self._log.open(ShardId(stage.name, int(number)), inputs), inputs)
        return self._shards[name]

    def _kind(self, record: Record) -> tuple[str, str]:
        """Return what records have in common that are written together: a commit may write to several topics."""
        return record.shard, "" if record.shard and not self._readable_only else record.partition.topic

    def _basis(self, basis: Vector, inputs: Sequence[Partition]) -> Vector:
        """Translate offsets of the exported log into this one's: each is the one behind the last record restored below it."""
        return tuple(self._behind(partition, end) for partition, end in zip(inputs, basis, strict=True))

    def _behind(self, partition: Partition, end: int) -> int:
        taken = bisect_left(self._offsets.get(partition, ()), end)
        if not taken:
            return 0
        here = self._here.setdefault(partition, array("q"))
        while len(here) < taken:
            found = self._log.read(partition, here[-1] + 1 if here else 0, _BATCH)
            if not found:
                # What was committed a moment ago may become readable a little later.
                self._log.wait(_VISIBLE_SECONDS, [partition])
                continue
            here.extend(record.offset for record in found)
        return here[taken - 1] + 1


def _head(contents: Contents) -> bytes:
    data = {"scope": contents.scope, "partitions": contents.partitions, "what": contents.what}
    return _own(_HEAD, json.dumps(data, separators=(",", ":")), data)


def _end(records: int) -> bytes:
    return _own(_END, f"{_END}\x1f{records}", {"records": records})


def _own(kind: str, identity: str, data: Mapping[str, Any]) -> bytes:
    """Return a line of the export's own: an event whose id is the digest of a text."""
    event = {"specversion": "1.0", "id": digest(identity.encode()), "source": "lahar/export", "type": kind, "data": data}
    return json.dumps(event, separators=(",", ":")).encode()


def _line(record: Record) -> bytes:
    metadata: dict[str, Any] = {"topic": record.partition.topic, "partition": record.partition.number, "offset": record.offset}
    if record.shard:
        metadata |= {"shard": record.shard, "shardsequence": record.shardsequence, "basis": ".".join(map(str, record.basis))}
    return _event(record.message)[:-1] + b"," + json.dumps(metadata, separators=(",", ":")).encode()[1:]


def _event(message: Message) -> bytes:
    try:
        line = to_cloudevent(message)
        if b"\n" not in line and message.type != _KEPT and from_cloudevent(line, 0) == message:
            return line
    except (UndecodableError, ValueError, OverflowError):
        pass  # what is no event, or no canonical one, is kept whole
    kept = message._asdict() | {"data": base64.b64encode(message.data).decode()}
    return _own(_KEPT, json.dumps(kept), kept)


def _surplus() -> int:
    raise ValueError("it stands behind the end of the export")


class _LeftOut(NamedTuple):
    """Records that an export has not."""

    records: int


def _record(line: bytes) -> Record | int | _LeftOut:
    """Return the record of a line, how many were left out, or how many there were, if it is the last line.

    Raises:
        ValueError, LookupError, TypeError: it is neither.
    """
    fields = from_json(line)
    if fields["type"] == _END:
        return int(fields["data"]["records"])
    if fields["type"] == _LEFT_OUT:
        return _LeftOut(int(fields["data"].get("records", 1)))
    if fields["type"] == _KEPT:
        kept = fields["data"]
        message = Message(**(kept | {"data": base64.b64decode(kept["data"], validate=True)}))
        if not all(isinstance(value, type(expected)) for value, expected in zip(message, _BLANK, strict=True)):
            raise ValueError("an attribute of the record that it keeps is of the wrong type")
    else:
        message = from_cloudevent(line, 0)
    topic = fields["topic"]
    if topic not in _TOPICS:
        raise ValueError(f"there is no topic {topic!r}")
    basis = fields.get("basis", "")
    record = Record(
        Partition(topic, int(fields["partition"])),
        int(fields["offset"]),
        message,
        str(fields.get("shard", "")),
        int(fields.get("shardsequence", 0)),
        tuple(int(end) for end in basis.split(".")) if basis else (),
    )
    if not all(0 <= number <= _LARGEST for number in (record.offset, *record.basis)):
        raise ValueError("an offset is none that a log can have")
    if not all(-_LARGEST <= number <= _LARGEST for number in (message.time, message.recordedtime, message.sequence)):
        raise ValueError("a time or sequence is beyond 64 bits")
    return record
