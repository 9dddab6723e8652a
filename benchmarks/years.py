"""Ten simulated years of a shard: what it holds in memory, in its snapshot and in its file."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType, ModuleType
from typing import Any, Final, NamedTuple

from workload import lives

from engine.events import Data, Event, Message, Topic, encode
from engine.events.inputs import CommandIssued, JobSubmitted, NodeDeleted, NodeObserved
from engine.events.times import SECOND
from engine.lifecycle.stage import LifecycleStage
from engine.log.port import ShardId
from engine.log.sqlite import SqliteLog
from engine.processor.processor import Processor

_MONTH: Final = 30 * 86_400 * SECOND
_MONTHS: Final = 12
_JOBS: Final = 100
"""That run and finish in a month, two pods each."""
_OTHERS: Final = 20
"""Of each other kind in a month: rejected, unknown, aborted, and nodes that come and go."""


class Year(NamedTuple):
    """What a shard held at most at the end of a month of one year (bytes); ids of forgotten jobs apart."""

    snapshot: int
    memory: int
    file: int
    """By which the log's file grew."""


@cache
def years(count: int, end: int) -> list[Year]:
    """Let a shard live for so many years.

    Args:
        count: of the years.
        end: when the last one is over (microseconds); a log takes no time that lies ahead.
    """
    found: list[Year] = []
    with TemporaryDirectory() as directory:
        path = Path(directory) / "years.db"
        log = SqliteLog(path)
        processor = Processor(log, LifecycleStage(), 0)
        processor.open()
        size = _on_disk(path)
        begin = end - count * _MONTHS * _MONTH
        for year in range(count):
            snapshot = memory = 0
            for month in range(year * _MONTHS, (year + 1) * _MONTHS):
                for topic, message in _month(month, begin + month * _MONTH):
                    log.append(topic, [message])
                log.append("pods", list(lives(range(month * _JOBS, (month + 1) * _JOBS), 2, begin + month * _MONTH + 600 * SECOND)))
                processor.run_until_quiet()
                snapshot = max(snapshot, _in_snapshot(log))
                memory = max(memory, _in_memory(processor))
            before, size = size, _on_disk(path)
            found.append(Year(snapshot, memory, size - before))
        processor.close()
        log.close()
    return found


def _month(number: int, begin: int) -> Iterator[tuple[Topic, Message]]:
    """Yield what happens in a month beside jobs that run and finish."""
    task = {"name": "a", "replicas": 2, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    manifest = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "w"}, "spec": {"tasks": [task]}}
    for each in range(_OTHERS):
        name, at = f"{number}-{each}", begin + each * SECOND
        given: list[tuple[str, Data]] = [
            (f"rejected-{name}", JobSubmitted({"kind": "Job", "metadata": {"name": f"rejected-{name}"}})),
            (f"unknown-{name}", CommandIssued("AbortJob")),
            (f"aborted-{name}", JobSubmitted(manifest)),
            (f"aborted-{name}", CommandIssued("AbortJob")),
            (f"node-{name}", NodeObserved(f"node-{name}", version=str(2 * number + 1))),
            (f"node-{name}", NodeDeleted(f"node-{name}", version=str(2 * number + 2))),
        ]
        for index, (subject, data) in enumerate(given):
            ident = f"{name}-{index}"
            event: Event[Any] = Event(ident, "bench", data.TYPE, subject, at, at, 0, subject, "", "bench", data)
            yield data.TOPIC, encode(event, subject)


def _in_snapshot(log: SqliteLog) -> int:
    view = log.look(ShardId("lifecycle", 0))
    return 0 if view is None else sum(len(record) for name, record in view.snapshot() if not name.startswith("forgotten/"))


def _in_memory(processor: Processor[Any]) -> int:
    """Return what the state and all that it refers to take, classes and code apart (bytes)."""
    state = processor.state
    seen = {id(state.forgotten)}
    waiting = [state]
    size = 0
    while waiting:
        found = waiting.pop()
        if id(found) in seen or isinstance(found, type | FunctionType | ModuleType):
            continue
        seen.add(id(found))
        size += sys.getsizeof(found)
        waiting += gc.get_referents(found)
    return size


def _on_disk(path: Path) -> int:
    return sum(file.stat().st_size for file in path.parent.iterdir())
