"""Queues, tenants, priority classes, grants, quotas and budgets: objects from `lahar apply` or from observation."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any, Final, Literal, cast

from pydantic import Field, model_validator

from engine.events.bounds import FAULTS
from engine.events.budgets import read_budget
from engine.events.inputs import DEFAULT_NAMESPACE, ObjectApplied, ObjectDeleted
from engine.events.prices import read_book
from engine.kubernetes.errors import ObjectError
from engine.kubernetes.manifests.namespaced_objects import NotNegative, PodDisruptionBudget, ResourceQuota, Resources
from engine.kubernetes.manifests.queue_rules import CLOSED_BY_PARENT, HIERARCHY, HIERARCHY_WEIGHTS, annotation_faults, rooted
from engine.kubernetes.reading.fields import mapping, text
from engine.kubernetes.reading.quantity import parse_quantity
from engine.kubernetes.reading.shapes import Int32, Metadata, Shape, fields, read_shape, unknown_fields

ObjectKind = Literal["Queue", "Tenant", "PriorityClass", "Grant", "PriceBook", "ResourceQuota", "PodDisruptionBudget"]


class Guarantee(Shape):
    """Resources that a queue keeps even while idle (Volcano)."""

    resource: Resources = Field(default_factory=dict)


class QueueSpec(Shape):
    """`spec` of a queue: Volcano's fields, and Lahar's for preemption."""

    PASSED = fields("affinity extendClusters type")

    state: Literal["", "Open", "Closed"] | None = None
    """Desired state; the actual one is in the object's status. Default: Open."""
    weight: Annotated[Int32, Field(ge=1, le=65535)] = 1
    capability: Resources | None = None
    """Hard limit; resources without an entry are not limited."""
    guarantee: Guarantee | None = None
    deserved: Resources | None = None
    """Soft share (plugin `capacity`)."""
    reclaimable: bool = True
    parent: str | None = None
    priority: Int32 = 0
    dequeue_strategy: Literal["fifo", "traverse"] | None = None
    preemption: Literal["immediate", "notice", "none"] = "immediate"
    preemption_delay_seconds: NotNegative = 300
    """Time from a notice to its execution (seconds)."""
    reservation_seconds: NotNegative = 60
    """Time for which resources freed by a notice stay reserved for the preemptor (seconds)."""
    min_run_seconds: NotNegative | None = None
    """Run time below which a job without a limit of its own is no victim (seconds)."""

    @model_validator(mode="after")
    def _ordered(self) -> QueueSpec:
        """Check the order guarantee ≤ deserved ≤ capability (Volcano)."""
        guaranteed = self.guarantee.resource if self.guarantee is not None else {}
        levels = (("deserved", self.deserved), ("capability", self.capability))
        for name, amount in guaranteed.items():
            if name not in (self.deserved or {}):
                raise ValueError(f"deserved must name {name}, which is guaranteed")
            for level, upper in levels:
                _at_most("guarantee", amount, level, (upper or {}).get(name), name)
        for name, amount in (self.deserved or {}).items():
            _at_most("deserved", amount, "capability", (self.capability or {}).get(name), name)
        return self


def _at_most(lower: str, amount: str | float, upper: str, limit: str | float | None, resource: str) -> None:
    if limit is not None and parse_quantity(amount) > parse_quantity(limit):
        raise ValueError(f"{lower} of {resource} ({amount}) exceeds {upper} ({limit})")


class TenantSpec(Shape):
    """`spec` of a tenant."""

    priority: Int32 = 0
    """Priority of the tenant, compared before job priorities when victims are selected."""
    may_preempt: bool = False
    """True if its privileged jobs may preempt others."""
    weight: Annotated[Int32, Field(ge=1)] | None = None
    """Weight of its share in plugin `fairshare`; default 1, or the weight in a ResourceQuota of the namespace."""
    budget: Any = None
    """Monthly budget (`engine.events.budgets`)."""
    description: str | None = None


class QueueStatus(Shape):
    """`status` of a queue, as far as scheduling uses it."""

    PASSED = fields("allocated completed inqueue pending reservation running unknown")

    state: Literal["", "Open", "Closed", "Closing", "Unknown"] | None = None


class Queue(Shape):
    """A queue."""

    PASSED = fields("apiVersion kind")

    metadata: Metadata
    spec: QueueSpec = Field(default_factory=QueueSpec)
    status: QueueStatus = Field(default_factory=QueueStatus)

    def projected(self) -> dict[str, Any]:
        """Return its specification with its state, the closing parent, and its position in the hierarchy of plugin `drf`.

        Raises:
            ObjectError: the annotations of the hierarchy are invalid.
        """
        spec = _dumped(self.spec, set(type(self.spec).model_fields) - {"state"})
        stated = self.metadata.annotations or {}
        hierarchy, weights = stated.get(HIERARCHY, ""), stated.get(HIERARCHY_WEIGHTS, "")
        faults = list(annotation_faults(hierarchy, weights))
        if faults:
            raise ObjectError("Queue", [(fault.path, fault.message) for fault in faults])
        hierarchy, weights = rooted(hierarchy, weights)
        more = {
            "state": self.status.state or self.spec.state,
            "closedByParent": stated.get(CLOSED_BY_PARENT) == "true",
            "hierarchy": hierarchy,
            "hierarchyWeights": weights,
        }
        return spec | {name: value for name, value in more.items() if value}


class Tenant(Shape):
    """A tenant; jobs belong to it by the label `lahar/tenant` or by their namespace."""

    PASSED = fields("apiVersion kind status")

    metadata: Metadata
    spec: TenantSpec = Field(default_factory=TenantSpec)


class PriorityClass(Shape):
    """A priority class, whose fields are at the top level (Kubernetes)."""

    PASSED = fields("apiVersion kind")

    metadata: Metadata
    value: Int32
    global_default: bool = False
    preemption_policy: Literal["PreemptLowerPriority", "Never"] = "PreemptLowerPriority"
    description: str | None = None


Names = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
"""Names; `*`: all."""


class GrantSpec(Shape):
    """`spec` of a grant: principals and the jobs on which they may act. With grants in a cluster, other principals are rejected."""

    principals: Names
    namespaces: Names | None = None
    """Namespaces of the jobs; default: all, of the given tenants."""
    tenants: Names | None = None
    """Tenants of the jobs; default: the tenant of the namespace, which a job has without a tenant label."""

    @model_validator(mode="after")
    def _limited(self) -> GrantSpec:
        if self.namespaces is None and self.tenants is None:
            raise ValueError("name namespaces or tenants; '*' means all")
        return self


class PriceBook(Shape):
    """Prices of usage; the `spec` is defined in `engine.events.prices`."""

    PASSED = fields("apiVersion kind")

    metadata: Metadata
    spec: dict[str, Any]


class Grant(Shape):
    """Permission to submit, update, delete and command jobs, to raise their events and to report about them."""

    PASSED = fields("apiVersion kind")

    metadata: Metadata
    spec: GrantSpec


AnyObject = Queue | Tenant | PriorityClass | Grant | PriceBook | ResourceQuota | PodDisruptionBudget

OBJECT_KINDS: Final[dict[str, type[AnyObject]]] = {
    "Queue": Queue,
    "Tenant": Tenant,
    "PriorityClass": PriorityClass,
    "Grant": Grant,
    "PriceBook": PriceBook,
    "ResourceQuota": ResourceQuota,
    "PodDisruptionBudget": PodDisruptionBudget,
}
_NAMESPACED: Final = frozenset({"ResourceQuota", "PodDisruptionBudget"})
"""Kinds with a name per namespace: `NAMESPACE/NAME` in the facts."""


def apply_object(content: dict[str, Any]) -> tuple[ObjectApplied, list[str]]:
    """Validate an object of one of `OBJECT_KINDS`.

    Returns:
        The fact, its `spec` with all defaults and Kubernetes' field names; and a warning for each unknown field.

    Raises:
        ObjectError: a field has the wrong type or value, `metadata.name` is missing, or the kind is another one.
    """
    kind = _kind(content)
    found, faults = read_shape(OBJECT_KINDS[kind], content)
    if found is None:
        raise ObjectError(kind, [(fault.path or "object", fault.message) for fault in faults])
    if not found.metadata.name:
        raise ObjectError(kind, [("metadata.name", "missing")])
    if isinstance(found, Tenant) and found.spec.budget is not None and (wrong := read_budget(found.spec.budget, given=True)[1]):
        raise ObjectError(kind, wrong)
    spec = _spec(found)
    warnings = [f"{path}: unknown field, left out{near}" for path, near in islice(unknown_fields(found), FAULTS)]
    version, uid = found.metadata.resource_version, text(mapping(content.get("metadata")).get("uid"))
    return ObjectApplied(kind, _name(kind, found.metadata.name, found.metadata.namespace), spec, version, uid), warnings


def _name(kind: ObjectKind, name: str, namespace: str | None) -> str:
    return f"{namespace or DEFAULT_NAMESPACE}/{name}" if kind in _NAMESPACED else name


def _spec(found: AnyObject) -> dict[str, Any]:
    match found:
        case PriceBook():
            return _price_book(found)
        case PriorityClass():
            return _dumped(found, set(type(found).model_fields) - {"metadata"})
        case Tenant() | Grant():
            return _dumped(found.spec, set(type(found.spec).model_fields))
        case _:
            return found.projected()


def _dumped(part: Shape, known: set[str]) -> dict[str, Any]:
    return part.model_dump(mode="json", by_alias=True, exclude_none=True, include=known)


def _price_book(found: PriceBook) -> dict[str, Any]:
    """Return the specification of a price book unchanged, because its numbers are texts."""
    book, faults = read_book(found.spec, given=True)
    if book is None:
        raise ObjectError("PriceBook", faults)
    return found.spec


def delete_object(content: dict[str, Any]) -> ObjectDeleted:
    """Return the deletion of an object of one of `OBJECT_KINDS`.

    Raises:
        ObjectError: `metadata.name` is missing, or the kind is another one.
    """
    kind, metadata = _kind(content), mapping(content.get("metadata"))
    name = text(metadata.get("name"))
    if name is None:
        raise ObjectError(kind, [("metadata.name", "missing")])
    name = _name(kind, name, text(metadata.get("namespace")))
    return ObjectDeleted(kind, name, text(metadata.get("resourceVersion")), text(metadata.get("uid")))


def _kind(content: dict[str, Any]) -> ObjectKind:
    kind = text(content.get("kind"))
    if kind not in OBJECT_KINDS:
        raise ObjectError(kind or "object", [("kind", f"must be one of {', '.join(OBJECT_KINDS)}")])
    return cast("ObjectKind", kind)
