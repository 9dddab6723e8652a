"""docs/operations.md names every metric that a process of Lahar exports, and everything that writes warnings to its log."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from counting_stage import CountingStage, custom
from deployment import refused
from prometheus_client import PlatformCollector, ProcessCollector
from prometheus_client.core import Metric

from engine.effects.metrics import CallbackStatus, EffectMetrics
from engine.log.errors import FencedError
from engine.log.memory import MemoryLog
from engine.log.port import Partition
from engine.processor.processor import Processor
from engine.runtime.monitoring import Monitoring
from engine.runtime.settings import Settings
from engine.scheduling.stage import SchedulingStage

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "operations.md"
ROW = re.compile(
    r"^\| `(?P<name>\w+)` \| (?P<type>gauge|counter|histogram) \| (?P<labels>[^|]*)\| (?P<unit>[^|]+) \| (?P<meaning>.+) \|$"
)

Row = tuple[str, tuple[str, ...]]
"""Type and labels."""


class LogLikeKafka(MemoryLog):
    """Has ends as Kafka has them, and lets records go."""

    def stable_ends(self, partitions: Sequence[Partition]) -> dict[Partition, tuple[int, int]]:
        return {partition: (self.end(partition), self.end(partition)) for partition in partitions}

    def gone(self, partition: Partition) -> int:
        return 0


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
    log = LogLikeKafka()
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
    other = Monitoring(Settings(), {})
    Processor(refused().log, SchedulingStage(), observer=other.observer).open()
    of_stages = [family for family in other.registry.collect() if family.name.startswith("lahar_scheduling_")]
    return dict(map(described, [*monitoring.registry.collect(), *of_stages]))


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


LOGGED = re.compile(r"^\| (WARNING|ERROR) \| `([\w.]+)` \| .+ \|$", re.MULTILINE)
LEVELS = {"warning": "WARNING", "error": "ERROR", "exception": "ERROR"}


def warnings_of(source: str, module: str) -> Iterator[tuple[str, str]]:
    """Yield (level, logger) of each call of a module's logger that says that something is wrong."""
    loggers: dict[str, str] = {}
    for node in ast.walk(ast.parse(source)):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(attr="getLogger"), args=[told]))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(func=ast.Attribute(attr="getLogger"), args=[told]))
            ):
                loggers[name] = told.value if isinstance(told, ast.Constant) and isinstance(told.value, str) else module
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=level)) if name in loggers and level in LEVELS:
                yield LEVELS[level], loggers[name]


def test_the_table_of_logs_names_whatever_warns() -> None:
    warn = {
        found
        for package in ("engine", "statemachines", "streams")
        for path in (ROOT / package).rglob("*.py")
        for found in warnings_of(path.read_text(encoding="utf-8"), ".".join(path.relative_to(ROOT).with_suffix("").parts))
    }
    assert set(LOGGED.findall(PAGE.read_text(encoding="utf-8"))) == warn


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("_logger: Final = logging.getLogger(__name__)\n_logger.exception('x')", [("ERROR", "a.b")]),
        (
            "_log = logging.getLogger('lahar.agents')\ndef f():\n    _log.warning('x')\n    _log.info('y')",
            [("WARNING", "lahar.agents")],
        ),
        ("output.warning('x')", []),
    ],
)
def test_warnings_are_found(source: str, expected: list[tuple[str, str]]) -> None:
    assert list(warnings_of(source, "a.b")) == expected
