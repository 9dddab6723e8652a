"""Usage that begins with the lifecycle stage's snapshot is what all of the history says."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import pytest
from job_history import History, opened
from lifecycle_inputs import inputs

from engine.events import Data, Event, decode
from engine.events.attempts import AttemptBound, AttemptChanged, AttemptEnded, AttemptRunning, AttemptStarted, AttemptTerminating
from engine.events.jobs import JobForgotten, JobPhaseChanged, JobRevised
from engine.lifecycle.evolve import evolve
from engine.lifecycle.job import Job
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.log.port import Partition, Record, ShardId, ShardView
from engine.processor.processor import Processor
from engine.processor.snapshots import MANIFEST
from engine.simulation.traces import import_rows, read_trace, sample_trace
from statemachines.spec import JobSpec, Requests
from streams.agents.usage_book import FOLDED, Owner, UsageBook
from streams.agents.usage_seed import UsageSeed, read_seed

EVENTS = Partition("job-events", 0)
GAUGES = ("jobs", "replicas", "cpu_milli", "memory_bytes", "gpu_billionths")
Fill = Callable[[MemoryLog, Path], None]


def gauges(book: UsageBook) -> list[Counter[object]]:
    found: list[Counter[object]] = [getattr(book, name) for name in GAUGES]
    assert not any(-one for one in found), "less than nothing"
    return [+one for one in found]


def mixed_jobs(log: MemoryLog, _: Path) -> None:
    for topic, message in inputs(150):
        log.append(topic, [message])


def months(log: MemoryLog, folder: Path) -> None:
    """A trace so long that jobs are forgotten."""
    rows = folder / "rows.csv"
    with sample_trace() as sample, gzip.open(sample, "rt") as source:
        rows.write_text("".join(islice(source, 601)))
    import_rows(log, read_trace(rows, "philly-status"), "philly-status", "c1")


def fold(book: UsageBook, records: Sequence[Record]) -> None:
    for record in records:
        event: Event = decode(record.message)
        if type(event.data) in FOLDED:
            book.fold(event)


def processed(log: MemoryLog, every: int, seldom: float = 0.0) -> list[tuple[UsageSeed, int]]:
    """Process what is in a log; return what was read of its snapshots meanwhile, and where the events ended."""
    processor, seeds, dice = Processor(log, LifecycleStage(), batch=10, snapshot_every=every), [], random.Random(every)  # noqa: S311  a workload
    processor.open()
    while processor.step():
        if dice.random() < seldom and (seed := read_seed(log, 0)) is not None:
            seeds.append((seed, log.end(EVENTS)))
    return seeds


@pytest.mark.parametrize("every", [40, 1_000])
@pytest.mark.parametrize("fill", [mixed_jobs, months])
def test_snapshot_and_tail_equal_the_whole_history_at_every_later_event(fill: Fill, every: int, tmp_path: Path) -> None:
    log = MemoryLog()
    fill(log, tmp_path)
    seeds = processed(log, every, seldom=0.04)
    history = log.read(EVENTS, 0, 1_000_000)
    whole, shown = UsageBook(), []
    for record in history:
        fold(whole, [record])
        shown.append(gauges(whole))
    kinds = Counter(type(decode(record.message).data) for record in history)
    assert (kinds[JobForgotten] > 400) if fill is months else (kinds[JobPhaseChanged] > 250)
    assert any(seed.offset for seed, _ in seeds), "every tail is the whole history"
    for seed, end in seeds:
        fold(seed.book, history[seed.offset : end])
        for record in history[end:]:
            assert gauges(seed.book) == shown[record.offset - 1]
            fold(seed.book, [record])
        assert gauges(seed.book) == shown[-1]


def of_one_job(*given: Data, job: str = "a") -> tuple[UsageBook, Job]:
    """What its events and what its state say."""
    book, state, history = UsageBook(), LifecycleStage().initial(), History(job)
    for data in given:
        event = history.event(data)
        evolve(state, event)
        if type(data) in FOLDED:
            book.fold(event)
    return book, state.jobs[job]


def test_a_job_that_was_moved_and_resized_begins_where_it_was() -> None:
    folded, job = of_one_job(
        opened("nlp", "gold"),
        JobPhaseChanged("Running", "Pending"),
        AttemptStarted("w", 0, 1, requests=Requests(cpu_milli=1_500, memory_bytes=2 << 30, gpu=2)),
        AttemptBound("w", 0, 1, node="n"),
        AttemptStarted("w", 1, 1, requests=Requests(cpu_milli=500, gpu=1, gpu_share_milli=250)),
        AttemptRunning("w", 0, 1),
        AttemptStarted("w", 2, 1),
        AttemptEnded("w", 2, 1),
        JobRevised(spec=JobSpec(queue="silver"), tenant="vision"),
        AttemptChanged("w", 0, 1, requests=Requests(cpu_milli=4_000, gpu=1)),
        AttemptTerminating("w", 1, 1),
    )
    book = UsageBook()
    book.begin([job])
    assert gauges(book) == gauges(folded)
    assert +book.cpu_milli == {
        (Owner("vision", "silver"), "Running"): 4_000,
        (Owner("vision", "silver"), "Terminating"): 500,
    }


def test_a_full_memory_of_ends_keeps_those_that_may_be_withdrawn() -> None:
    ends = [JobPhaseChanged("Completed", "Running", inferred=number < 3) for number in range(20)]
    jobs = [of_one_job(opened(), end, job=f"job-{number}")[1] for number, end in enumerate(ends)]
    book = UsageBook(kept=5)
    book.begin(jobs)
    assert len(book) == 5
    for number in range(3):
        history = History(f"job-{number}")
        history.lose(2)
        book.fold(history.event(JobPhaseChanged("Running", "Completed")))
    assert +book.jobs == {(Owner("nlp", "gold"), "Running"): 3}


def view_of(log: MemoryLog, change: Callable[[dict[str, bytes]], None]) -> MemoryLog:
    """A log whose snapshot was changed by somebody."""

    class Changed(MemoryLog):
        def look(self, shard: ShardId) -> ShardView | None:
            view = log.look(shard)
            assert view is not None
            records = dict(view.records)
            change(records)
            return ShardView(view.position, list(records.items()))

        def end(self, partition: Partition) -> int:
            return log.end(partition)

    return Changed()


def of_another_version(records: dict[str, bytes]) -> None:
    records[MANIFEST] = json.dumps({**json.loads(records[MANIFEST]), "state_version": 99}).encode()


def torn(records: dict[str, bytes]) -> None:
    del records[next(subject for subject in records if subject.startswith("job/"))]


def without_a_manifest(records: dict[str, bytes]) -> None:
    del records[MANIFEST]


def no_json(records: dict[str, bytes]) -> None:
    records[MANIFEST] = b"{"


def of_a_longer_topic(records: dict[str, bytes]) -> None:
    records[MANIFEST] = json.dumps({**json.loads(records[MANIFEST]), "offsets": [["job-events", 0, 10**9]]}).encode()


@pytest.mark.parametrize("change", [of_another_version, torn, without_a_manifest, no_json, of_a_longer_topic])
def test_a_snapshot_that_cannot_be_used_is_told_and_not_used(
    change: Callable[[dict[str, bytes]], None], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    log = MemoryLog()
    months(log, tmp_path)
    assert read_seed(log, 0) is None, "nothing has been processed yet"
    processed(log, 40)
    assert read_seed(log, 0) is not None
    assert "the snapshot" not in caplog.text
    assert read_seed(view_of(log, change), 0) is None
    assert "the snapshot of partition 0 is not used" in caplog.text
