"""Pods by phase, as Volcano counts them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

PodPhase = Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]
"""Kubernetes' phases of a pod. Volcano counts any other phase as Unknown."""


@dataclass(slots=True)
class Counters:
    """How many pods of a job, or of one task, are in which phase. A pod that is being deleted counts as terminating only."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0


@dataclass(slots=True)
class Pod:
    """One pod, as the rules of killing and syncing see it."""

    task: str
    name: str
    phase: PodPhase | str = "Pending"
    index: int | None = None
    """Its replica; `None`: its name names none."""
    deleting: bool = False
    """It has a deletion timestamp, or its deletion was requested."""
    out_of_sync: bool = False
    """It was marked to be killed (Volcano: its later failure or eviction raises no event)."""
    partition: str | None = None
    """Partition of its task."""
    containers_ready: bool = True


def count(pods: Iterable[Pod]) -> Counters:
    """Count pods by phase."""
    counters = Counters()
    for pod in pods:
        add(counters, pod)
    return counters


def count_tasks(pods: Iterable[Pod]) -> dict[str, Counters]:
    """Count pods by task and phase. A task with deleting pods only has no entry (Volcano `taskStatusCount`)."""
    tasks: dict[str, Counters] = {}
    for pod in pods:
        if not pod.deleting:
            add(tasks.setdefault(pod.task, Counters()), pod)
    return tasks


def add(counters: Counters, pod: Pod) -> None:
    """Add one pod to counters."""
    if pod.deleting:
        counters.terminating += 1
    elif pod.phase == "Pending":
        counters.pending += 1
    elif pod.phase == "Running":
        counters.running += 1
    elif pod.phase == "Succeeded":
        counters.succeeded += 1
    elif pod.phase == "Failed":
        counters.failed += 1
    else:
        counters.unknown += 1
