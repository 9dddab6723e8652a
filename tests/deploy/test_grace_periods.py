"""Whoever stops a process waits for as long as it may need, everywhere the same: docs/workers.md, its recipes, and Compose."""

from __future__ import annotations

import re

import pytest
import yaml
from container_files import ROOT, compose, ours, seconds

from engine.runtime.runner import DRAIN_SECONDS
from streams.agents.declaration import TIME_LIMIT
from streams.settings import KafkaSettings

WORKERS = (ROOT / "docs" / "workers.md").read_text(encoding="utf-8")
GRACE = {command: int(given) for command, given in re.findall(r"^\| `lahar ([^`]+)` \|.*\| (\d+) s \|$", WORKERS, re.MULTILINE)}
SERVICES = compose()["services"]
QUESTION = KafkaSettings().request_seconds
SPANS = 10.0
"""What OpenTelemetry takes at most to send the last ones, unless `OTEL_EXPORTER_OTLP_TIMEOUT` says otherwise."""
NEEDED = {
    "worker --stage lifecycle": DRAIN_SECONDS + SPANS,
    "worker --stage billing": DRAIN_SECONDS + SPANS,
    "worker --stage scheduling": DRAIN_SECONDS + SPANS,
    "worker --stage budgets": DRAIN_SECONDS + SPANS,
    # The question that is under way, and where each callback stands.
    "worker --stage effects": 2 * QUESTION + SPANS,
    "run": DRAIN_SECONDS + 2 * QUESTION + SPANS,
    # The call that runs, and the commit.
    "agents run": TIME_LIMIT + QUESTION,
}


def test_the_page_gives_each_process_what_it_needs_and_a_few_seconds() -> None:
    assert GRACE.keys() == NEEDED.keys()
    for command, needed in NEEDED.items():
        assert needed + 5 <= GRACE[command] <= needed + 30, command


def test_a_commit_may_take_as_long_as_shards_are_waited_for() -> None:
    assert KafkaSettings().transaction_seconds <= DRAIN_SECONDS


@pytest.mark.parametrize("name", [name for name in ours() if SERVICES[name]["restart"] != "no"])
def test_compose_gives_what_the_page_says(name: str) -> None:
    (command,) = (found for found in GRACE if " ".join(SERVICES[name]["command"]).startswith(found))
    assert seconds(SERVICES[name]["stop_grace_period"]) == GRACE[command]


def test_the_recipes_for_kubernetes_give_what_the_page_says() -> None:
    pods = []
    for block in re.findall(r"^```yaml\n(.*?)^```", WORKERS, re.MULTILINE | re.DOTALL):
        pods += [found["spec"]["template"]["spec"] for found in yaml.safe_load_all(block) if "template" in found.get("spec", {})]
    assert pods
    for pod in pods:
        (container,) = pod["containers"]
        (command,) = (found for found in GRACE if " ".join(container["command"]).startswith(f"lahar {found}"))
        assert pod["terminationGracePeriodSeconds"] == GRACE[command]
