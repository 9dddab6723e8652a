"""A Faust app for agents, without a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from streams.agents import Agents
from streams.agents.app import AgentApp
from streams.settings import KafkaSettings


@pytest.fixture
def make_app() -> Iterator[Callable[..., AgentApp]]:
    """Makes the app of some handlers; a failed event is given again at once."""
    made: list[AgentApp] = []

    def make(*handlers: Any, settings: KafkaSettings | None = None, **more: Any) -> AgentApp:
        declared = Agents("tests", handlers, **more)
        made.append(AgentApp(declared, settings or KafkaSettings(bootstrap_servers="127.0.0.1:1"), first_pause=0.0))
        return made[-1]

    yield make
    for app in made:
        consumer: Any = app._consumer
        if consumer is not None:
            # Faust makes the loop of its consumer's thread at once, and closes it only if the thread has run.
            consumer._thread.thread_loop.close()
