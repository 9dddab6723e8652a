"""JSON Schemas (2020-12) of the data of custom events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from engine.kubernetes.shapes import child

__all__ = ["data_fault", "schema_fault"]


def schema_fault(schema: dict[str, Any]) -> str | None:
    """Say what is wrong with a schema, or `None`.

    It must satisfy the meta-schema, and refer to nothing but itself: the engine fetches nothing.
    """
    try:
        Draft202012Validator.check_schema(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
        resource: Resource[Any] = DRAFT202012.create_resource(schema)
        resolver = Registry().with_resource("", resource).resolver()
        for reference in _references(schema):
            resolver.lookup(reference)
    except SchemaError as error:
        return f"is no JSON Schema: {child('', *error.absolute_path)}: {error.message}".replace(": : ", ": ")
    except Unresolvable as error:
        return f"refers to {error.ref}, which it does not hold: a schema must stand on its own"
    except RecursionError:
        return "is no JSON Schema: it is nested too deeply"
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
    except (Unresolvable, RecursionError) as error_in_schema:
        return f"the schema cannot be applied: {error_in_schema}"
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
