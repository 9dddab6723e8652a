"""Preemption with notice, from the user's side: who is given notice, what withdraws or narrows it, and how it is carried out."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from deployment import SECOND, Deployment, task, vcjob

from engine.events import Event
from engine.events.actions import EffectRequested, EffectSettled
from engine.events.attempts import AttemptEnded
from engine.events.decisions import DecidedBound, DecidedEvicted, DecisionRefused
from engine.events.inputs import CommandIssued, EffectReported
from engine.events.jobs import JobPhaseChanged
from engine.events.outcomes import CommandRefused
from engine.events.preemptions import (
    NoticeAcknowledged,
    NoticeExecuted,
    NoticeNarrowed,
    NoticeOpened,
    NoticeWithdrawn,
    ReservationEnded,
)
from engine.events.scheduling import JobExplained, RoundEnded
from engine.scheduling.cluster.model import Cluster
from engine.scheduling.configuration import Configuration, PluginOption
from engine.scheduling.stage import SchedulingStage

RECORDS = (NoticeOpened, NoticeAcknowledged, NoticeNarrowed, NoticeWithdrawn, NoticeExecuted, ReservationEnded)
CONFIGURATION = Configuration(
    ("enqueue", "allocate", "backfill", "preempt"),
    (
        tuple(PluginOption(name) for name in ("priority", "gang", "conformance")),
        tuple(PluginOption(name) for name in ("predicates", "proportion", "nodeorder")),
    ),
)
DELAY = 20


def made(
    mode: str = "notice",
    nodes: int = 2,
    of: type[Deployment] = Deployment,
    configuration: Configuration = CONFIGURATION,
    **queue: Any,
) -> Deployment:
    """A cluster of nodes with 4 CPUs each, and a queue that gives notice of 20 s."""
    deployment = of(stage=lambda: SchedulingStage(configuration))
    for number in range(nodes):
        deployment.node(f"n{number}", cpu=4)
    deployment.apply("Queue", "q", preemption=mode, preemptionDelaySeconds=DELAY, **queue)
    deployment.apply("Tenant", "default", priority=0, mayPreempt=True)
    deployment.apply("PriorityClass", "high", value=1000)
    deployment.apply("PriorityClass", "middle", value=500)
    return deployment


def submit(deployment: Deployment, name: str, pods: int = 1, cpu: int = 4, wait: int = 4, **spec: Any) -> None:
    """Submit a job to the queue and let it get its places, where there are some."""
    lahar = {key: spec.pop(key) for key in ("preempt", "onPreempted", "minRunSeconds") if key in spec}
    tenant = spec.pop("tenant", None)
    manifest = vcjob(name, task("w", pods, cpu=cpu), minAvailable=pods, queue="q", **spec)
    if tenant:
        manifest["metadata"]["labels"] = {"lahar/tenant": tenant}
    deployment.submit(name, {**manifest, "lahar": lahar} if lahar else manifest)
    deployment.settle()
    deployment.wait(wait)


def urgent(deployment: Deployment, name: str = "urgent", **spec: Any) -> None:
    """Submit a privileged job of high priority."""
    submit(deployment, name, preempt=True, priorityClassName="high", **spec)


def records(deployment: Deployment) -> list[Event[Any]]:
    return deployment.events(*RECORDS)


def told(deployment: Deployment) -> list[str]:
    """What became of the notices, in one word each."""
    return [type(event.data).__name__ for event in records(deployment)]


def phase(deployment: Deployment, job: str) -> str:
    changes = deployment.events(JobPhaseChanged, job=job)
    return changes[-1].data.phase if changes else "Pending"


def answer(deployment: Deployment, job: str, action: Any, notice: str = "") -> None:
    deployment.give("jobs", CommandIssued(action, "ann", notice=notice), job)
    deployment.settle()


@pytest.fixture
def full() -> Deployment:
    """Two low jobs fill both nodes, and a privileged one waits with a notice to one of them."""
    deployment = made()
    submit(deployment, "low1")
    submit(deployment, "low2")
    urgent(deployment)
    return deployment


def victim_of(deployment: Deployment) -> str:
    (opened,) = deployment.events(NoticeOpened)
    (victim,) = opened.data.victims
    return victim


def test_a_notice_is_announced_and_both_sides_enter_their_phases(full):
    (opened,) = full.events(NoticeOpened)
    (ended,) = [event for event in full.events(RoundEnded) if event.id == opened.causationid]
    assert (opened.subject, opened.sequence, opened.data.preemptor) == (f"c1/{ended.sequence}", 1, "urgent")
    assert opened.data.deadline - opened.recordedtime == DELAY * SECOND
    victim = victim_of(full)
    assert (phase(full, "urgent"), phase(full, victim)) == ("Privileged", "WillEvicted")
    change = full.events(JobPhaseChanged, job=victim)[-1].data
    assert (change.notice, change.deadline, change.reason) == (opened.subject, opened.data.deadline, "NoticeReceived")
    assert full.events(JobExplained, job="urgent")[-1].data.reason == "NoticeGiven"
    assert len(full.running()) == 2


def test_at_the_deadline_the_whole_victim_stops_and_the_preemptor_starts(full):
    victim = victim_of(full)
    full.wait(DELAY + 5)
    assert told(full) == ["NoticeOpened", "NoticeExecuted", "ReservationEnded"]
    executed, reservation = records(full)[1:]
    assert (executed.data.change, executed.data.victims, reservation.data.outcome) == ("DeadlinePassed", [victim], "bound")
    assert executed.recordedtime == records(full)[0].data.deadline
    assert phase(full, "urgent") == "Running"
    ended = full.events(AttemptEnded, job=victim)
    assert [event.data.reason for event in ended] == ["PreemptedByNotice"]
    phases = [event.data.phase for event in full.events(JobPhaseChanged, job=victim)]
    assert phases[-3:] == ["WillEvicted", "Restarting", "Pending"]
    assert full.events(JobPhaseChanged, job=victim)[-1].data.retry_count == 0


@pytest.mark.parametrize(("after", "phases"), [("Abort", ["Aborting", "Aborted"]), ("Terminate", ["Terminating", "Terminated"])])
def test_a_victim_becomes_what_its_specification_says(after, phases):
    deployment = made(nodes=1)
    submit(deployment, "low", onPreempted=after)
    urgent(deployment)
    deployment.wait(DELAY + 5)
    assert [event.data.phase for event in deployment.events(JobPhaseChanged, job="low")][-2:] == phases
    assert phase(deployment, "urgent") == "Running"


def test_a_victim_that_acknowledges_is_stopped_at_once(full):
    victim = victim_of(full)
    answer(full, victim, "AcknowledgeNotice")
    full.wait(5)
    assert told(full) == ["NoticeOpened", "NoticeAcknowledged", "NoticeExecuted", "ReservationEnded"]
    assert records(full)[2].data.change == "Acknowledged"
    assert phase(full, "urgent") == "Running"


def test_a_late_acknowledgement_of_an_earlier_notice_does_not_count(full):
    victim, (earlier,) = victim_of(full), full.events(NoticeOpened)
    full.command("urgent", "RestartJob")
    full.settle()
    full.wait(4)
    assert told(full) == ["NoticeOpened", "NoticeWithdrawn", "NoticeOpened"]
    later = records(full)[-1]
    assert later.data.victims == [victim]
    answer(full, victim, "AcknowledgeNotice", earlier.subject)
    answer(full, "urgent", "WithdrawNotice", earlier.subject)
    full.wait(2)
    assert [event.data.reason for event in full.events(CommandRefused)] == [
        f"the job is part of notice {later.subject}; the answer is to {earlier.subject}"
    ] * 2
    assert told(full)[-1] == "NoticeOpened"
    answer(full, victim, "AcknowledgeNotice", later.subject)
    full.wait(4)
    assert told(full)[3:] == ["NoticeAcknowledged", "NoticeExecuted", "ReservationEnded"]


def test_a_notice_waits_for_all_acknowledgements_or_its_deadline():
    deployment = made()
    submit(deployment, "low1")
    submit(deployment, "low2")
    urgent(deployment, pods=2)
    answer(deployment, "low1", "AcknowledgeNotice")
    deployment.wait(3)
    assert told(deployment) == ["NoticeOpened", "NoticeAcknowledged"]
    answer(deployment, "low2", "AcknowledgeNotice")
    deployment.wait(4)
    assert phase(deployment, "urgent") == "Running"


def test_a_notice_is_withdrawn_when_something_else_makes_room(full):
    victim = victim_of(full)
    full.node("n9", cpu=4)
    full.settle()
    full.wait(4)
    assert told(full) == ["NoticeOpened", "NoticeWithdrawn"]
    assert records(full)[1].data.change == "PreemptorPlaced"
    assert (phase(full, "urgent"), phase(full, victim)) == ("Running", "Running")
    full.wait(DELAY + 5)
    assert len(full.running()) == 3
    assert told(full) == ["NoticeOpened", "NoticeWithdrawn"]


@pytest.mark.parametrize("action", ["AbortJob", "TerminateJob", "RestartJob"])
def test_a_notice_is_withdrawn_when_its_preemptor_is_stopped(full, action):
    victim = victim_of(full)
    full.command("urgent", action)
    full.settle()
    full.wait(2)
    assert told(full)[:2] == ["NoticeOpened", "NoticeWithdrawn"]
    assert records(full)[1].data.change == "PreemptorLeft"
    assert "Running" in [event.data.phase for event in full.events(JobPhaseChanged, job=victim)][-2:]


@pytest.mark.parametrize("how", ["end", "abort", "restart"])
def test_a_notice_whose_only_victim_leaves_is_withdrawn_for_its_preemptor(full, how):
    """The preemptor gets the place."""
    victim = victim_of(full)
    if how == "end":
        full.end(f"{victim}-w-0-1")
    else:
        full.command(victim, "AbortJob" if how == "abort" else "RestartJob")
    full.settle()
    full.wait(5)
    assert told(full)[:2] == ["NoticeOpened", "NoticeWithdrawn"]
    assert records(full)[1].data.change in {"PreemptorPlaced", "VictimLeft"}
    assert phase(full, "urgent") == "Running"


def test_a_notice_is_narrowed_when_a_victim_ends_and_the_rest_is_needed():
    deployment = made()
    submit(deployment, "low1")
    submit(deployment, "low2")
    urgent(deployment, pods=2)
    deployment.end("low1-w-0-1")
    deployment.settle()
    deployment.wait(3)
    assert told(deployment) == ["NoticeOpened", "NoticeNarrowed"]
    assert records(deployment)[1].data.victim == "low1"
    assert phase(deployment, "low2") == "WillEvicted"
    deployment.wait(DELAY)
    assert phase(deployment, "urgent") == "Running"


def test_a_victim_that_is_not_needed_any_more_runs_on():
    deployment = made()
    submit(deployment, "low1")
    submit(deployment, "low2")
    urgent(deployment, pods=2)
    deployment.node("n9", cpu=4)
    deployment.settle()
    deployment.wait(3)
    assert told(deployment) == ["NoticeOpened", "NoticeNarrowed"]
    spared = records(deployment)[1].data
    assert spared.change == "VictimNotNeeded"
    assert phase(deployment, spared.victim) == "Running"
    deployment.wait(DELAY + 3)
    assert phase(deployment, "urgent") == "Running"
    assert deployment.events(AttemptEnded, job=spared.victim) == []


def test_a_notice_whose_victims_no_longer_free_enough_is_withdrawn():
    deployment = made(nodes=1)
    submit(deployment, "low1")
    urgent(deployment)
    deployment.node("n0", cpu=4, unschedulable=True)
    deployment.settle()
    deployment.wait(3)
    assert [event.data.change for event in deployment.events(NoticeWithdrawn)] == ["NotEnough"]
    assert phase(deployment, "low1") == "Running"


def test_a_withdrawal_by_command_is_the_last_word(full):
    victim = victim_of(full)
    answer(full, "urgent", "WithdrawNotice")
    full.wait(DELAY + 10)
    assert told(full) == ["NoticeOpened", "NoticeWithdrawn"]
    assert (phase(full, "urgent"), phase(full, victim)) == ("Pending", "Running")


def test_a_queue_that_stops_giving_notice_withdraws_its_notices(full):
    full.apply("Queue", "q", preemption="none")
    full.settle()
    full.wait(3)
    assert [event.data.change for event in full.events(NoticeWithdrawn)] == ["QueueChanged"]


def test_answers_to_no_notice_are_refused(full):
    answer(full, "urgent", "AcknowledgeNotice")
    answer(full, victim_of(full), "WithdrawNotice")
    refused = [event.data.reason for event in full.events(CommandRefused)]
    assert refused == [
        "the job is Privileged; only a job that is WillEvicted can be the subject of AcknowledgeNotice",
        "the job is WillEvicted; only a job that is Privileged can be the subject of WithdrawNotice",
    ]


@pytest.mark.parametrize("mode", ["none", "immediate"])
def test_other_queues_give_no_notice(mode):
    deployment = made(mode, nodes=1)
    submit(deployment, "low", pods=2, cpu=2)
    urgent(deployment)
    deployment.wait(5)
    assert told(deployment) == []
    assert len(deployment.running()) == 2 or deployment.events(DecidedEvicted)


def test_only_a_privileged_job_of_a_tenant_with_the_right_is_given_room():
    deployment = made(nodes=1)
    deployment.apply("Tenant", "poor", priority=9)
    submit(deployment, "low")
    submit(deployment, "plain", priorityClassName="high")
    urgent(deployment, tenant="poor")
    urgent(deployment, "unknown", tenant="nobody")
    assert told(deployment) == []
    deployment.apply("Tenant", "poor", priority=9, mayPreempt=True)
    deployment.settle()
    deployment.wait(3)
    assert [event.data.preemptor for event in deployment.events(NoticeOpened)] == ["urgent"]


def test_a_tenants_priority_counts_before_that_of_jobs():
    deployment = made(nodes=2)
    deployment.apply("Tenant", "rich", priority=5, mayPreempt=True)
    submit(deployment, "rich-low", tenant="rich")
    submit(deployment, "poor-high", priorityClassName="high")
    submit(deployment, "rich-urgent", tenant="rich", preempt=True)
    assert victim_of(deployment) == "poor-high"


def test_jobs_of_the_same_rank_or_without_enough_of_a_run_are_spared():
    deployment = made(nodes=2, minRunSeconds=60)
    submit(deployment, "same", priorityClassName="high", minRunSeconds=0)
    submit(deployment, "young")
    urgent(deployment)
    assert told(deployment) == []
    assert deployment.events(JobExplained, job="urgent")[-1].data.reason != "NoticeGiven"
    deployment.wait(60)
    assert victim_of(deployment) == "young"


def test_the_fewest_jobs_are_chosen_then_the_lowest_then_the_least_lost():
    deployment = made(nodes=4)
    submit(deployment, "middle", priorityClassName="middle")
    submit(deployment, "older")
    submit(deployment, "younger")
    submit(deployment, "half1", cpu=2)
    submit(deployment, "half2", cpu=2)
    urgent(deployment)
    assert victim_of(deployment) == "younger"


def test_the_lowest_job_goes_however_many_there_are():
    deployment = made(nodes=18)
    submit(deployment, "big", priorityClassName="middle", wait=0)
    for number in range(68):
        submit(deployment, f"small{number}", cpu=1, wait=0)
    deployment.wait(4)
    urgent(deployment, cpu=1)
    assert victim_of(deployment).startswith("small")


def test_a_gang_that_would_not_fit_whole_preempts_nobody():
    deployment = made(nodes=2)
    deployment.every = 1
    deployment.restart()
    submit(deployment, "low1")
    submit(deployment, "high", priorityClassName="high")
    urgent(deployment, pods=2)
    deployment.wait(5)
    assert told(deployment) == []
    assert len(deployment.running()) == 2


def test_no_job_is_in_two_notices():
    deployment = made(nodes=2)
    deployment.every = 1
    deployment.restart()
    submit(deployment, "low1")
    submit(deployment, "low2")
    urgent(deployment, "urgent1")
    urgent(deployment, "urgent2")
    urgent(deployment, "urgent3")
    opened = [event.data for event in deployment.events(NoticeOpened)]
    assert [data.preemptor for data in opened] == ["urgent1", "urgent2"]
    assert sorted(victim for data in opened for victim in data.victims) == ["low1", "low2"]
    deployment.wait(DELAY + 8)
    assert [phase(deployment, name) for name in ("urgent1", "urgent2", "urgent3")] == ["Running", "Running", "Pending"]


EVERYONE_LET_IN = replace(CONFIGURATION, actions=("allocate", "backfill", "preempt"))


def rival(deployment: Deployment) -> None:
    """Submit a small job that comes first in every order."""
    deployment.apply("PriorityClass", "highest", value=5000)
    submit(deployment, "rival", priorityClassName="highest", cpu=1, wait=2)


def crowded(of: type[Deployment] = Deployment) -> Deployment:
    """As `full`, and a pod that comes first in every order waits, too; the deadline is near."""
    deployment = made(of=of, configuration=EVERYONE_LET_IN)
    submit(deployment, "low1")
    submit(deployment, "low2")
    urgent(deployment)
    rival(deployment)
    deployment.wait(DELAY - 8)
    assert deployment.places("rival") == {"rival-w-0-1": None}
    assert told(deployment) == ["NoticeOpened"]
    return deployment


def fail_bindings(deployment: Deployment, times: int) -> None:
    """Let that many bindings of the preemptor fail, one after the other."""
    for _ in range(60):
        if len(deployment.events(EffectSettled, job="urgent")) == times:
            break
        deployment.failing = True
        deployment.wait(1)
    deployment.failing = False


def rival_and_urgent(deployment: Deployment) -> tuple[bool, str]:
    """Whether the rival has a node, and the phase of the preemptor."""
    return deployment.places("rival")["rival-w-0-1"] is not None, phase(deployment, "urgent")


def test_the_freed_place_is_kept_for_a_preemptor_whose_binding_fails():
    deployment = crowded()
    fail_bindings(deployment, 3)
    deployment.wait(12)
    assert [event.data.outcome for event in deployment.events(ReservationEnded)] == ["bound"]
    assert rival_and_urgent(deployment) == (False, "Running")


@pytest.mark.parametrize("fails", [True, False])
def test_if_it_is_not_kept_another_takes_it(monkeypatch, fails):
    if fails:
        monkeypatch.setattr(import_module("engine.scheduling.actions.allocate"), "_keep_place", lambda *_: None)
    else:
        monkeypatch.setattr(Cluster, "with_reservations", lambda _: [])
    deployment = crowded()
    fail_bindings(deployment, 3 if fails else 0)
    deployment.wait(12)
    assert rival_and_urgent(deployment) == (True, "Pending")


def test_the_freed_place_is_kept_for_a_preemptor_whose_binding_is_refused():
    """Lifecycle hears that the node is cordoned before it takes the decision."""
    deployment = crowded()
    place = deployment.places(victim_of(deployment))[f"{victim_of(deployment)}-w-0-1"]
    fail_bindings(deployment, 2)
    decided = len(deployment.events(DecidedBound, job="urgent"))
    deployment.deaf = True
    while len(deployment.events(DecidedBound, job="urgent")) == decided and deployment.events(ReservationEnded) == []:
        deployment.wait(1)
    deployment.node(str(place), cpu=4, unschedulable=True)
    deployment.deaf = False
    deployment.settle()
    deployment.node(str(place), cpu=4)
    deployment.settle()
    assert [event.data.kind for event in deployment.events(DecisionRefused, job="urgent")] == ["bound"]
    deployment.wait(8)
    assert [event.data.outcome for event in deployment.events(ReservationEnded)] == ["bound"]
    assert rival_and_urgent(deployment) == (False, "Running")


def test_a_reservation_ends_when_nodes_have_taken_the_pods_and_not_before():
    class Slow(Deployment):
        """Nobody carries a binding of the preemptor out."""

        def do(self, event: Any) -> None:
            if event.data.effect != "bind_pod" or event.subject != "urgent":
                super().do(event)

    deployment = crowded(of=Slow)
    deployment.wait(12)
    (binding,) = [event for event in deployment.events(EffectRequested, job="urgent") if event.data.effect == "bind_pod"]
    assert told(deployment) == ["NoticeOpened", "NoticeExecuted"]
    deployment.give("jobs", EffectReported(binding.id, "failed"), "urgent")
    deployment.settle()
    deployment.see("urgent-w-0-1", phase="Bound", node=binding.data.node, bound=deployment.now)
    deployment.settle()
    deployment.wait(2)
    assert [event.data.outcome for event in deployment.events(ReservationEnded)] == ["bound"]


def test_a_gang_that_cannot_be_bound_in_time_is_recorded():
    deployment = made(nodes=1, reservationSeconds=10)
    submit(deployment, "low")
    urgent(deployment)
    deployment.wait(DELAY - 4)
    deployment.deaf = True
    deployment.wait(4)
    assert told(deployment) == ["NoticeOpened", "NoticeExecuted"]
    deployment.node("n0", cpu=4, unschedulable=True)
    deployment.settle()
    deployment.deaf = False
    deployment.settle()
    deployment.wait(15)
    assert [event.data.outcome for event in deployment.events(ReservationEnded)] == ["expired"]
    assert phase(deployment, "urgent") == "Pending"


def test_a_job_that_could_not_be_told_is_not_stopped():
    deployment = made(nodes=1)
    submit(deployment, "low")
    urgent(deployment, wait=1)
    deployment.deaf = True
    deployment.wait(DELAY + 2)
    assert told(deployment)[:2] == ["NoticeOpened", "NoticeWithdrawn"]
    assert records(deployment)[1].data.change == "DeadlinePassed"
    deployment.deaf = False
    deployment.settle()
    assert deployment.events(AttemptEnded) == []
    phases = [event.data.phase for event in deployment.events(JobPhaseChanged, job="low")]
    assert phases[:3] == ["Running", "WillEvicted", "Running"]


def test_a_decision_that_crosses_the_end_of_its_job_is_refused_and_narrows(full):
    victim = victim_of(full)
    full.wait(DELAY - 4)
    full.deaf = True
    full.end(f"{victim}-w-0-1")
    full.wait(6)
    full.deaf = False
    full.settle()
    full.wait(4)
    assert [event.data.reason for event in full.events(DecisionRefused, job=victim)] in (["NoNotice"], ["Ended"], [])
    assert phase(full, "urgent") == "Running"


def test_another_process_goes_on_with_a_notice_from_its_snapshot():
    deployment = made(nodes=2)
    deployment.every = 1
    deployment.restart()
    submit(deployment, "low1")
    submit(deployment, "low2")
    urgent(deployment)
    plain = made(nodes=2)
    for one in (plain,):
        submit(one, "low1")
        submit(one, "low2")
        urgent(one)
    deployment.restart()
    for one in (deployment, plain):
        one.wait(DELAY // 2)
    deployment.restart()
    for one in (deployment, plain):
        one.wait(DELAY)
    assert deployment.messages("preemptions", "decisions") == plain.messages("preemptions", "decisions")
    assert told(plain)[-1] == "ReservationEnded"


def test_a_pod_of_the_preemptor_that_waits_for_its_gates_ends_no_round():
    deployment = made(nodes=1)
    submit(deployment, "low")
    gated = task("g", 1, cpu=1, minAvailable=0, schedulingGates=[{"name": "x"}])
    manifest = vcjob("urgent", task("w", 1, cpu=4, minAvailable=1), gated, minAvailable=1, queue="q", priorityClassName="high")
    deployment.submit("urgent", {**manifest, "lahar": {"preempt": True}})
    deployment.settle()
    deployment.wait(DELAY + 14)
    assert told(deployment) == ["NoticeOpened", "NoticeExecuted", "ReservationEnded"]
    assert {event.data.error for event in deployment.events(RoundEnded)} == {""}


def test_a_victim_is_spared_if_the_preemptor_is_promised_freed_places():
    class Slow(Deployment):
        """The pods of `peer` take their time to go."""

        def do(self, event: Any) -> None:
            if event.data.effect != "delete_pod" or event.subject != "peer":
                super().do(event)

    deployment = made(nodes=2, of=Slow)
    submit(deployment, "peer", priorityClassName="high")
    submit(deployment, "low")
    urgent(deployment)
    assert told(deployment) == ["NoticeOpened"]
    deployment.command("peer", "AbortJob")
    deployment.settle()
    deployment.wait(DELAY + 3)
    assert told(deployment)[-1] == "NoticeWithdrawn"
    assert phase(deployment, "low") == "Running"


def two_reservations(*, restart: bool) -> object:
    deployment = made(nodes=2)
    deployment.every = 1
    deployment.restart()
    submit(deployment, "low1")
    submit(deployment, "low2")
    urgent(deployment, "zz", wait=1)
    urgent(deployment, "aa", wait=1)
    while told(deployment).count("NoticeExecuted") < 2:
        deployment.wait(1)
        deployment.deaf = told(deployment).count("NoticeExecuted") >= 1
    if restart:
        deployment.restart()
    deployment.lose_node("n1")
    deployment.deaf = False
    deployment.settle()
    deployment.wait(4)
    return deployment.messages("decisions", "preemptions")


def test_reserved_places_are_given_in_the_same_order_after_a_restart():
    assert two_reservations(restart=True) == two_reservations(restart=False)
