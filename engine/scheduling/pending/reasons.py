"""Pending reasons: a closed set of codes, with the amounts that belong to each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

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
"""Reason why a job or one of its pods has no node.

- `QueueNotFound`: its queue does not exist. `QueueNotOpen`: it is closed or being closed. `QueueHierarchyInvalid`: the
  queues form no tree: one is above itself, its parent is missing, or one with jobs has queues below it.
- `QueueOverused`: its queue holds its deserved resources. `QueueLimit`: its request would take the queue (or one above) beyond its
  limit; `QueueTooSmall`: even if the queue held nothing. `QuotaExceeded`: the namespace's quota does not allow it;
  `QuotaTooSmall`: nor would it if nothing else were there. `ClusterOvercommitted`: admitted jobs reach the limit of the
  cluster. `ClusterTooSmall`: an empty cluster would not admit it, or not take its gang.
- `NotEnoughPods`, `NotEnoughPodsOfTask`, `NotEnoughSubGroups`: the job has fewer pods, pods of a task, or complete sub-groups than
  its gang needs. `SchedulingGated`: its pods have scheduling gates.
- `GangNotComplete`: some of its pods found a node, but fewer than its gang needs. `GangTooLarge`: its gang, or one of its
  sub-groups, needs more nodes than one decision can hold.
- Of nodes: `InsufficientResource` (too little of a resource is left), `NodeTooSmall` (too little of it even when empty),
  `NodeUnschedulable` (cordoned), `NodeSelector`, `NodeAffinity`, `Taint` (not tolerated), `HostPort` (taken), `PodAffinity`,
  `PodAntiAffinity`, `TopologySpread` (too many in the domain), `RevocableZone` (outside its hours, or not for this pod).
- `VictimsLeaving`: it is promised nodes that evicted pods have yet to leave. `NoVictims`: evicting all possible victims makes no
  node free enough.
- `NoticeGiven`: jobs of its queue were given notice, and are stopped for it at the deadline.
- `PluginFailed`: a plugin failed on the job; it is held until the next round.
- `Waiting`: nothing prevents it; it was not examined yet.
"""

REASONS: frozenset[str] = frozenset(get_args(ReasonCode))


@dataclass(slots=True)
class Reason:
    """Pending reason of a job. Never changed, since equal jobs share one; not frozen, which doubles the time to construct it."""

    action: str
    """Action that found it: `enqueue`, `allocate`, …"""
    code: ReasonCode
    plugin: str = ""
    """Plugin that refused; empty: the action itself."""
    subject: str = ""
    """Queue, role of a task, or resource concerned."""
    missing: dict[str, float] = field(default_factory=dict)
    """Resource → missing amount: to the limit of a queue, or on the node that misses least."""
    asked: dict[str, float] = field(default_factory=dict)
    """The same resources → requested amount, where it alone exceeds the limit, even if all else ends."""
    nodes: dict[str, int] = field(default_factory=dict)
    """Code (`InsufficientResource/NAME` with the resource) → number of nodes where it is the first to fail."""
    message: str = ""
    """Details in plain text."""
