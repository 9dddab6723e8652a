"""Callbacks of the command: which are registered, and when they are told."""

from __future__ import annotations

from engine.cli.engine import EmbeddedLog
from engine.cli.output import Output
from engine.cli.settings import Settings

__all__ = ["dispatch"]


def dispatch(log: EmbeddedLog, settings: Settings, output: Output) -> None:
    """Tell the registered callbacks what was committed."""
