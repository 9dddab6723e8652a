"""JSON Schemas (2020-12) of the data of custom events.

A schema is a program that a user hands in and that runs while everybody else of the shard waits. So its size is bounded, its
patterns match in linear time (RE2), and what judging one event's data may cost is counted (`schema_steps`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from engine.events.bounds import CHECK_STEPS, EVENT_DATA_BYTES, EVENT_DATA_NESTING, SCHEMA_NESTING, SCHEMA_PATTERNS, SCHEMA_VALUES
from engine.kubernetes.manifests.linear_patterns import PatternBudget
from engine.kubernetes.manifests.schema_steps import BoundedValidator, StepsExceededError, counted
from engine.kubernetes.reading.bounded_values import deeper_than, json_bytes, more_than
from engine.kubernetes.reading.shapes import child

__all__ = ["data_fault", "schema_fault"]

_LONGEST_FAULT: Final = 500
"""Characters; the validator's messages quote what they are about."""
_VALUES_OF_DATA: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data, not schemas."""


def schema_fault(schema: dict[str, Any], budget: PatternBudget | None = None) -> str | None:
    """Return the fault of a schema, or `None`.

    It must satisfy the meta-schema, stay within the bounds, and refer to nothing but itself: the engine fetches nothing.

    Args:
        schema: the schema.
        budget: what the patterns of this schema and of the job's others may cost; `None`: it has no others.
    """
    budget = budget or PatternBudget()
    if deeper_than(SCHEMA_NESTING, schema):
        return f"is nested more than {SCHEMA_NESTING} deep"
    if more_than(SCHEMA_VALUES, schema):
        return f"has more than {SCHEMA_VALUES} values"
    keywords = list(_keywords(schema))
    patterns = {pattern for name, value in keywords for pattern in _patterns(name, value) if isinstance(pattern, str)}
    if len(patterns) > SCHEMA_PATTERNS:
        return f"has more than {SCHEMA_PATTERNS} patterns"
    for pattern in sorted(patterns):
        fault = budget.fault(pattern)
        if fault is not None:
            return f"has the pattern {_short(pattern, 100)}: {fault}"
    if {"patternProperties", "unevaluatedProperties"} <= {name for name, _ in keywords}:
        return "has both patternProperties and unevaluatedProperties: use additionalProperties beside patterns"
    try:
        Draft202012Validator.check_schema(schema, format_checker=None)  # type: ignore[arg-type]  # None: formats are not checked
    except SchemaError as error:
        return f"is no JSON Schema: {child('', *error.absolute_path)}: {_short(error.message)}".replace(": : ", ": ")
    resource: Resource[Any] = DRAFT202012.create_resource(schema)
    resolver = Registry().with_resource("", resource).crawl().resolver()
    for reference in (value for name, value in keywords if name in {"$ref", "$dynamicRef"} and isinstance(value, str)):
        try:
            found = resolver.lookup(reference).contents
        except Exception:  # noqa: BLE001 - a pointer into a text or a number ends in whatever Python says of that
            return f"refers to {_short(reference)}, which it does not contain: a schema must be self-contained"
        if not isinstance(found, dict | bool):
            return f"refers to {_short(reference)}, which is no schema"
    return None


def data_fault(schema: dict[str, Any] | None, data: dict[str, Any]) -> str | None:
    """Return why an event's data are refused, or `None`: they break the schema that its job declares, or a bound.

    Args:
        schema: one that has been judged; `None` takes any data.
        data: the event's data.
    """
    if json_bytes(data) > EVENT_DATA_BYTES:
        return f"data: more than {EVENT_DATA_BYTES:,} bytes as JSON"
    if schema is None:
        return None
    if deeper_than(EVENT_DATA_NESTING, data):
        return f"data: nested more than {EVENT_DATA_NESTING} deep"
    try:
        with counted(CHECK_STEPS, schema, data):
            error = next(BoundedValidator(schema, registry=Registry()).iter_errors(data), None)
    except StepsExceededError as why:
        return f"the schema cannot be applied to the data: {why}"
    except Exception as why:  # noqa: BLE001 - a schema is a program of the user's
        return f"the schema cannot be applied to the data: {_short(str(why))}"
    return None if error is None else f"{child('data', *error.absolute_path)}: {_short(error.message)}"


def _keywords(schema: object) -> Iterator[tuple[str, Any]]:
    """Yield every keyword of a schema and of the schemas within it."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            yield key, value
            if key not in _VALUES_OF_DATA:
                yield from _keywords(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _keywords(value)


def _patterns(name: str, value: object) -> Iterable[object]:
    if name == "pattern":
        return [value]
    return value if name == "patternProperties" and isinstance(value, dict) else ()


def _short(text: str, most: int = _LONGEST_FAULT) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
