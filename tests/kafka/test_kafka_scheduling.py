"""Scheduling on Kafka: one worker for all partitions, killed and replaced; decisions are neither lost nor doubled."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from deployment import FakeCluster, task, vcjob
from lahar_command import Command
from log_checker import faults_of
from test_kafka_bills import worker

from engine.events import decode
from engine.events.decisions import DecidedBound, DecisionAccepted
from engine.events.outcomes import Accounted
from streams.log import KafkaLog
from streams.settings import KafkaSettings

Make = Callable[[int], KafkaLog]
PARTS = 3
JOBS = 4
PODS = 3


def of(log: KafkaLog, kind: Any) -> list[Any]:
    return [decode(record.message).data for record in log.scan((kind.TOPIC,), {kind.TYPE})]


def test_decisions_are_neither_lost_nor_doubled(make_log: Make, settings: KafkaSettings) -> None:
    log, lahar = make_log(3), Command.of(settings)
    cluster = FakeCluster(log, 3, 0)

    def live() -> None:
        """Do what was asked for, now."""
        cluster.now = time.time_ns() // 1000
        cluster.obey()

    def decided(least: int) -> bool:
        live()
        return len(of(log, DecidedBound)) >= least

    live()
    for number in range(PARTS * JOBS):
        cluster.node(f"n{number}", cpu=4)
    with worker(settings, "lifecycle") as lifecycle:
        for part in range(PARTS):
            with worker(settings, "scheduling") as scheduling:
                scheduling.until(lambda: scheduling.is_ready and lifecycle.is_ready)
                before = len(of(log, DecidedBound))
                for job in range(JOBS):
                    name = f"job-{part}-{job}"
                    cluster.submit(name, vcjob(name, task("w", PODS)))
                scheduling.until(lambda: decided(before + 1))  # noqa: B023
                scheduling.send(signal.SIGKILL)
        with worker(settings, "scheduling") as scheduling:
            scheduling.until(
                lambda: scheduling.is_ready and decided(PARTS * JOBS) and len(cluster.running()) == PARTS * JOBS * PODS
            )
            assert 'lahar_shards{stage="scheduling"} 1.0' in scheduling.page("/metrics")
            for process in (lifecycle, scheduling):
                process.send(signal.SIGTERM)
                assert process.wait() == 0
    assert faults_of(log) == []
    written = [record.message for record in log.scan(("decisions", "scheduling")) if record.message.type != Accounted.TYPE]
    assert len({message.id for message in written}) == len(written)
    for topic in ("decisions", "scheduling"):
        seen: Counter[str] = Counter()
        for record in log.scan((topic,)):
            if record.message.type != Accounted.TYPE:
                seen[record.message.subject] += 1
                assert record.message.sequence == seen[record.message.subject]
    accepted = [data for data in of(log, DecisionAccepted) if data.kind == "bound"]
    assert sum(len(data.placements) for data in accepted) == PARTS * JOBS * PODS
    assert len(accepted) == PARTS * JOBS
    assert all(record["ok"] for record in lahar.records("verify"))
