"""A producer of pod observations at a steady rate: lives of ten observations, stamped when they are appended.

    KAFKA_TOPIC_PREFIX=P python benchmarks/kafka_feed.py --rate 4000 --seconds 30

It runs in a process of its own, so that what it costs is nobody else's, and prints one JSON object at its end.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Final

from workload import OBSERVATIONS, lives

from engine.events import Message
from streams.log import KafkaLog
from streams.settings import KafkaSettings

_TOGETHER: Final = 200
"""Pods whose observations are interleaved."""
_TICK_SECONDS: Final = 0.01
_LIFE: Final = 70_000_000
"""Microseconds; lives begin so long ago, so that nothing is observed before it happens."""


def _observations(first: int, replicas: int) -> Iterator[Message]:
    """Yield the lives of ever new jobs."""
    step = max(_TOGETHER // replicas, 1)
    for start in count(first, step):
        yield from lives(range(start, start + step), replicas, _now() - _LIFE)


def _now() -> int:
    return time.time_ns() // 1000


def feed(log: KafkaLog, rate: int, seconds: float, first: int, replicas: int) -> dict[str, float]:
    """Append observations at a rate, and say what came of it.

    Args:
        log: to append to.
        rate: observations a second.
        seconds: for how long.
        first: number of the first job.
        replicas: pods of each job.
    """
    waiting = _observations(first, replicas)
    total, sent = int(rate * seconds), 0
    began = time.monotonic()
    while sent < total:
        due = min(int((time.monotonic() - began) * rate), total) - sent
        if due <= 0:
            time.sleep(_TICK_SECONDS)
            continue
        messages = list(islice(waiting, min(due, rate // 10)))
        now = _now()
        log.append("pods", [message._replace(recordedtime=now) for message in messages])
        sent += len(messages)
    taken = time.monotonic() - began
    return {"sent": sent, "rate": sent / taken, "jobs": -(-sent // (OBSERVATIONS * replicas))}


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the options and feed."""
    parser = argparse.ArgumentParser(description="Append pod observations at a steady rate.")
    parser.add_argument("--rate", type=int, required=True, help="observations a second")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--first", type=int, default=0, help="number of the first job")
    parser.add_argument("--replicas", type=int, default=4, help="pods of each job")
    options = parser.parse_args(arguments)
    log = KafkaLog(KafkaSettings())
    try:
        print(json.dumps(feed(log, options.rate, options.seconds, options.first, options.replicas)), flush=True)
    finally:
        log.close()


if __name__ == "__main__":
    main()
