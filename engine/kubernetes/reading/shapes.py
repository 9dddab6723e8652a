"""Shapes: fields and types of manifests, checked before any rule.

A shape is a pydantic model with Kubernetes' field names. Types are strict, as in the API server (`"3"` is not an integer), `null`
means absent, and unknown fields are kept separately for a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from engine.events.bounds import NESTING
from engine.events.fault_messages import message_of
from engine.events.outcomes import Fault
from engine.kubernetes.reading.bounded_values import deeper_than
from statemachines.names import hint

Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]


def fields(names: str) -> frozenset[str]:
    """Return the space-separated names in a text."""
    return frozenset(names.split())


class Shape(BaseModel):
    """Base of all shapes."""

    model_config = ConfigDict(strict=True, extra="allow", alias_generator=to_camel, validate_by_name=False, validate_by_alias=True)

    PASSED: ClassVar[frozenset[str]] = frozenset()
    """Fields known to Kubernetes that are passed on without validation."""

    def written(self) -> dict[str, Any]:
        """Return the manifest of the shape, with defaults and unknown fields."""
        return self.model_dump(by_alias=True, exclude_none=True)


S = TypeVar("S", bound=Shape)
_DEEP: Final = (Shape, list, dict)


class Metadata(Shape):
    """`metadata` of an object or of a pod template."""

    PASSED = fields(
        "creationTimestamp deletionTimestamp deletionGracePeriodSeconds finalizers generation managedFields ownerReferences "
        "selfLink clusterName"
    )

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


def read_shape(shape: type[S], value: object, path: str = "") -> tuple[S | None, list[Fault]]:
    """Parse a value as a shape.

    Args:
        shape: the model.
        value: decoded JSON or YAML.
        path: path of the value in its manifest; empty for the manifest itself.

    Returns:
        The shape and no faults, or `None` and a fault for each field of a wrong type, or one fault for a value nested too deep, so
        that
            later code may recurse.
    """
    if deeper_than(NESTING, value):
        return None, [Fault(path, f"is nested more than {NESTING} deep")]
    try:
        return shape.model_validate(value), []
    except ValidationError as error:
        return None, [Fault(child(path, *one["loc"]), message_of(one)) for one in error.errors(include_url=False)]


def unknown_fields(shape: Shape, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and `hint` of each unknown field of the shape and of nested shapes."""
    fields = type(shape).model_fields
    for name in shape.model_extra or ():
        if name not in shape.PASSED:
            known = [field.alias or name for name, field in fields.items()]
            yield child(path, name), hint(name, [*known, *shape.PASSED])
    for name, field in fields.items():
        value = getattr(shape, name)
        if isinstance(value, _DEEP):  # most fields are absent or have nothing below
            yield from _unknown_within(value, child(path, field.alias or name))


def _unknown_within(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Shape):
        yield from unknown_fields(value, path)
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from _unknown_within(one, child(path, index))
    elif isinstance(value, dict):
        for key, one in value.items():
            if isinstance(one, Shape):
                yield from unknown_fields(one, child(path, key))


def child(path: str, *steps: str | int) -> str:
    """Return the path of a nested field: `spec.tasks[1].replicas`, `requests[nvidia.com/gpu]`."""
    for step in steps:
        named = isinstance(step, str) and step.isidentifier()
        path += (f".{step}" if path else f"{step}") if named else f"[{step}]"
    return path
