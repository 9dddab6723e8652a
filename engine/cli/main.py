"""`lahar`: the entry point."""

from __future__ import annotations

from engine.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command and leave with its exit code."""
    app()
