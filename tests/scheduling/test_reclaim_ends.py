"""Evictions come to an end: what they free is kept for its claimant, queues take from each other in one order, pauses grow."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from math import log2
from typing import Any

import pytest
from deployment import SECOND, Deployment, task, vcjob
from hypothesis import given
from hypothesis import strategies as st
from msgspec import msgpack
from planted import Plant

from engine.events.actions import EffectSettled
from engine.events.attempts import AttemptRunning
from engine.events.decisions import DecidedEvicted, DecisionRefused, Placement
from engine.events.preemptions import NoticeExecuted
from engine.scheduling import evolve
from engine.scheduling.cluster.job_records import Attempt, JobRecord
from engine.scheduling.configuration import Configuration, read_configuration
from engine.scheduling.plugins.cdp import Cdp
from engine.scheduling.preemption import backoff
from engine.scheduling.stage import SchedulingStage

RECLAIM = import_module("engine.scheduling.actions.reclaim")
ALLOCATE = import_module("engine.scheduling.actions.allocate")
TIERS = [["priority", "gang", "conformance"], ["predicates", "capacity", "nodeorder"]]


def configured(actions: str = "enqueue, allocate, backfill, reclaim", *more: str) -> Configuration:
    tiers = [[*tier, *more] for tier in TIERS]
    return read_configuration({"actions": actions, "tiers": [{"plugins": [{"name": one} for one in tier]} for tier in tiers]})


def made(every: int = 100_000, **deserved: dict[str, str]) -> Deployment:
    """One node, and queues with what they deserve."""
    deployment = Deployment(lambda: SchedulingStage(configured()), every)
    deployment.node("n1")
    for name, amounts in deserved.items():
        deployment.apply("Queue", name, deserved=amounts, reclaimable=True)
    return deployment


def submit(deployment: Deployment, name: str, queue: str, *tasks: dict[str, Any], **spec: Any) -> None:
    deployment.submit(name, vcjob(name, *tasks, queue=queue, **spec))
    deployment.settle()


def evictions(deployment: Deployment) -> list[tuple[str, str]]:
    """Victim and claimant of each eviction."""
    return [(event.subject, event.data.preemptor) for event in deployment.events(DecidedEvicted)]


def tie(every: int = 100_000) -> Deployment:
    """A job that holds all of the node, and one that deserves half of it; the first one's next pod needs all again."""
    deployment = made(q1={"cpu": "4"}, q2={"cpu": "4"}, every=every)
    submit(deployment, "big", "q1", task(cpu=8))
    deployment.wait(4)
    submit(deployment, "small", "q2", task(cpu=4))
    return deployment


# --- what an eviction frees is kept for its claimant ----------------------------------------------------------------------------


def test_who_reclaims_gets_the_place_and_the_victim_waits_until_it_is_over() -> None:
    deployment = tie()
    deployment.wait(300)
    assert (evictions(deployment), deployment.running()) == ([("big", "small")], ["small-w-0-1"])
    deployment.end("small-w-0-1")
    deployment.wait(3)
    assert deployment.running() == ["big-w-0-2"]


def test_an_evicting_decision_names_claimants_and_how_long_places_are_kept() -> None:
    deployment = tie()
    deployment.wait(3)
    (evicted,) = deployment.events(DecidedEvicted)
    assert evicted.data.claims == [Placement("w", 0, 1, "n1")]
    assert evicted.data.kept_until == evicted.recordedtime + 60 * SECOND


def test_a_whole_gang_is_kept_its_places_those_that_were_free_too() -> None:
    deployment = made(q1={"cpu": "4"}, q2={"cpu": "4"})
    for number in range(3):
        submit(deployment, f"low{number}", "q1", task(cpu=2))
    deployment.wait(4)
    submit(deployment, "gang", "q2", task(replicas=2, cpu=2))
    deployment.wait(60)
    assert [(claimant, victim) for victim, claimant in evictions(deployment)] == [("gang", "low2")]
    assert len(deployment.events(DecidedEvicted)[0].data.claims) == 2
    assert {uid for uid in deployment.running() if uid.startswith("gang")} == {"gang-w-0-1", "gang-w-1-1"}


def test_a_claim_survives_restarts() -> None:
    through, restarted = tie(), tie(every=1)
    for _ in range(6):
        through.wait()
        restarted.wait()
        restarted.restart()
    topics = ("scheduling", "decisions")
    assert restarted.messages(*topics) == through.messages(*topics)
    assert evictions(restarted) == [("big", "small")]


class Lingering(Deployment):
    """Pods take their time to leave."""

    def do(self, event: Any) -> None:
        if event.data.effect != "delete_pod":
            super().do(event)


def lingering() -> Deployment:
    deployment = Lingering(lambda: SchedulingStage(configured()))
    deployment.node("n1", cpu=8)
    for queue in ("q1", "q2"):
        deployment.apply("Queue", queue, deserved={"cpu": "4"}, reservationSeconds=30)
    submit(deployment, "big", "q1", task(cpu=8))
    deployment.wait(4)
    submit(deployment, "small", "q2", task(cpu=4))
    deployment.wait(4)
    return deployment


def claims(deployment: Deployment) -> dict[str, str]:
    return {key: place.node for key, place in deployment.scheduling.state.clusters["c1"].model.jobs["small"].claims.items()}


def test_a_place_is_kept_for_the_time_that_the_queue_reserves_places() -> None:
    deployment = lingering()
    assert claims(deployment) == {"small/w/0/1": "n1"}
    submit(deployment, "other", "q1", task(cpu=8))
    deployment.wait(30)
    assert (claims(deployment), deployment.scheduling.state.jobs["small"].head.claims) == ({}, [])


def test_nobody_else_is_placed_where_a_place_is_kept() -> None:
    deployment = lingering()
    submit(deployment, "other", "q1", task(cpu=8))  # its queue holds nothing, and comes first
    deployment.wait(4)
    deployment.gone("big-w-0-1")
    deployment.wait(4)
    assert deployment.running() == ["small-w-0-1"]


def test_a_place_is_kept_until_a_node_has_the_pod() -> None:
    deployment = tie()
    deployment.wait(2)
    deployment.failing = True
    deployment.wait()
    assert claims(deployment) == {"small/w/0/1": "n1"}
    deployment.wait(60)
    assert [event.data.outcome for event in deployment.events(EffectSettled, job="small")].count("failed") == 1
    assert (evictions(deployment), deployment.running(), claims(deployment)) == ([("big", "small")], ["small-w-0-1"], {})


def test_a_place_is_kept_where_the_pod_was_to_run_last() -> None:
    deployment = lingering()
    deployment.node("n2", cpu=4)
    deployment.failing = True
    deployment.wait()
    assert claims(deployment) == {"small/w/0/1": "n2"}
    submit(deployment, "other", "q1", task(cpu=4))
    deployment.wait(3)
    assert (deployment.running(), claims(deployment)) == (["big-w-0-1", "small-w-0-1"], {})


def test_a_place_is_kept_no_longer_than_its_pod_is_there() -> None:
    deployment = lingering()
    deployment.command("small", "AbortJob")
    deployment.settle()
    deployment.wait(2)
    assert claims(deployment) == {}


def test_a_refused_eviction_keeps_no_place() -> None:
    deployment = tie()
    deployment.wait()
    deployment.deaf = True
    deployment.gone("big-w-0-1")  # scheduling learns of it when it has decided
    deployment.wait(2)
    assert claims(deployment) == {"small/w/0/1": "n1"}
    deployment.deaf = False
    deployment.settle()
    assert (len(deployment.events(DecisionRefused)), claims(deployment)) == (1, {})


@pytest.mark.parametrize("over", [False, True], ids=["deleted", "the job is over"])
@pytest.mark.parametrize("gone", [["v1"], ["v2"], ["v1", "v2"]])
def test_places_are_kept_as_long_as_one_of_their_evictions_stands(gone: list[str], over: bool) -> None:
    deployment = Lingering(lambda: SchedulingStage(configured()))
    deployment.node("n1", cpu=8)
    deployment.apply("Queue", "q1", deserved={"cpu": "1"})
    deployment.apply("Queue", "q2", deserved={"cpu": "8"})
    for name in ("v1", "v2"):
        submit(deployment, name, "q1", task(cpu=4))
        deployment.wait(2)
    submit(deployment, "small", "q2", task(cpu=8))
    deployment.wait()
    deployment.deaf = True
    for name in gone:
        (deployment.end if over else deployment.gone)(f"{name}-w-0-1")  # scheduling learns of it when it has decided
    deployment.wait(2)
    deployment.deaf = False
    deployment.settle()
    assert len(deployment.events(DecisionRefused)) == len(gone)
    assert claims(deployment) == ({} if len(gone) == 2 else {"small/w/0/1": "n1"})


def test_a_claimant_whose_queue_has_got_what_it_deserves_takes_its_turn() -> None:
    deployment = lingering()
    deployment.apply("Queue", "q2", deserved={"cpu": "2"})
    deployment.gone("big-w-0-1")
    deployment.wait(4)
    assert deployment.running() == ["big-w-0-2"]


@pytest.mark.parametrize("deserved", [{}, {"cpu": "1"}], ids=["nothing", "less than it holds"])
def test_a_place_that_a_queue_held_is_kept_whatever_it_deserves(deserved: dict[str, str]) -> None:
    deployment = Deployment(lambda: SchedulingStage(configured("enqueue, allocate, backfill, preempt")))
    deployment.node("n1", cpu=4)
    deployment.apply("PriorityClass", "high", value=100)
    deployment.apply("Queue", "q1", deserved=deserved)
    deployment.apply("Queue", "q2", priority=1)
    submit(deployment, "low", "q1", task(replicas=2, cpu=2), minAvailable=1)
    deployment.wait(3)
    submit(deployment, "other", "q2", task(cpu=2))
    deployment.wait(2)
    submit(deployment, "small", "q1", task(cpu=2), priorityClassName="high")
    deployment.wait(30)
    assert (evictions(deployment), deployment.running()) == ([("low", "small")], ["low-w-0-1", "small-w-0-1"])


def test_a_job_with_a_reserved_place_does_not_take_the_place_of_a_claimant() -> None:
    deployment = Lingering(lambda: SchedulingStage(configured("enqueue, allocate, backfill, preempt, reclaim")))
    for zone in ("1", "2"):
        deployment.node(f"n{zone}", cpu=4, labels={"zone": zone})
    deployment.apply("Tenant", "default", priority=10, mayPreempt=True)
    deployment.apply("PriorityClass", "urgent", value=1000)
    deployment.apply("Queue", "q1", deserved={"cpu": "1"})
    deployment.apply("Queue", "q2", deserved={"cpu": "4"}, preemption="notice", preemptionDelaySeconds=10, reservationSeconds=300)
    deployment.apply("Queue", "q3", deserved={"cpu": "4"}, reservationSeconds=300)
    submit(deployment, "noticed", "q2", task(cpu=4, nodeSelector={"zone": "2"}))
    submit(deployment, "low", "q1", task(cpu=4, nodeSelector={"zone": "1"}))
    deployment.wait(6)
    manifest = vcjob("urgent", task(cpu=4), queue="q2", priorityClassName="urgent")
    deployment.submit("urgent", manifest | {"lahar": {"preempt": True}})
    deployment.wait(15)
    assert len(deployment.events(NoticeExecuted)) == 1
    submit(deployment, "small", "q3", task(cpu=4, nodeSelector={"zone": "1"}))
    deployment.wait(2)
    assert claims(deployment) == {"small/w/0/1": "n1"}
    deployment.gone("low-w-0-1")  # the place of the other notice's victim is not free yet
    deployment.wait(3)
    deployment.gone("noticed-w-0-1")
    deployment.wait(3)
    assert (deployment.places("small"), deployment.places("urgent")) == ({"small-w-0-1": "n1"}, {"urgent-w-0-1": "n2"})
    assert evictions(deployment) == [("low", "small")]


# --- one strict order between queues --------------------------------------------------------------------------------------------


def crossed() -> Deployment:
    """Two queues that both hold too much: one of cpu, the other of memory. Each deserves more of what the other has."""
    deployment = made(q1={"cpu": "2", "memory": "6Gi"}, q2={"cpu": "6", "memory": "2Gi"})
    for number in range(10):
        submit(deployment, f"j{number}", "q1" if number % 2 else "q2", task())
        deployment.wait()
    return deployment


def test_queues_over_their_share_of_different_resources_keep_them() -> None:
    deployment = crossed()
    deployment.wait(120)
    assert evictions(deployment) == []


# --- pauses ---------------------------------------------------------------------------------------------------------------------


def test_a_pause_doubles_and_is_forgotten_only_after_twice_its_length() -> None:
    deployment = tie()
    state, now = deployment.scheduling.state, deployment.now
    head = state.jobs["small"].head
    for times in range(1, 13):
        backoff.back_off(state, "small", now)
        assert head.preemption_backoff - now == SECOND << (times - 1)
        now = head.preemption_backoff
    last = head.preemption_backoff - head.evicted
    backoff.back_off(state, "small", head.evicted + 2 * last)
    assert head.preemption_backoff - head.evicted == 2 * last
    backoff.back_off(state, "small", head.evicted + 4 * last + 1)
    assert head.preemption_backoff - head.evicted == SECOND


def test_evictions_decided_by_an_earlier_release_do_not_lengthen_a_pause() -> None:
    deployment = tie()
    state, head = deployment.scheduling.state, deployment.scheduling.state.jobs["small"].head
    for at in range(1264):
        backoff.back_off(state, "small", deployment.now + at * 64 * SECOND)
    assert head.preemption_backoff - head.evicted <= 128 * SECOND


def test_records_of_an_earlier_release_are_read() -> None:
    def without(record: Any, fields: int) -> bytes:
        return msgpack.encode(msgpack.decode(msgpack.encode(record))[:-fields])

    head = JobRecord("c1", "default", 7, evictions=5)
    assert msgpack.decode(without(head, 2), type=JobRecord) == head
    attempt = Attempt("w", 0, 1, 0, 7, "Running", "n1")
    assert msgpack.decode(without(attempt, 2), type=Attempt) == attempt


# --- how long a pod runs at least -----------------------------------------------------------------------------------------------


def protected(action: str, cooldown: str = "", *more: str, **spec: Any) -> list[int]:
    """Seconds from the start of the only pod that can be evicted to its eviction."""
    deployment = Deployment(lambda: SchedulingStage(configured(f"enqueue, allocate, {action}", *more)))
    deployment.node("n1", cpu=4)
    deployment.apply("PriorityClass", "high", value=100)
    deployment.apply("Queue", "q1", deserved={"cpu": "1"}, **spec.pop("queue", {}))
    deployment.apply("Queue", "q2", deserved={"cpu": "4"})
    annotations = {"volcano.sh/cooldown-time": cooldown} if cooldown else {}
    if (least := spec.pop("least", None)) is not None:
        annotations["lahar/spec"] = f"{{minRunSeconds: {least}}}"
    manifest = vcjob("low", task(replicas=4), queue="q1", minAvailable=1, **spec)
    manifest["metadata"]["annotations"] = annotations
    deployment.submit("low", manifest)
    deployment.settle()
    deployment.wait(4)
    submit(deployment, "high", "q1" if action == "preempt" else "q2", task(), priorityClassName="high")
    deployment.wait(60)
    (started, *_) = [event.time for event in deployment.events(AttemptRunning, job="low")]
    return [(event.recordedtime - started) // SECOND for event in deployment.events(DecidedEvicted)]


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_a_pod_is_evicted_only_after_its_least_run_time(action: str) -> None:
    (at_once,) = protected(action)
    assert at_once < 10
    assert protected(action, queue={"minRunSeconds": 30}) == [30]
    assert protected(action, queue={"minRunSeconds": 30}, least=20) == [20]
    assert protected(action, queue={"minRunSeconds": 3600}) == []


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_plugin_cdp_protects_a_pod_for_its_cooldown_time(action: str) -> None:
    assert protected(action, "25s", "cdp") == [25]
    assert protected(action, "soon", "cdp") == protected(action, "25s")


# --- in any story without new jobs ----------------------------------------------------------------------------------------------

AMOUNTS = st.fixed_dictionaries({"cpu": st.sampled_from("246"), "memory": st.sampled_from(["1Gi", "3Gi", "6Gi"])})
JOBS = st.lists(
    st.tuples(st.sampled_from(["q1", "q2", "q3"]), st.integers(1, 4), st.integers(1, 4), st.booleans()), min_size=2, max_size=6
)
SECONDS = 200


def story(queues: list[dict[str, str]], jobs: list[tuple[str, int, int, bool]]) -> Deployment:
    deployment = made(**{f"q{at}": amounts for at, amounts in enumerate(queues, 1)})
    for number, (queue, replicas, cpu, gang) in enumerate(jobs):
        submit(deployment, f"j{number}", queue, task("w", replicas, cpu=cpu), minAvailable=replicas if gang else 1)
        deployment.wait(3)
    deployment.wait(SECONDS)
    return deployment


def too_many(deployment: Deployment) -> list[str]:
    """Claimants for which evictions grow faster than with the logarithm of time."""
    rounds = Counter(preemptor for preemptor, _ in {(e.data.preemptor, e.recordedtime) for e in deployment.events(DecidedEvicted)})
    return [job for job, count in rounds.items() if count > log2(SECONDS) + 2]


@given(st.lists(AMOUNTS, min_size=3, max_size=3), JOBS)
def test_evictions_end_where_no_job_is_new(queues: list[dict[str, str]], jobs: list[tuple[str, int, int, bool]]) -> None:
    deployment = story(queues, jobs)
    assert too_many(deployment) == []
    last = max((event.recordedtime for event in deployment.events(DecidedEvicted)), default=0)
    assert last < deployment.now - SECONDS // 2 * SECOND


@pytest.mark.parametrize(
    ("owner", "name", "bug", "story"),
    [
        (evolve, "keep_places", lambda *_: None, tie),
        (ALLOCATE, "_keep_all_claims", lambda *_: {}, tie),
        (RECLAIM, "_stands_higher", lambda *_: True, crossed),
    ],
    ids=["no place is kept", "kept places are not served", "no order between queues"],
)
def test_a_planted_bug_lets_evictions_go_on(plant: Plant, owner: Any, name: str, bug: Any, story: Any) -> None:
    plant(owner, name, bug)
    deployment = story()
    deployment.wait(120)
    assert len(evictions(deployment)) > 4


def test_a_planted_cap_of_pauses_is_seen(plant: Plant) -> None:
    plant(backoff, "_LONGEST_PAUSE", 2)
    plant(ALLOCATE, "_keep_all_claims", lambda *_: {})
    deployment = tie()
    deployment.wait(SECONDS)
    assert too_many(deployment) == ["small"]


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_a_planted_bug_in_least_run_times_is_seen(plant: Plant, action: str) -> None:
    plant("engine.scheduling.preemption.victims", "has_run", lambda *_: True)
    assert protected(action, queue={"minRunSeconds": 30}) != [30]
    plant(Cdp, "preemptable", lambda _self, _task, candidates: candidates)
    plant(Cdp, "reclaimable", lambda _self, _task, candidates: candidates)
    assert protected(action, "25s", "cdp") != [25]
