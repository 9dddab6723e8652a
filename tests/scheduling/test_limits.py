"""A request that is more than there will ever be is never said to wait for something that ends."""

from __future__ import annotations

import pytest
from deployment import Deployment, task, vcjob
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.events.scheduling import JobExplained
from engine.history.waiting import Waiting
from engine.scheduling.configuration import read_configuration
from engine.scheduling.stage import SchedulingStage

GI = 1 << 30
TREE = {"name": "capacity", "enabledHierarchy": True}


def deployment(*plugins: object, nodes: tuple[int, ...] = (8,)) -> Deployment:
    """A cluster of nodes with so many CPUs, scheduled by plugins."""
    named = [one if isinstance(one, dict) else {"name": one} for one in ("gang", "predicates", *plugins)]
    configuration = read_configuration({"actions": "enqueue, allocate, backfill", "tiers": [{"plugins": named}]})
    found = Deployment(stage=lambda: SchedulingStage(configuration))
    for at, cpu in enumerate(nodes):
        found.node(f"n{at}", cpu=cpu)
    return found


def advised(found: Deployment, *tasks: object, **spec: object) -> tuple[str, str, str]:
    """Submit a job; return the reason why it waits, what is said of it and the advice."""
    found.submit("job", vcjob("train", *tasks, **spec))
    found.settle()
    found.wait(5)
    event = found.events(JobExplained, job="job")[-1]
    waiting = Waiting(event, {})
    return event.data.reason, waiting.sentences()[0], waiting.advice()


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_a_pod_larger_than_its_empty_queue_is_told_by_how_much_to_raise_it(plugin: str) -> None:
    found = deployment(plugin)
    found.apply("Queue", "tiny", weight=1, capability={"cpu": "1", "memory": "4Gi"})
    reason, said, advice = advised(found, task("w", 1, cpu=3), queue="tiny")
    assert reason == "QueueTooSmall"
    assert "it asks for 3 cpu, and queue tiny may hold 1 cpu in all; 2 cpu is missing" in said
    assert "waiting does not help: raise the capability of queue tiny by 2 cpu" in advice


def test_a_device_that_a_queue_may_not_hold_at_all_is_named() -> None:
    found = deployment("proportion", nodes=())
    found.node("gpu", cpu=8, gpu=4)
    found.apply("Queue", "tiny", weight=1, capability={"nvidia.com/gpu": "0"})
    asks = task("w", 1)
    asks["template"]["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"}
    reason, said, _ = advised(found, asks, queue="tiny")
    assert (reason, "queue tiny may hold 0 nvidia.com/gpu in all" in said) == ("QueueTooSmall", True)


def test_a_gang_larger_than_the_queue_above_its_own_never_fits() -> None:
    found = deployment(TREE)
    found.apply("Queue", "dept", capability={"cpu": "4"})
    found.apply("Queue", "team", parent="dept")
    reason, said, _ = advised(found, task("w", 5), queue="team", minAvailable=5)
    assert (reason, "may hold 4 cpu in all; 1 cpu is missing" in said) == ("QueueTooSmall", True)


def test_what_is_guaranteed_to_others_is_never_there() -> None:
    found = deployment("capacity")
    found.apply("Queue", "kept", guarantee={"resource": {"cpu": "6"}}, deserved={"cpu": "6"})
    reason, said, _ = advised(found, task("w", 1, cpu=4))
    assert (reason, "queue default may hold 2 cpu in all" in said) == ("QueueTooSmall", True)


def test_a_job_larger_than_the_quota_of_its_namespace_never_fits() -> None:
    found = deployment("resourcequota")
    found.apply("ResourceQuota", "lab/quota", namespace="lab", hard={"requests.cpu": "2"}, used={"requests.cpu": "1"})
    reason, said, advice = advised(found, task("w", 1, cpu=3), namespace="lab")
    assert reason == "QuotaTooSmall"
    assert "it asks for 3 requests.cpu, and the quota of namespace lab allows 2 requests.cpu in all" in said
    assert "waiting does not help: raise the quota by 1 requests.cpu" in advice


def test_a_pod_larger_than_every_node_is_not_advised_to_free_something() -> None:
    found = deployment(nodes=(4, 6))
    reason, said, advice = advised(found, task("w", 1, cpu=7))
    assert reason == "NodeTooSmall"
    assert "no node is large enough for a pod of task w; 1 cpu is missing on the nearest" in said
    assert "waiting does not help" in advice


def test_a_pod_that_one_busy_node_could_take_waits_for_that_one() -> None:
    found = deployment(nodes=(4, 4, 8))
    found.submit("first", vcjob("first", task("w", 1, cpu=6)))
    found.settle()
    found.wait(5)
    reason, _, advice = advised(found, task("w", 1, cpu=6))
    assert reason == "InsufficientResource"
    assert "waiting does not help" not in advice


def test_a_gang_above_the_whole_cluster_never_fits_though_some_pods_do() -> None:
    found = deployment(nodes=(4, 4))
    reason, said, advice = advised(found, task("w", 9), minAvailable=9)
    assert reason == "ClusterTooSmall"
    assert "1 cpu is missing" in said
    assert "waiting does not help: add nodes with 1 cpu" in advice


def test_a_full_queue_is_told_what_its_jobs_have_to_free() -> None:
    found = deployment("proportion")
    found.apply("Queue", "tiny", weight=1, capability={"cpu": "3"})
    found.submit("first", vcjob("first", task("w", 1, cpu=2), queue="tiny"))
    found.settle()
    found.wait(5)
    reason, _, advice = advised(found, task("w", 1, cpu=2), queue="tiny")
    assert reason == "QueueLimit"
    assert "wait until jobs of queue tiny free 1 cpu" in advice


@settings(max_examples=25, deadline=None)
@given(
    cpu=st.integers(1, 12),
    pods=st.integers(1, 4),
    capability=st.integers(1, 12),
    nodes=st.lists(st.integers(1, 9), min_size=1, max_size=3),
)
def test_never_is_reported_exactly_where_an_empty_cluster_has_no_place(
    cpu: int, pods: int, capability: int, nodes: list[int]
) -> None:
    """Once the jobs that hold everything are aborted, a job that was told to wait starts, one that was told not to does not."""
    found = deployment("proportion", nodes=tuple(nodes))
    found.apply("Queue", "tiny", weight=1, capability={"cpu": str(capability)})
    for at, size in enumerate(nodes):
        found.submit(f"holder{at}", vcjob(f"holder{at}", task("w", 1, cpu=size), queue="tiny"))
    found.settle()
    found.wait(5)
    found.submit("job", vcjob("train", task("w", pods, cpu=cpu), queue="tiny", minAvailable=pods))
    found.settle()
    found.wait(5)
    explained = [event for event in found.events(JobExplained, job="job") if event.data.reason]
    never = bool(explained) and "waiting does not help" in Waiting(explained[-1], {}).advice()
    for at in range(len(nodes)):
        found.command(f"holder{at}", "AbortJob")
    found.settle()
    found.wait(70)
    fits = any(uid.startswith("job-") for uid in found.running())
    assert not (never and fits)
    if cpu * pods > min(capability, sum(nodes)) or cpu > max(nodes):
        assert never or not explained
        assert not fits
