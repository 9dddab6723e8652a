"""The lifecycle stage: pods, jobs and commands in, the truth about every job out."""

from __future__ import annotations

from typing import Final, Literal

from engine.events import Topic

__all__ = ["INPUTS"]

INPUTS: Final[tuple[tuple[Topic, Literal["own", "all"]], ...]] = (
    ("cluster", "all"),
    ("jobs", "own"),
    ("pods", "own"),
    ("decisions", "own"),
)
"""What the stage takes; here, so that history can look up inputs without importing all of the stage.

A release may add topics behind these (`engine.log.shard_inputs`).
"""
