"""What bills cost: job events through the billing stage, open attempts and their hour marks, the proof of a bill.

`python benchmarks/billing.py [NAME…]` takes these measures alone and prints one JSON object a line. All times are processor time,
which other work on the machine lengthens less than wall time. There is a price book with two meters and two multipliers.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Final

from billing_export import write
from growth import resident
from measures import Budget, Measured, measure
from workload import BEGIN, OBSERVATIONS, life, lives, run

from engine.billing.calendar import HOUR, next_hour
from engine.billing.stage import BillingStage
from engine.billing.state import State
from engine.events import Data, Event, Message, decode, encode
from engine.events.inputs import ObjectApplied
from engine.history.billing import check_billing
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.log.port import Partition
from engine.processor.processor import Processor
from engine.processor.shard_run import OUTPUT_LIMIT
from engine.runtime.gc_control import freeze_live_objects

_MANY: Final = 100_000
"""Jobs, or open attempts."""
_STRIDE: Final = 7_919
"""Jobs come in no order of their ids, as uids do not; a prime, which divides no number of jobs here."""
_BILLING: Final = Partition("billing", 0)
_FIRED: Final = -(-OUTPUT_LIMIT // 64)
"""Timers that a commit takes at an hour mark, of 64 attempts each."""


def _price_book() -> Event[ObjectApplied]:
    version = {
        "version": "2023-11",
        "from": "2023-01-01T00:00:00Z",
        "prices": {"gpu_seconds": {"*": "0.000833333333"}, "cpu_seconds": {"*": "0.0000111"}},
        "multipliers": [
            {"tenant": "research", "factor": "0.8"},
            {"tenant": "x", "factor": "2"},
        ],
    }
    data = ObjectApplied("PriceBook", "prices", {"currency": "EUR", "versions": [version]})
    return Event("prices", "bench", data.TYPE, "prices", BEGIN, BEGIN, 0, "", "", "bench", data)


def _job_events(observations: Iterable[Message]) -> list[Message]:
    """Return the job events that follow from observations of pods."""
    pods = MemoryLog()
    pods.append("pods", list(observations))
    run(pods)
    return [record.message for record in pods.scan(("job-events",))]


def _lives_of(places: range, jobs: int, steps: Iterable[int] = range(OBSERVATIONS)) -> Iterator[Message]:
    """Yield observations of the lives of some of so many jobs of one pod: of step 4 it runs, of step 8 it has ended."""
    for step in steps:
        for place in places:
            yield list(life(place * _STRIDE % jobs, 0, BEGIN + place * 1_000, until=step + 1))[-1]


def _billing(job_events: Iterable[Message]) -> Processor[State]:
    """Return a shard of billing that has a price book before these job events."""
    log = MemoryLog()
    log.append("cluster", [encode(_price_book(), "bench")])
    processor = Processor(log, BillingStage(), 0)
    processor.open()
    processor.step()
    assert processor.state.book.book is not None, "the price book is refused"
    log.append("job-events", list(job_events))
    return processor


def _seconds(work: Callable[[], object]) -> float:
    began = process_time()
    work()
    return process_time() - began


def _work_off(processor: Processor[State]) -> float:
    """Return how long a shard takes to take what waits for it (seconds)."""
    with freeze_live_objects() as collector:

        def work() -> None:
            while processor.step():
                collector.tick()

        return _seconds(work)


# --- job events -------------------------------------------------------------------------------------------------------------------


def _rate() -> Measured:
    messages = _job_events(lives(range(2_500), 4, BEGIN))

    def floor() -> None:
        for message in messages:
            decode(message)

    return Measured(len(messages) / _work_off(_billing(messages)), len(messages) / _seconds(floor))


def _cost_on(jobs: int, *steps: int) -> float:
    """Return what a job event costs on a shard with so many jobs that have come to these steps (seconds)."""
    more = 2_000
    processor = _billing(_job_events(_lives_of(range(jobs), jobs + more, steps)))
    _work_off(processor)
    messages = _job_events(_lives_of(range(jobs, jobs + more), jobs + more))
    processor.log.append("job-events", messages)
    return _work_off(processor) / len(messages)


def _on_open() -> Measured:
    return Measured(_cost_on(_MANY, 4) / _cost_on(_MANY // 10, 4))


def _on_finished() -> Measured:
    return Measured(_cost_on(_MANY, 4, 8) / _cost_on(_MANY // 10, 4, 8))


# --- open attempts ----------------------------------------------------------------------------------------------------------------


def _grow(replicas: int) -> float:
    """Return how much this process grows for each open attempt that was recorded at three hour marks (bytes)."""
    stage, lifecycle = BillingStage(), LifecycleStage()
    state = stage.initial()
    stage.absorb(state, _price_book())

    def settle() -> None:  # as a commit, and the parts of the snapshot behind it
        for record in stage.touched(state):
            stage.dump(state, record)

    def follow(decision: Iterable[Event[Data]]) -> None:
        for event in decision:
            stage.evolve(state, event)

    gc.collect()
    before = resident()
    for number in range(_MANY // replicas):
        jobs = lifecycle.initial()  # forgotten at once: what the lifecycle stage keeps does not count
        for message in lives(range(number, number + 1), replicas, BEGIN, first=4, until=5):
            observed = decode(message)
            for made in lifecycle.decide(jobs, observed, observed.recordedtime):
                lifecycle.evolve(jobs, made)
                event = decode(encode(made))
                stage.absorb(state, event)
                follow(stage.decide(state, event, event.recordedtime))
        if number % 100 == 0:
            settle()
    for hour in range(3):
        mark = next_hour(BEGIN) + hour * HOUR
        for fired in count():
            due = stage.due(state)
            if due is None or due > mark:
                break
            follow(stage.fire(state, mark))
            if fired % _FIRED == 0:
                settle()
        settle()
    gc.collect()
    return (resident() - before) / _MANY


def _bytes(replicas: int) -> Measured:
    # In a process of its own: what an earlier measure gave back would hide what this one takes.
    with get_context("spawn").Pool(1) as pool:
        return Measured(pool.apply(_grow, (replicas,)))


def _bytes_of_four() -> Measured:
    return _bytes(4)


def _bytes_of_one() -> Measured:
    return _bytes(1)


@cache
def _marks() -> tuple[float, float, float, float]:
    """Return what the first hour mark takes, and any other; the longest commit; the encoding of what a mark writes (seconds).

    At the first mark nothing is recorded yet of any attempt, and each has another length. Of the three that follow, medians.
    """
    processor = _billing(_job_events(_lives_of(range(_MANY), _MANY, (4,))))
    _work_off(processor)
    wholes, longest, floors = [], [], []
    with freeze_live_objects() as collector:
        processor.run_until_quiet()
        for hour in range(4):
            mark, begin, steps = next_hour(BEGIN) + hour * HOUR, processor.log.end(_BILLING), []

            def step(mark: int = mark) -> int:
                done = processor.fire_due(mark)
                collector.tick()
                return done

            done = 1
            while done:
                began = process_time()
                done = step()
                steps.append(process_time() - began)
            made = [decode(record.message) for record in processor.log.read(_BILLING, begin, _MANY)]
            wholes.append(sum(steps))
            longest.append(max(steps))
            floors.append(_seconds(lambda made=made: [encode(event) for event in made]) * _MANY / len(made))  # type: ignore[misc]
            while processor.step() or processor.snapshot_dirty:
                pass
    return wholes[0], median(wholes[1:]), max(longest[0], median(longest[1:])), median(floors)


def _first_hour_mark() -> Measured:
    return Measured(_marks()[0])


def _hour_mark() -> Measured:
    _, whole, _, floor = _marks()
    return Measured(whole, floor)


def _hour_mark_step() -> Measured:
    return Measured(_marks()[2] * 1_000)


# --- the whole bill ---------------------------------------------------------------------------------------------------------------


def _verified() -> float:
    messages = _job_events(lives(range(91_000), 1, BEGIN))
    processor = _billing(messages)
    _work_off(processor)
    log = processor.log
    assert isinstance(log, MemoryLog)
    processor.close()

    def work() -> None:
        assert not list(check_billing(log))

    return _seconds(work) / len(messages) * 1_000_000


def _verify() -> Measured:
    with get_context("spawn").Pool(1) as pool:
        return Measured(pool.apply(_verified))


@cache
def _exported() -> tuple[float, float]:
    with TemporaryDirectory() as folder, get_context("spawn").Pool(1) as pool:
        return pool.apply(write, ("parquet", str(Path(folder) / "records")))


def _export() -> Measured:
    return Measured(_exported()[0])


def _export_memory() -> Measured:
    return Measured(_exported()[1])


MEASURES: Final[tuple[Budget, ...]] = (
    Budget("billing", "job events/s", "job events through the billing stage, memory log", 30_000, "at least", _rate),
    Budget("billing-on-100k-open", "ratio", "a job event beside 100,000 open attempts against 10,000", 1.25, "at most", _on_open),
    Budget("billing-on-100k-over", "ratio", "the same beside finished jobs", 1.25, "at most", _on_finished),
    Budget(
        "bytes-per-open-attempt", "B", "billing state of 100,000 open attempts, four a job", 1_024, "at most", _bytes_of_four, 1
    ),
    Budget("bytes-per-lone-attempt", "B", "the same, one a job", 1_024, "at most", _bytes_of_one, 1),
    Budget("hour-mark", "s", "100,000 open attempts are recorded up to an hour mark", 2, "at most", _hour_mark, 1),
    Budget("first-hour-mark", "s", "the same at the first mark after they began", None, "at most", _first_hour_mark, 1),
    Budget("hour-mark-step", "ms", "the longest commit of both", 100, "at most", _hour_mark_step, 1),
    Budget("billing-verify", "s", "`billing verify` of 1,000,000 job events, memory log", 45, "at most", _verify, 1),
    Budget("billing-export", "s", "1,000,000 records to Parquet", 60, "at most", _export, 1),
    Budget("billing-export-memory", "MB", "its resident memory", 300, "at most", _export_memory, 1),
)
"""Part of `budgets.MEASURES`."""


def main(names: list[str]) -> int:
    """Take the named measures, all without names; return 1 if a budget is not met."""
    missed = False
    for budget in MEASURES:
        if not names or budget.name in names:
            record = measure(budget)
            missed |= record["met"] is False
            print(json.dumps(record), flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
