"""Quotas and disruption budgets of namespaces, projected to the fields that scheduling uses."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from engine.kubernetes.reading.quantity import parse_quantity
from engine.kubernetes.reading.shapes import Int32, Metadata, Shape, fields

NAMESPACE_WEIGHT: Final = "volcano.sh/namespace.weight"
"""Key in a quota's `hard` for the weight of the namespace in plugin `fairshare`; not a resource (seeds: Volcano's tests)."""

NotNegative = Annotated[Int32, Field(ge=0)]


def _quantity(value: str | float) -> str:
    if parse_quantity(value) < 0:
        raise ValueError(f"{value} must not be negative")
    return str(value)


Quantity = Annotated[str | int | float, AfterValidator(_quantity)]
Resources = dict[str, Quantity]
"""Quantities by resource name."""


class QuotaSpec(Shape):
    """`spec` of a quota, and its `status`."""

    hard: Resources = Field(default_factory=dict)
    used: Resources = Field(default_factory=dict)
    scopes: list[str] = Field(default_factory=list)
    scope_selector: dict[str, Any] | None = None


class ResourceQuota(Shape):
    """Limit on the total requests of the pods of a namespace (Kubernetes)."""

    PASSED = fields("apiVersion kind")

    metadata: Metadata
    spec: QuotaSpec = Field(default_factory=QuotaSpec)
    status: QuotaSpec = Field(default_factory=QuotaSpec)

    def projected(self) -> dict[str, Any]:
        """Return the enforced limits (`status`, otherwise `spec`), the usage, the weight, and whether the quota has scopes."""
        hard = dict(self.status.hard or self.spec.hard)
        used = {name: amount for name, amount in self.status.used.items() if name != NAMESPACE_WEIGHT}
        weight = hard.pop(NAMESPACE_WEIGHT, None)
        stated: dict[str, Any] = {} if weight is None else {"weight": int(parse_quantity(weight))}
        if self.spec.scopes or self.spec.scope_selector:
            stated["scoped"] = True
        return {"hard": hard, "used": used, **stated}


class SelectorRequirement(Shape):
    """One condition on labels."""

    key: str
    operator: str
    values: list[str] | None = None


class Selector(Shape):
    """Selector of pods; without conditions it selects all pods of the namespace."""

    match_labels: dict[str, str] = Field(default_factory=dict)
    match_expressions: list[SelectorRequirement] = Field(default_factory=list)


class BudgetSpec(Shape):
    """`spec` of a budget."""

    PASSED = fields("minAvailable maxUnavailable unhealthyPodEvictionPolicy")

    selector: Selector | None = None


class BudgetStatus(Shape):
    """`status` of a budget."""

    PASSED = fields("conditions currentHealthy desiredHealthy disruptedPods expectedPods observedGeneration")

    disruptions_allowed: NotNegative = 0


class PodDisruptionBudget(Shape):
    """Limit on the disruptions of the selected pods (Kubernetes)."""

    PASSED = fields("apiVersion kind")

    metadata: Metadata
    spec: BudgetSpec = Field(default_factory=BudgetSpec)
    status: BudgetStatus = Field(default_factory=BudgetStatus)

    def projected(self) -> dict[str, Any]:
        """Return the selector, absent if it selects no pod, and the number of currently allowed disruptions."""
        selector = self.spec.selector
        meant = {} if selector is None else {"selector": selector.model_dump(mode="json", by_alias=True, exclude_none=True)}
        return {**meant, "disruptionsAllowed": self.status.disruptions_allowed}
