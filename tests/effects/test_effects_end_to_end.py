"""Pods in, the lifecycle stage decides, callbacks are told, and what became of them stands in the history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from effects_world import Listener, listen

from engine.effects.dispatcher import Dispatcher
from engine.effects.errors import Disable
from engine.effects.executor import InlineExecutor
from engine.effects.registry import Callback, Registry
from engine.events import Data, Event, decode, encode
from engine.events.actions import EffectSettled
from engine.events.ids import observation_id
from engine.events.inputs import PodObserved
from engine.events.times import SECOND
from engine.lifecycle.stage import LifecycleStage
from engine.log.port import Log, Partition
from engine.log.sqlite import SqliteLog
from engine.processor.processor import Processor

START = 1_700_000_000 * SECOND


class Engine:
    """One process: lifecycle until quiet, then effects."""

    def __init__(self, log: Log, now: int, *callbacks: Callback, stage: LifecycleStage | None = None) -> None:
        self.log = log
        self.processor = Processor(log, stage or LifecycleStage(), 0)
        self.processor.open()
        self.dispatcher = Dispatcher(log, Registry(callbacks), started=now, executor=InlineExecutor())

    def run(self, now: int) -> None:
        self.processor.run_until_quiet()
        self.dispatcher.run_until_quiet(now)
        self.processor.run_until_quiet()

    def close(self) -> None:
        self.dispatcher.close()
        self.processor.close()


def observed(log: Log, phase: str, version: int, **given: object) -> None:
    data = PodObserved("uid-1", "job-1", "etl", phase, START, version=str(version), kind="Job", owner="etl", **given)
    identity = observation_id("uid-1", str(version), deleted=False)
    now = START + version * SECOND
    event: Event[Data] = Event(identity, "kubernetes/c", data.TYPE, "job-1", now, now, 0, "job-1", "", "c", data)
    log.append("pods", [encode(event)])


def settled(log: Log) -> list[tuple[str, str]]:
    records = log.read(Partition("job-events", 0), 0, 1000)
    events = [decode(record.message) for record in records]
    return [(event.data.outcome, event.data.name) for event in events if isinstance(event.data, EffectSettled)]


def test_a_callback_is_told_disabled_and_resumed_over_restarts(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "lahar.db")
    listener = Listener(None, None, Disable("the other end is gone"))
    chosen = listen(listener, level="replica")
    first = Engine(log, START, chosen)
    observed(log, "Pending", 1)
    observed(log, "Running", 2, running=START + 2 * SECOND, bound=START + SECOND, node="n1")
    first.run(START + 2 * SECOND)
    observed(log, "Succeeded", 3, running=START + 2 * SECOND, bound=START + SECOND, node="n1", ended=START + 3 * SECOND)
    first.run(START + 3 * SECOND)
    first.close()
    assert listener.phases() == ["Pending", "Bound"]
    assert settled(log) == [("failed", "listener"), ("disabled", "listener")]

    second = Engine(log, START + 10 * SECOND, chosen)
    second.run(START + 10 * SECOND)
    assert listener.phases() == ["Pending", "Bound"]
    assert second.dispatcher.status()[0].disabled == "the other end is gone"
    second.dispatcher.resume("listener", START + 11 * SECOND)
    second.run(START + 11 * SECOND)
    second.close()
    assert [(notice.phase, notice.mode, notice.name) for notice in listener.told] == [
        ("Pending", "live", "etl"),
        ("Bound", "live", "etl"),
        ("Running", "catchup", "etl"),
        ("Succeeded", "catchup", "etl"),
    ]
    assert settled(log)[2:] == [("resumed", "listener")]
    log.close()


def test_a_resume_holds_although_the_job_was_forgotten_meanwhile(tmp_path: Path) -> None:
    """What is reported about a forgotten job is only counted, so it must not carry the state of a callback."""
    log = SqliteLog(tmp_path / "lahar.db")
    listener = Listener(Disable("gone"))
    chosen, stage = listen(listener, level="job"), LifecycleStage(forget_after=SECOND)
    engine = Engine(log, START, chosen, stage=stage)
    observed(log, "Succeeded", 3, running=START + 2 * SECOND, bound=START + SECOND, node="n1", ended=START + 3 * SECOND)
    engine.run(START + 3 * SECOND)
    assert engine.processor.fire_due(START + 100 * SECOND), "the job is forgotten"
    engine.dispatcher.resume("listener", START + 101 * SECOND)
    engine.close()

    engine = Engine(log, START + 110 * SECOND, chosen, stage=stage)
    engine.run(START + 110 * SECOND)
    assert engine.dispatcher.status()[0].disabled is None
    assert listener.phases() == ["Pending", "Completed"]
    engine.close()
    log.close()


class Stubborn(LifecycleStage):
    """Cannot decide about a pod that has ended."""

    def decide(self, state: Any, event: Event[Any], now: int) -> Any:
        if isinstance(event.data, PodObserved) and event.data.phase == "Succeeded":
            raise RuntimeError("no way")
        return (yield from super().decide(state, event, now))


def test_a_callback_is_disabled_and_resumed_although_the_job_is_parked(tmp_path: Path) -> None:
    """What is reported about a parked job waits, so it must not carry the state of a callback."""
    log = SqliteLog(tmp_path / "lahar.db")
    listener = Listener(Disable("gone"))
    chosen = listen(listener, level="job")
    engine = Engine(log, START, chosen, stage=Stubborn())
    observed(log, "Running", 2, running=START + 2 * SECOND, bound=START + SECOND, node="n1")
    observed(log, "Succeeded", 3)
    engine.run(START + 3 * SECOND)
    engine.close()

    engine = Engine(log, START + 10 * SECOND, chosen, stage=Stubborn())
    engine.run(START + 10 * SECOND)
    assert engine.dispatcher.status()[0].disabled == "gone"
    engine.dispatcher.resume("listener", START + 11 * SECOND)
    engine.close()

    engine = Engine(log, START + 20 * SECOND, chosen, stage=Stubborn())
    engine.run(START + 20 * SECOND)
    assert engine.dispatcher.status()[0].disabled is None
    assert listener.phases() == ["Pending", "Running"]
    engine.close()
    log.close()
