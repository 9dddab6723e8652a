"""Observations a second: through the edge, through a shard on two logs, and through recovery.

Beside each rate stands a floor measured in the same run: decoding the same bytes, which no engine that validates its input can go
below.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from measures import Measured
from pod_object import full_pod
from workload import BEGIN, SHARD, lives, run

from engine.events import Message, decode
from engine.kubernetes.edge import Taken, line_to_inputs
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.log.port import ShardView
from engine.log.sqlite import SqliteLog
from engine.processor.recovery import recover


def _rate(count: int, work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return count / (perf_counter() - began)


def _decoding(messages: Sequence[Message]) -> float:
    """Return how many of these messages are decoded in a second."""

    def work() -> None:
        for message in messages:
            decode(message)

    return _rate(len(messages), work)


def edge() -> Measured:
    """Return the rate of pod objects through the edge."""
    pods = [json.dumps(full_pod(number)).encode() for number in range(4_000)]

    def work() -> None:
        for line in pods:
            taken = line_to_inputs(line, "bench", BEGIN)
            assert isinstance(taken, Taken)

    def floor() -> None:
        from pydantic import TypeAdapter  # noqa: PLC0415 - only the floor needs it

        anything = TypeAdapter(dict[str, Any])
        for line in pods:
            anything.validate_json(line)

    return Measured(_rate(len(pods), work), _rate(len(pods), floor))


def _workload(jobs: int = 2_500, replicas: int = 4) -> list[Message]:
    return list(lives(range(jobs), replicas, BEGIN))


def memory() -> Measured:
    """Return the rate of observations through a shard in memory."""
    messages = _workload()
    log = MemoryLog()
    log.append("pods", messages)
    return Measured(_rate(len(messages), lambda: run(log)), _decoding(messages))


def sqlite() -> Measured:
    """Return the same in a file, with the rows of the inputs."""
    messages = _workload()
    with TemporaryDirectory() as directory:
        log = SqliteLog(Path(directory) / "bench.db")

        def work() -> None:
            for start in range(0, len(messages), 500):
                log.append("pods", messages[start : start + 500])
            run(log)

        rate = _rate(len(messages), work)
        log.close()
    return Measured(rate, _decoding(messages))


def outputs() -> Measured:
    """Return how many events follow from an observation."""
    messages = _workload(500)
    log = MemoryLog()
    log.append("pods", messages)
    return Measured(run(log).position.shardsequence / len(messages))


def fold() -> Measured:
    """Return the rate of events in a recovery without a snapshot."""
    messages = _workload()
    with TemporaryDirectory() as directory:
        log = SqliteLog(Path(directory) / "bench.db")
        log.append("pods", messages)
        run(log).close()
        view = log.look(SHARD)
        assert view is not None
        outputs = [record.message for record in log.scan(("job-events",))]
        bare = ShardView(view.position, [])
        rate = _rate(view.position.shardsequence, lambda: recover(log, LifecycleStage(), SHARD, bare, 1))
        log.close()
    return Measured(rate, _decoding(outputs))
