"""Every query of alerts and dashboard asks for metrics and labels that the code really exports."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from typing import Any

import promql_parser
import pytest
from deployment import refused
from lifecycle_inputs import inputs
from monitoring import panels, queries, variables
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric

from engine.effects.metrics import CallbackStatus, EffectMetrics
from engine.lifecycle.stage import LifecycleStage
from engine.log.errors import FencedError
from engine.log.memory import MemoryLog
from engine.log.port import Partition
from engine.processor.processor import Processor
from engine.runtime.metrics import ProcessorMetrics
from engine.scheduling.stage import SchedulingStage

OF_PROMETHEUS = {"up": {"job", "instance"}, "ALERTS": {"alertname", "alertstate", "severity", "job", "instance"}}
TARGET = {"job", "instance"}
"""Labels that a scrape adds."""
ONLY_ON_KAFKA = {"lahar_lso_lag_records", "lahar_inputs_gone_total"}
"""No other log has what these count, so here they have no samples; test_compose.py looks at them."""
QUERIES = list(queries())


def exported(families: Iterable[Metric]) -> dict[str, set[str]]:
    """Return the labels of each sample that is shown, by its name."""
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


@pytest.fixture(scope="module")
def metrics() -> dict[str, set[str]]:
    """What a process shows that has run each part, without a broker."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    log = MemoryLog()
    for topic, message in inputs(40):
        log.append(topic, [message])
    observer = ProcessorMetrics(registry)
    processor: Processor[Any] = Processor(log, LifecycleStage(), observer=observer)
    processor.open()
    processor.run_until_quiet()
    Processor(log, LifecycleStage()).open()
    log.append("pods", [message for topic, message in inputs(3) if topic == "pods"])
    with pytest.raises(FencedError):
        processor.step()
    observer.rebalanced("lifecycle", 1.0)
    observer.sized("lifecycle", 1)
    processor.open()
    EffectMetrics(registry, lambda: [CallbackStatus("a", 3)])
    Processor(refused().log, SchedulingStage(), observer=observer).open()
    run_agents(log, registry)
    return exported(registry.collect())


def run_agents(log: MemoryLog, registry: CollectorRegistry) -> None:
    from streams.agents.metrics import AgentMetrics
    from streams.agents.progress import Place
    from streams.agents.received import Received
    from streams.agents.usage import Usage

    agents, usage = AgentMetrics(registry), Usage()
    agents.watch("usage")
    agents.lag.labels("job-events", "0").set(0)
    registry.register(usage)
    partition = Partition("job-events", 0)
    for record in log.read(partition, 0, log.end(partition)):
        received = Received(record.message, partition.topic, partition.number, record.offset)
        if usage.wants(received):
            asyncio.run(usage.handle(received))
    usage.rebuilt([Place(partition.topic, partition.number)])


def selected(query: str) -> Iterator[tuple[str, set[str]]]:
    """Yield (metric, labels that the query needs it to have) for each selector of a query."""

    def walk(part: Any, needed: set[str]) -> Iterator[tuple[str, set[str]]]:
        match part:
            case promql_parser.VectorSelector():
                yield part.name, needed | {matcher.name for matcher in part.matchers.matchers}
            case promql_parser.MatrixSelector():
                yield from walk(part.vector_selector, needed)
            case promql_parser.AggregateExpr():
                if part.modifier is not None:
                    assert part.modifier.type == promql_parser.AggModifierType.By, "labels that are kept are to be named"
                    yield from walk(part.expr, needed | set(part.modifier.labels))
                else:
                    yield from walk(part.expr, needed)
            case promql_parser.Call():
                bucket = {"le"} if part.func.name == "histogram_quantile" else set[str]()
                for argument in part.args:
                    yield from walk(argument, needed | bucket)
            case promql_parser.BinaryExpr():
                matched = part.modifier.matching if part.modifier is not None else None
                both = needed | set(matched.labels if matched is not None else ())
                yield from walk(part.lhs, both)
                yield from walk(part.rhs, both)
            case promql_parser.ParenExpr() | promql_parser.UnaryExpr() | promql_parser.SubqueryExpr():
                yield from walk(part.expr, needed)
            case promql_parser.NumberLiteral() | promql_parser.StringLiteral():
                pass
            case _:
                raise AssertionError(f"{type(part).__name__} in {query}")

    yield from walk(promql_parser.parse(query), set())


@pytest.mark.parametrize(("place", "query"), QUERIES, ids=[place for place, _ in QUERIES])
def test_a_query_asks_for_what_there_is(place: str, query: str, metrics: dict[str, set[str]]) -> None:
    found = list(selected(query))
    assert found
    for name, labels in found:
        if name in OF_PROMETHEUS:
            assert labels <= OF_PROMETHEUS[name]
        elif name not in ONLY_ON_KAFKA:
            assert name in metrics, f"{place}: nobody exports {name}"
            assert labels <= metrics[name] | TARGET, f"{place}: {name} has the labels {sorted(metrics[name])}"


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_legend_names_labels_that_the_result_has(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        kept = re.findall(r"by \(([^)]*)\)", target["expr"])
        assert all(named <= set(re.findall(r"\w+", labels)) for labels in kept)
        assert kept or not named


@pytest.mark.parametrize("name", variables())
def test_a_variable_takes_its_values_from_what_there_is(name: str, metrics: dict[str, set[str]]) -> None:
    asked = re.fullmatch(r"label_values\((?P<selector>.+), (?P<label>\w+)\)", variables()[name])
    selector = re.sub(r"\$\w+", ".*", asked["selector"])
    ((metric, labels),) = selected(selector)
    assert labels | {asked["label"]} <= metrics[metric]


def test_every_metric_of_ours_is_shown_or_watched(metrics: dict[str, set[str]]) -> None:
    """What nobody looks at need not be exported; figures of which others on the dashboard tell more are listed."""
    used = {name for _, query in QUERIES for name, _ in selected(query)}
    told_by_others = {"lahar_timer_due_timestamp_seconds"}
    suffix = re.compile(r"_(bucket|sum|count|created|total)$")
    families = {suffix.sub("", name) for name in metrics if name.startswith("lahar_")}
    looked_at = {suffix.sub("", name) for name in used}
    assert families - looked_at == told_by_others


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("a", [("a", set())]),
        ('sum by (x) (rate(a{y="1"}[5m])) / b', [("a", {"x", "y"}), ("b", set())]),
        ("histogram_quantile(0.9, sum by (le) (a)) and on (z) (b > 2)", [("a", {"le", "z"}), ("b", {"z"})]),
    ],
)
def test_labels_that_a_query_needs_are_found(query: str, expected: list[tuple[str, set[str]]]) -> None:
    assert list(selected(query)) == expected
