"""Limits that are given beside queues: quotas of namespaces, and budgets of disruptions."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.events.pod_shape import LabelSelector
from engine.scheduling.cluster.amounts import Amounts

__all__ = ["Budget", "Quota"]


@dataclass(slots=True)
class Quota:
    """A ResourceQuota of a namespace (Kubernetes)."""

    namespace: str
    hard: Amounts = field(default_factory=dict)
    """By the quota's own names, such as `requests.cpu`."""
    used: Amounts = field(default_factory=dict)
    scoped: bool = False
    """It limits only some of the namespace's pods (Kubernetes `scopes`, `scopeSelector`)."""


@dataclass(slots=True)
class Budget:
    """A PodDisruptionBudget: how many of the pods that it selects may be disturbed now."""

    namespace: str
    selector: LabelSelector
    allowed: int
