"""A small stage with everything that a processor has to do with: timers, parking, release, forgetting, an absorbed topic.

It counts what is added to each key. Custom events tell it what to do: `add`, `nothing`, `many`, `timer`, `fail`, `forget`.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from engine.events import Data, Event, Message, Topic, encode, raw_message
from engine.events.actions import EventRaised, TimerFired, TimerSet
from engine.events.ids import output_id, timer_fired_id
from engine.events.inputs import CommandIssued, CustomEventRaised, NodeObserved
from engine.events.jobs import JobForgotten
from engine.events.outcomes import InputParked, InputReleased, JobParked, JobUnparked
from engine.processor.stage import Decision, Outcome, Reads

STAGE = "counting"


class BrokenError(RuntimeError):
    """What `fail` raises."""


@dataclass(slots=True)
class Counter:
    total: int = 0
    sequence: int = 0
    seen: set[str] = field(default_factory=set)
    timers: dict[str, int] = field(default_factory=dict)
    parked: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class Shard:
    counters: dict[str, Counter] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    heap: list[tuple[int, str, str]] = field(default_factory=list)
    touched: dict[str, None] = field(default_factory=dict)


class CountingStage:
    name = STAGE
    state_version = 1
    inputs: tuple[Reads, ...] = (("cluster", "all"), ("jobs", "own"), ("pods", "own"))
    outputs: tuple[Topic, ...] = ("job-events",)
    exact: tuple[str, ...] = ()

    def initial(self) -> Shard:
        return Shard()

    # --- deciding -------------------------------------------------------------------------------------------------------

    def decide(self, state: Shard, event: Event[Any], now: int) -> Decision:
        if isinstance(event.data, NodeObserved):
            return "unchanged"
        key = event.subject
        if key in state.forgotten:
            return "late"
        counter = state.counters.get(key, Counter())
        if event.id in counter.seen:
            return "duplicate"
        make = _Maker(state, key, event.id, now)
        if isinstance(event.data, CommandIssued):
            yield make(JobUnparked(len(counter.parked)))
            for kept in list(counter.parked):
                outcome = yield from self._act(make, state, Event(**{**kept, "data": CustomEventRaised(**kept["data"])}), now)
                if outcome == "duplicate":
                    raise AssertionError(outcome)
                yield make(InputReleased(kept["id"], "parked", outcome))
            return "applied"
        if counter.parked:
            yield make(InputParked(_fields(event)))
            return "parked"
        return (yield from self._act(make, state, event, now))

    def _act(self, make: _Maker, state: Shard, event: Event[Any], now: int) -> Decision:
        asked: CustomEventRaised = event.data
        if asked.event == "nothing":
            return "unchanged"
        if asked.event == "fail" and "fixed" not in state.nodes:
            yield make(EventRaised("half done"))
            raise BrokenError(event.id)
        if asked.event == "forget":
            yield make(JobForgotten(now))
            return "applied"
        if asked.event == "timer":
            for delay in asked.data["delays"]:
                yield make(TimerSet("policy", now + delay))
            return "applied"
        for _ in range(asked.data.get("times", 1)):
            # What is decided depends on what was absorbed, so a recovery that absorbs wrongly is seen.
            yield make(EventRaised("added", data={"by": asked.data.get("by", 1), "cpu": sum(state.nodes.values())}))
        return "applied"

    def park(self, state: Shard, event: Event[Any], now: int, error: str) -> Decision:
        if event.data.event == "fail" and event.data.data.get("unparkable"):
            raise BrokenError("cannot be parked either")
        make = _Maker(state, event.subject, event.id, now)
        yield make(JobParked(error))
        yield make(InputParked(_fields(event)))
        return "parked"

    def fire(self, state: Shard, now: int, error: str | None = None) -> Generator[Event[Data], None, None]:
        due, timer, key = state.heap[0]
        make = _Maker(state, key, timer_fired_id(STAGE, timer), now)
        yield make(TimerFired(timer), time=due, id_=timer_fired_id(STAGE, timer))
        if error is not None:
            if "mute" in state.nodes:
                raise BrokenError("a job that cannot be parked")
            yield make(JobParked(error))
            return
        if "silencer" in state.nodes:
            raise BrokenError("a timer that cannot ring")
        yield make(EventRaised("rang", data={"cpu": sum(state.nodes.values())}))

    def drop(self, state: Shard, now: int, error: str) -> Generator[Event[Data], None, None]:
        due, timer, key = state.heap[0]
        make = _Maker(state, key, timer_fired_id(STAGE, timer), now)
        yield make(TimerFired(timer), time=due, id_=timer_fired_id(STAGE, timer))
        yield make(EventRaised("dropped", data={"error": error}))

    def fires_at(self, state: Shard, due: int, horizon: int) -> int:
        return due

    def due(self, state: Shard) -> int | None:
        while state.heap:
            due, timer, key = state.heap[0]
            counter = state.counters.get(key)
            if counter is not None and timer in counter.timers:
                return due
            heappop(state.heap)
        return None

    def unfinished(self, state: Shard) -> int | None:
        return None

    def timer(self, state: Shard) -> str:
        return state.heap[0][1]

    def outcome(self, event: Event[Data]) -> Outcome | None:
        if isinstance(event.data, TimerFired):
            return None
        return "parked" if isinstance(event.data, JobParked | InputParked) else "applied"

    # --- folding --------------------------------------------------------------------------------------------------------

    def evolve(self, state: Shard, event: Event[Any]) -> None:
        key, data = event.subject, event.data
        state.touched[key] = None
        if isinstance(data, JobForgotten):
            state.counters.pop(key, None)
            state.forgotten.add(key)
            state.touched["forgotten"] = None
            return
        counter = state.counters.setdefault(key, Counter())
        counter.sequence = event.sequence
        counter.seen.add(event.causationid)
        if isinstance(data, EventRaised) and data.event == "added":
            counter.total += data.data["by"]
        elif isinstance(data, TimerSet):
            counter.timers[event.id] = data.due
            heappush(state.heap, (data.due, event.id, key))
        elif isinstance(data, TimerFired):
            counter.timers.pop(data.id, None)
        elif isinstance(data, InputParked):
            counter.parked.append(data.input)
        elif isinstance(data, InputReleased):
            counter.parked = [kept for kept in counter.parked if kept["id"] != data.input]

    def contains(self, state: Shard, event: Event[Data]) -> bool:
        if event.subject in state.forgotten:
            return event.subject not in state.counters
        return event.subject in state.counters and state.counters[event.subject].sequence >= event.sequence

    def absorb(self, state: Shard, event: Event[Any], _offset: int | None = None, /) -> None:
        state.nodes[event.data.name] = event.data.cpu_milli
        state.touched[f"node {event.data.name}"] = None

    def absorbs(self, topic: Topic) -> bool:
        return topic == "cluster"

    # --- snapshots ------------------------------------------------------------------------------------------------------

    def touched(self, state: Shard) -> list[str]:
        found = list(state.touched)
        state.touched.clear()
        return found

    def dump(self, state: Shard, subject: str) -> bytes | None:
        if subject == "forgotten":
            return json.dumps(sorted(state.forgotten)).encode() if state.forgotten else None
        if subject.startswith("node "):
            cpu = state.nodes.get(subject.removeprefix("node "))
            return None if cpu is None else str(cpu).encode()
        counter = state.counters.get(subject)
        if counter is None:
            return None
        timers = sorted(counter.timers.items())
        return json.dumps([counter.total, counter.sequence, sorted(counter.seen), timers, counter.parked], sort_keys=True).encode()

    def load(self, state: Shard, subjects: Iterable[tuple[str, bytes]]) -> None:
        for subject, record in subjects:
            if subject == "forgotten":
                state.forgotten |= set(json.loads(record))
            elif subject.startswith("node "):
                state.nodes[subject.removeprefix("node ")] = int(record)
            else:
                total, sequence, seen, timers, parked = json.loads(record)
                state.counters[subject] = Counter(total, sequence, set(seen), dict(timers), parked)
                for timer, due in timers:
                    heappush(state.heap, (due, timer, subject))

    def parked(self, state: Shard) -> Iterable[str]:
        return [key for key, counter in state.counters.items() if counter.parked]

    def subject(self, record: str) -> str:
        return record

    def records(self, state: Shard) -> Iterable[str]:
        return [*state.counters, *(f"node {name}" for name in state.nodes), "forgotten"]


class _Maker:
    """Makes the events of one cause."""

    def __init__(self, state: Shard, key: str, cause: str, now: int) -> None:
        self.state, self.key, self.cause, self.now = state, key, cause, now
        self.made = 0

    def __call__(self, data: Data, *, time: int | None = None, id_: str | None = None) -> Event[Data]:
        counter = self.state.counters.get(self.key)
        self.made += 1
        return Event(
            id_ or output_id(STAGE, self.cause, self.made),
            f"lahar/{STAGE}",
            data.TYPE,
            self.key,
            self.now if time is None else time,
            self.now,
            (0 if counter is None else counter.sequence) + 1,
            self.key,
            self.cause,
            "test",
            data,
        )


def _fields(event: Event[Any]) -> dict[str, Any]:
    data = event.data
    fields = {name: getattr(event, name) for name in Event.__slots__ if name != "data"}
    return {**fields, "data": {"event": data.event, "data": data.data}}


# --- inputs -------------------------------------------------------------------------------------------------------------


def custom(key: str, number: int, event: str, /, *, at: int, **data: Any) -> Message:
    raised = CustomEventRaised(event, data)
    return encode(Event(f"{key}-{number}", "test", raised.TYPE, key, at, at, 0, key, "", "test", raised))


def command(key: str, number: int, *, at: int) -> Message:
    issued = CommandIssued("Unpark")
    return encode(Event(f"{key}-{number}", "test", issued.TYPE, key, at, at, 0, key, "", "test", issued))


def node(name: str, number: int, cpu: int, *, at: int) -> Message:
    observed = NodeObserved(name, cpu_milli=cpu)
    return encode(Event(f"{name}-{number}", "test", observed.TYPE, name, at, at, 0, "", "", "test", observed), key="test")


def scripted(steps: Iterable[tuple[int, int, int]]) -> list[tuple[Topic, Message]]:
    """Make inputs of (what, key, delay) as a random source gives them; the same steps give the same inputs."""
    made: list[tuple[Topic, Message]] = []
    at = 100_000
    for number, (what, key, delay) in enumerate(steps):
        at += delay
        # A few keys at a time, so that inputs meet; new ones later, because keys are forgotten.
        name = f"key{key % 7 + number // 40 * 7}"
        topic: Topic = "jobs" if key % 2 else "pods"
        match what % 16:
            case 0:
                made.append(("cluster", node(f"node{key % 3}", number, delay, at=number)))
            case 1:
                made.append((topic, custom(name, number, "nothing", at=at)))
            case 2 | 3:
                made.append((topic, custom(name, number, "timer", at=at, delays=[delay * 3, delay * 30])))
            case 4:
                made.append((topic, custom(name, number, "fail", at=at)))
            case 5:
                made.append(("jobs", command(name, number, at=at)))
            case 6 if key % 5 == 0:
                made.append((topic, custom(name, number, "forget", at=at)))
            case 7:
                made.append((topic, raw_message(name, b"\xff garbage %d" % number, at)))
            case 8 if key % 4 == 0:
                made.append(("cluster", node("fixed", number, 1, at=number)))
            case 9:
                made.append((topic, custom(name, number, "many", at=at, times=1 + key)))
            case 10 if made:
                made.append(made[-1])
            case 11:
                made.append((topic, custom(name, number, "add", at=at - 5 * delay)))
            case 12 if key % 3 == 0:
                made.append((topic, custom(name, number, "fail", at=at, unparkable=True)))
            case _:
                made.append((topic, custom(name, number, "add", at=at, by=key)))
    return made


def inputs(count: int = 4_000) -> list[tuple[Topic, Message]]:
    """Make inputs of every kind, the same in every process."""
    number = 12345
    steps: list[tuple[int, int, int]] = []
    for _ in range(count):
        number = (number * 1103515245 + 12345) & 0x7FFFFFFF
        steps.append((number >> 4, number >> 9 & 0xFF, number >> 17 & 0x3F))
    return scripted(steps)
