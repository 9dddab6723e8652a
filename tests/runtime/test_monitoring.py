"""Whether a process is alive and ready, as `/healthz` and `/readyz` tell it."""

from __future__ import annotations

import json
import re
import time
from io import StringIO
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from counting_stage import CountingStage, custom
from rich.console import Console

from engine.cli.output import Output
from engine.log.memory import MemoryLog
from engine.processor.processor import Processor
from engine.runtime.monitoring import STILL_SECONDS, Monitoring, served
from engine.runtime.settings import Settings

TOLD = re.compile(r"metrics: (http://127\.0\.0\.1:\d+)/metrics")


class Watch:
    """A monitored process with a clock that is turned by hand."""

    def __init__(self, lag: str = "60s") -> None:
        self.now = time.monotonic()
        self.monitoring = Monitoring(Settings.model_validate({"ready_lag": lag}), {}, monotonic=lambda: self.now)
        self.log = MemoryLog()
        self.processor = Processor(self.log, CountingStage(), batch=1, observer=self.monitoring.observer)


def test_a_loop_that_stands_still_hangs_and_one_that_opens_does_not() -> None:
    watch = Watch()
    assert watch.monitoring.hangs() == []
    watch.processor.open()
    watch.now += STILL_SECONDS - 1
    assert watch.monitoring.hangs() == []
    watch.now += 2
    (reason,) = watch.monitoring.hangs()
    assert re.fullmatch(r"shard counting/0 has not moved for 18\d s", reason)
    watch.processor.moved = None  # it is being opened
    assert watch.monitoring.hangs() == []
    watch.processor.close()
    assert watch.monitoring.hangs() == []


def test_the_process_own_loop_is_looked_after_once_it_was_heard_of() -> None:
    watch = Watch()
    watch.now += 10 * STILL_SECONDS
    assert watch.monitoring.hangs() == []
    watch.monitoring.beat()
    watch.now += STILL_SECONDS + 1
    assert watch.monitoring.hangs() == ["the process's own loop has not moved for 181 s"]
    watch.monitoring.beat()
    assert watch.monitoring.hangs() == []


def test_a_shard_that_is_far_behind_is_not_ready() -> None:
    watch = Watch("30s")
    watch.processor.open()
    long_ago = int((time.time() - 3_600) * 1_000_000)
    watch.log.append("pods", [custom("a", number, "add", at=long_ago) for number in (1, 2)])
    watch.processor.step()
    (reason,) = watch.monitoring.behind()
    assert re.fullmatch(r"shard counting/0 is 360\d s behind, 30 s are allowed", reason)
    watch.processor.step()
    assert watch.monitoring.behind() == []


@pytest.fixture
def output() -> Output:
    made = Output()
    made.notes = Console(file=StringIO())  # type: ignore[assignment]  # what it says is read
    return made


def test_the_pages_say_what_holds(output: Output) -> None:
    watch = Watch()
    waiting = ["shard counting/0 is not open"]

    def page(base: str, path: str) -> tuple[int, list[str]]:
        try:
            with urlopen(base + path, timeout=30) as answer:  # noqa: S310  its own
                return answer.status, json.load(answer)["reasons"]
        except HTTPError as answer:
            return answer.code, json.load(answer)["reasons"]

    with served("0", watch.monitoring, output, lambda: waiting):
        told = TOLD.search(output.notes.file.getvalue())  # type: ignore[attr-defined]  # a StringIO
        assert told is not None
        assert page(told[1], "/readyz") == (503, ["shard counting/0 is not open"])
        assert page(told[1], "/healthz") == (200, [])
        waiting.clear()
        assert page(told[1], "/readyz") == (200, [])
        watch.monitoring.beat()
        watch.now += STILL_SECONDS + 1
        hanging = ["the process's own loop has not moved for 181 s"]
        assert [page(told[1], path) for path in ("/healthz", "/readyz")] == [(503, hanging)] * 2


def test_without_an_address_nothing_is_served(output: Output) -> None:
    with served(None, Watch().monitoring, output):
        assert output.notes.file.getvalue() == ""  # type: ignore[attr-defined]  # as above
