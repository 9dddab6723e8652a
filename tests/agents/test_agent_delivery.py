"""How an agent is given its events: in turn, again after a failure, not twice, and what cannot be given is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from job_history import History, opened

from engine.events import Event, encode
from engine.events.jobs import JobPhaseChanged
from streams.agents import Received, RetryLater, agent, job_events
from streams.agents.app import AgentApp, EventSchema
from streams.agents.progress import Place
from streams.codec import encode as to_record

RUNNING = JobPhaseChanged("Running", "Pending")
COMPLETED = JobPhaseChanged("Completed", "Completing")


class Told:
    """Notes what it is told; fails as often as it is asked to."""

    def __init__(self, *failures: BaseException) -> None:
        self.events: list[tuple[str, int]] = []
        self.calls = 0
        self._failures = list(failures)

    async def __call__(self, event: Event) -> None:
        self.calls += 1
        if self._failures:
            raise self._failures.pop(0)
        self.events.append((event.subject, event.sequence))


def declared(told: Any, **asked: Any) -> Any:
    async def tell(event: Event) -> None:
        await told(event)

    return agent(job_events, name="told", **asked)(tell)


def outcomes(app: AgentApp, *received: Received) -> list[str]:
    """Give records to the agent through Faust, and return what became of each."""

    async def give() -> list[str]:
        async with app.agents["told"].test_context() as context:
            for one in received:
                await context.put(one)
            return list(context.results.values())

    return asyncio.run(give())


def figure(app: AgentApp, name: str, **labels: str) -> float | None:
    return app.registry.get_sample_value(name, {"agent": "told", **labels})


def test_the_function_is_told_of_what_it_selects_and_of_nothing_else(make_app: Callable[..., AgentApp]) -> None:
    told, history = Told(), History()
    app = make_app(declared(told, level="job", to="Completed"))
    given = [history.received(data) for data in (opened(), RUNNING, COMPLETED)]
    assert outcomes(app, *given) == ["unselected", "unselected", "done"]
    assert told.events == [("job-1", 3)]
    assert figure(app, "lahar_agent_events_total", outcome="unselected") == 2


def test_what_comes_again_is_not_given_again(make_app: Callable[..., AgentApp]) -> None:
    told, one, other = Told(), History("a"), History("b")
    app = make_app(declared(told))
    given = [one.received(opened(), 0), other.received(opened(), 1), one.received(RUNNING, 2)]
    assert outcomes(app, *given, given[0], given[2], given[1]) == ["done"] * 3 + ["duplicate"] * 3
    assert told.events == [("a", 1), ("b", 1), ("a", 2)]
    assert figure(app, "lahar_agent_missing_total") == 0


def test_a_hole_in_a_jobs_sequence_is_told_and_the_event_behind_it_given(
    make_app: Callable[..., AgentApp], caplog: pytest.LogCaptureFixture
) -> None:
    told, history = Told(), History()
    app = make_app(declared(told))
    first = history.received(opened())
    history.lose(3)
    assert outcomes(app, first, history.received(COMPLETED)) == ["done", "done"]
    assert figure(app, "lahar_agent_missing_total") == 3
    assert "3 events of job job-1 are missing before sequence 5" in caplog.text


def test_a_type_of_a_newer_lahar_is_counted_told_once_and_skipped(
    make_app: Callable[..., AgentApp], caplog: pytest.LogCaptureFixture
) -> None:
    told, history = Told(), History()
    app = make_app(declared(told))
    given = [history.received(opened()) for _ in range(3)]
    for newer in given[:2]:
        newer.message = newer.message._replace(type="lahar.job.teleported.v1")
    assert outcomes(app, *given) == ["unknown", "unknown", "done"]
    assert [record.levelno for record in caplog.records if "teleported" in record.message] == [logging.WARNING]
    assert figure(app, "lahar_agent_missing_total") == 0


def test_a_record_that_cannot_be_read_is_told_with_its_place_and_skipped(
    make_app: Callable[..., AgentApp], caplog: pytest.LogCaptureFixture
) -> None:
    told, history = Told(), History(topic="job-events", partition=3)
    app = make_app(declared(told))
    broken = history.received(opened(), 41)
    broken.message = broken.message._replace(data=b'{"kind": 7}')
    assert outcomes(app, broken, history.received(RUNNING, 42)) == ["unreadable", "done"]
    assert "job-events/3 offset 41" in caplog.text


@pytest.mark.parametrize(
    "failure",
    [ValueError("no"), RetryLater(0), asyncio.CancelledError(), TimeoutError("theirs")],
    ids=["raises", "retry later", "cancels itself", "times out by itself"],
)
def test_an_event_whose_function_fails_is_given_again_before_any_other(
    make_app: Callable[..., AgentApp], caplog: pytest.LogCaptureFixture, failure: BaseException
) -> None:
    told, history = Told(failure, failure), History()
    app = make_app(declared(told))
    assert outcomes(app, history.received(opened()), history.received(RUNNING)) == ["done", "done"]
    assert told.events == [("job-1", 1), ("job-1", 2)]
    assert told.calls == 4
    assert figure(app, "lahar_agent_failures_total") == 2
    assert figure(app, "lahar_agent_failing") == 0
    assert "agent told failed on lahar.job.opened.v1 of job job-1, sequence 1" in caplog.text


def test_a_call_that_takes_too_long_is_cancelled_and_has_failed(
    make_app: Callable[..., AgentApp], caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    async def hangs_once(event: Event) -> None:
        calls.append(event.sequence)
        if len(calls) == 1:
            await asyncio.Event().wait()

    app = make_app(declared(hangs_once, time_limit=0.01))
    assert outcomes(app, History().received(opened())) == ["done"]
    assert calls == [1, 1]
    assert "took longer than 0.01 s" in caplog.text


def test_a_draining_app_finishes_the_running_call_and_starts_no_other(make_app: Callable[..., AgentApp]) -> None:
    finished: list[int] = []

    async def drain() -> None:
        runs, may_end = asyncio.Event(), asyncio.Event()

        async def waits(event: Event) -> None:
            runs.set()
            await may_end.wait()
            finished.append(event.sequence)

        app, history = make_app(declared(waits)), History()
        async with app.agents["told"].test_context() as context:
            await context.put(history.received(opened()), wait=False)
            await context.put(history.received(RUNNING), wait=False)
            await runs.wait()
            draining = asyncio.ensure_future(app.drain())
            await asyncio.sleep(0)
            assert not draining.done()
            may_end.set()
            await draining

    asyncio.run(drain())
    assert finished == [1]


def test_a_lost_partition_drops_its_failing_event_and_frees_those_behind(
    make_app: Callable[..., AgentApp],
) -> None:
    async def lose() -> None:
        failed, given = asyncio.Event(), asyncio.Event()

        async def fails(event: Event) -> None:
            if event.subject == "goes":
                failed.set()
                raise RetryLater(3_600)
            given.set()

        app = make_app(declared(fails))
        async with app.agents["told"].test_context() as context:
            await context.put(History("goes", partition=0).received(opened(), 7), wait=False)
            await failed.wait()
            app.deliveries[0].lost({Place("job-events", 1)})
            await asyncio.sleep(0)
            assert figure(app, "lahar_agent_failing") == 1
            app.deliveries[0].lost({Place("job-events", 0)})
            await context.put(History("stays", partition=1).received(opened(), 3), wait=False)
            await given.wait()
        assert figure(app, "lahar_agent_failing") == 0
        assert figure(app, "lahar_agent_events_total", outcome="lost") == 1

    asyncio.run(lose())


def test_a_draining_app_does_not_wait_for_a_function_that_always_fails(make_app: Callable[..., AgentApp]) -> None:
    async def drain() -> None:
        failed = asyncio.Event()

        async def fails(event: Event) -> None:
            failed.set()
            raise RetryLater(3_600)

        app = make_app(declared(fails))
        async with app.agents["told"].test_context() as context:
            await context.put(History().received(opened()), wait=False)
            await failed.wait()
            await app.drain()

    asyncio.run(drain())


def test_the_codec_reads_what_the_log_writes_headers_and_all(make_app: Callable[..., AgentApp]) -> None:
    told, history = Told(), History()
    app = make_app(declared(told))
    event = history.event(opened())
    fields = to_record(encode(event), "lifecycle/0", 1, (0, 1))

    class Record:
        topic, partition, offset, timestamp = "job-events", 2, 7, 1_700_000_000.0
        key, value, headers = fields.key, fields.value, tuple(fields.headers)

    received = EventSchema().loads_value(app, Record)
    assert (received.event, received.job, received.sequence) == (event, "job-1", 1)
    assert received.place == "job-events/2 offset 7"


def test_what_is_no_event_fails_when_it_is_asked_for_not_in_the_codec(make_app: Callable[..., AgentApp]) -> None:
    app = make_app(declared(Told()))

    class Record:
        topic, partition, offset, timestamp, headers = "job-events", 0, 0, None, None
        key, value = None, b"\x00garbage"

    assert outcomes(app, EventSchema().loads_value(app, Record)) == ["unreadable"]
