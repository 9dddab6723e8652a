"""After an outage of scheduling, rounds and deadlines come in the order in which everything was recorded."""

from __future__ import annotations

from typing import Any

import pytest
from deployment import CLUSTER, SECOND, Deployment, task, vcjob
from test_stage_laws import records

from engine.events import Data
from engine.events.decisions import DecidedBound
from engine.events.inputs import NodeDeleted, NodeObserved, ObjectApplied
from engine.events.preemptions import NoticeExecuted, NoticeOpened, NoticeWithdrawn
from engine.events.scheduling import DecisionTimedOut
from engine.scheduling.configuration import read_configuration
from engine.scheduling.stage import SchedulingStage

PLUGINS = ["priority", "gang", "conformance"], ["predicates", "capacity", "nodeorder"]
CONFIGURATION = read_configuration(
    {
        "actions": "enqueue, allocate, backfill, preempt",
        "tiers": [{"plugins": [{"name": name} for name in tier]} for tier in PLUGINS],
    }
)
FACTS: list[tuple[Data, str]] = [
    (NodeObserved("elsewhere", unschedulable=True), "elsewhere"),
    (NodeDeleted("elsewhere"), "elsewhere"),
    (ObjectApplied("Queue", "other", {}), "other"),
]


def stage() -> SchedulingStage:
    return SchedulingStage(CONFIGURATION)


class Interrupted(Deployment):
    """Processes of scheduling are away for a while."""

    away = False

    def settle(self) -> None:
        """Let everything happen that follows now; scheduling decides nothing while it is away."""
        if not self.away:
            super().settle()
            return
        while sum(processor.step() or processor.fire_due(self.now) for processor in self.lifecycle) or self.obey():
            pass


def noticed() -> Interrupted:
    """Job `lo` has been given notice for `hi`, with ten seconds to go."""
    deployment = Interrupted(stage)
    deployment.node("n1", cpu=4)
    deployment.apply("Tenant", "default", priority=10, mayPreempt=True)
    deployment.apply("PriorityClass", "urgent", value=1000)
    deployment.apply("Queue", "qn", preemption="notice", preemptionDelaySeconds=10)
    deployment.submit("lo", vcjob("lo", task(cpu=4), queue="qn"))
    deployment.wait(5)
    urgent = {**vcjob("hi", task(cpu=4), queue="qn", priorityClassName="urgent"), "lahar": {"preempt": True}}
    deployment.submit("hi", urgent)
    deployment.wait(4)
    assert len(deployment.events(NoticeOpened)) == 1
    return deployment


@pytest.mark.parametrize("fact", [None, *FACTS])
def test_a_notice_is_withdrawn_if_its_preemptor_aborted_in_an_outage(fact: tuple[Data, str] | None) -> None:
    deployment = noticed()
    deployment.away = True
    deployment.wait(2)
    aborted = deployment.now
    deployment.command("hi", "AbortJob")
    deployment.wait(60)
    if fact is not None:
        deployment.give("cluster", *fact)
    deployment.away = False
    deployment.settle()
    deployment.wait(3)
    (withdrawn,) = deployment.events(NoticeWithdrawn, NoticeExecuted)
    assert (type(withdrawn.data), withdrawn.recordedtime) == (NoticeWithdrawn, aborted + SECOND)
    assert deployment.running() == ["lo-w-0-1"]


@pytest.mark.parametrize("fact", FACTS)
def test_a_decision_that_was_answered_in_time_does_not_time_out(fact: tuple[Data, str]) -> None:
    deployment = Interrupted(stage)
    deployment.node("n1", cpu=4)
    deployment.submit("j", vcjob("j", task()))
    deployment.wait()
    deployment.deaf = True
    deployment.wait()
    assert len(deployment.events(DecidedBound)) == 1
    deployment.deaf = False
    deployment.away = True
    deployment.wait(70)
    deployment.give("cluster", *fact)
    deployment.away = False
    deployment.settle()
    assert deployment.events(DecisionTimedOut) == []
    assert deployment.running() == ["j-w-0-1"]


def test_a_process_that_starts_anew_takes_everything_in_the_same_order() -> None:
    """A cluster whose only job ended, all at once, is known anew from its first node on."""
    deployment = Interrupted(stage)
    deployment.away = True
    deployment.submit("j", vcjob("j", task()))
    deployment.settle()
    deployment.now += 1000
    deployment.command("j", "TerminateJob")
    deployment.settle()
    deployment.now += 1000
    deployment.node("n1")
    deployment.scheduling.step()
    state: Any = deployment.scheduling.state
    before = records(stage(), state)
    assert state.jobs == {}
    assert list(state.clusters) == [CLUSTER]
    deployment.restart()
    assert records(stage(), deployment.scheduling.state) == before
