"""Why a job stays pending: one closed vocabulary, and what is counted with each word."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

__all__ = ["REASONS", "Reason", "ReasonCode"]

ReasonCode = Literal[
    "QueueNotFound",
    "QueueNotOpen",
    "QueueHierarchyInvalid",
    "QueueOverused",
    "QueueLimit",
    "QueueTooSmall",
    "QuotaExceeded",
    "QuotaTooSmall",
    "ClusterOvercommitted",
    "ClusterTooSmall",
    "NotEnoughPods",
    "NotEnoughPodsOfTask",
    "NotEnoughSubGroups",
    "SchedulingGated",
    "GangNotComplete",
    "GangTooLarge",
    "InsufficientResource",
    "NodeTooSmall",
    "NodeUnschedulable",
    "NodeSelector",
    "NodeAffinity",
    "Taint",
    "HostPort",
    "PodAffinity",
    "PodAntiAffinity",
    "TopologySpread",
    "RevocableZone",
    "VictimsLeaving",
    "NoVictims",
    "NoticeGiven",
    "PluginFailed",
    "Waiting",
]
"""Why a job, or a pod of it, has no place.

- `QueueNotFound`: its queue does not exist. `QueueNotOpen`: it is closed or being closed. `QueueHierarchyInvalid`: the
  queues form no tree: one stands above itself, the one above it is missing, or one with jobs has others below it.
- `QueueOverused`: its queue holds all that it deserves. `QueueLimit`: its request would take the queue (or one above) beyond what
  it may hold; `QueueTooSmall`: even if the queue held nothing. `QuotaExceeded`: the namespace's quota does not allow it;
  `QuotaTooSmall`: nor would it if nothing else were there. `ClusterOvercommitted`: as much as the cluster may take on has been let
  in already. `ClusterTooSmall`: an empty cluster would not let it in, or not take its gang.
- `NotEnoughPods`, `NotEnoughPodsOfTask`, `NotEnoughSubGroups`: the job has fewer pods, pods of a task, or complete sub-groups than
  its gang needs. `SchedulingGated`: its pods have scheduling gates.
- `GangNotComplete`: some of its pods found a place, but fewer than its gang needs. `GangTooLarge`: its gang, or one of its
  sub-groups, needs more places than one decision can give.
- Of nodes: `InsufficientResource` (too little of a resource is left), `NodeTooSmall` (too little of it even when empty),
  `NodeUnschedulable` (cordoned), `NodeSelector`, `NodeAffinity`, `Taint` (not tolerated), `HostPort` (taken), `PodAffinity`,
  `PodAntiAffinity`, `TopologySpread` (too many in the domain), `RevocableZone` (outside its hours, or not for this pod).
- `VictimsLeaving`: it is promised places that evicted pods have yet to leave. `NoVictims`: no node becomes free enough by evicting
  whom it may evict.
- `NoticeGiven`: jobs of its queue have been given notice, and are stopped for it at the deadline.
- `PluginFailed`: a plugin failed when it was asked about the job; it is held until the next round.
- `Waiting`: nothing stops it; its turn has not come.
"""

REASONS: frozenset[str] = frozenset(get_args(ReasonCode))


@dataclass(slots=True)
class Reason:
    """Where a job stopped. Never changed: jobs that are alike have one; a frozen one takes twice as long to make."""

    action: str
    """The action in which it did: `enqueue`, `allocate`, …"""
    code: ReasonCode
    plugin: str = ""
    """Who said so; empty: the action itself."""
    subject: str = ""
    """The queue, the task's role or the resource that is meant."""
    missing: dict[str, float] = field(default_factory=dict)
    """Resource → how much of it is lacking: to the limit of a queue, or on the node that comes nearest."""
    asked: dict[str, float] = field(default_factory=dict)
    """The same resources → how much is asked for, where that alone is too much, whatever ends."""
    nodes: dict[str, int] = field(default_factory=dict)
    """Word of this vocabulary (`InsufficientResource/NAME` with the resource) → on how many nodes it is the first that fails."""
    message: str = ""
    """Details in words."""
