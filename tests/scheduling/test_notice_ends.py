"""Notices whose time comes when not everything is as it was: nobody is stopped unless that round finds it right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from deployment import Deployment
from test_notice_protocol import (
    CONFIGURATION,
    DELAY,
    EVERYONE_LET_IN,
    answer,
    made,
    phase,
    records,
    submit,
    told,
    urgent,
    victim_of,
)

from engine.events.inputs import CommandIssued, CustomEventRaised
from engine.events.preemptions import NoticeNarrowed, NoticeOpened, NoticeWithdrawn
from engine.events.scheduling import RoundEnded
from engine.lifecycle.stage import LifecycleStage
from engine.scheduling import cycle
from engine.scheduling.decision_size import DecisionSizes
from engine.scheduling.scheduler import Scheduler
from engine.scheduling.stage import SchedulingStage


@pytest.fixture
def full() -> Deployment:
    """Two low jobs fill both nodes, and a privileged one waits with a notice to one of them."""
    deployment = made()
    submit(deployment, "low1")
    submit(deployment, "low2")
    urgent(deployment)
    return deployment


def fail(*_: Any, **__: Any) -> Any:
    raise RuntimeError("not today")


def changes(deployment: Deployment) -> list[str]:
    return [event.data.change for event in deployment.events(NoticeNarrowed, NoticeWithdrawn)]


def park(deployment: Deployment, monkeypatch: pytest.MonkeyPatch, job: str) -> None:
    """Have lifecycle fail on an input of a job."""
    original = LifecycleStage.decide

    def decide(stage: Any, state: Any, event: Any, now: Any) -> Any:
        return fail() if isinstance(event.data, CustomEventRaised) else original(stage, state, event, now)

    with monkeypatch.context() as broken:
        broken.setattr(LifecycleStage, "decide", decide)
        deployment.give("jobs", CustomEventRaised("Odd"), job)
        deployment.settle()


def unpark(deployment: Deployment, job: str) -> None:
    deployment.give("jobs", CommandIssued("Unpark", "ann"), job)
    deployment.settle()


def test_nobody_is_stopped_where_rounds_cannot_be_run(full, monkeypatch):
    victim = victim_of(full)
    monkeypatch.setattr(Scheduler, "round", fail)
    answer(full, victim, "AcknowledgeNotice")
    full.wait(DELAY - 6)
    assert told(full) == ["NoticeOpened", "NoticeAcknowledged"]
    full.wait(8)
    assert changes(full) == ["DeadlinePassed"]
    assert (phase(full, "urgent"), phase(full, victim)) == ("Pending", "Running")


def test_a_victim_leaves_its_notice_where_rounds_cannot_be_run(full, monkeypatch):
    monkeypatch.setattr(Scheduler, "round", fail)
    full.end(f"{victim_of(full)}-w-0-1")
    full.settle()
    full.wait(2)
    assert (changes(full), phase(full, "urgent")) == (["VictimLeft", "VictimLeft"], "Pending")


def test_a_round_goes_on_without_notices_if_they_are_what_fails(full, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(cycle, "control_notices", fail)
        full.wait(DELAY)
        assert "not today" in full.events(RoundEnded)[-1].data.error
    assert told(full) == ["NoticeOpened"]
    full.wait(4)
    assert told(full)[1:] == ["NoticeExecuted", "ReservationEnded"]


def test_a_notice_for_a_gang_that_no_decision_can_place_is_withdrawn(full, monkeypatch):
    monkeypatch.setattr(DecisionSizes, "most", lambda *_: 0)
    full.apply("Queue", "else")
    full.settle()
    full.wait(2)
    assert (changes(full), phase(full, victim_of(full))) == (["NotEnough"], "Running")


def test_a_parked_victim_frees_nothing(full, monkeypatch):
    victim = victim_of(full)
    park(full, monkeypatch, victim)
    full.wait(4)
    assert changes(full) == ["NotEnough"]
    opened = [event.data.victims for event in records(full) if event.type.startswith("lahar.notice.opened")]
    assert opened == [[victim], ["low2" if victim == "low1" else "low1"]]
    unpark(full, victim)
    assert phase(full, victim) == "Running"


def test_a_parked_victim_that_is_not_needed_is_spared(monkeypatch):
    deployment = made()
    submit(deployment, "low1")
    submit(deployment, "low2")
    urgent(deployment, pods=2)
    park(deployment, monkeypatch, "low1")
    deployment.node("n9", cpu=4)
    deployment.settle()
    deployment.wait(2)
    assert [(event.data.victim, event.data.change) for event in deployment.events(NoticeNarrowed)] == [("low1", "VictimNotNeeded")]


def test_nobody_is_stopped_for_a_parked_preemptor(full, monkeypatch):
    victim = victim_of(full)
    park(full, monkeypatch, "urgent")
    full.wait(DELAY - 6)
    assert told(full) == ["NoticeOpened"]
    full.wait(6)
    assert (changes(full), phase(full, victim)) == (["DeadlinePassed"], "Running")
    unpark(full, "urgent")
    assert phase(full, "urgent") == "Pending"


def test_a_preemptor_that_is_unparked_in_time_gets_its_place(full, monkeypatch):
    park(full, monkeypatch, "urgent")
    full.wait(2)
    unpark(full, "urgent")
    full.wait(DELAY)
    assert (told(full)[-1], phase(full, "urgent")) == ("ReservationEnded", "Running")


def test_notices_are_withdrawn_when_the_action_is_not_configured_any_more():
    deployment = made()
    deployment.every = 1
    deployment.restart()
    submit(deployment, "low1")
    submit(deployment, "low2")
    urgent(deployment)
    deployment.stage = lambda: SchedulingStage(replace(CONFIGURATION, actions=("enqueue", "allocate")))
    deployment.restart()
    deployment.wait(DELAY)
    assert (changes(deployment), len(deployment.running())) == (["QueueChanged"], 2)


def test_notices_are_withdrawn_when_the_tenant_may_not_preempt_any_more(full):
    full.apply("Tenant", "default", mayPreempt=False)
    full.settle()
    full.wait(DELAY)
    assert (changes(full), phase(full, victim_of(full))) == (["RightRevoked"], "Running")


class Limited(Deployment):
    """Rounds bind one pod, or one gang."""

    def __init__(self, **_: Any) -> None:
        super().__init__(stage=lambda: SchedulingStage(EVERYONE_LET_IN, round_limit=1))


def test_a_round_stopped_at_its_limit_leaves_the_deadline_to_the_next():
    deployment = made(nodes=1, of=Limited)
    submit(deployment, "low")
    urgent(deployment)
    deadline = records(deployment)[0].data.deadline
    while deployment.now < deadline - 2_000_000:
        deployment.wait(1)
    deployment.node("n5", cpu=2)
    submit(deployment, "others", pods=2, cpu=1, wait=3)
    at_deadline = [event.data for event in deployment.events(RoundEnded) if event.recordedtime == deadline]
    assert [(data.bound, data.more) for data in at_deadline] == [(2, True), (0, False)]
    assert told(deployment)[:2] == ["NoticeOpened", "NoticeExecuted"]
    assert records(deployment)[1].recordedtime == deadline


@pytest.mark.parametrize("restarts", [False, True])
def test_victims_are_named_in_one_order_whichever_job_a_process_knew_first(restarts: bool) -> None:
    deployment = made()
    deployment.every = 1
    deployment.restart()
    for name in ("low-b", "low-a"):
        submit(deployment, name)
    if restarts:
        deployment.restart()
    urgent(deployment, pods=2)
    assert [event.data.victims for event in deployment.events(NoticeOpened)] == [["low-a", "low-b"]]
