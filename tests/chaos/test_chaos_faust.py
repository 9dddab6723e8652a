"""The kills of (a) against a plain Faust app with `exactly_once` that forwards: printed beside it, for comparison."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import NewTopic
from aiokafka.structs import TopicPartition
from broker import Cluster
from chaos_feed import dice
from chaos_table import EVENTS, Row
from chaos_world import SHARDS
from topics_of_tests import administered

from streams.settings import KafkaSettings

pytestmark = pytest.mark.chaos

_KILLS = 50
_SEED = 20_170_801
_SECONDS = 240.0
"""Of kills: each costs Faust a rebalance."""
_QUIET_SECONDS = 20.0
_APP = Path(__file__).with_name("faust_patient.py")


@pytest.fixture
def settings(cluster: Cluster) -> Iterator[KafkaSettings]:
    """Settings of a cluster with two topics, `in` and `out`."""
    found = KafkaSettings(bootstrap_servers=cluster.bootstrap, topic_prefix="faust-")
    config = {"min.insync.replicas": "2"}
    topics = [NewTopic(f"faust-{name}", SHARDS, 3, topic_configs=config) for name in ("in", "out")]
    asyncio.run(administered(found, lambda admin: admin.create_topics(topics)))
    yield found
    asyncio.run(administered(found, lambda admin: admin.delete_topics(["faust-in", "faust-out"])))


class Forwarders:
    """Two processes of the app, and the ids that have come out."""

    def __init__(self, settings: KafkaSettings, folder: Path) -> None:
        self.settings = settings
        self._folder = folder
        self.processes = [self.begun(number) for number in range(2)]
        self.out: Counter[bytes] = Counter()
        self.ended = 0
        """Processes that have ended by themselves."""

    def begun(self, number: int) -> subprocess.Popen[bytes]:
        arguments = [
            "--bootstrap",
            self.settings.bootstrap_servers,
            "--source",
            "faust-in",
            "--target",
            "faust-out",
            "--app-id",
            "forward",
        ]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "ignore"}
        with (self._folder / f"faust{number}.log").open("ab") as said:
            return subprocess.Popen([sys.executable, str(_APP), *arguments], stdout=said, stderr=said, env=environment)

    def kill(self, number: int) -> None:
        self.processes[number].kill()
        self.processes[number].wait()
        self.processes[number] = self.begun(number)

    def revive(self) -> None:
        """Start those anew that have ended by themselves."""
        for number, process in enumerate(self.processes):
            if process.poll() is not None:
                self.ended += 1
                self.processes[number] = self.begun(number)

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


async def fill(settings: KafkaSettings, count: int) -> None:
    producer = AIOKafkaProducer(**settings.client_arguments(), acks="all", enable_idempotence=True, linger_ms=20)
    await producer.start()
    value = b'{"phase": "Running"}' * 15
    for number in range(count):
        await producer.send("faust-in", value, f"{number}".encode(), partition=number % SHARDS, headers=[("ce_id", b"%d" % number)])
    await producer.stop()


async def run(forwarders: Forwarders, count: int) -> int:
    """Kill by progress until time is over; then wait until all is there, or nothing comes any more. Return the kills."""
    places = [TopicPartition("faust-out", number) for number in range(SHARDS)]
    chance, kills = dice(_SEED), 0
    consumer = AIOKafkaConsumer(
        **forwarders.settings.client_arguments(),
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    consumer.assign(places)
    began = last = time.monotonic()
    while len(forwarders.out) < count and time.monotonic() - last < (_QUIET_SECONDS if kills == _KILLS else 3 * _QUIET_SECONDS):
        found = await consumer.getmany(timeout_ms=100, max_records=5_000)
        for records in found.values():
            forwarders.out.update(record.key for record in records)
            last = time.monotonic()
        if kills < _KILLS and len(forwarders.out) >= count * (kills + 1) / (_KILLS + 1) and time.monotonic() - began < _SECONDS:
            kills += 1
            forwarders.kill(chance.randrange(2))
        forwarders.revive()
    # What is doubled may come behind the last one that was missing.
    while time.monotonic() - last < _QUIET_SECONDS / 4:
        found = await consumer.getmany(timeout_ms=200, max_records=5_000)
        for records in found.values():
            forwarders.out.update(record.key for record in records)
            last = time.monotonic()
    await consumer.stop()
    return kills


def test_a_the_same_kills_against_plain_faust(settings: KafkaSettings, note: Callable[[Row], None], tmp_path: Path) -> None:
    asyncio.run(fill(settings, EVENTS))
    began = time.monotonic()
    forwarders = Forwarders(settings, tmp_path)
    try:
        kills = asyncio.run(run(forwarders, EVENTS))
    finally:
        forwarders.end()
    out = forwarders.out
    doubled = sum(out.values()) - len(out)
    assert kills
    assert out
    note(
        Row(
            "(a) the same against Faust exactly_once, forwarding",
            EVENTS,
            f"{kills} kills",
            round(time.monotonic() - began, 1),
            sum(out.values()),
            EVENTS - len(out),
            doubled,
            0,
            forwarders.ended,
            _SEED,
            "for comparison: nothing of Lahar; each input forwarded once is what it promises",
        )
    )
