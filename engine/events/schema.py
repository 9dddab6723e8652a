"""JSON Schema (2020-12) of every event type, in CloudEvents' structured mode, derived from the classes.

Descriptions are the docstrings of the classes and of their fields. Objects are open: a later release may add fields within a
version, and readers ignore unknown fields.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from engine.events.docstrings import field_docs, summary
from engine.events.vocabulary import INPUT_TOPICS, TYPES, Data, adapter

SCHEMA_BASE: Final = "https://lahar.dev/schemas/"
"""Prefix of every schema's `$id`: a name, nothing is fetched from it."""

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_TEXT: Final[JsonSchemaValue] = {"type": "string", "minLength": 1}
_TIME: Final[JsonSchemaValue] = {"type": "string", "format": "date-time"}


class _FromDocstrings(GenerateJsonSchema):
    """pydantic's generator, with docstrings of fields as descriptions and without titles that repeat names."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401, ARG002  # the base's type is private to pydantic
        return False

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        made = super().dataclass_schema(schema)
        cls = schema["cls"]
        made.pop("description", None)
        if text := summary(cls):
            made["description"] = text
        docs = field_docs(cls)
        for name, field in made.get("properties", {}).items():
            if name in docs:
                unit = field.get("description")
                field["description"] = f"{docs[name]} {unit}" if unit else docs[name]
        return made


def json_schema(name: str) -> dict[str, Any]:
    """Return the schema of one current event type.

    Raises:
        KeyError: the vocabulary has no such type.
    """
    cls = TYPES[name]
    data = adapter(cls).json_schema(schema_generator=_FromDocstrings)
    parts = data.pop("$defs", {})
    data.pop("description", None)  # it describes the whole schema
    attributes, required = _attributes(cls)
    made = {
        "$schema": _DIALECT,
        "$id": f"{SCHEMA_BASE}{name}.json",
        "title": name,
        "description": summary(cls),
        "type": "object",
        "properties": attributes | {"data": data},
        "required": required,
    }
    return made | ({"$defs": parts} if parts else {})


def json_schemas() -> dict[str, dict[str, Any]]:
    """Return the schemas of all current event types, by name, in alphabetical order."""
    return {name: json_schema(name) for name in sorted(TYPES)}


def _attributes(cls: type[Data]) -> tuple[dict[str, JsonSchemaValue], list[str]]:
    """Return the CloudEvents attributes of a type, and the required ones."""
    attributes: dict[str, JsonSchemaValue] = {
        "specversion": {"const": "1.0"},
        "id": _TEXT | {"description": "Identity: the same fact has the same id, however often it is sent."},
        "source": _TEXT | {"description": "Producer."},
        "type": {"const": cls.TYPE},
        "subject": {
            "type": "string",
            "description": "Job id; for events without a job the cluster, the shard (`lifecycle/0`) or the callback "
            "(`callback/NAME`).",
        },
        "time": _TIME | {"description": "When it happened."},
        "recordedtime": _TIME | {"description": "When Lahar recorded it; never falls within a shard."},
        "correlationid": {"type": "string", "description": "Job id; empty for events without a job."},
        "causationid": _TEXT | {"description": "Id of the direct cause; absent for inputs."},
        "clusterid": _TEXT | {"description": "The cluster."},
        "partitionkey": {"type": "string", "description": "Key of the record, if it is not the correlation id."},
        "datacontenttype": {"const": "application/json"},
    }
    required = ["specversion", "id", "source", "type"]
    if cls.TOPIC not in INPUT_TOPICS:
        attributes["sequence"] = {
            "type": "string",
            "pattern": "^[0-9]{20}$",
            "description": "Position within (topic, subject), gapless from 1, padded so that it sorts as text.",
        }
        required += ["subject", "time", "recordedtime", "sequence"]
    return attributes, [*required, "data"]
