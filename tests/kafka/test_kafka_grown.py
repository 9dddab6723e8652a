"""A log whose topics somebody has given more partitions: its shards are not run, what stood before is read and moved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from lahar_command import Command
from topics_of_tests import add_partitions, delete_group
from workload import lives

from engine.log.errors import LogUnavailableError
from engine.log.port import Commit, Partition, ShardId
from streams.log import KafkaLog
from streams.settings import KafkaSettings

MANY = ("--partitions", "2", "--replication", "1")


async def write(settings: KafkaSettings, topic: str, partition: int, count: int) -> None:
    """Write records past the log."""
    async with AIOKafkaProducer(**settings.client_arguments()) as producer:
        for number in range(count):
            await producer.send_and_wait(settings.topic_prefix + topic, b"?", f"foreign/{number}".encode(), partition)


@pytest.mark.parametrize("grown", [["pods"], ["pods", "jobs", "decisions", "job-events", "billing", "snapshots", "dead-letters"]])
def test_a_log_that_has_grown_is_not_run_but_read_and_moved(
    settings: KafkaSettings, elsewhere: KafkaSettings, grown: list[str], tmp_path: Path
) -> None:
    lahar, new = Command.of(settings), Command.of(elsewhere)
    lahar("topics", "apply", *MANY)
    log = KafkaLog(settings)
    log.append("pods", list(lives(range(12), 2, 1_700_000_000_000_000)))
    log.close()
    lahar("run", "--once")
    before = lahar.records("job", "list"), lahar.records("verify"), lahar("export").out
    add_partitions(settings, grown, 5)

    refused = lahar("run", "--once", code=4).err
    assert "`lahar export` reads the 2 that there were" in refused
    assert "Traceback" not in refused
    assert (lahar.records("job", "list"), lahar.records("verify")) == before[:2]
    exported = lahar("export").out
    assert exported == before[2]

    (tmp_path / "all.jsonl").write_text(exported, encoding="utf-8")
    new("topics", "apply", *MANY)
    new("import", tmp_path / "all.jsonl")
    assert new("run", "--once").err.count("grown") == 0
    assert new.records("job", "list") == before[0]


@pytest.mark.parametrize("buried", [False, True])
def test_earlier_records_are_read_after_brokers_lose_the_shards_positions(
    settings: KafkaSettings, open_log: Callable[[], KafkaLog], *, buried: bool
) -> None:
    """As they do a week after the last commit; `buried`: much that is not Lahar's stands behind the last position."""
    lahar = Command.of(settings)
    lahar("topics", "apply", *MANY)
    log = open_log()
    log.append("pods", list(lives(range(12), 2, 1_700_000_000_000_000)))
    lahar("run", "--once")
    before = lahar("export").out
    if buried:
        asyncio.run(write(settings, "snapshots", 0, 100))
    add_partitions(settings, ["pods", "jobs", "decisions", "job-events", "billing", "snapshots"], 5)
    asyncio.run(write(settings, "pods", 4, 1))
    for shard in range(2):
        asyncio.run(delete_group(settings, settings.group("lifecycle", shard)))

    assert lahar("export").out == before


def test_how_wide_a_log_was_is_known_of_whichever_stage_has_run(settings: KafkaSettings, open_log: Callable[[], KafkaLog]) -> None:
    Command.of(settings)("topics", "apply", *MANY)
    inputs = [Partition("cluster", 0), Partition("job-events", 0), Partition("job-events", 1)]
    open_log().open(ShardId("scheduling", 0), inputs).commit(Commit((1, 0, 0), 1))
    add_partitions(settings, ["pods", "jobs", "decisions", "job-events", "billing", "snapshots"], 5)
    log = KafkaLog(settings, readonly=True)
    assert (log.partitions("pods"), log.partitions("job-events")) == (2, 2)
    log.close()


def test_who_only_reads_cannot_write(settings: KafkaSettings) -> None:
    Command.of(settings)("topics", "apply", *MANY)
    log = KafkaLog(settings, readonly=True)
    try:
        assert log.read(Partition("pods", 0), 0, 1) == []
        with pytest.raises(LogUnavailableError, match="opened read-only"):
            log.append("pods", list(lives(range(1), 1, 1_700_000_000_000_000)))
    finally:
        log.close()
