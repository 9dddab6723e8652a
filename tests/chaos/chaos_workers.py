"""Workers of a stage as real processes, `lahar worker`: started, killed, frozen, thawed, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from broker import freeze

_LAHAR = "from engine.cli.main import main; main()"
_END_SECONDS = 60.0
_IN_ORDER = frozenset({0, 4, -signal.SIGTERM})
"""Codes of one that was told to end: it has, or it was replaced meanwhile; or it had not begun to listen."""


class Worker:
    """A place for a process; the process in it may be another one each time."""

    def __init__(self, name: str, options: tuple[str, ...], command: list[str], environment: dict[str, str], said: Path) -> None:
        """Describe it; nothing runs until `start`."""
        self.name = name
        self.options = options
        self._command = command
        self._environment = environment
        self._said = said
        self._process: subprocess.Popen[bytes] | None = None
        self.wanted = False
        """It is to run: if it ends, it is started anew."""
        self._from = 0
        self.frozen = False

    def start(self) -> None:
        """Start a process, after the one before it has ended."""
        self._wait()
        self.wanted = True
        self._from = self._said.stat().st_size if self._said.exists() else 0
        with self._said.open("ab") as said:
            self._process = subprocess.Popen(
                self._command, stdout=said, stderr=said, stdin=subprocess.DEVNULL, env=self._environment
            )

    @property
    def runs(self) -> bool:
        """Tell whether its process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def works(self) -> bool:
        """Tell whether its process has opened a shard."""
        return self.runs and b" is open" in self._said.read_bytes()[self._from :]

    @property
    def code(self) -> int | None:
        """Exit code of its process."""
        return None if self._process is None else self._process.poll()

    def kill(self) -> None:
        """End it at once."""
        assert self._process is not None
        self.wanted = False
        self._process.kill()
        self._process.wait()
        self._process = None

    def freeze(self) -> None:
        """Stop it from running, as a stalled machine does."""
        assert self._process is not None
        freeze(self._process)
        self.frozen = True

    def thaw(self) -> None:
        """Let it run on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)
        self.frozen = False

    def ask_to_end(self) -> None:
        """Ask it to end in good order."""
        self.wanted = False
        if self._process is not None and self.runs:
            self._process.terminate()

    def end(self) -> None:
        """Let it end in good order."""
        self.ask_to_end()
        self._wait()

    def _wait(self) -> None:
        if self._process is not None:
            code = self._process.wait(_END_SECONDS)
            self._process = None
            assert code in _IN_ORDER, f"{self.name} has ended with {code}:\n{self.said()[-3_000:]}"

    def said(self) -> str:
        """Return all that its processes have said."""
        return self._said.read_text(encoding="utf-8", errors="replace") if self._said.exists() else ""


class Fleet:
    """The workers of a schedule."""

    def __init__(self, folder: Path, environment: dict[str, str], stage: str) -> None:
        """Begin with none.

        Args:
            folder: where they write what they have to say.
            environment: says where the log is.
            stage: that they run.
        """
        self._folder = folder
        self._stage = stage
        self._program = ["-c", _LAHAR]
        self._environment = {**os.environ, **environment, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.workers: list[Worker] = []
        self._all: list[Worker] = []
        self.came_back: list[int] = []
        """Codes of those that had ended by themselves and were started anew."""

    def run_by(self, program: list[str], **environment: str) -> None:
        """Let another program run the command of all workers to come."""
        self._program = program
        self._environment |= environment

    def add(self, name: str, *options: str, program: list[str] | None = None) -> Worker:
        """Start one more.

        Args:
            name: of the instance.
            options: of the command.
            program: runs the command, unless that of all does.
        """
        command = [sys.executable, *(program or self._program), "worker", "--stage", self._stage, "--instance", name, *options]
        worker = Worker(name, options, command, self._environment, self._folder / f"{name}.log")
        worker.start()
        self.workers.append(worker)
        self._all.append(worker)
        return worker

    def supervise(self) -> None:
        """Start those anew that have ended with code 4 (the log was unavailable, or a shard was taken over), as a cluster does.

        Raises:
            AssertionError: one has ended otherwise.
        """
        for worker in self.workers:
            if worker.wanted and (code := worker.code) is not None:
                assert code == 4, f"{worker.name} has ended with {code}:\n{worker.said()[-3_000:]}"
                self.came_back.append(code)
                worker.start()

    def end(self) -> None:
        """Let all end in good order."""
        for worker in self.workers:
            if worker.frozen:
                worker.thaw()
            worker.ask_to_end()
        for worker in self.workers:
            worker.end()

    def kill(self) -> None:
        """End all at once."""
        for worker in self._all:
            if worker.runs:
                worker.kill()
