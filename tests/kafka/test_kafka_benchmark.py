"""The benchmark on Kafka runs, with a thousandth of its load; what it measures then is of no interest."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rich.console import Console

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import kafka
import kafka_place
from broker import Cluster
from kafka import Row, measure
from kafka_forward import Shape
from kafka_latency import Latencies, percentile
from kafka_measures import Burst, Load, Window, window

SMALL = Load(
    rounds=1,
    observations=2_000,
    rate=400,
    settle_seconds=0.2,
    window_seconds=5.0,
    burst_rate=1_000,
    burst_seconds=1.0,
    faust_share=10,
)


def figures(bootstrap: str, part: str) -> dict[str, float]:
    return {row.measure: row.value for row in measure(bootstrap, SMALL, [part], Console(quiet=True))}


@pytest.mark.slow
def test_the_stage_is_compared_with_what_forwards_the_same(bootstrap: str) -> None:
    pytest.importorskip("confluent_kafka")
    pytest.importorskip("faust")
    found = figures(bootstrap, "rates")
    assert all(value > 0 for name, value in found.items() if not name.endswith("-cpu"))
    assert found["outputs"] == pytest.approx(0.73, abs=0.1)
    assert found["stage-vs-aiokafka"] == pytest.approx(found["stage"] / found["aiokafka"])


def test_a_steady_rate_gives_latencies(bootstrap: str) -> None:
    found = figures(bootstrap, "sustained")
    assert found["sustained-rate"] > 0
    assert found["sustained-events"] > 0
    assert 0 < found["latency-p50"] <= found["latency-p99"]
    assert found["sustained-cpu"] >= 0
    assert found["sustained-commit-interval"] > 0


@pytest.mark.slow
def test_after_a_burst_nothing_waits_and_a_new_worker_goes_on(bootstrap: str) -> None:
    found = figures(bootstrap, "burst")
    assert found["burst-rate"] > 0
    assert 0 < found["restart"] <= found["restart-all-shards"]


def test_a_window_counts_only_with_a_fed_worker_that_wrote_something(bootstrap: str) -> None:
    with (
        kafka_place.place(bootstrap) as where,
        kafka_place.Worker(("-c", "import time; time.sleep(600)"), {}) as worker,
        kafka_place.Worker(("-c", "print('all is sent')"), {}) as feeder,
        Latencies(where) as latencies,
    ):
        feeder.result()
        with pytest.raises(RuntimeError, match="all is sent"):
            window(where, worker, feeder, latencies, 0)
        with pytest.raises(RuntimeError, match="no event came"):
            window(where, worker, worker, latencies, 0.01)


def test_figures_under_steady_load_are_medians_but_no_window_may_lack_load(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = [
        Window(rate, 0.1, events, 30, p50, 80) for rate, events, p50 in ((4_000, 0.73, 3), (3_000, 0.5, 1), (4_100, 0.72, 2))
    ]
    monkeypatch.setattr(kafka, "sustained", lambda *_: windows)
    found = {row.measure: row for row in measure("", Load(), ["sustained"], Console(quiet=True))}
    assert (found["sustained-rate"].value, found["sustained-rate"].met) == (3_000, False)
    assert (found["sustained-events"].value, found["sustained-events"].met) == (0.5, False)
    assert found["latency-p50"].value == 2


def test_the_budget_of_a_restart_is_held_when_every_shard_has_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    burst = Burst(10_000, 0, 0.1, 120_000, [5, 4, 6], [11, 5, 12])
    monkeypatch.setattr(kafka, "burst_and_restarts", lambda *_: burst)
    found = {row.measure: row for row in measure("", Load(), ["burst"], Console(quiet=True))}
    assert (found["restart"].value, found["restart"].met) == (5, None)
    assert (found["restart-all-shards"].value, found["restart-all-shards"].met) == (11, False)


@pytest.mark.usefixtures("jars")
def test_the_broker_has_the_flags_of_kafkas_own_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    commands: list[str] = []

    def start(cluster: Cluster) -> None:
        commands.extend(cluster.brokers[0].command)

    monkeypatch.setattr(Cluster, "start", start)
    with kafka_place.broker():
        command = " ".join(commands)
    assert "-Xmx1G -Xms1G -server -XX:+UseG1GC" in command
    assert "TieredStopAtLevel" not in command


def test_a_budget_is_met_or_missed_or_not_there() -> None:
    assert Row("rate", 5.0, "1/s", "", 4.0).met is True
    assert Row("rate", 3.0, "1/s", "", 4.0).met is False
    assert Row("delay", 3.0, "s", "", 4.0, "at most").met is True
    assert Row("delay", 5.0, "s", "", 4.0, "at most").met is False
    assert Row("rate", 5.0, "1/s", "").met is None


def test_a_pass_through_writes_as_many_records_and_bytes_as_it_is_told() -> None:
    shape = Shape(0.73, 600)
    batches = [500] * 7 + [123]
    written, taken = 0, 0
    for batch in batches:
        written += shape.due(taken, taken + batch)
        taken += batch
    assert written == int(0.73 * sum(batches))
    key, headers = b"k" * 36, [("name", b"v" * 96)]
    assert shape.value_bytes(key, headers) + len(key) + len("name") + 96 == 600


def test_percentiles_are_of_the_values() -> None:
    assert percentile([float(number) for number in range(100)], 0.5) == 50
    assert percentile([1.0], 0.99) == 1.0
