"""`lahar`: the entry point. Importing a command module registers its commands on the app."""

from __future__ import annotations

from engine.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command and leave with its exit code."""
    app()
