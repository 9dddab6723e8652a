"""JSON Schemas (2020-12) of the data of custom events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from engine.kubernetes.shapes import child, deeper_than

__all__ = ["data_fault", "schema_fault"]

_DEEPEST: Final = 32
"""The validator recurses several times a level; the answer must not depend on how much of the stack is in use."""


def schema_fault(schema: dict[str, Any]) -> str | None:
    """Say what is wrong with a schema, or `None`.

    It must satisfy the meta-schema, and refer to nothing but itself: the engine fetches nothing.
    """
    if deeper_than(_DEEPEST, schema):
        return f"is nested more than {_DEEPEST} deep"
    try:
        Draft202012Validator.check_schema(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    except SchemaError as error:
        return f"is no JSON Schema: {child('', *error.absolute_path)}: {error.message}".replace(": : ", ": ")
    resource: Resource[Any] = DRAFT202012.create_resource(schema)
    resolver = Registry().with_resource("", resource).resolver()
    for reference in _references(schema):
        try:
            found = resolver.lookup(reference).contents
        except Exception:  # noqa: BLE001 - a pointer into a text or a number ends in whatever Python says of that
            return f"refers to {reference}, which it does not hold: a schema must stand on its own"
        if not isinstance(found, dict | bool):
            return f"refers to {reference}, which is no schema"
    return None


def data_fault(schema: dict[str, Any] | None, data: dict[str, Any]) -> str | None:
    """Say why the data of an event do not satisfy the schema that its job declares, or `None`.

    Args:
        schema: one that has been judged; `None` takes any data.
        data: the event's data.
    """
    if schema is None:
        return None
    try:
        error = next(Draft202012Validator(schema, registry=Registry()).iter_errors(data), None)
    except Exception as why:  # noqa: BLE001 - a schema is a program of the user's: `$ref: "#"` never ends, for one
        return f"the schema cannot be applied to the data: {why}"
    return None if error is None else f"{child('data', *error.absolute_path)}: {error.message}"


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in {"$ref", "$dynamicRef"} and isinstance(value, str):
                yield value
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)
