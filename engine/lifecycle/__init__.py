"""Lifecycle stage: decides the events of every job from pods, jobs and commands."""

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
"""Input topics of the stage; defined here, so that history can use them without importing the whole stage.

A release may add topics at the end (`engine.log.shard_inputs`).
"""
