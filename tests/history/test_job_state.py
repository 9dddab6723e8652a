"""What a job is, is the same for all who say it: views, lists, subscriptions, callbacks and usage."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from test_projection_laws import changed, ended, moved, moves, opened, revised, started

from engine.effects.facts import JobBook
from engine.events import Data, Event, encode
from engine.events.attempts import (
    AttemptBound,
    AttemptChanged,
    AttemptEnded,
    AttemptEvent,
    AttemptMoved,
    AttemptRunning,
    AttemptStarted,
    AttemptTerminating,
)
from engine.events.job_state import Slot
from engine.events.jobs import JobOpened, JobPhaseChanged, JobRevised
from engine.history.fold import fold
from engine.history.listing import Filter, Listing
from engine.history.subscribe import CaughtUp, Subscription, Wanted
from engine.log.memory import MemoryLog
from engine.log.port import Commit, Output, ShardId
from statemachines.spec import JobSpec, Requests
from statemachines.vocabulary import FINISHED_JOB_PHASES, TERMINAL_ATTEMPT_PHASES
from streams.agents.usage_book import UsageBook

TOLD = ("kind", "namespace", "name", "tenant", "project", "user", "labels")


def events_of(told: list[Data]) -> list[Event[Data]]:
    return [Event(f"e{at}", "t", data.TYPE, "j", at, at, at, "j", "", "c", data) for at, data in enumerate(told, 1)]


def expected(told: list[Data]) -> dict[str, Any]:
    """The last that was told of each, found by looking for it."""
    first = told[0]
    assert isinstance(first, JobOpened)
    revisions = [data for data in told if isinstance(data, JobRevised)]
    found: dict[str, Any] = {
        name: next((value for data in reversed(revisions) if (value := getattr(data, name)) is not None), getattr(first, name))
        for name in TOLD
    }
    found["queue"] = next((data.spec.queue for data in reversed(revisions) if data.spec is not None), first.spec.queue)
    found["phase"] = next((data.phase for data in reversed(told) if isinstance(data, JobPhaseChanged)), "Pending")
    reasons = [
        data.reason or None if isinstance(data, JobRevised) else data.reason
        for data in told
        if isinstance(data, JobPhaseChanged) or (isinstance(data, JobRevised) and data.reason is not None)
    ]
    found["reason"] = reasons[-1] if reasons else None
    return found


def lawful(told: list[Data]) -> list[Data]:
    """Without what is told of attempts that have not started, or have ended."""
    return [data for at, data in enumerate(told) if not isinstance(data, AttemptEvent) or _is_next(told[:at], data)]


def _is_next(before: list[Data], data: AttemptEvent) -> bool:
    own = [one for one in before if isinstance(one, AttemptStarted | AttemptMoved | AttemptEnded) and one.attempt == data.attempt]
    begun, over = (any(isinstance(one, kind) for one in own) for kind in (AttemptStarted, AttemptMoved | AttemptEnded))
    return not own if isinstance(data, AttemptStarted) else begun and not over


def attempts_of(told: list[Data]) -> dict[Slot, tuple[str, str | None, Requests]]:
    """Phase, reason and requests of each attempt that has started."""
    found: dict[Slot, tuple[str, str | None, Requests]] = {}
    for data in told:
        if not isinstance(data, AttemptEvent):
            continue
        slot = (data.task, data.index, data.attempt)
        phase, reason, asked = found.get(slot, ("", None, Requests()))
        match data:
            case AttemptChanged():
                found[slot] = phase, data.reason if data.reason_changed else reason, data.requests or asked
            case AttemptStarted():
                found[slot] = "Pending", data.reason, data.requests
            case AttemptEnded():
                found[slot] = data.phase, data.reason, asked
            case AttemptMoved():
                del found[slot]
            case AttemptBound() | AttemptRunning() | AttemptTerminating():
                found[slot] = type(data).__name__.removeprefix("Attempt"), data.reason, asked
    return found


@settings(max_examples=60)
@given(opened, st.lists(revised | changed | started | moves | moved | ended, max_size=16))
def test_all_who_say_what_a_job_is_say_the_same(first: JobOpened, later: list[Data]) -> None:
    told = lawful([first, *later])
    events, job = events_of(told), expected(told)
    view = fold(events)
    listing, book, usage = Listing(), JobBook(lambda _: ()), UsageBook()
    for event in events:
        listing.add(event)
        book.fold(event.sequence, event)
        usage.fold(event)
    (line,) = listing.lines(Filter(other=True))
    noticed = book.at("j", len(events))
    assert view is not None
    assert {name: getattr(view, name) for name in job} == job
    kept = job.keys() - {"project", "labels"}
    assert {name: getattr(line, name) for name in kept} == {name: job[name] for name in kept}
    told_on = ("kind", "namespace", "name", "labels")
    assert [getattr(noticed, name) for name in told_on] == [job[name] for name in told_on]
    owner = (job["tenant"], job["queue"])
    assert +usage.jobs == ({} if job["phase"] in FINISHED_JOB_PHASES else {(owner, job["phase"]): 1})
    attempts = attempts_of(told)
    alive = {slot: found for slot, found in attempts.items() if found[0] not in TERMINAL_ATTEMPT_PHASES}
    assert {slot: (one.phase, one.reason, one.requests) for slot, one in view.attempts.items()} == attempts
    assert {slot: (one.phase, one.reason, one.requests) for slot, one in line.open.items()} == alive
    assert +usage.replicas == Counter((owner, phase) for phase, _, _ in alive.values())
    assert usage.cpu_milli.total() == sum(asked.cpu_milli for _, _, asked in alive.values())


@settings(max_examples=40)
@given(opened, st.lists(revised | changed, max_size=8), st.sampled_from(["tenant", "queue", "namespace", "labels"]))
def test_a_subscription_goes_by_what_the_job_is_at_each_event(first: JobOpened, later: list[Data], name: str) -> None:
    told = [first, *later]
    events, log = events_of(told), MemoryLog()
    shard = log.open(ShardId("lifecycle", 0), ())
    shard.commit(Commit((), 1, [Output("job-events", encode(event), ()) for event in events]))
    shard.close()
    values = [expected(told[: at + 1])[name] for at in range(len(told))]
    for value in values:
        found = Subscription(log, None, Wanted(**{name: value})).stream(follow=False)
        ids = [one.message.id for one in found if not isinstance(one, CaughtUp)]
        if name == "labels":
            passing = [at for at, other in enumerate(values) if value.items() <= other.items()]
        else:
            passing = [at for at, other in enumerate(values) if other == value]
        assert ids == [events[at].id for at in passing]


def test_a_list_gives_the_reason_that_an_object_gives_of_its_phase() -> None:
    told: list[Data] = [JobOpened("Job", "train", False, JobSpec()), JobRevised(reason="JobSuspended")]
    listing = Listing()
    for event in events_of(told):
        listing.add(event)
    assert [job.reason for job in listing.lines(Filter(reasons=frozenset({"JobSuspended"})))] == ["JobSuspended"]
