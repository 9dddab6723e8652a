"""Agents that run in this process, in threads, and what they were told."""

from __future__ import annotations

import threading
from typing import Any, Self

from broker import until

from engine.events import Event, Message, encode
from engine.events.back_off import BackOff
from engine.events.jobs import JobOpened, JobPhaseChanged
from engine.events.times import SECOND
from statemachines.spec import JobSpec
from streams.agents import Agent, Agents, agent, job_events
from streams.agents.app import AgentApp
from streams.agents.run import run
from streams.settings import KafkaSettings

PATIENCE = 60.0


def history(job: str, events: int = 3, first: int = 1) -> list[Message]:
    """The first events of a job, as the lifecycle stage would write them."""
    made = []
    for number in range(first, first + events):
        opened = JobOpened("VCJob", job, managed=True, spec=JobSpec())
        data = opened if number == 1 else JobPhaseChanged("Running", "Pending")
        event = Event(f"{job}-{number}", "lahar/lifecycle", data.TYPE, job, number, number, number, job, "", "c1", data)
        made.append(encode(event))
    return made


class Told:
    """Notes what an agent is told."""

    def __init__(self, fails_on: tuple[str, int] | None = None) -> None:
        self.events: list[tuple[str, int]] = []
        self.failed = threading.Event()
        self._fails_on = fails_on

    def agent(self, name: str = "told") -> Agent:
        async def tell(event: Event[Any]) -> None:
            told = (event.subject, event.sequence)
            if told == self._fails_on:
                self.failed.set()
                raise ValueError("not this one")
            self.events.append(told)

        return agent(job_events, name=name)(tell)

    def wait(self, *wanted: tuple[str, int]) -> None:
        """Return when all of these were told."""
        until(lambda: set(wanted) <= set(self.events), PATIENCE, f"the agent is told of {len(wanted)} events")


class Running:
    """An app in a thread of its own; a context manager: at its end the app is drained."""

    def __init__(
        self, settings: KafkaSettings, *agents: Any, name: str = "tests", instance: str | None = None, **more: Any
    ) -> None:
        self._declared = Agents(name, agents, **more)
        self._settings = settings
        self._instance = instance
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._made = threading.Event()
        self.error: BaseException | None = None
        self.app: AgentApp

    def _run(self) -> None:
        self.app = AgentApp(self._declared, self._settings, instance=self._instance, back_off=BackOff(20_000, SECOND))
        self._made.set()
        try:
            run(self.app, self._stop.is_set)
        except BaseException as error:  # noqa: BLE001  raised again where the test waits
            self.error = error

    def figure(self, name: str, **labels: str) -> float | None:
        return self.app.registry.get_sample_value(name, labels)

    def until_ready(self) -> None:
        """Return when it has its place in the group and has caught up with what it rebuilds."""
        until(lambda: not self.app.not_ready(), PATIENCE, "the agents are ready", self._must_live)

    def _must_live(self) -> None:
        if self.error is not None:
            raise self.error

    def __enter__(self) -> Self:
        self._thread.start()
        self._made.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the agents do not stop"
        self._must_live()
