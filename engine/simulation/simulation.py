"""Loop of a simulation: the stages process the log, the cluster executes effects, and the clock advances to the next due time.

The stages and processors are those of production; this module does not depend on their decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from engine.events import Data, Event, decode
from engine.events.actions import EffectRequested
from engine.events.jobs import JobPhaseChanged
from engine.events.outcomes import JobRejected
from engine.events.times import SECOND, Micros
from engine.log.port import Log, Partition
from engine.processor.processor import Processor
from engine.simulation.cluster import SimulatedCluster
from engine.simulation.event_queue import EventQueue
from statemachines.vocabulary import FINISHED_JOB_PHASES

STILL: Final = 7 * 86_400 * SECOND
"""Idle time after which a simulation ends, if the cluster has no scheduled action: timers alone change nothing there."""
_READ: Final = 4_000

Watch = Callable[[Event[Any]], object]


class Simulation:
    """A log, the processors of its stages, and a simulated cluster."""

    def __init__(
        self,
        log: Log,
        processors: Sequence[Processor[Any]],
        cluster: SimulatedCluster,
        event_queue: EventQueue,
        watches: Mapping[str, Watch],
    ) -> None:
        """Start at the end of the log.

        Args:
            log: receives the inputs of the cluster.
            processors: opened processors of all shards, in the order in which the stages process.
            cluster: executes the effects that the stages request.
            event_queue: clock of the cluster, and schedule of external inputs.
            watches: callback by event type, called with each such job event in partition order.
        """
        self.over: set[str] = set()
        """Ids of finished or rejected jobs."""
        self.acted: Micros = 0
        """Time of the last change in the cluster (microseconds)."""
        self._log = log
        self._processors = processors
        self._cluster = cluster
        self._event_queue = event_queue
        own: dict[str, Watch] = {
            EffectRequested.TYPE: cluster.act,
            JobPhaseChanged.TYPE: self._phase_changed,
            JobRejected.TYPE: self._rejected,
        }
        self._watches = {kind: [watch for part in (own, watches) if (watch := part.get(kind))] for kind in {**own, **watches}}
        partitions = [Partition("job-events", number) for number in range(log.partitions("job-events"))]
        self._read = {partition: log.end(partition) for partition in partitions}

    def run(self, on_progress: Callable[[int], object] = lambda _over: None, until: Micros | None = None) -> None:
        """Simulate until nothing is scheduled or a livelock is found (`SimulatedCluster.livelock`).

        Args:
            on_progress: called after each simulated time step with the number of jobs that are over.
            until: last time to simulate (microseconds); `None`: no limit.

        Raises:
            LogError: the log failed.
        """
        while (moment := self._next()) is not None and (until is None or moment <= until):
            if self._event_queue.advance(moment):
                self.acted = moment
            self._settle()
            on_progress(len(self.over))
            if self._cluster.livelock:
                return

    def _next(self) -> Micros | None:
        """Return the next due time; `None` if the simulation has ended."""
        dues = [due for processor in self._processors if (due := processor.timer_due) is not None]
        due = self._event_queue.due
        if due is not None:
            return max(min([due, *dues]), self._event_queue.now)
        if not dues or min(dues) > self.acted + STILL or len(self.over) == self._cluster.submitted:
            return None
        return max(min(dues), self._event_queue.now)

    def _settle(self) -> None:
        """Process until the stages and the cluster are quiet; a stage processes once the stages before it are quiet."""
        while True:
            for topic, messages in self._cluster.inputs():
                self._log.append(topic, messages)
            if not any(self._work(processor) for processor in self._processors):
                return
            self._obey()

    def _work(self, processor: Processor[Any]) -> bool:
        """Process the waiting inputs and due timers of a shard; return true if there were any."""
        worked = False
        while True:
            while processor.has_inputs():
                worked = True
                processor.step()
            due = processor.timer_due
            if due is None or due > self._event_queue.now:
                return worked
            worked = True
            processor.fire_due(self._event_queue.now)

    def _obey(self) -> None:
        """Deliver new job events to the watches."""
        for partition in self._read:
            while records := self._log.read(partition, self._read[partition], _READ):
                self._read[partition] = records[-1].offset + 1
                for record in records:
                    watches = self._watches.get(record.message.type)
                    if watches:
                        event = decode(record.message, bounded=False)
                        for watch in watches:
                            watch(event)

    def _phase_changed(self, event: Event[JobPhaseChanged]) -> None:
        if event.data.phase in FINISHED_JOB_PHASES:
            self.over.add(event.subject)
        self._cluster.phase_changed(event)

    def _rejected(self, event: Event[Data]) -> None:
        self.over.add(event.subject)
