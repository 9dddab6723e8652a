"""Limits beside queues: resource quotas of namespaces, and pod disruption budgets."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.events.pod_shape import LabelSelector
from engine.scheduling.cluster.amounts import Amounts


@dataclass(slots=True)
class Quota:
    """ResourceQuota of a namespace (Kubernetes)."""

    namespace: str
    hard: Amounts = field(default_factory=dict)
    """Limits by the quota's own names, such as `requests.cpu`."""
    used: Amounts = field(default_factory=dict)
    scoped: bool = False
    """Whether it limits only some pods of the namespace (Kubernetes `scopes`, `scopeSelector`)."""


@dataclass(slots=True)
class Budget:
    """PodDisruptionBudget: the number of selected pods that may be disrupted now."""

    namespace: str
    selector: LabelSelector
    allowed: int
