"""`lahar`: the entry point. Importing a command module registers its commands on the app."""

from __future__ import annotations

from engine.cli import apply, ask, bench, events, feed, jobs, machines, operate, run, tools, vocabulary
from engine.cli.app import app

__all__ = ["COMMANDS", "app", "main"]

COMMANDS = (run, apply, feed, jobs, ask, events, operate, tools, machines, vocabulary, bench)
"""Command modules, in the order in which their headings stand in `lahar --help`."""


def main() -> None:
    """Run the command and leave with its exit code."""
    app()
