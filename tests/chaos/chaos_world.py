"""A log of its own on the brokers, workers on it, somebody who appends, somebody who reads, and the judge at the end."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from broker import Cluster
from chaos_feed import Feeder, Given, Subscriber, dice, workload
from chaos_table import Row
from chaos_timers import Timers
from chaos_workers import Fleet
from oracle import Verdict, compare, judge
from topics_of_tests import administered, delete_topics

from engine.events import Message, Topic
from engine.lifecycle.stage import LifecycleStage
from engine.log.errors import LogUnavailableError
from engine.log.port import Partition
from engine.processor.partitions import input_partitions
from streams.codec import encode
from streams.log import KafkaLog
from streams.settings import KafkaSettings
from streams.topics import apply, declared

SHARDS = 4
SESSION_SECONDS = 6.0
TRANSACTION_SECONDS = 6.0
_DEADLINE_SECONDS = 600.0
_PAUSE_SECONDS = 0.02
_QUIET_SECONDS = 1.5
"""Longer than an idle worker takes to look at its timers, and to commit what follows."""


def settings_of(cluster: Cluster, schedule: str) -> KafkaSettings:
    """Return the settings of a schedule's log."""
    return KafkaSettings(
        bootstrap_servers=cluster.bootstrap,
        topic_prefix="".join(letter for letter in schedule if letter.isalnum())[:40] + "-",
        request_seconds=15,
        transaction_seconds=TRANSACTION_SECONDS,
        session_seconds=SESSION_SECONDS,
    )


def fleet_of(settings: KafkaSettings, folder: Path, stage: str) -> Fleet:
    """Return the workers of a stage, none yet, that have these settings."""
    environment = {
        "LAHAR_LOG": f"kafka://{settings.bootstrap_servers}",
        "KAFKA_TOPIC_PREFIX": settings.topic_prefix,
        "KAFKA_REQUEST_SECONDS": f"{settings.request_seconds:g}",
        "KAFKA_TRANSACTION_SECONDS": f"{settings.transaction_seconds:g}",
        "KAFKA_SESSION_SECONDS": f"{settings.session_seconds:g}",
    }
    return Fleet(folder, environment, stage)


class World:
    """All that a schedule acts on."""

    def __init__(
        self,
        cluster: Cluster,
        schedule: str,
        seed: int,
        folder: Path,
        events: int,
        given: Sequence[Given] | None = None,
        *,
        stage: Callable[[], Any] = LifecycleStage,
        held: bool = False,
        too_large_from: int | None = None,
    ) -> None:
        """Make the topics; nothing runs yet.

        Args:
            cluster: three brokers.
            schedule: its name; begins with its letter.
            seed: of its dice.
            folder: for what workers say.
            events: how many inputs at least.
            given: the inputs, if not those of all schedules.
            stage: makes the stage that workers run.
            held: nothing is appended until the feeder is told to go on.
            too_large_from: as of `oracle.judge`.
        """
        self.cluster = cluster
        self.schedule = schedule
        self.make_stage = stage
        self.stage = stage()
        self.input: Topic = self.stage.inputs[-1][0]
        """From which each shard takes most, a partition of its own."""
        self.output: Topic = self.stage.outputs[0]
        self.seed = seed
        self.dice = dice(seed)
        self.given = workload(events) if given is None else given
        self.settings = settings_of(cluster, schedule)
        asyncio.run(apply(self.settings, declared(self.settings, SHARDS, 3)))
        self.log = KafkaLog(self.settings)
        self.too_large_from = too_large_from
        self.total = sum(SHARDS if topic == "cluster" else 1 for topic, _ in self.given)
        self.taken = 0
        """Inputs that shards have taken, as of the last look; one of `cluster` is taken by each."""
        self.fleet = fleet_of(self.settings, folder, self.stage.name)
        self.shared_ids = 0
        """Outputs that follow, but have the id of another one."""
        self.delivered_again = 0
        """Records that the outside consumer was given twice, at the same offset."""
        self._began = time.monotonic()
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="progress", daemon=True)
        self._watcher.start()
        self.subscriber = Subscriber(self.settings, self.output, SHARDS)
        self.feeder = Feeder(self.log, self.given, lambda: self.taken, held=held)

    # --- workers ----------------------------------------------------------------------------------------------------------

    def by_ordinal(self, workers: int = 2) -> None:
        """Start workers, each with its own shards."""
        for number in range(workers):
            self.fleet.add(f"w{number}", "--ordinal", str(number), "--workers", str(workers))

    def by_group(self, workers: int = 2) -> None:
        """Start workers that a group spreads the shards among."""
        for number in range(workers):
            self.fleet.add(f"w{number}")

    # --- progress ---------------------------------------------------------------------------------------------------------

    def offsets(self, shard: int) -> dict[Partition, int]:
        """Return how far a shard has committed its inputs."""
        found = self.log.background.run(self.log.group_offsets(self.settings.group(self.stage.name, shard)))
        return {partition: offset for partition, (offset, _) in found.items()}

    def _watch(self) -> None:
        while not self._closed.wait(0.1):
            try:
                self.taken = sum(sum(self.offsets(shard).values()) for shard in range(SHARDS))
            except Exception:  # noqa: BLE001, S112  brokers come and go; the next look will tell
                continue

    def until(self, true: Callable[[], bool], what: str, *, supervise: bool = True, seconds: float = _DEADLINE_SECONDS) -> None:
        """Return as soon as something holds; meanwhile workers that have ended are started anew."""
        deadline = time.monotonic() + seconds
        while not true():
            if self.feeder.fault is not None:
                raise self.feeder.fault
            if supervise:
                self.fleet.supervise()
            assert time.monotonic() < deadline, self._complaint(what)
            time.sleep(_PAUSE_SECONDS)

    def until_taken(self, part: float, *, supervise: bool = True) -> None:
        """Return as soon as a part of all inputs is taken."""
        self.until(lambda: self.taken >= part * self.total, f"{part:.0%} of the inputs", supervise=supervise)

    def until_more(self, inputs: int) -> None:
        """Return as soon as so many more inputs are taken than now, or all."""
        aim = min(self.taken + inputs, self.total)
        self.until(lambda: self.taken >= aim, f"{inputs} more inputs")

    def until_all(self) -> None:
        """Return as soon as all inputs are appended and taken."""
        self.until(lambda: self.feeder.done, "all inputs are appended")
        self.until(lambda: not self.waiting(), "all inputs are taken")

    def until_quiet(self) -> None:
        """Return when nothing has been written for a while: what was due has fired."""
        places = [Partition(self.output, number) for number in range(SHARDS)]
        last: dict[Partition, tuple[int, int]] = {}
        since = time.monotonic()

        def quiet() -> bool:
            nonlocal last, since
            found = self.log.stable_ends(places)
            if found != last or any(stable < end for stable, end in found.values()):
                last, since = found, time.monotonic()
            return all(worker.works for worker in self.fleet.workers) and time.monotonic() - since > _QUIET_SECONDS

        self.until(quiet, "nothing is written any more")

    def until_fired(self, by: int) -> None:
        """Return as soon as all timers due by a time (microseconds) have fired or been cancelled; no inputs come meanwhile."""
        timers = Timers(self.log)

        def fired() -> bool:
            with suppress(LogUnavailableError):
                timers.look()
                return not timers.left(by)
            return False

        self.until(fired, "timers that are due have fired")

    def waiting(self) -> int:
        """Return how many inputs no shard has committed yet."""
        try:
            return sum(
                self.log.end(partition) - self.offsets(shard).get(partition, 0)
                for shard in range(SHARDS)
                for partition in input_partitions(self.log, self.stage, shard)
            )
        except LogUnavailableError:
            return 1

    def _complaint(self, what: str) -> str:
        said = "\n".join(f"--- {worker.name} ({worker.code})\n{worker.said()[-2_000:]}" for worker in self.fleet.workers)
        return f"{self.schedule}: not in time: {what}; {self.taken} of {self.total} taken, {self.feeder.appended} appended\n{said}"

    # --- the end ----------------------------------------------------------------------------------------------------------

    def finish(
        self, note: Callable[[Row], None], faults: str, remarks: str = "", *, workers_end: bool = False, clock: int | None = None
    ) -> list[Verdict]:
        """Let workers take what is left, fire what is due and end; judge, note the row, and check that it is clean.

        Args:
            note: takes the row.
            faults: what was done.
            remarks: what else is to be said.
            workers_end: some may have ended by themselves.
            clock: that the workers have (microseconds), or that is past in theirs; now unless given.
        """
        self.until_all()
        seconds = self.seconds
        rested = clock or time.time_ns() // 1_000
        self.until_fired(rested)
        self.fleet.end()
        assert workers_end or not self.fleet.came_back, self._complaint("workers have ended by themselves")
        return self.verdict(note, faults, remarks, seconds, rested=rested)

    @property
    def seconds(self) -> float:
        """Since it was begun."""
        return time.monotonic() - self._began

    def verdict(
        self,
        note: Callable[[Row], None],
        faults: str,
        remarks: str,
        seconds: float,
        *,
        whole: bool = True,
        rested: int | None = None,
    ) -> list[Verdict]:
        """Judge what stands in the log; nobody writes to it any more.

        Args:
            note: takes the row.
            faults: what was done.
            remarks: what else is to be said.
            seconds: that it took.
            whole: as of `oracle.judge`.
            rested: as of `oracle.judge`.
        """
        judge_one = partial(judged, self.settings, self.make_stage, whole, rested, self.too_large_from)
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            found = list(pool.map(judge_one, range(SHARDS)))
        seen_again, unseen = self._seen([verdict.events for verdict in found])
        if self.shared_ids:
            remarks += f"; {self.shared_ids} outputs follow from a repeated input and have the id of an earlier one"
        if self.delivered_again:
            remarks += f"; the outside consumer was given {self.delivered_again} records a second time, at the same offset"
        told = [difference for verdict in found for difference in verdict.differences]
        if told:
            remarks += f"; {len(told)} differences, the first: {told[0][:600]}"
        row = Row(
            self.schedule,
            self.feeder.appended,
            faults,
            round(seconds, 1),
            sum(verdict.outputs for verdict in found),
            sum(verdict.lost for verdict in found) + unseen + self._missing_inputs(),
            sum(verdict.doubled for verdict in found) + seen_again,
            sum(verdict.differing for verdict in found),
            len(self.fleet.came_back),
            self.seed,
            remarks.removeprefix("; "),
        )
        note(row)
        assert told[:3] == []
        assert (row.lost, row.doubled, row.differing) == (0, 0, 0)
        return found

    def _missing_inputs(self) -> int:
        """Return how many of the inputs that brokers have acknowledged do not stand in the topics."""
        given = Counter(map(_given_as, self.given[: self.feeder.appended]))
        for topic, _ in self.stage.inputs:
            places = [Partition(topic, number) for number in range(self.log.partitions(topic))]
            for place, end in zip(places, self.log.reader.ends(places), strict=True):
                for chunk in self.log.reader.chunks(place, 0, end):
                    # An append whose answer was lost is done again, so there may be more.
                    given.subtract((topic, raw.key or b"", raw.value or b"") for raw in chunk)
        return sum(count for count in given.values() if count > 0)

    def _seen(self, right: list[dict[int, str]]) -> tuple[int, int]:
        """Return how many records the outside consumer has seen that it should not have, and how many it has not seen.

        Args:
            right: of each shard, offset and id of its events.
        """
        self.subscriber.finish()
        again = missing = 0
        for number, seen in self.subscriber.seen.items():
            sight = compare(seen, right[number])
            again += sight.wrong
            missing += sight.missing
            self.delivered_again += sight.repeated
            self.shared_ids += len(right[number]) - len(set(right[number].values()))
        return again, missing

    def close(self) -> None:
        """End all that runs on it, and delete its topics."""
        self._closed.set()
        self.feeder.stop()
        self.fleet.kill()
        self.subscriber.leave()
        self._watcher.join(30)
        self.log.close()
        asyncio.run(delete_topics(self.settings))

    def administer(self, work: Callable[[Any], Any]) -> Any:
        """Do something with an admin client: `work` is given it and returns what is awaited."""
        return asyncio.run(administered(self.settings, work))


def judged(
    settings: KafkaSettings,
    stage: Callable[[], Any],
    whole: bool,
    rested: int | None,
    too_large_from: int | None,
    number: int,
) -> Verdict:
    """Judge a shard, in a process of its own."""
    # Of a topic that has grown, what stood in its old partitions is judged.
    log = KafkaLog(settings, readonly=True)
    try:
        return judge(log, stage(), number, whole=whole, rested=rested, too_large_from=too_large_from)
    finally:
        log.close()


def _given_as(given: Given) -> tuple[str, bytes, bytes]:
    """Return topic, key and value of an input as its record has them."""
    topic, content = given
    fields = encode(content) if isinstance(content, Message) else content
    return topic, fields.key or b"", fields.value or b""
