"""docs/operations.md names every metric that a process of Lahar exports, with its type and labels, and no other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from counting_stage import CountingStage, custom
from prometheus_client import PlatformCollector, ProcessCollector
from prometheus_client.core import Metric

from engine.cli.probes import Monitoring
from engine.cli.settings import Settings
from engine.effects.metrics import CallbackStatus, EffectMetrics
from engine.log.errors import FencedError
from engine.log.memory import MemoryLog
from engine.log.port import Partition
from engine.log.processor import Processor

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
ROW = re.compile(
    r"^\| `(?P<name>\w+)` \| (?P<type>gauge|counter|histogram) \| (?P<labels>[^|]*)\| (?P<unit>[^|]+) \| (?P<meaning>.+) \|$"
)

Row = tuple[str, tuple[str, ...]]
"""Type and labels."""


class TransactionalLog(MemoryLog):
    """Has ends as Kafka has them."""

    def stable_ends(self, partitions: Sequence[Partition]) -> dict[Partition, tuple[int, int]]:
        return {partition: (self.end(partition), self.end(partition)) for partition in partitions}


def documented() -> dict[str, Row]:
    found: dict[str, Row] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if row := ROW.match(line):
            labels = tuple(re.findall(r"`(\w+)`", row["labels"]))
            assert row["name"] not in found, f"{row['name']} stands twice"
            found[row["name"]] = row["type"], labels
    return found


def described(family: Metric) -> tuple[str, Row]:
    labels = {tuple(name for name in sample.labels if name != "le") for sample in family.samples}
    assert len(labels) == 1, f"{family.name} has samples of the labels {labels}"
    # As a query names it: counters end with _total, and come without it from the registry.
    return family.name + "_total" * (family.type == "counter"), (family.type, labels.pop())


@pytest.fixture
def exported() -> dict[str, Row]:
    """What a process exports in which everything has happened once."""
    monitoring = Monitoring(Settings(), {})
    ProcessCollector(registry=monitoring.registry)
    PlatformCollector(registry=monitoring.registry)
    EffectMetrics(monitoring.registry, lambda: [CallbackStatus("audit", 0)])
    log = TransactionalLog()
    processor = Processor(log, CountingStage(), observer=monitoring.observer)
    processor.open()
    Processor(log, CountingStage()).open()
    log.append("pods", [custom("a", 1, "timer", at=1, delays=[10_000_000])])
    with pytest.raises(FencedError):
        processor.step()
    processor.open()
    processor.step()
    monitoring.metrics.rebalanced("lifecycle", 1.0)
    monitoring.metrics.sized("lifecycle", 1)
    return dict(map(described, monitoring.registry.collect()))


def test_the_table_is_what_is_exported(exported: dict[str, Row]) -> None:
    table = documented()
    assert sorted(exported.keys() - table.keys()) == [], "exported, and not in the table"
    assert sorted(table.keys() - exported.keys()) == [], "in the table, and not exported"
    assert {name: (kind, sorted(labels)) for name, (kind, labels) in table.items()} == {
        name: (kind, sorted(labels)) for name, (kind, labels) in exported.items()
    }


def test_names_follow_the_rules_of_prometheus(exported: dict[str, Row]) -> None:
    for name, (kind, labels) in exported.items():
        assert name.endswith("_total") == (kind == "counter"), name
        assert set(labels).isdisjoint({"job", "pod", "event", "id", "uid", "instance"}), name
