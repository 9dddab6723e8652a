"""A Faust app for agents, without a broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.events.back_off import BackOff
from streams.agents import Agents
from streams.agents.app import AgentApp
from streams.settings import KafkaSettings


@pytest.fixture
def make_app() -> Callable[..., AgentApp]:
    """Makes the app of some handlers; a failed event is given again at once."""

    def make(*handlers: Any, settings: KafkaSettings | None = None, **more: Any) -> AgentApp:
        declared = Agents("tests", handlers, **more)
        return AgentApp(declared, settings or KafkaSettings(bootstrap_servers="127.0.0.1:1"), back_off=BackOff(0, 0))

    return make
