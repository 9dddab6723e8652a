"""Brokers die and come back while shards run: they stop, open again, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from broker import Cluster
from lifecycle_inputs import inputs
from oracle import judge

from engine.lifecycle.stage import LifecycleStage
from engine.log.errors import LogUnavailableError
from engine.processor.processor import Processor
from streams.log import KafkaLog
from streams.settings import KafkaSettings
from streams.topics import apply, declared

pytestmark = pytest.mark.usefixtures("jars")

_DEADLINE_SECONDS = 120.0


class Running:
    """A shard that is processed in a thread, and opened again whenever the log was unavailable."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.log = KafkaLog(settings)
        self.processor: Processor[Any] = Processor(self.log, LifecycleStage(), batch=20)
        self.reopened = 0
        self.steps = 0
        self._fault: BaseException | None = None
        self._finish = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while True:
                try:
                    if not self.processor.is_open:
                        self.processor.open()
                    done = self.processor.step()
                    self.steps += 1
                    if not done and self._finish.is_set():
                        return
                    if not done:
                        self.log.wait(0.05)
                except LogUnavailableError:
                    self.reopened += 1
        except BaseException as error:  # noqa: BLE001  the test's own thread raises it
            self._fault = error

    def after(self, steps: int) -> None:
        """Return when so many steps more have been taken."""
        self.until(lambda aim=self.steps + steps: self.steps >= aim)  # type: ignore[misc]

    def until(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while not true():
            assert self._thread.is_alive(), self._fault
            assert time.monotonic() < deadline, f"after {self.steps} steps"
            self._thread.join(0.01)

    def finish(self) -> None:
        self._finish.set()
        self._thread.join(_DEADLINE_SECONDS)
        assert self._fault is None, self._fault
        assert not self._thread.is_alive()


def settings_of(cluster: Cluster) -> KafkaSettings:
    return KafkaSettings(bootstrap_servers=cluster.bootstrap, request_seconds=8, transaction_seconds=6)


def fill(running: Running, given: list[Any], place: int, count: int) -> int:
    """Append some inputs, again where it is not known whether they were; a repeated input is known by its id."""
    for topic, message in given[place : place + count]:
        while True:
            try:
                running.log.append(topic, [message])
                break
            except LogUnavailableError:
                continue
    return place + count


def test_a_broker_that_dies_and_comes_back_stops_a_shard_and_costs_nothing() -> None:
    given = inputs(60)
    with Cluster() as cluster:
        settings = settings_of(cluster)
        asyncio.run(apply(settings, declared(settings, 1, 1)))
        running = Running(settings)
        place = fill(running, given, 0, len(given) // 2)
        running.after(3)
        cluster.brokers[0].kill()
        running.until(lambda: running.reopened > 0)
        cluster.brokers[0].start()
        fill(running, given, place, len(given))
        running.after(3)
        running.finish()
        verdict = judge(running.log, LifecycleStage(), 0)
        running.log.close()
    assert verdict.differences == []
    assert verdict.inputs >= len(given)


@pytest.mark.slow
def test_the_leader_dies_again_and_again_with_three_brokers() -> None:
    given = inputs(150)
    with Cluster(3) as cluster:
        settings = settings_of(cluster)
        asyncio.run(apply(settings, declared(settings, 1, 3)))
        running = Running(settings)
        place = 0
        for broker in cluster.brokers:
            place = fill(running, given, place, len(given) // 4)
            running.after(2)
            broker.kill()
            place = fill(running, given, place, 20)
            running.after(2)
            broker.start()
        fill(running, given, place, len(given))
        running.after(3)
        running.finish()
        verdict = judge(running.log, LifecycleStage(), 0)
        running.log.close()
    assert verdict.differences == []
    assert verdict.inputs >= len(given)
