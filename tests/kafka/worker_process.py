"""`lahar` as a process beside the test: started, watched through its metrics, frozen, killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from streams.settings import KafkaSettings

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
"""Seconds. Not a claim about speed: the machine may have other things to do."""

_COMMAND = [sys.executable, "-c", "from engine.cli.main import main; main()"]
_PAGES = re.compile(r"metrics: (http://\S+)/metrics")
_OPEN = re.compile(r'^lahar_shard_open\{shard="(\d+)",stage="lifecycle"\} 1\.0$', re.MULTILINE)


class Lahar:
    """`lahar ARGUMENTS` as a process, which ends with the `with` block."""

    def __init__(
        self,
        settings: KafkaSettings,
        *arguments: str,
        folder: Path | None = None,
        metrics: bool = True,
        program: Sequence[str] = _COMMAND,
        **environment: str,
    ) -> None:
        """Start it on the log of a test, with metrics unless told otherwise; what it says goes to a file."""
        self._output = Path(tempfile.mkstemp(prefix="lahar-said-")[1])
        given = {
            "LAHAR_LOG": f"kafka://{settings.bootstrap_servers}",
            "KAFKA_TOPIC_PREFIX": settings.topic_prefix,
            "KAFKA_SESSION_SECONDS": str(settings.session_seconds),
            "KAFKA_TRANSACTION_SECONDS": str(settings.transaction_seconds),
            "KAFKA_START_SECONDS": str(settings.start_seconds),
            "KAFKA_REQUEST_SECONDS": str(settings.request_seconds),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder or ROOT)]),
            "PYTHONUNBUFFERED": "1",
            **environment,
        }
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [*program, *arguments, *(("--metrics", "0") if metrics else ())],
                env={**os.environ, **given},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def said(self) -> str:
        """All that it has said so far."""
        return self._output.read_text(encoding="utf-8")

    def page(self, path: str) -> str:
        """Return a page of its HTTP server; empty if it does not answer (yet)."""
        address = _PAGES.search(self.said)
        if address is None:
            return ""
        try:
            with urlopen(address[1] + path, timeout=20) as answer:  # noqa: S310  the address was just read
                return str(answer.read().decode())
        except HTTPError as answer:
            return answer.read().decode()
        except (URLError, OSError):
            return ""

    @property
    def shards(self) -> set[int]:
        """The lifecycle shards that it has open."""
        return {int(number) for number in _OPEN.findall(self.page("/metrics"))}

    @property
    def is_ready(self) -> bool:
        return '"ok": true' in self.page("/readyz")

    def figure(self, name: str) -> float:
        """Return a metric, summed over its labels."""
        found = re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", self.page("/metrics"), re.MULTILINE)
        return sum(float(value) for value in found)

    def until(self, true: Callable[[], bool]) -> None:
        """Return as soon as a condition holds; the process must live."""
        until(true, lambda: self.process.poll() is None, lambda: self.said)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Return its exit code."""
        return self.process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number in (signal.SIGCONT, signal.SIGKILL):
            with suppress(ProcessLookupError):
                self.process.send_signal(number)
        self.process.wait()
        if error is not None:
            sys.stderr.write(f"--- {' '.join(map(str, self.process.args[3:]))} has said:\n{self.said}")  # type: ignore[index]
        self._output.unlink()


def until(true: Callable[[], bool], alive: Callable[[], bool] = lambda: True, said: Callable[[], str] = str) -> None:
    """Return as soon as a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert alive(), said()
        assert time.monotonic() < deadline, said()
        time.sleep(0.05)
