"""Scheduling on Kafka: one worker for all partitions, killed, frozen and replaced; decisions are neither lost nor doubled."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from broker import freeze
from lahar_command import Command
from scheduled_jobs import PODS, ScheduledJobs
from worker_process import Lahar

from streams.log import KafkaLog
from streams.settings import KafkaSettings

Make = Callable[[int], KafkaLog]
PARTS = 3
JOBS = 4
OPEN = 'lahar_shard_open{shard="0",stage="scheduling"} 1.0'


@pytest.fixture
def settings(settings: KafkaSettings) -> KafkaSettings:
    """Sessions are as short as a broker allows unless it is told otherwise."""
    return settings.model_copy(update={"session_seconds": 6.0})


def worker(settings: KafkaSettings, stage: str, name: str = "a") -> Lahar:
    return Lahar(settings, "worker", "--stage", stage, "--instance", name)


def end(*workers: Lahar) -> None:
    for process in workers:
        process.send(signal.SIGTERM)
        assert process.wait() == 0


def test_decisions_of_workers_that_are_killed_are_neither_lost_nor_doubled(make_log: Make, settings: KafkaSettings) -> None:
    log, lahar = make_log(3), Command.of(settings)
    jobs = ScheduledJobs(log, 3, PARTS * JOBS)
    with worker(settings, "lifecycle") as lifecycle:
        for _ in range(PARTS):
            with worker(settings, "scheduling") as scheduling:
                scheduling.until(lambda: scheduling.is_ready and lifecycle.is_ready)
                before = jobs.bound()
                jobs.submit(JOBS)
                scheduling.until(lambda: jobs.bound() > before)  # noqa: B023
                scheduling.send(signal.SIGKILL)
        with worker(settings, "scheduling") as scheduling:
            scheduling.until(lambda: scheduling.is_ready and jobs.all_run())
            assert 'lahar_shards{stage="scheduling"} 1.0' in scheduling.page("/metrics")
            end(lifecycle, scheduling)
    jobs.must_be_sound()
    assert all(record["ok"] for record in lahar.records("verify"))
    must_be_shown(lahar)


def must_be_shown(lahar: Command) -> None:
    """Queues, nodes and pod groups of a log on Kafka, listed and one by one."""
    nodes, groups, queues = (lahar.records(kind, "list") for kind in ("node", "podgroup", "queue"))
    (queue,) = (queue for queue in queues if queue["name"] == "default")
    assert sum(len(node["pods"]) for node in nodes) == PARTS * JOBS * PODS
    assert [group["members"] for group in groups] == [{"Running": PODS}] * PARTS * JOBS
    assert queue["allocated"]["pods"] == PARTS * JOBS * PODS * 1000
    for kind, shown in (("node", nodes[0]), ("podgroup", groups[0]), ("queue", queue)):
        assert lahar.records(kind, "show", shown["name"]) == [shown]


def test_a_worker_that_was_frozen_and_its_heir_double_no_decision(make_log: Make, settings: KafkaSettings) -> None:
    jobs = ScheduledJobs(make_log(3), 3, PARTS * JOBS)
    with worker(settings, "lifecycle") as lifecycle, worker(settings, "scheduling", "a") as frozen:
        frozen.until(lambda: OPEN in frozen.page("/metrics") and lifecycle.is_ready)
        with worker(settings, "scheduling", "b") as heir:
            heir.until(lambda: heir.is_ready)
            jobs.submit(JOBS)
            frozen.until(lambda: jobs.bound() > 0)
            freeze(frozen.process)
            jobs.submit(JOBS)
            # Its session is over: the other one goes on from what it has committed.
            heir.until(lambda: OPEN in heir.page("/metrics") and jobs.all_run())
            frozen.send(signal.SIGCONT)
            jobs.submit(JOBS)
            # It is fenced; or its heir, if it finds no connection at first and opens the shard before it hears of the heir.
            frozen.until(lambda: "taken over" in frozen.said + heir.said)
            heir.until(jobs.all_run)
            end(heir, frozen, lifecycle)
    jobs.must_be_sound()
