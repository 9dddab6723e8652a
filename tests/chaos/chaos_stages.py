"""Both stages as victims: a log of its own on the brokers, workers of lifecycle, and two of scheduling of which one stands by."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from broker import Cluster
from chaos_schedules import leader
from chaos_workers import Worker
from chaos_world import SHARDS, fleet_of, settings_of
from topics_of_tests import delete_topics

from engine.events import Message, Topic
from engine.log.errors import LogUnavailableError
from engine.log.port import Partition, Record
from streams.log import KafkaLog
from streams.topics import apply, declared

_DEADLINE_SECONDS = 300.0
_PAUSE_SECONDS = 0.05


class PatientLog:
    """A log whose brokers come and go: what has failed is done again. An input that stands there twice is known by its id."""

    def __init__(self, log: KafkaLog) -> None:
        self.scan = log.scan
        self.partitions = log.partitions
        self._log = log

    def append(self, topic: Topic, messages: Sequence[Message]) -> None:
        self._again(lambda: self._log.append(topic, messages))

    def read(self, partition: Partition, start: int, limit: int) -> list[Record]:
        found: list[Record] = self._again(lambda: self._log.read(partition, start, limit))
        return found

    def _again(self, work: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while True:
            try:
                return work()
            except LogUnavailableError:
                assert time.monotonic() < deadline


class StagesWorld(ABC):
    """The log and the workers; what they have to do comes from who inherits."""

    def __init__(self, cluster: Cluster, schedule: str, folder: Path) -> None:
        """Make the topics; nothing runs yet.

        Args:
            cluster: three brokers.
            schedule: its name; begins with its letter.
            folder: for what workers say.
        """
        self.cluster = cluster
        self.schedule = schedule
        self.settings = settings_of(cluster, schedule)
        asyncio.run(apply(self.settings, declared(self.settings, SHARDS, 3)))
        self.log = KafkaLog(self.settings)
        self.lifecycle = fleet_of(self.settings, folder, "lifecycle")
        self.scheduling = fleet_of(self.settings, folder, "scheduling")
        self._began = time.monotonic()

    def start(self, *lifecycle: str) -> None:
        """Start workers of lifecycle, which have these names, and `s0` and `s1` of scheduling; the first of these has the shard."""
        for name in lifecycle:
            self.lifecycle.add(name)
        # The group gives the shard to who comes first by name.
        first = self.scheduling.add("s0")
        self.until(lambda: holds(first), "the shard is open")
        self.scheduling.add("s1")

    @abstractmethod
    def act(self) -> None:
        """Let the cluster obey, and whatever else is to happen by now; brokers may be away."""

    @property
    def workers(self) -> list[Worker]:
        """Those of both stages."""
        return [*self.lifecycle.workers, *self.scheduling.workers]

    @property
    def seconds(self) -> float:
        """Since it was begun."""
        return round(time.monotonic() - self._began, 1)

    @property
    def came_back(self) -> int:
        """How many workers have ended by themselves and were started anew."""
        return len(self.lifecycle.came_back) + len(self.scheduling.came_back)

    def until(self, true: Callable[[], bool], what: str) -> None:
        """Return as soon as something holds; meanwhile the cluster obeys, and workers that have ended are started anew."""
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while not self._holds(true):
            for fleet in (self.lifecycle, self.scheduling):
                fleet.supervise()
            said = "\n".join(f"--- {worker.name}\n{worker.said()[-2_000:]}" for worker in self.workers)
            assert time.monotonic() < deadline, f"{self.schedule}: not in time: {what}\n{said}"
            time.sleep(_PAUSE_SECONDS)

    def _holds(self, true: Callable[[], bool]) -> bool:
        try:
            self.act()
            return true()
        except LogUnavailableError:
            return False

    # --- faults -------------------------------------------------------------------------------------------------------------

    def thaw(self, victim: Worker, more: Callable[[], object] = lambda: None) -> None:
        """Let a frozen worker run on whose shards another one has, and return when one of them is fenced.

        Args:
            victim: the worker.
            more: gives the stages something to do.
        """
        before = {worker: len(worker.said()) for worker in self.workers}
        victim.thaw()
        more()
        # The victim; or its heir, if the victim finds no connection at first and opens the shard before it hears of the heir.
        fenced = "taken over"
        self.until(lambda: any(fenced in worker.said()[told:] for worker, told in before.items()), "one of them is fenced")

    def without_leader(self, place: Partition, meanwhile: Callable[[], object]) -> None:
        """Kill the broker that leads a partition; it comes back when something is done."""
        broker = leader(self, place)
        broker.kill()
        meanwhile()
        broker.start()

    # --- the end ------------------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Let all workers end in good order."""
        for fleet in (self.scheduling, self.lifecycle):
            fleet.end()

    def close(self) -> None:
        """End all that runs on it, and delete its topics."""
        for fleet in (self.scheduling, self.lifecycle):
            fleet.kill()
        self.log.close()
        asyncio.run(delete_topics(self.settings))


def holds(worker: Worker) -> bool:
    """Tell whether the shard is open in a worker, as far as it has said."""
    said = worker.said()
    return worker.works and said.rfind(" is open") > max(said.rfind(" is closed"), said.rfind("taken over"))
