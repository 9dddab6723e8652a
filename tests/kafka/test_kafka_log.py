"""The Kafka log passes the suite of all logs, on a real broker."""

from __future__ import annotations

import asyncio
import time

import pytest
from broker import until
from log_contract import LogContract, SearchableContract

from streams.log import KafkaLog
from streams.settings import KafkaSettings
from streams.topics import apply, declared


class TestKafkaLog(LogContract, SearchableContract):
    seen_at_once = False  # a broker ends a transaction in one partition after the other

    @pytest.fixture(autouse=True)
    def cluster(self, settings: KafkaSettings) -> None:
        self.settings = settings

    def make(self, partitions: int) -> KafkaLog:
        asyncio.run(apply(self.settings, declared(self.settings, partitions, 1)))
        return KafkaLog(self.settings)

    def make_limited(self) -> KafkaLog:
        return self.make(1)

    def let_time_pass(self) -> None:
        now = time.time_ns() // 1_000_000
        until(lambda: time.time_ns() // 1_000_000 > now + 1, 10, "the broker's next millisecond")
