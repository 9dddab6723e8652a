"""Validator of JSON Schemas with a limit on its cost.

`$ref` with `anyOf` takes 2^n steps in n lines, `$ref: "#"` never ends, and `uniqueItems` compares each pair of objects; bounds on
sizes do not prevent this. So each applied keyword costs one step or more, depending on its data, and data that need too many steps
are rejected. A step takes about 10 µs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from pydantic_core import to_json

from engine.events.bounds import CHECK_NESTING
from engine.kubernetes.manifests.linear_patterns import compiled
from engine.kubernetes.reading.bounded_values import json_bytes

Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError] | None]

_LOOK_UP: Final = 20
"""Steps for resolving a reference."""


class StepsExceededError(Exception):
    """Raised when a schema needs more steps or deeper nesting than the limit for one event."""


class _Meter:
    """Remaining steps, and nesting of keywords."""

    __slots__ = ("depth", "left", "most", "schema_bytes")

    def __init__(self, steps: int, schema_bytes: int) -> None:
        self.most = self.left = steps
        self.schema_bytes = schema_bytes
        self.depth = 0

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise StepsExceededError(f"that takes more than {self.most:,} steps; make schema or data smaller")


_METER: Final[ContextVar[_Meter]] = ContextVar("meter")


@contextmanager
def counted(steps: int, schema: object, data: object) -> Iterator[None]:
    """Limit the steps of all validators within this context.

    Args:
        steps: maximum number of steps.
        schema: the whole schema.
        data: the whole data.
    """
    meter = _Meter(steps, json_bytes(schema))
    meter.spend(json_bytes(data) // 1024)
    token = _METER.set(meter)
    try:
        yield
    finally:
        _METER.reset(token)


def _steps(name: str, value: object, instance: object, meter: _Meter) -> int:
    """Return the minimum cost of a keyword, without its subschemas."""
    length = len(instance) if isinstance(instance, list | dict) else 0
    if name in {"unevaluatedItems", "unevaluatedProperties"}:
        return 1 + length * length // 100  # the library searches a list for each
    if name == "$dynamicRef" or (name == "$ref" and isinstance(value, str) and not value.startswith("#/") and value != "#"):
        return _LOOK_UP + meter.schema_bytes // 16  # each look-up of an anchor scans the whole schema
    if name == "$ref":
        return _LOOK_UP
    return 1 + length // 4 + (len(value) // 4 if isinstance(value, list | dict) else 0)


def _counted(name: str, keyword: Keyword) -> Keyword:
    def apply(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ANN401 - jsonschema's
        meter = _METER.get()
        meter.spend(_steps(name, value, instance, meter))
        if meter.depth == CHECK_NESTING:
            raise StepsExceededError(f"its keywords are applied within each other more than {CHECK_NESTING} deep")
        meter.depth += 1
        try:
            for error in keyword(validator, value, instance, schema) or ():
                # A message quotes its data, and `anyOf` keeps the messages of all its schemas.
                meter.spend(len(error.message) // 256)
                yield error
        finally:
            meter.depth -= 1

    return apply


def _matches(pattern: str, text: str) -> bool:
    regex = compiled(pattern)
    # In the worst case, if the automaton exceeds its memory, each character costs as much as the size of the pattern.
    _METER.get().spend(1 + regex.programsize * len(text) // 1000)
    return regex.search(text) is not None


def _pattern(validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[ValidationError]:  # noqa: ANN401 - jsonschema's
    if validator.is_type(instance, "string") and not _matches(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: dict[str, Any], instance: Any, _schema: Any) -> Iterator[ValidationError]:  # noqa: ANN401
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in patterns.items():
        for key, value in instance.items():
            if _matches(pattern, key):
                yield from validator.descend(value, subschema, path=key, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:  # noqa: ANN401
    if not validator.is_type(instance, "object"):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    extras = [key for key in instance if key not in known and not any(_matches(pattern, key) for pattern in patterns)]
    if allowed is False and extras:
        named = ", ".join(repr(key) for key in sorted(extras))
        what = "matches no pattern" if patterns else "was unexpected"
        yield ValidationError(f"Additional properties are not allowed ({named} {what})")
        return
    for key in extras:
        yield from validator.descend(instance[key], allowed, path=key)


def _unique_items(validator: Any, unique: bool, instance: Any, _schema: Any) -> Iterator[ValidationError]:  # noqa: ANN401
    if not unique or not validator.is_type(instance, "array"):
        return
    _METER.get().spend(json_bytes(instance) // 1024)
    if len({to_json(_canonical(one)) for one in instance}) < len(instance):
        yield ValidationError(f"{instance!r} has non-unique elements")


def _canonical(value: object) -> object:
    """Return a value with equal JSON for all values that JSON Schema considers equal."""
    if isinstance(value, dict):
        return {key: _canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_canonical(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


_KEYWORDS: Final[dict[str, Keyword]] = {
    **cast("dict[str, Keyword]", Draft202012Validator.VALIDATORS),
    "additionalProperties": _additional_properties,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "uniqueItems": _unique_items,
}

BoundedValidator: Final = extend(  # type: ignore[no-untyped-call]  # the stubs leave it out
    Draft202012Validator, {name: _counted(name, keyword) for name, keyword in _KEYWORDS.items()}
)
"""Validator that may be used only within `counted`."""
