"""The engine as it runs: the lifecycle stage on the real processor and a memory log, fed through the product's own edge."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from api_server import Object, uid_of

from engine.events import Data, Event, decode, encode
from engine.events.ids import observation_id
from engine.kubernetes.edge import Taken, line_to_inputs
from engine.kubernetes.observation.pods import delete_pod
from engine.lifecycle.evolve import peek
from engine.lifecycle.job import Job
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.log.port import Partition
from engine.processor.processor import Processor

CLUSTER = "alpha"
_OUTPUT = Partition("job-events", 0)


class Taking(NamedTuple):
    """One input, or the firing of what was due, and what followed."""

    input: Event[Any] | None
    """`None`: timers fired."""
    made: list[Event[Any]]


class Shown(NamedTuple):
    """An object as it was delivered."""

    change: str
    object: Object
    inferred: bool


class EngineShard:
    """One shard of the lifecycle stage, and all that it has taken and written."""

    def __init__(self, clock: Callable[[], int], stage: LifecycleStage | None = None) -> None:
        """Open the shard.

        Args:
            clock: the simulation's time (microseconds).
            stage: what decides; the stage as it is unless given.
        """
        self._clock = clock
        self._stage = stage or LifecycleStage()
        self.log = MemoryLog()
        self.takings: list[Taking] = []
        """What it has taken and written, in order."""
        self.shown: dict[str, list[Shown]] = {}
        """What was delivered of each object, by uid, in order."""
        self.given = 0
        """How many inputs it was given."""
        self._read = 0
        self._open()

    def _open(self) -> None:
        # One input a commit, so that what follows from it is known; snapshots often, so that a restart reads some.
        self.processor = Processor(self.log, self._stage, batch=1, snapshot_every=20, clock=self._clock)
        self.processor.open()

    def restart(self) -> None:
        """Kill the process and start another one, which recovers from the log."""
        self._open()

    @property
    def due(self) -> int | None:
        """When its next timer fires (microseconds)."""
        return self.processor.timer_due

    @property
    def events(self) -> list[Event[Any]]:
        """What it has written, in order."""
        return [event for taking in self.takings for event in taking.made]

    def job(self, ident: str) -> Job:
        """Return what the engine knows of a job."""
        return peek(self.processor.state, ident)

    # --- input --------------------------------------------------------------------------------------------------------------

    def see(self, change: str, found: Object, *, inferred: bool = False) -> None:
        """Give it a change of an object, as a watch does."""
        self.shown.setdefault(uid_of(found), []).append(Shown(change, found, inferred))
        if inferred and found["kind"] == "Pod":
            gone = delete_pod(found, inferred=True)
            self.give(gone, gone.last.job, observation_id(gone.last.uid, gone.last.version or "", deleted=True))
            return
        outcome = line_to_inputs(json.dumps({"type": change, "object": found}).encode(), CLUSTER, self._clock())
        assert isinstance(outcome, Taken), outcome
        self.given += len(outcome.messages)
        self.log.append(outcome.topic, outcome.messages)

    def give(self, data: Data, job: str, ident: str | None = None) -> None:
        """Give it any other input."""
        self.given += 1
        now = self._clock()
        event = Event(ident or f"given-{self.given}", "test", data.TYPE, job, now, now, 0, job, "", CLUSTER, data)
        self.log.append(data.TOPIC, [encode(event)])

    # --- work ---------------------------------------------------------------------------------------------------------------

    def run(self) -> Iterator[Taking]:
        """Decide on what waits and on what is due, one by one; yield what was taken and written."""
        while True:
            vector = self.processor.position.vector
            if not self.processor.step():
                return
            after = self.processor.position.vector
            taken = [
                self.log.read(partition, old, 1)[0].message
                for partition, old, new in zip(self.processor.reads, vector, after, strict=True)
                if new > old
            ]
            records = self.log.read(_OUTPUT, self._read, 1 << 20)
            self._read += len(records)
            made = [decode(record.message) for record in records]
            self.takings.append(Taking(decode(taken[0]) if taken else None, made))
            yield self.takings[-1]
