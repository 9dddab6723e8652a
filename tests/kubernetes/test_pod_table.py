"""Each row of the pod table, on objects in the form of the API server."""

from __future__ import annotations

from typing import Any

import pytest
from pod_builders import DELETING, condition, disrupted, pod, running, status, terminated, waiting

from engine.kubernetes.observation.pods import observe_pod
from engine.kubernetes.observation.table import exit_code, judge
from engine.kubernetes.observation.view import PodView

SCHEDULED = condition("PodScheduled")


def unscheduled(reason: str) -> dict[str, Any]:
    return condition("PodScheduled", "False", reason=reason)


def kubelet(reason: str) -> dict[str, Any]:
    return pod("Failed", terminated(137), conditions=(disrupted("TerminationByKubelet"),), reason=reason)


ROWS = [
    (1, "succeeded", pod("Succeeded", terminated(0)), "Succeeded", None),
    (1, "succeeded and being deleted", pod("Succeeded", terminated(0), metadata=DELETING), "Succeeded", None),
    (
        2,
        "preempted",
        pod("Failed", terminated(143), conditions=(disrupted("PreemptionByScheduler"),)),
        "Failed",
        "PreemptedByScheduler",
    ),
    (
        3,
        "evicted by the API",
        pod("Failed", terminated(143), conditions=(disrupted("EvictionByEvictionAPI"),)),
        "Failed",
        "EvictedByApi",
    ),
    (
        4,
        "taint manager",
        pod("Failed", terminated(143), conditions=(disrupted("DeletionByTaintManager"),)),
        "Failed",
        "EvictedByTaint",
    ),
    (5, "pod GC", pod("Failed", running(), conditions=(disrupted("DeletionByPodGC"),)), "Lost", "NodeLost"),
    (6, "kubelet evicts", kubelet("Evicted"), "Failed", "EvictedByNode"),
    (6, "kubelet shuts down", kubelet("Terminated"), "Failed", "NodeShutdown"),
    (6, "kubelet shut down before 1.22", kubelet("Shutdown"), "Failed", "NodeShutdown"),
    (6, "kubelet preempts", kubelet("Preempting"), "Failed", "PreemptedByKubelet"),
    (6, "kubelet for another reason", kubelet("Something"), "Failed", "EvictedByNode"),
    (7, "evicted, older cluster", pod("Failed", reason="Evicted"), "Failed", "EvictedByNode"),
    (7, "node shut down, older cluster", pod("Failed", reason="Shutdown"), "Failed", "NodeShutdown"),
    (7, "critical pod came, older cluster", pod("Failed", reason="Preempting"), "Failed", "PreemptedByKubelet"),
    (7, "node lost, older cluster", pod("Failed", running(), reason="NodeLost"), "Lost", "NodeLost"),
    (7, "unknown disruption", pod("Failed", conditions=(disrupted("New"),), reason="Evicted"), "Failed", "EvictedByNode"),
    (8, "deadline", pod("Failed", terminated(137), reason="DeadlineExceeded"), "Failed", "TimedOut"),
    (9, "node is shutting down", pod("Failed", reason="NodeShutdown"), "Failed", "RejectedByNode"),
    (9, "no room", pod("Failed", reason="OutOfnvidia.com/gpu"), "Failed", "RejectedByNode"),
    (9, "topology", pod("Failed", waiting("ContainerCreating"), reason="TopologyAffinityError"), "Failed", "RejectedByNode"),
    (9, "device plugin", pod("Failed", reason="UnexpectedAdmissionError"), "Failed", "RejectedByNode"),
    (
        14,
        "a node's refusal needs a pod that never started",
        pod("Failed", terminated(1), reason="NodeAffinity"),
        "Failed",
        "AppFailed",
    ),
    (10, "out of memory", pod("Failed", terminated(137, "OOMKilled")), "Failed", "OomKilled"),
    (10, "out of memory by reason, whatever the code", pod("Failed", terminated(1, "OOMKilled")), "Failed", "OomKilled"),
    (11, "status unknown", pod("Failed", terminated(137, "ContainerStatusUnknown", None, None)), "Lost", "ExitUnknown"),
    (12, "cannot be run", pod("Failed", terminated(127, "ContainerCannotRun")), "Failed", "StartError"),
    (12, "start error", pod("Failed", terminated(1, "StartError")), "Failed", "StartError"),
    (12, "not executable", pod("Failed", terminated(126)), "Failed", "StartError"),
    (12, "128 itself", pod("Failed", terminated(128)), "Failed", "StartError"),
    (13, "killed", pod("Failed", terminated(137)), "Failed", "KilledBySignal"),
    (13, "first signal", pod("Failed", terminated(129)), "Failed", "KilledBySignal"),
    (13, "last signal", pod("Failed", terminated(192)), "Failed", "KilledBySignal"),
    (14, "beyond signals", pod("Failed", terminated(193)), "Failed", "AppFailed"),
    (14, "failed", pod("Failed", terminated(3)), "Failed", "AppFailed"),
    (14, "failed without evidence", pod("Failed"), "Failed", "AppFailed"),
    (
        14,
        "a withdrawn disruption",
        pod("Failed", terminated(3), conditions=(condition("DisruptionTarget", "False"),)),
        "Failed",
        "AppFailed",
    ),
    (16, "being deleted", pod("Running", running(), metadata=DELETING), "Terminating", None),
    (16, "being deleted before it ran", pod("Pending", waiting("ImagePullBackOff"), metadata=DELETING), "Terminating", None),
    (
        16,
        "being preempted",
        pod("Running", running(), conditions=(disrupted("PreemptionByScheduler"),), metadata=DELETING),
        "Terminating",
        "PreemptedByScheduler",
    ),
    (17, "node silent", pod("Unknown", running()), "Running", "Suspect"),
    (17, "node silent before it ran", pod("Unknown", waiting("ContainerCreating")), "Bound", "Suspect"),
    (18, "running", pod("Running", running()), "Running", None),
    (18, "announced disruption changes nothing", pod("Running", running(), conditions=(disrupted("X"),)), "Running", None),
    (18, "crash loop", pod("Running", waiting("CrashLoopBackOff", restartCount=3)), "Running", "CrashLooping"),
    (
        18,
        "a sidecar decides nothing",
        pod("Running", running(), initContainerStatuses=[waiting("CrashLoopBackOff")]),
        "Running",
        None,
    ),
    (19, "gated", pod("Pending", node=None, conditions=(unscheduled("SchedulingGated"),)), "Pending", "Gated"),
    (20, "unschedulable", pod("Pending", node=None, conditions=(unscheduled("Unschedulable"),)), "Pending", "Unschedulable"),
    (20, "scheduler error", pod("Pending", node=None, conditions=(unscheduled("SchedulerError"),)), "Pending", "SchedulerError"),
    (21, "image", pod("Pending", waiting("ImagePullBackOff"), conditions=(SCHEDULED,)), "Bound", "ImagePullBackOff"),
    (
        21,
        "init container loops",
        pod("Pending", waiting("PodInitializing"), initContainerStatuses=[waiting("CrashLoopBackOff")]),
        "Bound",
        "CrashLoopBackOff",
    ),
    (22, "starting", pod("Pending", waiting("ContainerCreating")), "Bound", "Starting"),
    (22, "just bound", pod("Pending"), "Bound", "Starting"),
    (22, "initializing", pod("Pending", waiting("PodInitializing"), initContainerStatuses=[running()]), "Bound", "Initializing"),
    (
        22,
        "a sidecar runs on",
        pod("Pending", waiting("ContainerCreating"), conditions=(condition("Initialized"),), initContainerStatuses=[running()]),
        "Bound",
        "Starting",
    ),
    (23, "queued", pod("Pending", node=None), "Pending", "Queued"),
    (23, "no status", {**pod(None), "status": {}}, "Pending", "Queued"),
]


@pytest.mark.parametrize(("row", "case", "content", "phase", "reason"), ROWS, ids=[f"row {row}: {case}" for row, case, *_ in ROWS])
def test_row(row: int, case: str, content: dict[str, Any], phase: str, reason: str | None) -> None:
    assert judge(PodView(content)) == (phase, reason, row)


@pytest.mark.parametrize(
    ("content", "inferred", "phase", "reason"),
    [
        (pod("Running", running()), False, "Failed", "DeletedByApi"),
        (pod("Running", running()), True, "Lost", "EndUnknown"),
        (pod("Pending", metadata=DELETING), False, "Failed", "DeletedByApi"),
        (pod("Running", conditions=(disrupted("EvictionByEvictionAPI"),)), False, "Failed", "EvictedByApi"),
        (pod("Running", conditions=(disrupted("PreemptionByScheduler"),)), True, "Failed", "PreemptedByScheduler"),
        (pod("Running", conditions=(disrupted("DeletionByPodGC"),)), False, "Lost", "NodeLost"),
        (pod("Running", conditions=(disrupted("TerminationByKubelet"),), reason="Terminated"), False, "Failed", "NodeShutdown"),
        (pod("Running", conditions=(disrupted("New"),)), False, "Failed", "DeletedByApi"),
        (pod("Unknown", running()), False, "Failed", "DeletedByApi"),
    ],
)
def test_row_15_a_pod_that_is_gone_without_an_end(content: dict[str, Any], inferred: bool, phase: str, reason: str) -> None:
    assert judge(PodView(content), deleted=True, inferred=inferred) == (phase, reason, 15)


@pytest.mark.parametrize(("row", "case", "content", "phase", "reason"), [entry for entry in ROWS if entry[0] < 15])
def test_a_terminal_state_stands_whatever_the_event_says(
    row: int, case: str, content: dict[str, Any], phase: str, reason: str | None
) -> None:
    assert judge(PodView(content), deleted=True, inferred=True) == (phase, reason, row)


def test_the_exit_code_is_of_the_first_container_that_failed() -> None:
    """By time of its end, not by place; one whose end has no time comes last."""
    late = terminated(3, finished="2026-03-01T10:09:00Z")
    early = terminated(4, finished="2026-03-01T10:08:00Z")
    good = terminated(0, finished="2026-03-01T10:01:00Z")
    timeless = terminated(5, finished=None)
    assert exit_code(PodView(pod("Failed", timeless, late, early, good))) == 4
    assert exit_code(PodView(pod("Failed", timeless, good))) == 5
    assert exit_code(PodView(pod("Failed", good))) is None


def test_exit_codes_shown() -> None:
    """Null unless the pod failed, 0 for a success; Volcano looks at the first container alone."""
    assert observe_pod(pod("Failed", terminated(0), terminated(137, "OOMKilled"))).exit_code == 137
    assert observe_pod(pod("Failed", terminated(0), terminated(137))).first_exit_code == 0
    assert observe_pod(pod("Failed", terminated(2), terminated(137))).first_exit_code == 2
    assert observe_pod(pod("Succeeded", terminated(0))).exit_code == 0
    assert observe_pod(pod("Failed", terminated(137, "ContainerStatusUnknown", None, None))).exit_code is None
    assert observe_pod(pod("Running", terminated(1))).exit_code is None
    assert observe_pod(pod("Running", terminated(1))).first_exit_code == 1
    assert observe_pod(pod("Failed", terminated(-1073741819))).exit_code == -1073741819


def test_a_sidecars_exit_code_never_decides() -> None:
    seen = observe_pod(pod("Failed", terminated(3), initContainerStatuses=[terminated(137, "OOMKilled")]))
    assert (seen.reason, seen.exit_code) == ("AppFailed", 3)


def test_restarts_are_counted_for_regular_and_init_containers_apart() -> None:
    content = pod("Running", running(restartCount=2), running(restartCount=3), initContainerStatuses=[status({}, restartCount=7)])
    seen = observe_pod(content)
    assert (seen.restarts, seen.init_restarts) == (5, 7)
