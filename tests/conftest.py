"""Settings of all tests: examples are the same in every run, and no test fails because a machine is slow."""

from __future__ import annotations

import pytest
from chaos_table import ROW, table
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("repeatable")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what faults did, in which process ever the tests ran."""
    calls = [report for reports in terminalreporter.stats.values() for report in reports if getattr(report, "when", None) == "call"]
    if rows := [value for report in calls for name, value in report.user_properties if name == ROW]:
        terminalreporter.write_line(table(rows))
