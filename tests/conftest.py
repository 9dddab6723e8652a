"""Settings of all tests: examples are the same in every run, and no test fails because a machine is slow."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest
import typer.main
import typer.testing
from chaos_table import ROW, table
from hypothesis import settings
from planted import plant, plants_a_bug

__all__ = ["plant"]

settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("repeatable")

# The command is built once, as in a process of its own, and not again for each call of a test.
typer.testing._get_command = functools.cache(typer.main.get_command)


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let no projection of a test's log be left in the cache of who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that wait for brokers and commands first, so that no process is left alone with the longest of them at the end.

    Tests that plant bugs show that others can fail, once in a while is enough: they are slow, however long they take.
    """
    for item in filter(plants_a_bug, items):
        item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: item.path.parent.name not in {"deploy", "kafka", "tests"})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what faults did, in which process ever the tests ran."""
    calls = [report for reports in terminalreporter.stats.values() for report in reports if getattr(report, "when", None) == "call"]
    if rows := [value for report in calls for name, value in report.user_properties if name == ROW]:
        terminalreporter.write_line(table(rows))
