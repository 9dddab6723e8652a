"""The law of the dispatcher: delivered = committed matching transitions, in the order of each job, whatever fails and restarts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from effects_world import START, Clock, World, listen, opened
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.effects.dispatcher import Dispatcher
from engine.effects.errors import Disable, RetryLater
from engine.effects.executor import Executor, InlineExecutor, ThreadExecutor
from engine.effects.notice import Notice
from engine.effects.registry import Callback, Registry
from engine.events import Data
from engine.events.actions import EventRaised
from engine.events.attempts import AttemptEnded, AttemptRunning, AttemptStarted
from engine.events.jobs import JobForgotten, JobPhaseChanged, JobRevised, TaskPhaseChanged
from engine.log.errors import LogUnavailableError
from engine.log.memory import MemoryLog
from engine.log.port import Log
from engine.log.sqlite import SqliteLog

JOBS = ["a", "b", "c"]
MATCHES: dict[str, tuple[dict[str, Any], Callable[[Data, dict[str, str]], bool]]] = {
    "everything": ({}, lambda data, _: not isinstance(data, JobRevised | JobForgotten | EventRaised)),
    "running": ({"to": "Running"}, lambda data, _: isinstance(data, AttemptRunning) or getattr(data, "phase", None) == "Running"),
    "red": (
        {"level": "replica", "labels": {"colour": "red"}},
        lambda data, labels: isinstance(data, AttemptStarted | AttemptRunning | AttemptEnded) and labels.get("colour") == "red",
    ),
}
"""Receiver → its selector, and the same written out by hand."""

events = st.one_of(
    st.just(AttemptStarted("w", 0, 1)),
    st.just(AttemptRunning("w", 0, 1)),
    st.just(AttemptEnded("w", 0, 1, phase="Failed", reason="AppFailed", exit_code=1)),
    st.just(JobPhaseChanged("Running", "Pending")),
    st.just(TaskPhaseChanged("w", "Running", "Pending")),
    st.just(EventRaised("PodFailed")),
    st.sampled_from(["red", "blue"]).map(lambda colour: JobRevised(labels={"colour": colour})),
    st.just(JobForgotten(finished=0)),
)
commits = st.tuples(st.just("commit"), st.sampled_from(JOBS), st.lists(events, min_size=1, max_size=4))
steps = st.one_of(
    commits,
    commits,
    st.tuples(st.just("step"), st.sampled_from(["", *MATCHES]), st.integers(0, 3)),
    st.tuples(st.just("wait"), st.sampled_from([1, 60, 90_000]), st.none()),
    st.tuples(st.just("disable"), st.sampled_from(list(MATCHES)), st.none()),
    st.tuples(st.just("resume"), st.sampled_from(list(MATCHES)), st.none()),
    st.tuples(st.just("restart"), st.none(), st.none()),
    st.tuples(st.just("full"), st.integers(0, 1), st.none()),
    st.tuples(st.just("settle"), st.none(), st.none()),
)


class Receiver:
    """Takes notices until it fails, `left` notices from now, once; then takes on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.left: int | None = None
        self.failure: Exception = OSError()
        self.told: list[str] = []

    def __call__(self, notice: Notice) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise self.failure
        self.told.append(notice.id)


class Course:
    """One course of events."""

    def __init__(self, log: Log, make: Callable[[Clock], Executor]) -> None:
        self.world = World(log)
        self.clock = Clock()
        self.make = make
        self.receivers = {name: Receiver(name) for name in MATCHES}
        self.expected: dict[str, dict[str, list[str]]] = {name: {job: [] for job in JOBS} for name in MATCHES}
        self.labels: dict[str, dict[str, str]] = {}
        self.dispatcher = self.start()

    def start(self) -> Dispatcher:
        callbacks: list[Callback] = [listen(self.receivers[name], name, **given) for name, (given, _) in MATCHES.items()]
        return Dispatcher(self.world.log, Registry(callbacks), started=START, executor=self.make(self.clock))

    def commit(self, job: str, told: list[Data]) -> None:
        if job not in self.labels:
            told = [opened(job), *told]
            self.labels[job] = {}
        for data, identity in zip(told, self.world.commit(job, *told), strict=True):
            if isinstance(data, JobRevised):
                self.labels[job] = dict(data.labels or {})
            for name, (_, matches) in MATCHES.items():
                if matches(data, self.labels[job]):
                    self.expected[name][job].append(identity)

    def step(self) -> None:
        try:
            self.dispatcher.step(self.clock.now)
        except LogUnavailableError:
            return

    def do(self, what: str, which: Any, how: Any) -> None:
        match what:
            case "commit":
                self.commit(which, how)
            case "step":
                if which:
                    self.receivers[which].left, self.receivers[which].failure = how, OSError("down") if how else RetryLater(5)
                self.step()
            case "wait":
                self.clock.advance(which)
            case "disable":
                self.receivers[which].left, self.receivers[which].failure = 1, Disable("gone")
                self.step()
            case "resume":
                self.resume(which)
            case "restart":
                self.dispatcher = self.start()
            case "full":
                self.world.log.full = bool(which)
            case "settle":
                self.world.settle()

    def resume(self, name: str) -> None:
        if next(status for status in self.dispatcher.status() if status.name == name).disabled is not None:
            try:
                self.dispatcher.resume(name, self.clock.advance(1))
            except LogUnavailableError:
                return

    def finish(self) -> None:
        """All obstacles are gone."""
        self.world.log.full = False
        for receiver in self.receivers.values():
            receiver.left = None
        for _ in range(6):
            self.dispatcher.run_until_quiet(self.clock.advance(400))
            self.world.settle()
            self.dispatcher.step(self.clock.now)
            for name in MATCHES:
                self.resume(name)

    def check(self) -> None:
        for name, jobs in self.expected.items():
            owner = {identity: (job, place) for job, found in jobs.items() for place, identity in enumerate(found)}
            told = self.receivers[name].told
            assert set(told) == set(owner), f"{name}: delivered = committed"
            reached = dict.fromkeys(JOBS, 0)
            for identity in told:
                job, place = owner[identity]
                assert place <= reached[job], f"{name}: nothing is told before what came before it"
                reached[job] = max(reached[job], place + 1)
        assert [status.lag for status in self.dispatcher.status()] == [0] * len(MATCHES)


class Failing:
    """Adds a disk that may be full to a log."""

    full = False

    def append(self, topic, messages):
        if self.full:
            raise LogUnavailableError("the disk is full")
        super().append(topic, messages)

    def move_cursor(self, name, positions):
        if self.full:
            raise LogUnavailableError("the disk is full")
        super().move_cursor(name, positions)


class FailingMemory(Failing, MemoryLog):
    """In memory."""


class FailingSqlite(Failing, SqliteLog):
    """In a file."""


def play(log: Log, make: Callable[[Clock], Executor], course: list[tuple[str, Any, Any]]) -> None:
    played = Course(log, make)
    for one in course:
        played.do(*one)
    played.finish()
    played.check()


@pytest.mark.parametrize("partitions", [1, 2])
@settings(max_examples=300)
@given(course=st.lists(steps, max_size=40))
def test_delivered_is_committed(partitions: int, course: list[tuple[str, Any, Any]]) -> None:
    play(FailingMemory(partitions), InlineExecutor, course)


@settings(max_examples=40)
@given(course=st.lists(steps, max_size=25))
def test_delivered_is_committed_with_threads(course: list[tuple[str, Any, Any]]) -> None:
    play(FailingMemory(2), ThreadExecutor, course)


@settings(max_examples=10)
@given(course=st.lists(steps, max_size=25))
def test_delivered_is_committed_on_sqlite(course: list[tuple[str, Any, Any]]) -> None:
    with TemporaryDirectory() as folder:
        log = FailingSqlite(Path(folder) / "lahar.db", 2)
        play(log, InlineExecutor, course)
        log.close()
