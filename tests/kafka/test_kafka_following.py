"""`lahar events --follow` on Kafka misses nothing and repeats nothing, while others append and process, whoever is stopped."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from lahar_command import Command

from engine.simulation.traces import sample_trace
from streams.settings import KafkaSettings

MAIN = "from engine.cli.main import main; main()"


class Started:
    """`lahar` in a process of its own, and the lines that it writes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.read: list[Any] = []

    def until(self, true: Callable[[Any], bool]) -> None:
        """Read lines, as JSON, up to one for which the condition holds."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.read.append(json.loads(line))
            if true(self.read[-1]):
                return
        raise AssertionError(f"it ended with {self.process.wait()}")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Signal it, read what it still writes, and return its exit code."""
        self.process.send_signal(how)
        assert self.process.stdout is not None
        self.read += [json.loads(line) for line in self.process.stdout]
        return self.process.wait()


@pytest.fixture
def start(settings: KafkaSettings, tmp_path: Path) -> Iterator[Callable[..., Started]]:
    """Starts `lahar` on the log of a test; what still runs at its end is killed."""
    environment = os.environ | {
        "LAHAR_LOG": f"kafka://{settings.bootstrap_servers}",
        "KAFKA_TOPIC_PREFIX": settings.topic_prefix,
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }

    @contextmanager
    def running(*arguments: object) -> Iterator[Started]:
        command = [sys.executable, "-c", MAIN, *map(str, arguments)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment) as process:
            try:
                yield Started(process)
            finally:
                process.kill()

    with ExitStack() as stack:
        yield lambda *arguments: stack.enter_context(running(*arguments))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """The first 600 jobs of the trace that ships with Lahar."""
    with sample_trace() as sample, gzip.open(sample, "rt") as source:
        path = tmp_path / "rows.csv"
        path.write_text("".join(islice(source, 601)))
    return path


@pytest.mark.slow
def test_followers_that_come_and_go_are_told_everything_once(
    settings: KafkaSettings, start: Callable[..., Started], trace: Path
) -> None:
    """One appends, one processes; one follows from token to token, told to stop in the middle, again and again."""
    lahar = Command.of(settings)
    lahar("topics", "apply", "--partitions", 2, "--replication", 1)
    engine = start("run")
    place = "beginning"
    told: list[Any] = []
    for turn, how in enumerate((signal.SIGTERM, signal.SIGINT, signal.SIGTERM)):
        lahar("import-trace", trace, "--cluster", f"c{turn}")
        follower = start("--json", "events", "--follow", "--from", place)
        seen = [0]

        def enough(line: Any, seen: list[int] = seen) -> bool:
            seen[0] += "specversion" in line
            return seen[0] >= 1_000

        follower.until(enough)
        assert follower.stop(how) == (130 if how is signal.SIGINT else 0)
        told += [line for line in follower.read if "specversion" in line]
        assert set(follower.read[-1]) == {"stopped", "token"}
        place = follower.read[-1]["token"]
    assert engine.stop() == 0
    lahar("run", "--once")
    *rest, marker = lahar.records("events", "--from", place)
    assert marker["caught_up"] is True
    told += rest
    ids = [event["id"] for event in told]
    assert len(ids) == len(set(ids))
    assert sorted(ids) == sorted(event["id"] for event in lahar.records("events")[:-1])
    last: dict[str, int] = {}
    for event in told:
        if event["type"] != "lahar.shard.accounted.v1":
            assert int(event["sequence"]) == last.get(event["subject"], 0) + 1
            last[event["subject"]] = int(event["sequence"])


def test_a_follower_that_is_killed_goes_on_from_its_last_token(
    settings: KafkaSettings, start: Callable[..., Started], trace: Path
) -> None:
    """What it is told twice it knows by the id."""
    lahar = Command.of(settings)
    lahar("topics", "apply", "--partitions", 2, "--replication", 1)
    lahar("import-trace", trace)
    follower = start("--json", "events", "--follow")
    follower.until(lambda line: line.get("caught_up") is True)
    token = follower.read[-1]["token"]
    engine = start("run")
    follower.until(lambda line: line.get("sequence", "").endswith("2"))
    follower.stop(signal.SIGKILL)
    engine.stop()
    lahar("run", "--once")
    told = [line["id"] for line in follower.read if "specversion" in line]
    again = [line["id"] for line in lahar.records("events", "--from", token) if "specversion" in line]
    assert set(told) <= set(again)
    assert sorted(again) == sorted(event["id"] for event in lahar.records("events")[:-1])
