"""Runs of pytest in forked processes, on a copy of the project in which one module may be changed.

The parent has imported pytest and what else takes long, but nothing of Lahar: a fork imports that anew, in a third of the time that
a new interpreter needs. Child processes of a test see the change too, by PYTHONPATH.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import aiokafka  # noqa: F401 -- imported before the forks, as all of these
import hypothesis
import jsonschema  # noqa: F401
import prometheus_client  # noqa: F401
import pydantic  # noqa: F401
import pytest
import transitions  # noqa: F401
import yaml  # noqa: F401
from line_map import LineMap, read_map
from mutations import Mutant

Outcome = Literal["killed", "timed out", "survived", "not run"]
"""not run: no test runs the changed lines."""

PYTEST = ("-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
PATIENCE_TIMES = 3
FILE_BYTES, MEMORY_BYTES = 1 << 30, 4 << 30
"""What a mutant may write and use: one that grows without end fails soon."""


class Workshop:
    """A copy of the project, made once, in which mutants run."""

    def __init__(self, root: Path, folder: Path, patience: float = 10.0) -> None:
        """Copy the project.

        Args:
            root: the project.
            folder: an empty folder for the copy.
            patience: how long a test may take: so many seconds and three times its duration on the unchanged code.
        """
        # pytest collects garbage twice a run; what all forks share holds none.
        gc.freeze()
        self._patience = patience
        self.folder = folder
        shutil.copytree(root, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*", "__pycache__", "run", "*.egg-info"))

    def map_tests(self, tests: Sequence[str], packages: Sequence[str]) -> LineMap:
        """Run tests once on the unchanged code and note which lines each of them runs. One that fails already is left out.

        Raises:
            RuntimeError: they cannot be run; the output is in the message.
        """
        durations, data = self.folder / ".durations.json", self.folder / ".coverage"
        recorder = _Recorder(durations)
        arguments = [*tests, "--cov-context=test", "--cov-report=", *(f"--cov={package}" for package in packages)]
        status = self._forked(lambda: pytest.main([*PYTEST, *arguments], plugins=[recorder]))
        if os.waitstatus_to_exitcode(status) not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            raise RuntimeError(f"the tests do not run without a mutant:\n{self._output().read_text()}")
        return read_map(self.folder, data, durations)

    def run(self, mutant: Mutant, tests: Sequence[str], seconds: dict[str, float]) -> Outcome:
        """Run tests, in this order, on a mutant until one fails."""
        selection = _Selection({test: self._patience + PATIENCE_TIMES * seconds[test] for test in tests})
        files = sorted({test.partition("::")[0] for test in tests})
        with self._changed(mutant):
            status = self._forked(lambda: pytest.main([*PYTEST, "-x", *files], plugins=[selection]))
        if os.WIFSIGNALED(status):
            return "timed out" if os.WTERMSIG(status) == signal.SIGALRM else "killed"
        # A table that lost a row may have lost the parameters of all these tests with it.
        return "survived" if os.WEXITSTATUS(status) in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) else "killed"

    @contextlib.contextmanager
    def _changed(self, mutant: Mutant) -> Iterator[None]:
        path = self.folder / mutant.module
        before = path.read_bytes()
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()
        path.write_text(mutant.source, encoding="utf-8")
        try:
            yield
        finally:
            path.write_bytes(before)

    def _output(self) -> Path:
        return self.folder / ".output"

    def _forked(self, run: Callable[[], int]) -> int:
        """Run pytest in a fork; return the status that `os.wait` gives. No process of its group outlives it."""
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            status = pytest.ExitCode.INTERNAL_ERROR
            try:
                self._settle()
                status = pytest.ExitCode(run())
            except BaseException:  # noqa: BLE001 -- the fork must end here, whatever happened
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(status)
        try:
            _, status = os.waitpid(child, 0)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)
        return status

    def _settle(self) -> None:
        os.setpgid(0, 0)
        output = os.open(self._output(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        # A test may set limits of its own, and lift them.
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, resource.RLIM_INFINITY))
        os.chdir(self.folder)
        os.environ |= {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(self.folder))


class _Recorder:
    """Notes how long each test takes that passes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()

    def pytest_sessionstart(self) -> None:
        sys.dont_write_bytecode = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)
        if not report.skipped:
            self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        self._path.write_text(json.dumps({test: spent for test, spent in self._seconds.items() if test not in self._failed}))


class _Selection:
    """Keeps the tests wanted, in the order wanted, and ends the process when one takes too long."""

    def __init__(self, limits: dict[str, float]) -> None:
        self._limits = limits

    def pytest_configure(self) -> None:
        # The failing example that a mutant leads to need not be the simplest.
        phases = [phase for phase in hypothesis.settings.default.phases if phase.name not in ("shrink", "explain")]
        hypothesis.settings.register_profile("mutants", parent=hypothesis.settings.default, phases=phases)
        hypothesis.settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        found = {item.nodeid: item for item in items}
        items[:] = [found[test] for test in self._limits if test in found]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        # Without a handler the signal ends the process, though it hangs in C.
        signal.setitimer(signal.ITIMER_REAL, self._limits[nodeid])

    def pytest_runtest_logfinish(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
