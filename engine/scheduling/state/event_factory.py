"""Factory of the events of one timer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from engine.events import Data, Event
from engine.events.ids import output_id
from engine.events.preemptions import NoticeRecord
from engine.events.scheduling import RoundEnded
from engine.events.times import Micros
from engine.scheduling.state.shard import ClusterState, State, TrackedJob

STAGE: Final = "scheduling"
_SOURCE: Final = "lahar/scheduling"


@dataclass(slots=True)
class EventFactory:
    """Makes the events of one timer; each is applied before the next is made."""

    state: State
    now: Micros
    """Recorded time of the events."""
    time: Micros
    """Time of the events: the timer's due time, or the recorded time of the newest change, whichever is later."""

    def about(self, job: TrackedJob, data: Data, cause: str) -> Event[Any]:
        """Make the next event about a job."""
        head = job.head
        sequence = (head.written if data.TOPIC == "decisions" else head.noted) + 1
        ident = output_id(STAGE, f"{data.TOPIC}/{job.key}", sequence)
        return Event(ident, _SOURCE, data.TYPE, job.key, self.time, self.now, sequence, job.key, cause, head.cluster, data)

    def ended(self, cluster: ClusterState, data: RoundEnded) -> Event[Any]:
        """Make the event of a round; its cause is the first change that requested it."""
        cause, number = cluster.cause(), cluster.rounds + 1
        ident = output_id(STAGE, f"round/{cluster.id}", number)
        return Event(ident, _SOURCE, data.TYPE, cluster.id, self.time, self.now, number, "", cause, cluster.id, data)

    def of_notice(self, cluster: ClusterState, notice: str, sequence: int, data: NoticeRecord, cause: str) -> Event[Any]:
        """Make a record of a notice."""
        ident = output_id(STAGE, f"{data.TOPIC}/{notice}", sequence)
        return Event(ident, _SOURCE, data.TYPE, notice, self.time, self.now, sequence, notice, cause, cluster.id, data)
