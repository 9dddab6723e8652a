"""JSON Schemas (2020-12) for the data of custom events.

A user's schema runs while all other jobs of the shard wait. So its size is bounded, its patterns match in linear time (RE2), and
the cost of validating one event's data is limited (`schema_steps`).
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

_LONGEST_FAULT: Final = 500
"""Maximum length of a fault (characters), because the validator quotes the data."""
_VALUES_OF_DATA: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data, not schemas."""


def schema_fault(schema: dict[str, Any], budget: PatternBudget | None = None) -> str | None:
    """Return the fault of a schema, or `None`.

    It must satisfy the meta-schema, stay within the bounds, and refer only to itself, because the engine fetches nothing.

    Args:
        schema: schema to check.
        budget: remaining cost of all patterns of the job; `None`: the schema is the job's only one.
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
        except Exception:  # noqa: BLE001 - a pointer into a text or a number may raise any error
            return f"refers to {_short(reference)}, which it does not contain: a schema must be self-contained"
        if not isinstance(found, dict | bool):
            return f"refers to {_short(reference)}, which is no schema"
    return None


def data_fault(schema: dict[str, Any] | None, data: dict[str, Any]) -> str | None:
    """Return the reason to reject an event's data, or `None`: they violate the schema of the job, or a bound.

    Args:
        schema: valid schema; `None` accepts any data.
        data: data of the event.
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
    except Exception as why:  # noqa: BLE001 - a schema is third-party code
        return f"the schema cannot be applied to the data: {_short(str(why))}"
    return None if error is None else f"{child('data', *error.absolute_path)}: {_short(error.message)}"


def _keywords(schema: object) -> Iterator[tuple[str, Any]]:
    """Yield every keyword of a schema and its subschemas."""
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
