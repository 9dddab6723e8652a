"""A commit, and what is read ahead of it, is bounded in bytes: a few hundred of the largest inputs must not fill the memory."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from counting_stage import CountingStage, Shard, custom, node

from engine.events import Event, Topic, decode, raw_message
from engine.events.inputs import NodeObserved
from engine.events.outcomes import Accounted
from engine.log.memory import MemoryLog, MemoryShard
from engine.log.port import READ_BYTES, Commit, Partition, Position, Record, size_of
from engine.log.sqlite import SqliteLog
from engine.processor import shard_run as run
from engine.processor.processor import Processor
from engine.processor.shard_run import COMMIT_BYTES
from engine.processor.snapshots import state_hash

LARGE = 200_000
"""Bytes of one input."""


def memory(_: Path) -> MemoryLog:
    return MemoryLog()


def sqlite(folder: Path) -> SqliteLog:
    return SqliteLog(folder / "lahar.db")


def fill(log: MemoryLog | SqliteLog, count: int = 200) -> None:
    """Append inputs of three keys, one in ten of them no event, one in ten with a long name, with timers due between them."""
    log.append("jobs", [custom("a", 0, "timer", at=1, delays=list(range(5, count, 20)))])
    for at in range(1, count):
        pad = "x" * LARGE
        message = custom("abc"[at % 3], at, "many", at=at, times=2, pad=pad)
        if at % 10 == 0:
            message = raw_message("garbage", pad.encode(), at)
        elif at % 10 == 3:
            message = custom("abc"[at % 3], at, "many", at=at)._replace(id=pad)
        log.append("jobs" if at % 2 else "pods", [message])


def opened(log: MemoryLog | SqliteLog, **options: Any) -> Processor[Shard]:
    processor = Processor(log, CountingStage(), **options)
    processor.open()
    return processor


def records(log: MemoryLog | SqliteLog, topic: Topic) -> list[Record]:
    found: list[Record] = []
    while more := log.read(Partition(topic, 0), len(found), 1_000):
        found += more
    return found


def events(log: MemoryLog | SqliteLog) -> list[Event[Any]]:
    return [decode(record.message) for topic in ("job-events", "dead-letters") for record in records(log, topic)]  # type: ignore[arg-type]


def bytes_between(log: MemoryLog | SqliteLog, before: Position, after: Position) -> list[int]:
    """Return the sizes of what a commit was made of."""
    taken = [
        size_of(record.message)
        for (topic, _), first, end in zip(CountingStage.inputs, before.vector, after.vector, strict=True)
        for record in records(log, topic)
        if first <= record.offset < end
    ]
    put = [
        size_of(record.message)
        for topic in ("job-events", "dead-letters")
        for record in records(log, topic)  # type: ignore[arg-type]
        if before.shardsequence < record.shardsequence <= after.shardsequence
    ]
    return [*taken, *put]


@pytest.mark.parametrize("make", [memory, sqlite])
def test_large_inputs_are_split_over_commits_which_say_what_one_would(
    make: Callable[[Path], MemoryLog | SqliteLog], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make(tmp_path)
    fill(log)
    processor = opened(log)
    places = [processor.position]
    while processor.step():
        places.append(processor.position)
    sizes = [sum(bytes_between(log, before, after)) for before, after in pairwise(places)]
    largest = 3 * LARGE
    assert len(sizes) > 2
    assert all(COMMIT_BYTES <= size < COMMIT_BYTES + largest for size in sizes[:-1]), sizes

    monkeypatch.setattr(run, "COMMIT_BYTES", 1 << 40)
    whole = MemoryLog()
    fill(whole)
    other = opened(whole)
    assert other.step() == sum(1 for event in events(whole) if event.type == "lahar.timer.fired.v1") + 200
    assert other.step() == 0
    # What is only counted is told once a commit, in what is neither an output's place nor in any state.
    assert [event for event in events(log) if not isinstance(event.data, Accounted)] == [
        event for event in events(whole) if not isinstance(event.data, Accounted)
    ]
    assert state_hash(processor.stage, processor.state) == state_hash(other.stage, other.state)


def test_inputs_that_are_larger_than_the_bound_are_taken_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "COMMIT_BYTES", 40)
    log = MemoryLog()
    log.append("pods", [custom("a", number, "add", at=number) for number in range(3)])
    assert min(size_of(record.message) for record in records(log, "pods")) > 40
    processor = opened(log)
    assert [processor.step() for _ in range(4)] == [1, 1, 1, 0]


def test_outputs_count_as_inputs_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "COMMIT_BYTES", 80_000)
    log = MemoryLog()
    log.append("pods", [custom("a", number, "many", at=number, times=400) for number in range(4)])
    processor = opened(log)
    assert [processor.step() for _ in range(3)] == [2, 2, 0]


def test_timers_stop_at_the_bound_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog()
    log.append("pods", [custom("a", 1, "timer", at=1, delays=[1] * 10)])
    processor = opened(log, clock=lambda: 100)
    monkeypatch.setattr(run, "COMMIT_BYTES", 200)
    assert processor.step() == 1
    counts = []
    while done := processor.step():
        counts.append(done)
    assert sum(counts) == 10
    assert len(counts) > 2


def test_attempts_that_fail_are_split_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a failed attempt had taken is taken again, and may be more than now goes into a commit."""

    class Wordy(CountingStage):
        def park(self, state: Shard, event: Event[Any], now: int, error: str) -> Any:
            return super().park(state, event, now, error + "y" * 5_000)

    monkeypatch.setattr(run, "COMMIT_BYTES", 6_000)
    log = MemoryLog()
    log.append("pods", [custom("abcdef"[number], number, "fail", at=number) for number in range(6)])
    processor = Processor(log, Wordy())
    processor.open()
    counts = []
    while done := processor.step():
        counts.append(done)
    assert (sum(counts), processor.committed["parked"]) == (6, 6)
    assert len(counts) > 2
    assert processor.accounts.balanced


@pytest.mark.parametrize("make", [memory, sqlite])
def test_partitions_that_are_read_in_parts_are_merged_by_their_times(
    make: Callable[[Path], MemoryLog | SqliteLog], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that ends because of the bytes is no sign that nothing more waits."""
    monkeypatch.setattr(run, "COMMIT_BYTES", 1 << 40)
    log = make(tmp_path)
    count = 2 * READ_BYTES // LARGE
    log.append("pods", [custom("p", at, "add", at=at, pad="x" * LARGE) for at in range(0, 2 * count, 2)])
    log.append("jobs", [custom("j", at, "add", at=at) for at in range(1, 2 * count, 2)])
    processor = opened(log)
    assert processor.step() == 2 * count
    assert [int(event.causationid[2:]) for event in events(log)] == list(range(2 * count))


def test_what_waits_in_memory_is_bounded(tmp_path: Path) -> None:
    log = sqlite(tmp_path)
    log.append("pods", [custom("p", at, "add", at=at, pad="x" * LARGE) for at in range(100)])
    processor = opened(log)
    processor._run.inputs.refresh()
    held = [size_of(record.message) for head in processor._run.inputs._heads for record in head._records]
    assert READ_BYTES <= sum(held) < READ_BYTES + 2 * LARGE


def test_recovery_reads_large_outputs_in_parts(tmp_path: Path) -> None:
    """Also what it absorbs: a short read is not the end of what was taken."""
    log = sqlite(tmp_path)
    fill(log, 100)
    first = opened(log, snapshot_every=1_000_000)
    first.run_until_quiet()
    found = state_hash(first.stage, first.state)
    again = opened(log)
    assert state_hash(again.stage, again.state) == found


def test_a_scan_gives_everything_in_commit_order_and_reads_it_in_parts(tmp_path: Path) -> None:
    log = sqlite(tmp_path)
    sent = [custom("p", at, "add", at=at, pad="x" * LARGE) for at in range(60)]
    for at, message in enumerate(sent):
        log.append("pods" if at % 3 else "jobs", [message])
    assert [record.message for record in log.scan(["pods", "jobs"])] == sent
    assert [record.message for record in log.records_of("p", ["pods", "jobs"])] == sent
    assert [record.message for record in log.scan(["pods"])] == [message for at, message in enumerate(sent) if at % 3]


def test_a_commit_is_bounded_for_the_log_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a log is given to write at once."""
    found: list[int] = []
    genuine = MemoryShard.commit

    def commit(self: MemoryShard, commit: Commit) -> Position:
        found.append(sum(len(output.message.data) for output in commit.outputs))
        return genuine(self, commit)

    monkeypatch.setattr(MemoryShard, "commit", commit)
    log = MemoryLog()
    log.append("pods", [raw_message("k", b"\xff" * 1_000_000, at) for at in range(40)])
    processor = opened(log)
    processor.run_until_quiet()
    assert processor.committed["dead"] == 40
    assert max(found) < COMMIT_BYTES


def test_what_was_absorbed_under_wider_bounds_is_absorbed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release with narrower ones opens the shard, without a snapshot too."""
    log = MemoryLog()
    log.append("cluster", [node("n", 1, 7, at=1)])
    log.append("pods", [custom("a", 1, "add", at=2)])
    first = Processor(log, CountingStage())
    first.open()
    first.run_until_quiet()
    monkeypatch.setattr(NodeObserved, "LARGEST", 5)
    narrow = Processor(log, Renewed())
    narrow.open()
    assert narrow.state.nodes == first.state.nodes == {"n": 7}
    monkeypatch.setattr(run, "SMALL", 0)  # no real bound is narrower
    log.append("cluster", [node("n", 2, 8, at=3)])
    narrow.run_until_quiet()
    assert narrow.accounts.outcomes["dead"] == 1


class Renewed(CountingStage):
    """Does not read the snapshots of the other one."""

    state_version = CountingStage.state_version + 1
