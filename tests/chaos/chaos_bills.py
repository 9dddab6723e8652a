"""Faults to workers of the billing stage: what they are given, and the bill that it must come to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from chaos_feed import Given
from chaos_table import Row
from chaos_world import SHARDS, World
from lahar_command import Command
from lifecycle_inputs import inputs

from engine.billing.stage import BillingStage
from engine.events import Data, Event, Message, Topic, decode, encode
from engine.events.inputs import NodeObserved, ObjectApplied, PodObserved
from engine.events.outcomes import Accounted
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.log.sqlite import SqliteLog
from engine.runtime.engine import Engine
from engine.runtime.settings import Settings
from statemachines.spec import Requests

_SECOND: Final = 1_000_000
_BEGIN: Final = 1_000_000 * _SECOND
"""When the jobs of `lifecycle_inputs` begin."""
_DAY: Final = 86_400 * _SECOND
_CLUSTER: Final = "c1"
_PRICES: Final = {
    "currency": "EUR",
    "versions": [
        {"version": "first", "from": 0, "prices": {"cpu_seconds": {"*": "0.00001", "large": "0.0000123"}}},
        {
            "version": "second",
            "from": _BEGIN + 1_800 * _SECOND,
            "prices": {"gpu_seconds": {"*": "0.0005"}, "memory_byte_seconds": {"*": "0.0000000000000007"}},
            "increment_seconds": "60",
        },
    ],
}


def _facts() -> list[Message]:
    """Return prices and nodes."""
    nodes = [NodeObserved(f"node{number}", type="large" if number else "small", gpu=8) for number in range(3)]
    return [_fact(ObjectApplied("PriceBook", "prices", _PRICES), "prices"), *(_fact(node, node.name) for node in nodes)]


def _fact(data: Data, name: str, at: int = _BEGIN - _DAY) -> Message:
    return encode(Event(f"fact-{name}", "test", data.TYPE, name, at, at, 0, "", "", _CLUSTER, data), _CLUSTER)


@cache
def job_events(count: int) -> tuple[Given, ...]:
    """Return at least so many events that the lifecycle stage writes about jobs, and nothing else."""
    jobs = count // 40 + 1
    while len(written := _written(jobs)) < count:
        jobs += count // 100 + 1
    return tuple(("job-events", message) for message in written)


def _written(jobs: int) -> list[Message]:
    log = MemoryLog(1, clock=lambda: 1 << 60)
    _append(log, map(_sized, inputs(jobs)))
    _run(log, LifecycleStage())
    return [record.message for record in log.scan(("job-events",)) if record.message.type != Accounted.TYPE]


def _sized(given: tuple[Topic, Message]) -> tuple[Topic, Message]:
    """Let a pod ask for something: one that asks for nothing costs nothing."""
    topic, message = given
    if message.type != PodObserved.TYPE:
        return given
    event: Event[Any] = decode(message)
    size = len(event.data.name)
    data = replace(event.data, requests=Requests(250 * size, size << 30, size % 3))
    return topic, encode(replace(event, data=data))


def _append(log: MemoryLog | SqliteLog, given: Iterable[tuple[Topic, Message]]) -> None:
    for topic, found in groupby(sorted(given, key=itemgetter(0)), itemgetter(0)):
        log.append(topic, [message for _, message in found])


def _run(log: MemoryLog | SqliteLog, stage: LifecycleStage | BillingStage) -> None:
    engine = Engine.of(log, [stage], Settings(log="memory:"), hosted=True)
    engine.run_until_quiet()
    engine.close()


def _end(given: Iterable[Given]) -> Message:
    """Return a fact of the cluster that changes nothing but the time: it is seven hours after all that was given."""
    latest = max(message.recordedtime for _, message in given if isinstance(message, Message))
    return _fact(NodeObserved("clock"), "end", latest + 7 * 3_600 * _SECOND)


def _undisturbed(given: Iterable[Given], folder: Path) -> str:
    """Return the bill by one process, in a file, to which nothing happens."""
    path = folder / "undisturbed.db"
    with closing(SqliteLog(path, SHARDS)) as log:
        log.append("cluster", _facts())
        _append(log, given)  # type: ignore[arg-type]  # all are messages
        _run(log, BillingStage())
        log.append("cluster", [_end(given)])
        _run(log, BillingStage())
    return _exported(Command(f"sqlite:{path}"))


def _exported(lahar: Command) -> str:
    return lahar("billing", "export", "--format", "jsonl", "--all").out


def billed_world(make: Callable[..., World], schedule: str, seed: int, events: int, folder: Path) -> World:
    """Make the log of a schedule of billing workers: prices and nodes are there before the first job event.

    Their clock shows when the jobs began, so that hour marks are where the history has them, not where the test runs.
    """
    clock = folder / "clock"
    clock.write_text(str(_BEGIN - time.time_ns() // 1_000))
    here = make(schedule, seed, given=job_events(events), stage=BillingStage, held=True)
    here.fleet.run_by([str(Path(__file__).with_name("stepped_worker.py"))], LAHAR_CHAOS_CLOCK=str(clock))
    here.log.append("cluster", _facts())
    here.feeder.go_on()
    return here


def finish_bill(here: World, note: Callable[[Row], None], faults: str, folder: Path, remarks: str = "") -> None:
    """Let workers record what is left, up to an hour mark, and end; judge them, and compare the bill with the undisturbed one."""
    here.until_all()
    here.log.append("cluster", [_end(here.given)])
    here.until_all()
    here.until_quiet()
    here.fleet.end()
    here.verdict(note, faults, remarks, here.seconds, rested=_end(here.given).recordedtime)
    bill = _exported(Command.of(here.settings))
    assert bill.count("\n") > len(here.given) / 10
    assert bill == _undisturbed(here.given, folder)
