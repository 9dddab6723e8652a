"""Budgets on Kafka: one worker for all partitions, killed and replaced; a callback beside it."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lahar_command import Command
from test_kafka_bills import BOOK, worker
from worker_process import Lahar

from engine.events import decode
from engine.events.budgets import BudgetCrossed
from engine.history.budgets import check_budgets
from streams.log import KafkaLog
from streams.settings import KafkaSettings

Make = Callable[[int], KafkaLog]
BUDGET = """\
---
apiVersion: lahar.dev/v1
kind: Tenant
metadata: {name: default}
spec:
  budget: {amount: "40", currency: EUR, thresholds: [10, 25, 50, 75, 90, 1000]}
"""
CALLBACK = """\
from engine.effects import BudgetNotice, budget_callback


@budget_callback(tenant=["default"])
def spent(notice: BudgetNotice) -> None:
    print("told of", notice.threshold, flush=True)
"""
START = 1_685_000_000
HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"


def trace(first: int, count: int) -> str:
    """Rows of jobs of an hour and 1 GPU, 1.80 EUR each."""
    rows = [
        f"job-{first + place},0,0,1,1000,,LS,Succeeded,{START + place},{START + place + 3600},{START + place}"
        for place in range(count)
    ]
    return "\n".join([HEADER, *rows, ""])


def said(log: KafkaLog) -> list[BudgetCrossed]:
    events: list[Any] = [decode(record.message) for record in log.scan(("budgets",), {BudgetCrossed.TYPE})]
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    return [event.data for event in events]


def settled(lahar: Command) -> bool:
    return all(found["lag"] == 0 for found in lahar.records("status") if found["shard"] != "scheduling/0")


def test_each_threshold_is_said_once_whoever_is_killed(make_log: Make, settings: KafkaSettings, tmp_path: Path) -> None:
    log, lahar = make_log(3), Command.of(settings)
    lahar("apply", "-", "--at", "2023-01-01T00:00:00Z", given=BOOK + BUDGET)
    with worker(settings, "lifecycle") as lifecycle, worker(settings, "billing") as billing:
        for part in range(3):
            with worker(settings, "budgets") as budgets:
                budgets.until(lambda: budgets.is_ready and lifecycle.is_ready and billing.is_ready)
                (tmp_path / "part.csv").write_text(trace(10 * part, 7))
                lahar("import-trace", "--format", "openb", tmp_path / "part.csv")
                before = len(said(log))
                budgets.until(lambda: len(said(log)) > before)  # noqa: B023 - as above
                budgets.send(signal.SIGKILL)
        with worker(settings, "budgets") as budgets:
            budgets.until(lambda: budgets.is_ready and settled(lahar))
            assert 'lahar_shards{stage="budgets"} 1.0' in budgets.page("/metrics")
            for process in (lifecycle, billing, budgets):
                process.send(signal.SIGTERM)
                assert process.wait() == 0
    found = said(log)
    # 21 jobs: 37.80 EUR.
    assert [data.threshold for data in found] == [10, 25, 50, 75, 90]
    assert Counter((data.tenant, data.period, data.threshold) for data in found).most_common(1)[0][1] == 1
    assert list(check_budgets(log)) == []
    (standing,) = lahar.records("billing", "budgets")
    assert (standing["spent"], standing["percent"]) == ("37.8", "94.5")
    assert "verify: ok" in lahar("billing", "verify").out
    assert lahar.records("verify")[-1]["shard"] == "budgets/0"
    assert all(record["ok"] for record in lahar.records("verify"))
    told = [
        json.loads(line) for line in lahar("events", "--topic", "budgets", "--type", "budget.crossed", "--json").out.splitlines()
    ]
    assert [event["data"]["threshold"] for event in told[:-1]] == [10, 25, 50, 75, 90]


def test_a_callback_is_told_by_the_effects_worker(
    make_log: Make, settings: KafkaSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, lahar = make_log(2), Command.of(settings)
    (tmp_path / "spending.py").write_text(CALLBACK)
    (tmp_path / "lahar.toml").write_text('callbacks = ["spending"]\n')
    monkeypatch.setenv("LAHAR_CONFIG", str(tmp_path / "lahar.toml"))
    lahar("apply", "-", "--at", "2023-01-01T00:00:00Z", given=BOOK + BUDGET)
    (tmp_path / "part.csv").write_text(trace(0, 7))
    lahar("import-trace", "--format", "openb", tmp_path / "part.csv")
    with Lahar(settings, "worker", "--stage", "effects", "--instance", "effects-0") as effects:
        monkeypatch.delenv("LAHAR_CONFIG")  # the other process calls nobody
        effects.until(lambda: effects.is_ready)
        lahar("run", "--once")
        assert [data.threshold for data in said(log)] == [10, 25]
        effects.until(lambda: "told of 25" in effects.said)
        effects.send(signal.SIGTERM)
        assert effects.wait() == 0
