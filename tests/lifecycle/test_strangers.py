"""What somebody says who may not speak for a job changes nothing of what those are answered who may, whatever ids he chooses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lifecycle_driver import Driver, vcjob
from msgspec.structs import force_setattr

from engine.events.inputs import (
    CommandIssued,
    CustomEventRaised,
    EffectReported,
    JobDeleted,
    JobSubmitted,
    JobUpdated,
    ObjectApplied,
    RowUnreadable,
)
from engine.lifecycle import refused_inputs

IDS = ["a", "b", "c"]
"""Few, so that strangers guess them."""


def manifest(*, replicas: int = 1, valid: bool = True) -> dict[str, Any]:
    made = vcjob({"name": "w", "replicas": replicas}, minAvailable=1 if valid else 9, lahar={"customEvents": {"Told": None}})
    made["metadata"]["namespace"] = "research"
    return made


asked = st.one_of(
    st.builds(lambda valid: JobSubmitted(manifest(valid=valid)), st.booleans()),
    st.builds(lambda replicas: JobUpdated(manifest(replicas=replicas)), st.integers(1, 3)),
    st.builds(JobDeleted, st.just("9"), st.just("research")),
    st.builds(CommandIssued, st.sampled_from(["AbortJob", "ResumeJob", "RestartJob", "Unpark"])),
    st.builds(lambda: CustomEventRaised("Told")),
    st.builds(lambda: EffectReported("effect", "failed")),
)
own = st.tuples(st.just("ann"), asked, st.sampled_from(IDS), st.sampled_from(["", "", "", "broken", "crash"]))
foreign = st.tuples(
    st.just("mallory"), asked | st.builds(lambda: RowUnreadable("philly-status", 3, "no time")), st.sampled_from(IDS), st.just("")
)


@given(st.lists(own | foreign, max_size=25))
@settings(max_examples=300)
def test_what_strangers_say_changes_no_answer(program: list[tuple[str, Any, str, str]]) -> None:
    _answers_are_the_same(program)


def test_the_law_finds_an_id_that_a_stranger_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused_inputs, "_key", lambda _cluster, _what, _principal, ident, _manifest: ident)
    told = [(who, CommandIssued("AbortJob"), "a", "") for who in ("mallory", "ann")]
    with pytest.raises(AssertionError, match="duplicate"):
        _answers_are_the_same([("ann", JobSubmitted(manifest()), "b", ""), *told])


def _answers_are_the_same(program: list[tuple[str, Any, str, str]]) -> None:
    alone, beside = Driver(), Driver()
    for driver in (alone, beside):
        driver.take(driver.event(ObjectApplied("Grant", "g", {"principals": ["ann"], "namespaces": ["research"]}), "c1"))
    known: dict[str, Any] = {}
    for who, data, ident, fate in program:
        if who == "ann":
            # What is known is not decided on; and what no submission has opened says nothing of who may speak for it.
            decided = ident in known or not (alone.job().opened or isinstance(data, JobSubmitted))
            happens = "" if fate == "broken" and decided else fate
            asks = known.setdefault(ident, data)  # an id is that of one input
            assert _say(alone, who, asks, ident, happens) == _say(beside, who, asks, ident, happens)
        else:
            _say(beside, who, data, ident, fate)
            # What is no job may be a callback, of which anybody may tell.
            assert beside.outcome in {"refused", "rejected", "duplicate"} or isinstance(data, EffectReported)


def _say(driver: Driver, who: str, data: Any, ident: str, fate: str) -> tuple[Any, ...]:
    """Put something in; return what became of it and of the job."""
    if not isinstance(data, RowUnreadable):
        force_setattr(data, "principal", who)
    event = driver.event(data, "j1", ident)
    if fate == "crash":
        driver.crash()
    if fate == "broken":  # the stage fails on it
        driver.outcome = "parked"
        driver.drain(driver.stage.park(driver.state, event, driver.now, "broken"))
    else:
        driver.take(event)
    job = driver.job()
    return driver.outcome, job.phase, job.parked, job.version, len(job.held), len(job.attempts), job.opened > 0
