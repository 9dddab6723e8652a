"""Pods in, the lifecycle stage decides, callbacks are told, and what became of them stands in the history of the job."""

from __future__ import annotations

from pathlib import Path

from effects_world import Listener, listen

from engine.effects.dispatcher import Dispatcher
from engine.effects.errors import Disable
from engine.effects.executor import InlineExecutor
from engine.effects.registry import Callback, Registry
from engine.events import Data, Event, decode, encode
from engine.events.ids import observation_id
from engine.events.inputs import PodObserved
from engine.events.jobs import EffectSettled
from engine.events.times import SECOND
from engine.lifecycle.stage import LifecycleStage
from engine.log.port import Log, Partition
from engine.log.processor import Processor
from engine.log.sqlite import SqliteLog

START = 1_700_000_000 * SECOND


class Engine:
    """One process: lifecycle until quiet, then effects."""

    def __init__(self, log: Log, now: int, *callbacks: Callback) -> None:
        self.log = log
        self.processor = Processor(log, LifecycleStage(), 0)
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
    assert settled(log) == [("disabled", "listener")]

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
    assert settled(log) == [("disabled", "listener"), ("resumed", "listener")]
    log.close()
