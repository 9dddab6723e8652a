"""A scheduling worker as the victim: jobs that ask to be scheduled, a lifecycle worker that answers, a cluster that obeys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from broker import Cluster
from chaos_schedules import leader
from chaos_table import Row
from chaos_workers import Worker
from chaos_world import SHARDS, fleet_of, settings_of
from scheduled_jobs import ScheduledJobs
from topics_of_tests import delete_topics

from engine.events import Message, Topic
from engine.log.errors import LogUnavailableError
from engine.log.port import Partition, Record
from streams.log import KafkaLog
from streams.topics import apply, declared

__all__ = ["ScheduledWorld"]

_DEADLINE_SECONDS = 300.0
_PAUSE_SECONDS = 0.05


class _PatientLog:
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


class ScheduledWorld:
    """A log of its own on the brokers, a lifecycle worker, two scheduling workers of which one stands by, and jobs."""

    def __init__(self, cluster: Cluster, schedule: str, folder: Path, most: int) -> None:
        """Start the workers.

        Args:
            cluster: three brokers.
            schedule: its name; begins with its letter.
            folder: for what workers say.
            most: jobs that there may be.
        """
        self.cluster = cluster
        self.schedule = schedule
        self.settings = settings_of(cluster, schedule)
        asyncio.run(apply(self.settings, declared(self.settings, SHARDS, 3)))
        self.log = KafkaLog(self.settings)
        self._began = time.monotonic()
        self._jobs = ScheduledJobs(_PatientLog(self.log), SHARDS, most)
        self._submitted = 0
        self._lifecycle = fleet_of(self.settings, folder, "lifecycle")
        self._lifecycle.add("answers")
        self._fleet = fleet_of(self.settings, folder, "scheduling")
        # The group gives the shard to who comes first by name.
        self.victim = self._fleet.add("s0")
        self.until(lambda: _holds(self.victim), "the shard is open")
        self._heir = self._fleet.add("s1")

    def until(self, true: Callable[[], bool], what: str) -> None:
        """Return as soon as something holds; meanwhile the cluster obeys, and workers that have ended are started anew."""
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while not self._holds(true):
            for fleet in (self._lifecycle, self._fleet):
                fleet.supervise()
            said = "\n".join(f"--- {worker.name}\n{worker.said()[-2_000:]}" for worker in self._fleet.workers)
            assert time.monotonic() < deadline, f"{self.schedule}: not in time: {what}\n{said}"
            time.sleep(_PAUSE_SECONDS)

    def _holds(self, true: Callable[[], bool]) -> bool:
        try:
            self._jobs.bound()
            return true()
        except LogUnavailableError:
            return False

    # --- faults -------------------------------------------------------------------------------------------------------------

    def kill(self, jobs: int) -> None:
        """Kill the worker when some of so many new jobs are bound; it is started anew."""
        self._bind_some(jobs)
        self.victim.kill()
        self.victim.start()
        self._run_all()

    def freeze(self, jobs: int) -> None:
        """Freeze the worker when some of so many new jobs are bound, until its heir has bound as many more; then let it run on."""
        self._bind_some(jobs)
        self.victim.freeze()
        self._submit(jobs)
        self._run_all()
        assert _holds(self._heir)
        before = {worker: len(worker.said()) for worker in self._fleet.workers}
        self.victim.thaw()
        self._submit(jobs)
        # The victim; or its heir, if the victim finds no connection at first and opens the shard before it hears of the heir.
        fenced = "taken over"
        self.until(lambda: any(fenced in worker.said()[told:] for worker, told in before.items()), "one of them is fenced")
        self._run_all()

    def lose_leader(self, place: Partition, jobs: int) -> None:
        """Kill the broker that leads a partition when some of so many new jobs are bound; it comes back when all run."""
        self._bind_some(jobs)
        broker = leader(self, place)
        broker.kill()
        self._submit(jobs)
        self._run_all()
        broker.start()

    def _submit(self, jobs: int) -> None:
        self._jobs.submit(jobs)
        self._submitted += jobs

    def _bind_some(self, jobs: int) -> None:
        self.until(lambda: _holds(self.victim), "the shard is the victim's")
        before = self._jobs.bound()
        self._submit(jobs)
        self.until(lambda: self._jobs.bound() > before, "a job is bound")

    def _run_all(self) -> None:
        self.until(self._jobs.all_run, "all jobs run")

    # --- the end ------------------------------------------------------------------------------------------------------------

    def finish(self, note: Callable[[Row], None], faults: str) -> None:
        """Let workers end, note the row, and check that it is clean."""
        seconds = time.monotonic() - self._began
        for fleet in (self._fleet, self._lifecycle):
            fleet.end()
        found = self._jobs.found()
        ended = len(self._fleet.came_back) + len(self._lifecycle.came_back)
        figures = (found.outputs, found.lost, found.doubled, len(found.faults), ended)
        note(
            Row(
                self.schedule, self._submitted, faults, round(seconds, 1), *figures, seed=0, remarks="events are jobs of three pods"
            )
        )
        self._jobs.must_be_sound()

    def close(self) -> None:
        """End all that runs on it, and delete its topics."""
        for fleet in (self._fleet, self._lifecycle):
            fleet.kill()
        self.log.close()
        asyncio.run(delete_topics(self.settings))


def _holds(worker: Worker) -> bool:
    """Tell whether the shard is open in a worker, as far as it has said."""
    said = worker.said()
    return worker.works and said.rfind(" is open") > max(said.rfind(" is closed"), said.rfind("taken over"))
