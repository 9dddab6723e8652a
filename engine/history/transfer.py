"""Export and import: a log as JSON Lines of CloudEvents (`export_lines`), lossless both ways.

An import skips damaged records, which an export leaves out. Snapshots and cursors are not exported: snapshots are rebuilt, and
callbacks on the restored log receive every event again, as `catchup`. A backup keeps both.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from engine.events import Topic
from engine.history.errors import TransferError
from engine.history.export_lines import (
    TOPICS,
    Contents,
    LeftOut,
    contents_of,
    end_line,
    head_line,
    left_out_line,
    read_line,
    record_line,
)
from engine.history.readable_records import Damage, readable_records
from engine.log.port import Commit, Log, Output, Partition, Record, SearchableLog, ShardId, ShardLog, Vector
from engine.log.shard_inputs import extended
from engine.processor.partitions import input_partitions, partition_count, shard_count
from engine.processor.stage import Stage

_Inputs = dict[str, Sequence[Partition]]
"""Input partitions by shard."""

_ADDED: Final[frozenset[Topic]] = frozenset({"decisions"})
"""Inputs that stages have since a later release; earlier outputs do not depend on them."""
_BATCH: Final = 5_000
_RESTORING: Final = "import"
_RESTORED: Final = Partition("jobs", 0)
"""Marker cursor of a log that is being restored, with the number of records; 0 when all are restored."""
_VISIBLE_SECONDS: Final = 1.0


def export_log(
    log: SearchableLog,
    first: int | None = None,
    last: int | None = None,
    on_damage: Callable[[Damage], None] | None = None,
) -> Iterator[bytes]:
    """Yield the lines of an export of a whole log or of a range of recorded time.

    Args:
        log: any log with commit order; other processes may keep writing.
        first: first recorded time to export (microseconds); `None`: the beginning.
        last: last recorded time to export (microseconds); `None`: the current end.
        on_damage: called with each damaged record, which is left out.
    """
    count = partition_count(log)
    if first is None and last is None:
        yield head_line(Contents("everything", count))
    else:
        yield head_line(
            Contents("everything" if first is None else "range", count, f"{first or ''}..{'' if last is None else last}")
        )
    done = 0
    for record in readable_records(log, TOPICS):
        if isinstance(record, Damage):
            yield _left_out(record, on_damage)
            continue
        recorded = record.message.recordedtime
        if (first is None or recorded >= first) and (last is None or recorded <= last):
            yield record_line(record)
            done += 1
    yield end_line(done)


def export_job(log: SearchableLog, job: str, on_damage: Callable[[Damage], None] | None = None) -> Iterator[bytes]:
    """Yield the lines of an export of one job: its inputs and all stages' events about it; `on_damage` as in `export_log`."""
    yield head_line(Contents("job", partition_count(log), job))
    done = 0
    for record in readable_records(log, TOPICS, job):
        if isinstance(record, Damage):
            yield _left_out(record, on_damage)
            continue
        yield record_line(record)
        done += 1
    yield end_line(done)


def _left_out(damage: Damage, on_damage: Callable[[Damage], None] | None) -> bytes:
    if on_damage is not None:
        on_damage(damage)
    return left_out_line(damage)


def import_log(
    log: Log,
    lines: Callable[[], Iterable[bytes]],
    stages: Mapping[str, Stage[Any]],
    on_progress: Callable[[int], None] | None = None,
) -> int:
    """Restore an export into an empty log.

    A complete export restores the same records at the same offsets with the same metadata (gaps between offsets close), and
    processing resumes where it stopped. An export of one job restores a log of that job alone, and processing resumes too. An
    export of a range lacks its beginning, so its log is read-only: all its inputs count as processed.

    Args:
        log: empty log with as many partitions as the exported one.
        lines: returns the export's lines from the first one on; called twice, to check them and to restore them.
        stages: stages that may have written outputs, by name.
        on_progress: called with the number of records restored so far, after each batch.

    Returns:
        Number of records.

    Raises:
        TransferError: the lines are not a complete export, a line cannot be read or restored, an output is missing (the message
            names it), the log is not empty or has another number of partitions, or a stage is unknown. Nothing is restored.
        LogUnavailableError: the log cannot be written. A part may be restored, which `verify` reports: import into a new log.
    """
    if any(log.end(Partition(topic, number)) for topic in TOPICS for number in range(log.partitions(topic))):
        raise TransferError("the log is not empty; import into a new one")
    contents, inputs, count = _checked(log, lines(), stages)
    log.move_cursor(_RESTORING, {_RESTORED: count})
    restore = _Restore(log, stages, inputs, readable_only=contents.scope == "range")
    done = 0
    for line in islice(lines(), 1, None):
        if line.strip() and isinstance(record := read_line(line), Record):
            restore.add(record)
            done += 1
            if on_progress is not None and done % _BATCH == 0:
                on_progress(done)
    restore.finish()
    log.move_cursor(_RESTORING, {_RESTORED: 0})
    if on_progress is not None:
        on_progress(done)
    return done


def is_partly_restored(log: Log) -> bool:
    """Return true if an import into this log was interrupted."""
    return any(log.cursor(_RESTORING).values())


def _checked(log: Log, lines: Iterable[bytes], stages: Mapping[str, Stage[Any]]) -> tuple[Contents, _Inputs, int]:
    """Read a whole export; return its contents, the inputs of the shards that wrote its outputs, and the number of its records.

    Raises:
        TransferError: it cannot be restored into this log.
    """
    rest = iter(lines)
    contents = contents_of(next(rest, b""))
    count = partition_count(log)
    if count != contents.partitions:
        raise TransferError(f"the export has {contents.partitions} partitions a topic, the log has {count}; use a log with as many")
    check = _Check(log, stages, contents.scope)
    done = 0
    ended: int | None = None
    for number, line in enumerate(rest, start=2):
        if not line.strip():
            continue
        try:
            record = read_line(line) if ended is None else _surplus()
            if isinstance(record, int):
                ended = record
            elif isinstance(record, LeftOut):
                check.missing += record.records
            else:
                check.add(record)
                done += 1
        except (ValueError, LookupError, TypeError) as error:
            why = error if isinstance(error, ValueError) else "it is not a record of an export"
            raise TransferError(f"line {number} cannot be read: {why}; nothing is restored") from None
    if ended != done:
        found = "its last line is missing" if ended is None else f"its last line counts {ended} records"
        raise TransferError(f"the export is incomplete, {found} after {done}: nothing is restored; export again")
    return contents, check.inputs, done


class _Check:
    """Checks that records can be restored, in the order of the export."""

    def __init__(self, log: Log, stages: Mapping[str, Stage[Any]], scope: str) -> None:
        self._log = log
        self._stages = stages
        self._scope = scope
        self._written: dict[str, int] = {}
        self.inputs: _Inputs = {}
        self.missing = 0
        """Records left out of the export, minus outputs found missing."""

    def add(self, record: Record) -> None:
        """Check the next record.

        Raises:
            TransferError: it is in a partition that the log does not have, or an output that does not continue the earlier ones.
        """
        if not 0 <= record.partition.number < self._log.partitions(record.partition.topic):
            raise TransferError(f"the log has no partition {record.partition}")
        if not record.shard or self._scope == "range":
            return
        name, sequence = record.shard, record.shardsequence
        expected = self._written.get(name, 0) + 1
        missing = sequence - expected
        if self._scope == "everything" and 0 < missing <= self.missing:
            self.missing -= missing
        elif self._scope == "everything" and missing:
            raise TransferError(f"this is output {sequence} of {name}, but output {expected} is missing")
        self._written[name] = sequence
        if name not in self.inputs:
            self.inputs[name] = self._inputs(name)
        count = len(self.inputs[name])
        if len(record.basis) not in {count, sum(partition.topic not in _ADDED for partition in self.inputs[name])}:
            raise TransferError(
                f"its basis has {len(record.basis)} offsets, but {name} has {count} inputs; use the release that wrote it"
            )

    def _inputs(self, name: str) -> Sequence[Partition]:
        kind, _, number = name.partition("/")
        stage = self._stages.get(kind)
        if stage is None:
            raise TransferError(f"the export holds outputs of {name}, a stage that this release does not have")
        if not number.isdecimal() or int(number) >= shard_count(self._log, stage):
            raise TransferError(f"the log has no shard {name}")
        return input_partitions(self._log, stage, int(number))


class _Restore:
    """Restores checked records in export order, consecutive ones of one commit together."""

    def __init__(self, log: Log, stages: Mapping[str, Stage[Any]], inputs: _Inputs, *, readable_only: bool) -> None:
        self._log = log
        self._stages = stages
        self._inputs = inputs
        self._readable_only = readable_only
        self._run: list[Record] = []
        self._shards: dict[str, ShardLog] = {}
        self._offsets: dict[Partition, array[int]] = {}
        """Offsets of restored records in the exported log; 8 bytes each."""
        self._here: dict[Partition, array[int]] = {}
        """Offsets of the same records in this log, which differ on Kafka, because transaction markers use offsets."""
        self._now = 0

    def add(self, record: Record) -> None:
        """Add the next record."""
        if self._run and (len(self._run) >= _BATCH or self._kind(record) != self._kind(self._run[0])):
            self._flush()
        self._run.append(record)

    def finish(self) -> None:
        """Write the remaining records and close the shards."""
        self._flush()
        if self._readable_only:
            for name, stage in self._stages.items():
                for number in range(shard_count(self._log, stage)):
                    inputs = input_partitions(self._log, stage, number)
                    shard = self._shard(f"{name}/{number}", inputs)
                    shard.commit(Commit(tuple(self._log.end(partition) for partition in inputs), self._now))
        for shard in self._shards.values():
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
        inputs = self._inputs[name]
        shard = self._shard(name, inputs)
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

    def _shard(self, name: str, inputs: Sequence[Partition]) -> ShardLog:
        if name not in self._shards:
            stage, _, number = name.partition("/")
            self._shards[name] = self._log.open(ShardId(stage, int(number)), inputs)
        return self._shards[name]

    def _kind(self, record: Record) -> tuple[str, str]:
        """Return the key of records written together: a commit may write to several topics."""
        return record.shard, "" if record.shard and not self._readable_only else record.partition.topic

    def _basis(self, basis: Vector, inputs: Sequence[Partition]) -> Vector:
        """Convert offsets of the exported log to this log's: each becomes the offset after the last record restored below it."""
        ends = extended(basis, len(inputs))
        return tuple(self._behind(partition, end) for partition, end in zip(inputs, ends, strict=True))

    def _behind(self, partition: Partition, end: int) -> int:
        taken = bisect_left(self._offsets.get(partition, ()), end)
        if not taken:
            return 0
        here = self._here.setdefault(partition, array("q"))
        while len(here) < taken:
            found = self._log.read(partition, here[-1] + 1 if here else 0, _BATCH)
            if not found:
                # Records committed just before may not be readable yet.
                self._log.wait(_VISIBLE_SECONDS, [partition])
                continue
            here.extend(record.offset for record in found)
        return here[taken - 1] + 1


def _surplus() -> int:
    raise ValueError("it follows the last line of the export")
