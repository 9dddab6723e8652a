"""When a pod entered its phases, and who vouches for its end."""

from __future__ import annotations

import pytest
from pod_builders import CREATED, DELETING, INITIALIZED, at, condition, disrupted, pod, running, status, terminated, waiting

from engine.events.inputs import PodObserved
from engine.kubernetes.errors import ProjectionError
from engine.kubernetes.observation.pods import delete_pod, observe_pod

CONDITIONS = (condition("PodScheduled"), condition("Initialized", since=INITIALIZED))


def times(seen: PodObserved) -> tuple[int | None, ...]:
    return seen.created, seen.bound, seen.running, seen.terminating, seen.ended


def test_all_phases_of_a_finished_pod_are_read_from_one_observation() -> None:
    seen = observe_pod(pod("Succeeded", terminated(), conditions=CONDITIONS))
    assert times(seen) == (at(0), at(0, 2), at(0, 7), None, at(5, 7))
    assert seen.proof == at(5, 7)


def test_bound_falls_back_to_the_start_time() -> None:
    assert observe_pod(pod("Pending", startTime="2026-03-01T10:00:03Z")).bound == at(0, 3)
    assert observe_pod(pod("Pending")).bound is None


def test_a_pod_without_a_node_was_never_bound() -> None:
    """The transition of PodScheduled=False is no time of binding."""
    refused = condition("PodScheduled", "False", reason="Unschedulable")
    assert observe_pod(pod("Pending", node=None, conditions=(refused,))).bound is None


def test_running_is_the_earliest_start_of_a_regular_container() -> None:
    restarted = running(
        "2026-03-01T10:03:00Z",
        lastState={"terminated": {"exitCode": 1, "startedAt": "2026-03-01T10:01:00Z", "finishedAt": "2026-03-01T10:02:00Z"}},
    )
    other = running("2026-03-01T10:01:30Z")
    sidecar = running("2026-03-01T10:00:30Z")
    assert observe_pod(pod("Running", restarted, other, initContainerStatuses=[sidecar])).running == at(1)


def test_running_falls_back_to_initialized_then_to_bound() -> None:
    silent = status({"running": {}})
    assert observe_pod(pod("Running", silent, conditions=CONDITIONS)).running == at(0, 4)
    assert observe_pod(pod("Running", silent, conditions=CONDITIONS[:1])).running == at(0, 2)
    assert observe_pod(pod("Succeeded", conditions=CONDITIONS)).running == at(0, 4)


def test_a_pod_that_shows_no_start_did_not_run() -> None:
    never = terminated(128, "StartError", started="1970-01-01T00:00:00Z")
    assert observe_pod(pod("Failed", never, conditions=CONDITIONS)).running is None
    assert observe_pod(pod("Failed", conditions=CONDITIONS, reason="OutOfcpu")).running is None
    assert delete_pod(pod("Pending", waiting("ImagePullBackOff"), conditions=CONDITIONS)).last.running is None


def test_terminating_is_when_the_deletion_was_asked_for() -> None:
    assert observe_pod(pod("Running", running(), metadata=DELETING)).terminating == at(6)
    assert observe_pod(pod("Running", running(), metadata={"deletionTimestamp": "2026-03-01T10:06:30Z"})).terminating == at(6, 30)


def test_a_pod_deleted_after_its_end_was_never_terminating() -> None:
    seen = observe_pod(pod("Succeeded", terminated(), metadata=DELETING))
    assert (seen.terminating, seen.ended) == (None, at(5, 7))


def test_the_end_is_the_latest_finish_of_a_regular_container() -> None:
    content = pod("Failed", terminated(1), terminated(finished="2026-03-01T10:06:00Z"), initContainerStatuses=[terminated()])
    assert observe_pod(content).ended == at(6)


def test_there_is_no_end_while_a_container_is_not_known_to_have_stopped() -> None:
    """A pod declared dead with its node: what finished before is not its end."""
    seen = observe_pod(pod("Failed", terminated(), running(), conditions=(disrupted("DeletionByPodGC"),)))
    assert (seen.ended, seen.proof, seen.rank) == (None, at(5, 7), "inferred")


def test_a_live_pod_has_no_end() -> None:
    assert observe_pod(pod("Running", terminated(1), metadata=DELETING)).ended is None


def test_each_time_is_raised_to_the_one_before_it() -> None:
    """Clocks differ: the API server says when a pod was bound, the node when it started."""
    early = terminated(started="2026-03-01T09:59:00Z", finished="2026-03-01T09:59:30Z")
    assert times(observe_pod(pod("Failed", early, conditions=CONDITIONS))) == (at(0), at(0, 2), at(0, 2), None, at(0, 2))


def test_the_year_one_is_no_time() -> None:
    assert observe_pod(pod("Failed", terminated(1, finished="0001-01-01T00:00:00Z"))).ended is None


def test_the_time_of_a_deletion_to_come_is_no_proof_of_life() -> None:
    assert observe_pod(pod("Running", running(), metadata=DELETING)).proof == at(6)


def test_a_static_pod_begins_with_the_first_time_that_it_shows() -> None:
    content = pod("Running", running(), metadata={"creationTimestamp": None}, startTime=CREATED)
    assert observe_pod(content).created == at(0)


def test_a_pod_without_any_time_is_no_observation() -> None:
    with pytest.raises(ProjectionError, match="creationTimestamp: missing"):
        observe_pod(pod("Pending", metadata={"creationTimestamp": "yesterday"}))


def test_ranks() -> None:
    """Who vouches for the end: the node, else whoever saw the deletion, else nobody."""
    assert observe_pod(pod("Failed", terminated(1))).rank == "node"
    assert observe_pod(pod("Failed", reason="Evicted")).rank == "node"
    assert delete_pod(pod("Running", running())).last.rank == "watcher"
    assert delete_pod(pod("Running", running()), inferred=True).last.rank == "inferred"
    assert delete_pod(pod("Running", terminated(1))).last.rank == "node"
    assert observe_pod(pod("Failed", reason="NodeLost")).rank == "inferred"
