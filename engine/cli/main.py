"""`lahar`: the entry point. Importing a command module registers its commands on the app."""

from __future__ import annotations

from engine.cli import (
    agents,
    apply,
    ask,
    bench,
    callback_group,
    events,
    feed,
    jobs,
    machines,
    operate,
    reference,
    run,
    tools,
    topics,
    vocabulary,
    worker,
)
from engine.cli.app import app

__all__ = ["COMMANDS", "app", "main"]

COMMANDS = (
    run,
    worker,
    apply,
    feed,
    jobs,
    ask,
    events,
    operate,
    callback_group,
    topics,
    agents,
    tools,
    machines,
    vocabulary,
    bench,
    reference,
)
"""Command modules. Under which heading a command stands in `lahar --help`, it says itself."""


def main() -> None:
    """Run the command and leave with its exit code."""
    app()
