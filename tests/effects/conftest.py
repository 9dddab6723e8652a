"""Every test of the dispatcher passes with both executors."""

from __future__ import annotations

import pytest
from effects_world import Clock, World

from engine.effects.executor import Executor, InlineExecutor, ThreadExecutor


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=[InlineExecutor, ThreadExecutor], ids=["inline", "threads"])
def executor(request: pytest.FixtureRequest, clock: Clock) -> Executor:
    return request.param(clock)
