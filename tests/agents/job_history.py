"""Job events made up for tests of agents: histories of one job, gapless, as the lifecycle stage would write them."""

from __future__ import annotations

from itertools import count

from engine.events import Data, Event, encode
from engine.events.jobs import JobOpened
from statemachines.spec import JobSpec
from streams.agents import Received

SECOND = 1_000_000


def opened(tenant: str = "nlp", queue: str = "gold") -> JobOpened:
    """The first event of a job."""
    return JobOpened("VCJob", "train", managed=True, spec=JobSpec(queue=queue), tenant=tenant)


class History:
    """Numbers the events of one job."""

    def __init__(self, job: str = "job-1", topic: str = "job-events", partition: int = 0) -> None:
        self._job = job
        self._place = (topic, partition)
        self._numbers = count(1)

    def event(self, data: Data) -> Event[Data]:
        """The next event."""
        number = next(self._numbers)
        at = number * SECOND
        return Event(
            f"{self._job}-{number}", "lahar/lifecycle", type(data).TYPE, self._job, at, at, number, self._job, "cause", "c1", data
        )

    def received(self, data: Data, offset: int = -1) -> Received:
        """The next event as an agent is given it."""
        return Received(encode(self.event(data)), *self._place, offset)

    def lose(self, events: int = 1) -> None:
        """Let some events never come."""
        for _ in range(events):
            next(self._numbers)
