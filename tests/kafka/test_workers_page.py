"""docs/workers.md: its commands do what it says, and its recipe for Kubernetes starts a worker that becomes ready and drains."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from worker_process import Lahar, until

from streams.log import KafkaLog
from streams.settings import KafkaSettings

PAGE = (Path(__file__).parents[2] / "docs" / "workers.md").read_text(encoding="utf-8")
Make = Callable[[int], KafkaLog]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def started(settings: KafkaSettings, line: str) -> Lahar:
    """Start a command of the page; its metrics go to a free port."""
    words = shlex.split(line)
    environment = {}
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    assert words.pop(0) == "lahar"
    if "--metrics" in words:
        place = words.index("--metrics")
        del words[place : place + 2]
    return Lahar(settings, *words, **environment)


@pytest.mark.parametrize(
    "block", [pytest.param(block, marks=[pytest.mark.slow] if "--ordinal" in block else []) for block in blocks("shell")]
)
def test_the_workers_of_a_block_share_four_shards_and_drain(make_log: Make, settings: KafkaSettings, block: str) -> None:
    make_log(4)
    with ExitStack() as stack:
        workers = [stack.enter_context(started(settings, line)) for line in block.splitlines()]
        until(lambda: all(worker.is_ready for worker in workers))
        if "lifecycle" in block:
            until(lambda: sorted(shard for worker in workers for shard in worker.shards) == [0, 1, 2, 3])
        for worker in workers:
            worker.send(signal.SIGTERM)
        assert [worker.wait() for worker in workers] == [0] * len(workers)


(SERVICE, STATEFUL_SET), (ORDINAL,), (DEPLOYMENT,) = RECIPES = [list(yaml.safe_load_all(block)) for block in blocks("yaml")]
WORKLOADS = [found for recipe in RECIPES for found in recipe if "template" in found.get("spec", {})]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload["kind"])
def test_a_pod_is_found_by_its_owner_and_has_no_needless_rights(workload: dict[str, Any]) -> None:
    pod = workload["spec"]["template"]
    assert workload["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert pod["spec"]["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert pod["spec"]["automountServiceAccountToken"] is False
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert re.fullmatch(r"[\w.-]+/[\w-]+:\w+", container["image"])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert f"0.0.0.0:{ports['metrics']}" in container["command"]
    assert {container[probe]["httpGet"]["port"] for probe in ("readinessProbe", "livenessProbe")} == {"metrics"}


def test_the_stateful_set_names_the_service_that_finds_its_pods() -> None:
    spec = STATEFUL_SET["spec"]
    assert (SERVICE["kind"], SERVICE["metadata"]["name"]) == ("Service", spec["serviceName"])
    assert SERVICE["spec"]["clusterIP"] == "None"
    assert SERVICE["spec"]["selector"] == spec["template"]["metadata"]["labels"]
    (container,) = spec["template"]["spec"]["containers"]
    assert [port["port"] for port in SERVICE["spec"]["ports"]] == [port["containerPort"] for port in container["ports"]]


def test_the_recipes_start_workers_that_become_ready_and_drain(make_log: Make, settings: KafkaSettings) -> None:
    make_log(2)
    for workload, stage in ((STATEFUL_SET, "lifecycle"), (STATEFUL_SET, "billing"), (DEPLOYMENT, "effects")):
        pod = workload["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        command = shlex.join(container["command"]).replace("lifecycle", stage)
        paths = [container[probe]["httpGet"]["path"] for probe in ("readinessProbe", "livenessProbe")]
        with started(settings, command) as worker:
            worker.until(lambda worker=worker, paths=paths: all('"ok": true' in worker.page(path) for path in paths))
            worker.send(signal.SIGTERM)
            assert worker.process.wait(pod["terminationGracePeriodSeconds"]) == 0
    given = {entry["name"]: entry.get("value", "0") for entry in ORDINAL["env"]}
    with started(settings, "lahar worker --stage lifecycle") as worker:
        worker.until(lambda: worker.shards == {0, 1})
        worker.send(signal.SIGTERM)
    with Lahar(settings, "worker", "--stage", "lifecycle", **given) as worker:
        worker.until(lambda: worker.shards == {0})
