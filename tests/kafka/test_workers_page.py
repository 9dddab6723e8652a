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


@pytest.mark.parametrize("block", blocks("shell"))
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


def test_the_stateful_set_starts_a_worker_that_becomes_ready(make_log: Make, settings: KafkaSettings) -> None:
    recipe, ordinal = (yaml.safe_load(block) for block in blocks("yaml"))
    pod = recipe["spec"]["template"]
    assert recipe["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert f"0.0.0.0:{ports['metrics']}" in container["command"]
    probes: list[Any] = [container[name]["httpGet"] for name in ("readinessProbe", "livenessProbe")]
    make_log(2)
    with started(settings, shlex.join(container["command"])) as worker:
        worker.until(lambda: all('"ok": true' in worker.page(probe["path"]) for probe in probes))
        worker.send(signal.SIGTERM)
        assert worker.process.wait(pod["spec"]["terminationGracePeriodSeconds"]) == 0
    given = {entry["name"]: entry.get("value", "0") for entry in ordinal["env"]}
    with started(settings, "lahar worker --stage lifecycle") as worker:
        worker.until(lambda: worker.shards == {0, 1})
        worker.send(signal.SIGTERM)
    with Lahar(settings, "worker", "--stage", "lifecycle", **given) as worker:
        worker.until(lambda: worker.shards == {0})
