"""The PodGroup made from a job."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachines.podgroup import (
    GroupTask,
    PodGroupSpec,
    SubGroup,
    first_pods,
    min_resources,
    min_task_member,
    pod_usage,
    podgroup_spec,
    task_minima_first,
)
from statemachines.spec import JobSpec, Partition, TaskSpec

CPU = Fraction(1, 20)


@pytest.mark.parametrize(
    ("task", "members"),
    [
        (TaskSpec("t", 8, 3, partition=Partition(4, 2, 2)), 3),
        (TaskSpec("t", 8, partition=Partition(4, 2, 2)), 4),
        (TaskSpec("t", 8, partition=Partition(4, 2)), 8),
        (TaskSpec("t", 8, partition=Partition(4, 0, 2)), 8),
        (TaskSpec("t", 8), 8),
        (TaskSpec("t", 8, 0), 0),
    ],
)
def test_min_task_member(task, members):
    """Volcano: minAvailable, else minPartitions times partitionSize, else replicas."""
    assert min_task_member(task) == members


def test_a_new_group_copies_the_job():
    job = JobSpec(
        tasks=(TaskSpec("a", 2), TaskSpec("b", 4, partition=Partition(2, 2, 1))), min_available=3, queue="q", priority_class="high"
    )
    assert podgroup_spec(job) == PodGroupSpec(3, {"a": 2, "b": 2}, "q", "high", [SubGroup("b", 2, 1)])


def test_an_update_keeps_members_of_unknown_tasks_and_the_queue():
    before = PodGroupSpec(1, {"gone": 1, "a": 9}, "old", "low")
    assert podgroup_spec(JobSpec(tasks=(TaskSpec("a", 2),), min_available=2, queue="new"), before) == PodGroupSpec(
        2, {"gone": 1, "a": 2}, "old", ""
    )


def test_a_group_without_a_queue_takes_the_jobs():
    assert podgroup_spec(JobSpec(queue="new"), PodGroupSpec()).queue == "new"


def test_a_pod_counts_plain_as_requests_and_as_a_pod():
    assert pod_usage({"cpu": CPU, "nvidia.com/gpu": Fraction(1)}) == {
        "cpu": CPU,
        "requests.cpu": CPU,
        "nvidia.com/gpu": 1,
        "requests.nvidia.com/gpu": 1,
        "pods": 1,
        "count/pods": 1,
    }


def task(replicas, cpu, minimum=None, priority=0):
    return GroupTask(replicas, {"cpu": Fraction(cpu)}, priority, minimum)


@pytest.mark.parametrize(
    ("tasks", "minimum", "cpu", "pods"),
    [
        ([task(2, 1), task(2, 10)], 3, 12, 3),
        ([task(2, 1), task(2, 10, priority=5)], 3, 21, 3),
        ([task(2, 1, 1), task(2, 10, 1)], 3, 12, 3),
        ([task(2, 1, 1), task(2, 10, 1, priority=5)], 3, 21, 3),
        ([task(2, 1, 0), task(2, 10, 1)], 2, 11, 2),
        ([task(2, 1, 2), task(2, 10, 2)], 9, 22, 4),
        ([task(3, 1, 1, priority=5), task(1, 10, 1)], 2, 11, 2),
    ],
    ids=[
        *("first pods", "first pods by priority", "minima then fill", "fill by priority", "no minimum", "more than there are"),
        "the minima alone",
    ],
)
def test_minimum_resources(tasks, minimum, cpu, pods):
    found = min_resources(tasks, minimum)
    assert (found["cpu"], found["requests.cpu"], found["pods"], found["count/pods"]) == (cpu, cpu, pods, pods)


def test_tasks_of_one_priority_stay_in_order():
    tasks = [task(1, 1, priority=1), task(1, 10, priority=1), task(1, 100, priority=2)]
    assert first_pods(tasks, 2)["cpu"] == 101


def test_a_task_without_a_priority_comes_after_one_with_any():
    assert first_pods([GroupTask(1, {"cpu": Fraction(1)}), task(1, 10, priority=1)], 1)["cpu"] == 10


def test_a_task_without_a_minimum_gives_its_pods_in_the_second_round():
    assert task_minima_first([task(2, 1, priority=9), task(1, 10, 1)], 2)["cpu"] == 11


def test_no_pods_need_nothing():
    assert min_resources([task(2, 1)], 0) == {}
    assert min_resources([], 3) == {}


tasks_ = st.lists(
    st.builds(task, st.integers(0, 5), st.integers(1, 9), st.none() | st.integers(0, 5), st.integers(0, 2)).map(
        lambda one: GroupTask(
            one.replicas, one.requests, one.priority, None if one.min_available is None else min(one.min_available, one.replicas)
        )
    ),
    max_size=4,
)


@given(tasks_, st.integers(0, 20))
def test_minimum_resources_are_those_of_the_minimum_of_pods(tasks, minimum):
    """As many pods as the job's minimum, or all that there are."""
    assert min_resources(tasks, minimum).get("pods", 0) == min(minimum, sum(one.replicas for one in tasks))
