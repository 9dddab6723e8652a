"""Bytes of a broker's files change: an export saves all batches that are sound, and names what it leaves out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker import Broker, Cluster
from lahar_command import Command
from workload import lives

from engine.log.errors import LogDamagedError
from engine.log.port import Partition
from streams.log import KafkaLog
from streams.settings import KafkaSettings

TOPICS = ("--partitions", "1", "--replication", "1")
BEGIN = 1_700_000_000_000_000
APPENDS = 6
EACH = 20
HEAD = 12
"""Bytes of a batch before those that its length counts."""


@pytest.fixture(scope="module")
def cluster(jars: None) -> Iterator[Cluster]:
    with Cluster() as started:
        yield started


@pytest.fixture
def filled(cluster: Cluster, prefix: str) -> KafkaSettings:
    """A log whose topics have several batches each."""
    settings = KafkaSettings(bootstrap_servers=cluster.bootstrap, topic_prefix=prefix, request_seconds=20)
    lahar = Command.of(settings)
    lahar("topics", "apply", *TOPICS)
    log = KafkaLog(settings)
    messages = list(lives(range(12), 2, BEGIN))[: APPENDS * EACH]
    for start in range(0, len(messages), EACH):
        log.append("pods", messages[start : start + EACH])
        lahar("run", "--once")
    log.close()
    return settings


def batches(path: Path) -> list[tuple[int, int, int]]:
    """Base offset, begin and end of each batch of a segment."""
    content, place, found = path.read_bytes(), 0, []
    while (offset := content[place : place + 8]) and (size := int.from_bytes(content[place + 8 : place + HEAD], "big")):
        found.append((int.from_bytes(offset, "big"), place, place + HEAD + size))
        place += HEAD + size
    return found


def spoil(broker: Broker, settings: KafkaSettings, topic: str, number: int) -> tuple[int, int]:
    """Change a byte of a large batch of a partition; returns the offsets that are lost, the second one behind the last."""
    (segment,) = (broker.data / f"{settings.topic_prefix}{topic}-0").glob("*.log")
    found = batches(segment)
    first, _, end = [batch for batch in found if batch[2] - batch[1] > 500][number]
    with segment.open("r+b") as file:
        file.seek(end - 3)
        (byte,) = file.read(1)
        file.seek(end - 3)
        file.write(bytes([byte ^ 0x40]))
    behind = [offset for offset, _, _ in found if offset > first]
    return first, behind[0] if behind else first


def places(lines: list[str]) -> dict[tuple[str, int], str]:
    found = [json.loads(line) for line in lines]
    return {(event["topic"], event["offset"]): line for event, line in zip(found, lines, strict=True) if "topic" in event}


def test_an_export_goes_on_behind_a_batch_that_does_not_match_its_checksum(
    cluster: Cluster, filled: KafkaSettings, tmp_path: Path
) -> None:
    (broker,) = cluster.brokers
    lahar = Command.of(filled)
    before = places(lahar("export").out.splitlines())
    lost = {(topic, *spoil(broker, filled, topic, 2)) for topic in ("pods", "job-events")}
    done = lahar("export", code=1)
    after = places(done.out.splitlines())
    gone = {(topic, offset) for topic, first, behind in lost for offset in range(first, behind)}
    assert before.keys() - gone == after.keys()
    assert all(before[place] == line for place, line in after.items())
    assert len(before) - len(after) > EACH
    for topic, first, behind in lost:
        assert f"left out: {topic}/0 from {first} to {behind - 1}: they cannot be read" in done.err
    (tmp_path / "saved.jsonl").write_text(done.out, encoding="utf-8")
    there = Command(f"sqlite:{tmp_path / 'new.db'}")
    assert there.records("import", tmp_path / "saved.jsonl")[0]["records"] == len(after)
    there("run", "--once")


def test_what_stands_before_it_is_read_and_then_it_is_named(cluster: Cluster, filled: KafkaSettings) -> None:
    (broker,) = cluster.brokers
    first, behind = spoil(broker, filled, "pods", 1)
    log = KafkaLog(filled, readonly=True)
    assert [record.offset for record in log.read(Partition("pods", 0), 0, first)] == list(range(first))
    with pytest.raises(LogDamagedError, match="does not match its checksum") as damage:
        log.read(Partition("pods", 0), first, 100)
    assert (damage.value.place, damage.value.count) == (("pods", 0, first), behind - first)
    assert log.read(Partition("pods", 0), behind, 1)[0].offset == behind
    log.close()
