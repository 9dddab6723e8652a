"""Which pods kills and syncs reach, and what Volcano's status shows afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachines.counters import Counters, Pod, count, count_tasks
from statemachines.kill import RETAIN_NONE, RETAIN_SOFT, Target, kill_job, kill_target, last_retry, retained, volcano_status
from statemachines.podgroup import deletes_podgroup
from statemachines.spec import DependsOn, TaskSpec
from statemachines.sync import (
    creates_pods,
    dependencies_met,
    missing_indexes,
    pod_name,
    pod_ready,
    surplus_indexes,
    sync_job,
    task_ready,
)

PHASES = ["Pending", "Running", "Succeeded", "Failed", "Unknown"]
pods = st.lists(
    st.builds(
        Pod,
        task=st.sampled_from("ab"),
        name=st.text("xyz", min_size=1, max_size=3),
        phase=st.sampled_from(PHASES),
        deleting=st.booleans(),
        partition=st.sampled_from([None, "0", "1"]),
    ),
    max_size=8,
    unique_by=lambda pod: pod.name,
)


def names(found):
    return sorted(pod.name for pod in found)


EVERY_PHASE = [Pod("t", phase.lower(), phase) for phase in PHASES]


def test_a_soft_kill_retains_finished_pods_and_a_hard_one_none():
    assert names(kill_job(EVERY_PHASE, RETAIN_SOFT).delete) == ["pending", "running", "unknown"]
    assert names(kill_job(EVERY_PHASE, RETAIN_NONE).delete) == sorted(pod.name for pod in EVERY_PHASE)


@pytest.mark.parametrize(
    ("retry_count", "max_retry", "last"), [(0, 3, False), (1, 3, False), (2, 3, True), (3, 3, True), (0, 0, True), (0, 1, True)]
)
def test_last_retry(retry_count, max_retry, last):
    """Volcano: retryCount >= maxRetry - 1; 0 is taken as it stands."""
    assert last_retry(retry_count, max_retry) == last
    assert retained("kill_none", retry_count, max_retry) == (RETAIN_SOFT if last else RETAIN_NONE)


def test_a_soft_kill_is_soft_at_any_retry():
    assert retained("kill_soft", 0, 9) == RETAIN_SOFT


@pytest.mark.parametrize(("cause", "last"), [("user", True), ("transient", False), ("none", False), ("permanent", True)])
def test_a_cause_that_burns_no_retry_leaves_one_more(cause, last):
    """Else the pods retained at the last retry would never be made anew, since the job goes on."""
    assert last_retry(2, 3, cause) == last


def test_a_requeue_retains_nothing_even_at_the_last_retry():
    assert retained("kill_none", 2, 3, action="RequeueJob") == RETAIN_NONE


@given(pods, st.sampled_from([RETAIN_SOFT, RETAIN_NONE]))
def test_a_kill_deletes_each_pod_at_most_once(found, retain):
    plan = kill_job(found, retain)
    assert all(not pod.deleting and pod.phase not in retain for pod in plan.delete)
    assert plan.deleting == sum(pod.deleting for pod in found)
    retained_pods = [pod for pod in found if not pod.deleting and pod.phase in retain]
    assert len(plan.delete) + plan.deleting + len(retained_pods) == len(found)


@given(pods)
def test_volcanos_status_after_a_kill_counts_only_terminating_pods(found):
    plan = kill_job(found, RETAIN_SOFT)
    assert volcano_status(plan) == Counters(terminating=len(plan.delete) + plan.deleting)


TARGETS = [
    Pod("a", "a0", "Running", partition="0"),
    Pod("a", "a1", "Succeeded", partition="0"),
    Pod("a", "a2", "Running", partition="1", deleting=True),
    Pod("b", "b0", "Running", partition="0"),
]


@pytest.mark.parametrize(
    ("target", "deleted", "deleting"),
    [
        (Target("task", "a"), ["a0", "a1"], 1),
        (Target("task", "c"), [], 0),
        (Target("pod", "a", pod="a0"), ["a0"], 0),
        (Target("pod", "a", pod="a2"), [], 1),
        (Target("pod", "b", pod="a0"), [], 0),
        (Target("partition", "a", partition="0"), ["a0", "a1"], 0),
        (Target("partition", "a", partition="1"), [], 1),
        (None, [], 0),
    ],
)
def test_a_targeted_kill_reaches_its_target_only_and_retains_no_phase(target, deleted, deleting):
    plan = kill_target(TARGETS, target)
    assert plan is not None
    assert (names(plan.delete), plan.deleting) == (deleted, deleting)


@pytest.mark.parametrize(
    "target", [Target("partition", "a", partition="7"), Target("partition", "c", partition="0"), Target("partition", "b")]
)
def test_a_kill_of_an_unknown_partition_is_no_step_at_all(target):
    assert kill_target([*TARGETS, Pod("b", "b1", "Running")], target) is None


def test_only_killing_the_whole_job_bumps_the_version_and_ends_the_group():
    whole, part = kill_job(TARGETS, RETAIN_NONE), kill_target(TARGETS, Target("task", "a"))
    assert (whole.version_delta, part.version_delta) == (1, 0)
    assert (deletes_podgroup(whole), deletes_podgroup(part), deletes_podgroup(None)) == (True, False, False)


@pytest.mark.parametrize(
    ("phase", "creates"), [(None, False), ("", False), ("Pending", False), ("Inqueue", True), ("Running", True), ("Unknown", True)]
)
def test_no_pods_are_made_before_the_group_is_enqueued(phase, creates):
    assert creates_pods(phase) == creates


def test_pod_names_are_volcanos():
    assert pod_name("job1", "task1", 1) == "job1-task1-1"


def test_scaling_by_index():
    assert missing_indexes(4, {0, 2}) == [1, 3]
    assert surplus_indexes(2, [3, 0, 2]) == [2, 3]


@dataclass
class Pods:
    """A task's pods, as a sync sees them."""

    spec: TaskSpec
    open: list[int] = field(default_factory=list)
    left: set[int] = field(default_factory=set)
    ready: int = 0


def synced(*tasks):
    found = sync_job({task.spec.name: task for task in tasks})
    return [(task.spec.name, what, list(indexes)) for task, what, indexes in found]


def test_a_sync_creates_missing_pods_and_deletes_stale_ones_by_task():
    tasks = Pods(TaskSpec("a", 3), [1, 2], {0}), Pods(TaskSpec("b", 1)), Pods(TaskSpec("c", 1), [0])
    assert synced(*tasks) == [("a", "delete", [0]), ("a", "create", [1, 2]), ("c", "create", [0])]


def test_a_pod_beyond_the_replicas_is_not_replaced():
    assert synced(Pods(TaskSpec("a", 2), left={3, 1, 0, 2})) == [("a", "delete", [0, 1])]


def test_what_a_deletion_leaves_open_is_made_in_the_same_sync():
    task = Pods(TaskSpec("a", 1), left={0})
    steps = sync_job({"a": task})
    assert next(steps)[1] == "delete"
    task.open.append(0)
    assert next(steps)[1:] == ("create", [0])


@pytest.mark.parametrize(
    ("phase", "ready", "counts"),
    [("Succeeded", False, 1), ("Running", True, 1), ("Running", False, 0), ("Pending", True, 0), ("Failed", True, 0)],
)
def test_a_pod_is_ready_if_it_succeeded_or_runs_with_all_containers_ready(phase, ready, counts):
    assert pod_ready(phase, ready) == bool(counts)


@pytest.mark.parametrize(("minimum", "ready", "is_ready"), [(2, 1, False), (2, 2, True), (None, 0, True), (0, 0, True)])
def test_a_task_is_ready_from_its_minimum_on_or_always_without_one(minimum, ready, is_ready):
    assert task_ready(TaskSpec("t", 3, minimum), ready) == is_ready


def test_a_task_that_does_not_exist_is_never_ready():
    assert not task_ready(None, 9)


@pytest.mark.parametrize(
    ("depends_on", "ready", "met"),
    [
        (None, set(), True),
        (DependsOn(()), set(), True),
        (DependsOn(("a", "b")), {"a"}, False),
        (DependsOn(("a", "b")), {"a", "b"}, True),
        (DependsOn(("a", "b"), any=True), {"b"}, True),
        (DependsOn(("a", "b"), any=True), set(), False),
        (DependsOn(("a",), any=True), set(), False),
        (DependsOn((), any=True), set(), True),
    ],
)
def test_dependencies(depends_on, ready, met):
    assert dependencies_met(depends_on, ready.__contains__) == met


def test_a_task_with_unmet_dependencies_gets_no_pods():
    first = Pods(TaskSpec("a", 1, 1))
    others = [Pods(TaskSpec(name, 1, depends_on=DependsOn(("a",))), [0]) for name in "bc"]
    assert synced(first, *others) == []
    first.ready = 1
    assert synced(first, *others) == [("b", "create", [0]), ("c", "create", [0])]


def test_a_task_that_depends_on_one_that_the_job_lacks_gets_no_pods():
    assert synced(Pods(TaskSpec("a", 1, depends_on=DependsOn(("b",))), [0])) == []


@given(pods)
def test_counting_by_task_adds_up(found):
    whole, parts = count(found), count_tasks(found).values()
    for name in ("pending", "running", "succeeded", "failed", "unknown"):
        assert getattr(whole, name) == sum(getattr(part, name) for part in parts)
    assert whole.terminating == sum(pod.deleting for pod in found)


@pytest.mark.parametrize(
    ("pod", "counted"),
    [
        (Pod("t", "p"), Counters(pending=1)),
        (Pod("t", "p", "Pending"), Counters(pending=1)),
        (Pod("t", "p", "Running"), Counters(running=1)),
        (Pod("t", "p", "Succeeded"), Counters(succeeded=1)),
        (Pod("t", "p", "Failed"), Counters(failed=1)),
        (Pod("t", "p", "Unknown"), Counters(unknown=1)),
        (Pod("t", "p", "Bound"), Counters(unknown=1)),
        (Pod("t", "p", "Failed", deleting=True), Counters(terminating=1)),
    ],
)
def test_a_pod_counts_in_one_counter(pod, counted):
    assert count([pod]) == counted
    assert count_tasks([pod]) == ({} if pod.deleting else {"t": counted})
