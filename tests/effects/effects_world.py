"""Jobs told by hand into a real log, clocks that tests turn, and callables that write down what they were told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from engine.effects.dispatcher import Dispatcher
from engine.effects.executor import Executor, InlineExecutor
from engine.effects.notice import Notice
from engine.effects.registry import Callback, Registry, callback
from engine.events import Data, Event, decode, encode
from engine.events.actions import EffectSettled
from engine.events.attempts import AttemptBound, AttemptEnded, AttemptRunning, AttemptStarted
from engine.events.budgets import BudgetCrossed
from engine.events.ids import output_id
from engine.events.inputs import EffectReported
from engine.events.jobs import JobOpened, JobPhaseChanged
from engine.events.times import SECOND
from engine.log.memory import MemoryLog
from engine.log.partitioner import partition_of
from engine.log.port import Commit, Log, Output, Partition, ShardId
from statemachines.spec import JobSpec

START = 1_000_000 * SECOND
"""When the dispatchers of the tests begin, unless they say otherwise."""


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> int:
        self.now += int(seconds * SECOND)
        return self.now


class World:
    """A log and the events of its jobs, committed as the lifecycle stage commits them."""

    def __init__(self, log: Log | None = None, partitions: int = 1) -> None:
        self.log: Log = MemoryLog(partitions) if log is None else log
        self.sequences: dict[str, int] = {}
        self.settled: set[str] = set()
        self.now = START

    def commit(self, job: str, *told: Data, cause: str = "") -> list[str]:
        """Commit some events of a job; returns their ids."""
        number = partition_of(job, self.log.partitions("job-events"))
        shard = self.log.open(ShardId("lifecycle", number), (Partition("pods", number),))
        outputs = []
        for data in told:
            self.now += SECOND
            sequence = self.sequences[job] = self.sequences.get(job, 0) + 1
            event: Event[Data] = Event(
                output_id("test", job, sequence),
                "lahar/lifecycle",
                data.TYPE,
                job,
                self.now - SECOND // 2,
                self.now,
                sequence,
                job,
                cause,
                "prod-1",
                data,
            )
            outputs.append(Output("job-events", encode(event), (0,)))
        shard.commit(Commit((0,), self.now, outputs))
        return [output.message.id for output in outputs]

    def cross(self, tenant: str, *thresholds: int) -> list[str]:
        """Commit crossed thresholds of a budget, as the budgets stage commits them; returns their ids."""
        shard = self.log.open(ShardId("budgets", 0), (Partition("cluster", 0), Partition("billing", 0)))
        outputs = []
        for threshold in thresholds:
            self.now += SECOND
            sequence = self.sequences[tenant] = self.sequences.get(tenant, 0) + 1
            data = BudgetCrossed(tenant, "2026-03", threshold, str(threshold + 1), "100", "EUR", "usage-7", "job-7")
            ident, time = output_id("budgets", tenant, sequence), self.now - SECOND // 2
            event: Event[Data] = Event(
                ident, "lahar/budgets", data.TYPE, tenant, time, self.now, sequence, "", "usage-7", "prod-1", data
            )
            outputs.append(Output("budgets", encode(event), (0, 0), 0))
        shard.commit(Commit((0, 0), self.now, outputs))
        return [output.message.id for output in outputs]

    def settle(self, limit: int | None = None) -> int:
        """Answer the next reports, or all, as the lifecycle stage does; returns how many there were."""
        found = [event for event in self.reports() if event.id not in self.settled][:limit]
        for event in found:
            data = event.data
            self.commit(event.subject, EffectSettled(data.effect, data.outcome, data.name, data.message), cause=event.id)
            self.settled.add(event.id)
        return len(found)

    def reports(self) -> Iterable[Event[EffectReported]]:
        """All inputs that the dispatcher has appended."""
        for number in range(self.log.partitions("jobs")):
            for record in self.log.read(Partition("jobs", number), 0, 10_000):
                event = decode(record.message)
                if isinstance(event.data, EffectReported):
                    yield event

    def outcomes(self) -> list[tuple[str, str]]:
        return [(event.data.outcome, event.subject) for event in self.reports()]

    def dispatcher(self, *callbacks: Callback, started: int = START, executor: Executor | None = None, **given: Any) -> Dispatcher:
        return Dispatcher(self.log, Registry(callbacks), started=started, executor=executor or InlineExecutor(), **given)


class Listener:
    """A callable that keeps what it is told, after failing as it was asked to."""

    def __init__(self, *failures: BaseException | None) -> None:
        self.failures = list(failures)
        self.always: BaseException | None = None
        self.told: list[Notice] = []
        self.attempts: list[str] = []

    def __call__(self, notice: Notice) -> None:
        self.attempts.append(notice.id)
        failure = self.failures.pop(0) if self.failures else self.always
        if failure is not None:
            raise failure
        self.told.append(notice)

    def phases(self) -> list[str]:
        return [notice.phase for notice in self.told]


def listen(listener: Callable[[Notice], object], name: str = "listener", **selector: Any) -> Callback:
    return callback(name=name, **selector)(listener)


def opened(name: str = "train", **given: Any) -> JobOpened:
    return JobOpened("VCJob", name, managed=True, spec=JobSpec(), **given)


def run(attempt: int = 1, *, exit_code: int = 0) -> list[Data]:
    """One attempt from its beginning to its end."""
    phase, reason = ("Failed", "AppFailed") if exit_code else ("Succeeded", None)
    return [
        AttemptStarted("worker", 0, attempt),
        AttemptBound("worker", 0, attempt, node="n1"),
        AttemptRunning("worker", 0, attempt),
        AttemptEnded("worker", 0, attempt, phase=phase, reason=reason, exit_code=exit_code),
    ]


def whole_job() -> list[Data]:
    return [
        opened(labels={"team": "ml"}),
        AttemptStarted("worker", 0, 1),
        AttemptRunning("worker", 0, 1, previous="Pending"),
        JobPhaseChanged("Running", "Pending"),
        AttemptEnded("worker", 0, 1),
        JobPhaseChanged("Completed", "Running"),
    ]


def body(notice: Notice) -> dict[str, Any]:
    return json.loads(notice.cloudevent)
