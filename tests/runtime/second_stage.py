"""A second stage, in tests only: it takes the truth of all shards and answers what it finds with inputs for the lifecycle stage.

It counts the ended attempts of each job. Whenever a job changes its phase, it raises an event with the counts for it; a job that
runs after enough attempts have ended is completed instead. As a script it is `lahar` with this stage beside the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from engine.cli.main import main
from engine.events import Data, Event, NotKeptError, Topic
from engine.events.attempts import AttemptEnded
from engine.events.ids import output_id
from engine.events.inputs import CommandIssued, CustomEventRaised, NodeDeleted, NodeObserved
from engine.events.jobs import JobForgotten, JobPhaseChanged
from engine.events.outcomes import Accounted
from engine.processor.stage import Decision, Outcome, Reads, Stage
from engine.runtime.settings import Settings
from engine.runtime.stages import STAGES, scheduling

NAME: Final = "scheduling"
EVENT: Final = "Counted"
"""What it raises; a job may declare it."""
ENOUGH: Final = 2
"""Ended attempts after which a job need not run again."""


@dataclass(slots=True)
class Known:
    """What it knows of a job."""

    sequence: int = 0
    """Of the job's last event taken."""
    ended: int = 0
    said: int = 0
    """What it has said to the job: the last sequence."""
    asked: set[str] = field(default_factory=set)
    """Ids of what it has said since the job was opened, and of what has followed from it, which is not answered."""


@dataclass(slots=True)
class State:
    jobs: dict[str, Known] = field(default_factory=dict)
    nodes: dict[str, bool] = field(default_factory=dict)
    """Whether each is ready."""
    ended: int = 0
    """Of all jobs together: the sum of theirs."""
    touched: dict[str, None] = field(default_factory=dict)


class SecondStage:
    name: Final = NAME
    state_version: Final = 1
    inputs: tuple[Reads, ...] = (("cluster", "all"), ("job-events", "all"))
    outputs: tuple[Topic, ...] = ("scheduling", "jobs")
    exact: tuple[str, ...] = ()

    def initial(self) -> State:
        return State()

    # --- deciding -------------------------------------------------------------------------------------------------------

    def decide(self, state: State, event: Event[Any], now: int) -> Decision:
        data = event.data
        if not isinstance(data, JobPhaseChanged):
            return "unchanged"
        known, ident = state.jobs[event.subject], output_id(NAME, event.id, 1)
        if ident in known.asked:
            return "duplicate"
        if event.id in known.asked:
            return "unchanged"
        # What is said depends on all that was absorbed, so a recovery that absorbs wrongly is seen.
        counts = {"ended": known.ended, "all": state.ended, "ready": sum(state.nodes.values())}
        enough = data.phase == "Running" and known.ended >= ENOUGH
        said = CommandIssued("CompleteJob", NAME) if enough else CustomEventRaised(EVENT, counts, by=NAME)
        source, job = f"lahar/{NAME}", event.subject
        yield Event(ident, source, said.TYPE, job, now, now, known.said + 1, job, event.id, event.clusterid, said)
        return "applied"

    def park(self, state: State, event: Event[Any], now: int, error: str) -> Decision:
        raise NotKeptError(f"it is absorbed: {error}")
        yield  # a generator, as the protocol says

    def fire(self, state: State, now: int, error: str | None = None) -> Generator[Event[Data], None, None]:
        raise NotImplementedError("it has no timers")

    def drop(self, state: State, now: int, error: str) -> Generator[Event[Data], None, None]:
        raise NotImplementedError("it has no timers")

    def timer(self, state: State) -> str:
        raise NotImplementedError("it has no timers")

    def fires_at(self, state: State, due: int, horizon: int) -> int:
        return due

    def due(self, state: State) -> int | None:
        return None

    def unfinished(self, state: State) -> int | None:
        return None

    def outcome(self, event: Event[Data]) -> Outcome | None:
        return "applied"

    # --- folding --------------------------------------------------------------------------------------------------------

    def evolve(self, state: State, event: Event[Any]) -> None:
        known = state.jobs.setdefault(event.subject, Known())
        known.said = event.sequence
        known.asked.add(event.id)
        state.touched[_JOB + event.subject] = None

    def contains(self, state: State, event: Event[Data]) -> bool:
        known = state.jobs.get(event.subject)
        return known is not None and known.said >= event.sequence

    def absorbs(self, topic: Topic) -> bool:
        return True

    def absorb(self, state: State, event: Event[Any], _offset: int | None = None, /) -> None:
        data = event.data
        if data.TOPIC == "cluster":
            self._absorb_node(state, data)
        elif not isinstance(data, Accounted):
            self._absorb_job(state, event)

    def _absorb_node(self, state: State, data: Data) -> None:
        if isinstance(data, NodeObserved):
            state.nodes[data.name] = data.ready == "True"
        elif isinstance(data, NodeDeleted):
            state.nodes.pop(data.name, None)
        else:
            return
        state.touched[_NODE + data.name] = None

    def _absorb_job(self, state: State, event: Event[Data]) -> None:
        known = state.jobs.setdefault(event.subject, Known())
        if event.sequence <= known.sequence:  # its record is newer than the point from which a recovery goes on
            return
        state.touched[_JOB + event.subject] = None
        known.sequence = event.sequence
        if event.causationid in known.asked:
            known.asked.add(event.id)
        if isinstance(event.data, AttemptEnded):
            known.ended += 1
            state.ended += 1
        elif isinstance(event.data, JobForgotten):
            state.ended -= known.ended
            del state.jobs[event.subject]
            if known.said:  # its own sequence goes on
                state.jobs[event.subject] = Known(said=known.said)

    # --- snapshots ------------------------------------------------------------------------------------------------------

    def touched(self, state: State) -> list[str]:
        found = list(state.touched)
        state.touched.clear()
        return found

    def dump(self, state: State, record: str) -> bytes | None:
        if record.startswith(_NODE):
            ready = state.nodes.get(record.removeprefix(_NODE))
            return None if ready is None else json.dumps(ready).encode()
        known = state.jobs.get(record.removeprefix(_JOB))
        return None if known is None else json.dumps([known.sequence, known.ended, known.said, sorted(known.asked)]).encode()

    def load(self, state: State, records: Iterable[tuple[str, bytes]]) -> None:
        for record, content in records:
            if record.startswith(_NODE):
                state.nodes[record.removeprefix(_NODE)] = json.loads(content)
                continue
            sequence, ended, said, asked = json.loads(content)
            state.jobs[record.removeprefix(_JOB)] = Known(sequence, ended, said, set(asked))
            state.ended += ended

    def parked(self, state: State) -> Iterable[str]:
        return ()

    def subject(self, record: str) -> str:
        return record

    def records(self, state: State) -> Iterable[str]:
        return [*map(_JOB.__add__, state.jobs), *map(_NODE.__add__, state.nodes)]


_JOB: Final = "job/"
_NODE: Final = "node/"


def second_stage(_settings: Settings) -> SecondStage:
    return SecondStage()


def with_second_stage() -> list[Callable[[Settings], Stage[Any]]]:
    """The stages of this release with the second stage in place of the one whose name and topics it takes."""
    return [*(make for make in STAGES if make is not scheduling), second_stage]


if __name__ == "__main__":
    STAGES[:] = with_second_stage()
    main()
