"""Queues take from each other in one strict order, whatever their pods ask for."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from typing import Any

import pytest
from deployment import SECOND, Deployment, vcjob
from hypothesis import given
from hypothesis import strategies as st
from planted import Plant

from engine.events.decisions import DecidedEvicted
from engine.events.inputs import NodeObserved
from engine.scheduling.configuration import read_configuration
from engine.scheduling.stage import SchedulingStage

RECLAIM = import_module("engine.scheduling.actions.reclaim")
NVIDIA, AMD = "nvidia.com/gpu", "amd.com/gpu"


def made(plugin: str, actions: str = "enqueue, allocate, backfill, reclaim", **queues: dict[str, Any]) -> Deployment:
    tiers = [["priority", "gang", "conformance"], ["predicates", plugin, "nodeorder"]]
    named = [{"plugins": [{"name": one} for one in tier]} for tier in tiers]
    configuration = read_configuration({"actions": actions, "tiers": named})
    deployment = Deployment(lambda: SchedulingStage(configuration), partitions=1)
    deployment.apply("PriorityClass", "high", value=100)
    for name, spec in queues.items():
        deployment.apply("Queue", name, reclaimable=True, **spec)
    return deployment


def node(deployment: Deployment, name: str, cpu: int, memory: int = 64, **resources: int) -> None:
    found = {{"nvidia": NVIDIA, "amd": AMD}[key]: amount * 1000 for key, amount in resources.items()}
    seen = NodeObserved(
        name, cpu_milli=cpu * 1000, memory_bytes=memory << 30, pods=50, resources=found, labels={"kubernetes.io/hostname": name}
    )
    deployment.give("cluster", seen, name)


def submit(deployment: Deployment, name: str, queue: str, replicas: int = 1, **spec: Any) -> None:
    """A job; `asks` is what its pods ask for, `on` their node."""
    asks = spec.pop("asks")
    where = {"nodeSelector": {"kubernetes.io/hostname": on}} if (on := spec.pop("on", "")) else {}
    resources = {"requests": asks, "limits": {key: amount for key, amount in asks.items() if "gpu" in key}}
    container = {"name": "c", "image": "busybox:1.36", "resources": resources}
    template = {"spec": {"containers": [container], "restartPolicy": "Never", **where}}
    deployment.submit(name, vcjob(name, {"name": "w", "replicas": replicas, "template": template}, queue=queue, **spec))
    deployment.settle()


def evictions(deployment: Deployment) -> list[tuple[str, str]]:
    """Victim and claimant of each eviction."""
    return [(event.subject, event.data.preemptor) for event in deployment.events(DecidedEvicted)]


def pass_time(deployment: Deployment, seconds: int) -> None:
    """Let time pass, from one round that is due to the next."""
    end = deployment.now + seconds * SECOND
    while deployment.now < end:
        due = deployment.scheduling.stage.due(deployment.scheduling.state)
        deployment.now = min(end, max(deployment.now + SECOND, end if due is None else due))
        deployment.settle()


# --- capacity: pods that ask for different resources ----------------------------------------------------------------------------


def lopsided() -> Deployment:
    """One queue holds too many GPUs, with one pod; the others of its pods ask for none, those of the other queue do."""
    deployment = made(
        "capacity",
        qa={"deserved": {"cpu": "4", "memory": "40Gi", NVIDIA: "1"}},
        qb={"deserved": {"cpu": "4", "memory": "4Gi", NVIDIA: "12"}},
    )
    node(deployment, "n1", cpu=10, nvidia=16)
    plain = {"cpu": "1", "memory": "1Gi"}
    jobs = [("gpus", "qa", plain | {NVIDIA: "4"}), *[(f"a{at}", "qa", plain) for at in range(4)]]
    jobs += [(f"b{at}", "qb", plain | {NVIDIA: "1"}) for at in range(6)]
    for name, queue, asks in jobs:
        submit(deployment, name, queue, asks=asks)
        deployment.wait(2)
    return deployment


def test_what_a_victim_does_not_hold_makes_it_no_victim() -> None:
    deployment = lopsided()
    pass_time(deployment, 2_000)
    assert evictions(deployment) == [("gpus", "b5")]


def test_of_several_victims_each_is_judged_as_if_those_before_it_were_gone() -> None:
    deployment = made("capacity", qa={"deserved": {"cpu": "6", "memory": "9Gi"}}, qb={"deserved": {"cpu": "7", "memory": "9Gi"}})
    node(deployment, "n1", cpu=12)
    for number in range(3):
        submit(deployment, f"b{number}", "qb", asks={"cpu": "4", "memory": "1Gi"})
        deployment.wait(2)
    # It would hold a third more than it deserves. The other queue, less one pod, holds a seventh more: too little to take two.
    submit(deployment, "a0", "qa", asks={"cpu": "8", "memory": "1Gi"})
    pass_time(deployment, 500)
    assert evictions(deployment) == []


def test_a_queue_within_its_share_takes_pods_over_another_resources_share() -> None:
    deployment = made("capacity", qa={"deserved": {"cpu": "4"}}, qb={"deserved": {"cpu": "8", NVIDIA: "1"}})
    node(deployment, "n1", cpu=8, nvidia=4)
    for number in range(2):
        submit(deployment, f"b{number}", "qb", asks={"cpu": "4", NVIDIA: "2"})
        deployment.wait(2)
    submit(deployment, "a0", "qa", asks={"cpu": "4"})
    pass_time(deployment, 500)
    assert evictions(deployment) == [("b1", "a0")]


# --- proportion -----------------------------------------------------------------------------------------------------------------


def crossed_gpus() -> Deployment:
    """Two queues of equal weight, each with all GPUs of one maker and asking for more of the other's; both want a node of CPUs."""
    deployment = made("proportion", qa={"weight": 1}, qb={"weight": 1})
    node(deployment, "n1", cpu=8)
    node(deployment, "n2", cpu=24, nvidia=8, amd=8)
    for name, queue, asks, on in [
        ("a-nvidia", "qa", {"cpu": "1", NVIDIA: "8"}, "n2"),
        ("b-amd", "qb", {"cpu": "1", AMD: "8"}, "n2"),
        ("a0", "qa", {"cpu": "8"}, "n1"),
        ("b-nvidia", "qb", {"cpu": "1", NVIDIA: "4"}, "nowhere"),
        ("a-amd", "qa", {"cpu": "1", AMD: "4"}, "nowhere"),
        ("b0", "qb", {"cpu": "8"}, "n1"),
    ]:
        submit(deployment, name, queue, asks=asks, on=on)
        deployment.wait(3)
    return deployment


def test_weighted_queues_do_not_take_what_the_other_holds_within_its_share() -> None:
    deployment = crossed_gpus()
    pass_time(deployment, 2_500)
    assert evictions(deployment) == []


def test_queues_by_weight_take_what_another_holds_too_much_of() -> None:
    deployment = made("proportion", qa={"weight": 1}, qb={"weight": 1})
    node(deployment, "n1", cpu=8)
    for number in range(3):
        submit(deployment, f"a{number}", "qa", replicas=4, asks={"cpu": "1"})
        deployment.wait(3)
    submit(deployment, "b", "qb", replicas=4, asks={"cpu": "1"})
    pass_time(deployment, 500)
    assert Counter(uid[0] for uid in deployment.running()) == {"a": 4, "b": 4}


# --- any cluster without new jobs -----------------------------------------------------------------------------------------------

AMOUNTS = st.fixed_dictionaries(
    {},
    optional={"cpu": st.sampled_from("12468"), "memory": st.sampled_from(["1Gi", "3Gi", "9Gi"]), NVIDIA: st.sampled_from("0124")},
)
QUEUES = st.lists(
    st.fixed_dictionaries({"deserved": AMOUNTS, "weight": st.sampled_from([1, 2, 4]), "priority": st.integers(0, 1)}),
    min_size=2,
    max_size=4,
)
NODES = st.lists(
    st.tuples(st.sampled_from([4, 6, 8, 10]), st.sampled_from([8, 16]), st.sampled_from([0, 2, 4, 8])),
    min_size=1,
    max_size=3,
)
ASKS = st.tuples(
    st.sampled_from("1123457"), st.sampled_from(["", "1Gi", "2Gi", "5Gi"]), st.sampled_from(["", "", "1", "2", "4"])
).map(lambda found: {name: amount for name, amount in zip(("cpu", "memory", NVIDIA), found, strict=True) if amount})
JOBS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 3), ASKS, st.booleans(), st.sampled_from([1, 3, 6])), min_size=4, max_size=12
)
SECONDS = 2_000


@given(st.sampled_from(["capacity", "proportion"]), QUEUES, NODES, JOBS)
def test_evictions_end_whatever_the_cluster_and_its_pods(
    plugin: str,
    queues: list[dict[str, Any]],
    nodes: list[tuple[int, int, int]],
    jobs: list[tuple[int, int, dict[str, str], bool, int]],
) -> None:
    deployment = made(plugin, **{f"q{number}": spec for number, spec in enumerate(queues)})
    for number, (cpu, memory, gpus) in enumerate(nodes):
        node(deployment, f"n{number}", cpu, memory, nvidia=gpus)
    for number, (queue, replicas, asks, gang, pause) in enumerate(jobs):
        name, least = f"q{queue % len(queues)}", replicas if gang else 1
        submit(deployment, f"j{number}", name, replicas, asks=asks, minAvailable=least)
        deployment.wait(pause)
    pass_time(deployment, SECONDS)
    last = max((event.recordedtime for event in deployment.events(DecidedEvicted)), default=0)
    assert last < deployment.now - SECONDS // 2 * SECOND


@pytest.mark.parametrize("story", [lopsided, crossed_gpus])
def test_a_planted_bug_in_the_order_lets_evictions_go_on(plant: Plant, story: Any) -> None:
    plant(RECLAIM, "_stands_higher", lambda *_: True)
    deployment = story()
    pass_time(deployment, 200)
    assert len(evictions(deployment)) > 6
