"""Queues take from each other in one strict order, whatever their pods ask for."""

from __future__ import annotations

from typing import Any

from deployment import SECOND, Deployment, vcjob

from engine.events.decisions import DecidedEvicted
from engine.events.inputs import NodeObserved
from engine.scheduling.configuration import read_configuration
from engine.scheduling.stage import SchedulingStage

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


def test_a_queue_within_what_it_deserves_takes_pods_that_hold_too_much_of_something_else() -> None:
    deployment = made("capacity", qa={"deserved": {"cpu": "4"}}, qb={"deserved": {"cpu": "8", NVIDIA: "1"}})
    node(deployment, "n1", cpu=8, nvidia=4)
    for number in range(2):
        submit(deployment, f"b{number}", "qb", asks={"cpu": "4", NVIDIA: "2"})
        deployment.wait(2)
    submit(deployment, "a0", "qa", asks={"cpu": "4"})
    pass_time(deployment, 500)
    assert evictions(deployment) == [("b1", "a0")]
