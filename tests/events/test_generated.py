"""The committed documents are what the classes say, and they are right: schemas accept every event, AsyncAPI is well formed."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from asyncapi import asyncapi
from catalogue import catalogue
from documents import documents, write_all
from events_strategies import events, names_of
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator

from engine.events import TYPES, decode, encode, from_cloudevent, to_cloudevent
from engine.events.docstrings import field_docs, summary
from engine.events.examples import EXAMPLES, example
from engine.events.schema import json_schema, json_schemas
from engine.events.topics import LEVELS, TOPICS, level

DOCS = Path(__file__).parents[2] / "docs"


def test_the_committed_documents_are_up_to_date():
    """After a change of the vocabulary: `make docs`, read the difference, commit it."""
    expected = documents()
    committed = {name: (DOCS / name).read_text(encoding="utf-8") for name in expected if (DOCS / name).is_file()}
    assert sorted(committed) == sorted(expected)
    for name, text in expected.items():
        assert committed[name].splitlines() == text.splitlines(), name
    assert sorted(path.stem for path in (DOCS / "schemas").glob("*.json")) == sorted(TYPES)


def test_writing_reports_changes_only_and_removes_obsolete_schemas(tmp_path):
    assert len(write_all(tmp_path)) == len(documents())
    assert write_all(tmp_path) == []
    (tmp_path / "events.md").write_text("old")
    (tmp_path / "schemas" / "lahar.gone.v1.json").write_text("{}")
    assert [path.name for path in write_all(tmp_path)] == ["events.md", "lahar.gone.v1.json"]
    assert not (tmp_path / "schemas" / "lahar.gone.v1.json").exists()


@pytest.mark.parametrize("name", sorted(TYPES))
def test_every_event_of_a_type_is_valid_by_its_schema(name):
    schema = json_schema(name)
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)

    @settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
    @given(event=events(name).filter(lambda event: event.sequence and event.subject))
    def check(event):
        assert [error.message for error in validator.iter_errors(json.loads(to_cloudevent(encode(event))))] == []

    check()


def test_schemas_refuse_what_the_decoder_refuses():
    validator = Draft202012Validator(json_schema("lahar.command.issued.v2"))
    event = json.loads(to_cloudevent(encode(example("lahar.command.issued.v2"))))
    for broken in (event | {"type": "other"}, event | {"id": ""}, event | {"data": {"action": "Explode"}}, event | {"data": {}}):
        assert not validator.is_valid(broken)


def test_every_type_has_an_example_that_survives_a_round_trip():
    assert sorted(EXAMPLES) == sorted(TYPES)
    for name in TYPES:
        message = encode(example(name))
        assert decode(from_cloudevent(to_cloudevent(message), 0)) == example(name)
        assert Draft202012Validator(json_schema(name)).is_valid(json.loads(to_cloudevent(message))), name


def test_every_type_and_every_field_is_described():
    for name, cls in TYPES.items():
        assert summary(cls), name
        assert set(names_of(cls)) <= field_docs(cls).keys(), name
        assert level(cls) in LEVELS
        assert cls.TOPIC in TOPICS


def test_the_catalogue_lists_every_type_and_every_historic_version():
    text = catalogue()
    for name in TYPES:
        assert f"\n### {name}\n" in text
    assert "`lahar.command.issued.v1` |" in text


def test_schemas_carry_the_words_that_stand_under_the_fields():
    data = json_schemas()["lahar.attempt.ended.v1"]["properties"]["data"]["properties"]
    assert data["started"]["description"] == "When it began to run; absent: it never ran."
    assert data["ran"]["description"] == "From `started` to the end. Microseconds."


ASYNCAPI_3: dict[str, Any] = {
    # The parts of AsyncAPI 3.0's own schema that this document uses; no package on PyPI carries the official one.
    "type": "object",
    "required": ["asyncapi", "info", "channels", "operations", "components"],
    "additionalProperties": False,
    "properties": {
        "asyncapi": {"const": "3.0.0"},
        "info": {
            "type": "object",
            "required": ["title", "version"],
            "additionalProperties": False,
            "properties": {
                "title": {"type": "string"},
                "version": {"type": "string"},
                "description": {"type": "string"},
                "license": {"type": "object", "required": ["name"], "properties": {"url": {"type": "string"}}},
            },
        },
        "defaultContentType": {"type": "string"},
        "channels": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "required": ["address", "messages"],
                "properties": {
                    "address": {"type": ["string", "null"]},
                    "title": {"type": "string"},
                    "description": {"type": "string"},
                    "messages": {
                        "type": "object",
                        "propertyNames": {"pattern": r"^[\w.-]+$"},
                        "additionalProperties": {"$ref": "#/$defs/reference"},
                    },
                },
            },
        },
        "operations": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "required": ["action", "channel"],
                "properties": {
                    "action": {"enum": ["send", "receive"]},
                    "channel": {"$ref": "#/$defs/reference"},
                    "summary": {"type": "string"},
                },
            },
        },
        "components": {
            "type": "object",
            "additionalProperties": False,
            "propertyNames": {"pattern": r"^[\w.-]+$"},
            "properties": {
                "messages": {
                    "type": "object",
                    "additionalProperties": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["name", "payload"],
                        "properties": {
                            "name": {"type": "string"},
                            "title": {"type": "string"},
                            "summary": {"type": "string"},
                            "contentType": {"type": "string"},
                            "tags": {"type": "array", "uniqueItems": True, "items": {"type": "object", "required": ["name"]}},
                            "headers": {
                                "$ref": "https://json-schema.org/draft/2020-12/schema",
                                "required": ["type"],
                                "properties": {"type": {"const": "object"}},
                            },
                            "payload": {
                                "oneOf": [
                                    {
                                        "type": "object",
                                        "additionalProperties": False,
                                        "required": ["schemaFormat", "schema"],
                                        "properties": {"schemaFormat": {"type": "string"}, "schema": {"$ref": "#/$defs/reference"}},
                                    },
                                    {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}}},
                                ]
                            },
                            "bindings": {
                                "type": "object",
                                "additionalProperties": False,
                                "properties": {
                                    "kafka": {
                                        "type": "object",
                                        "additionalProperties": False,
                                        "properties": {"key": {"type": "object"}, "bindingVersion": {"const": "0.5.0"}},
                                    }
                                },
                            },
                        },
                    },
                },
                "schemas": {"type": "object", "additionalProperties": {"$ref": "https://json-schema.org/draft/2020-12/schema"}},
            },
        },
    },
    "$defs": {
        "reference": {
            "type": "object",
            "required": ["$ref"],
            "additionalProperties": False,
            "properties": {"$ref": {"type": "string", "format": "uri-reference"}},
        }
    },
}


def test_the_asyncapi_document_has_the_shape_of_version_3():
    document = yaml.safe_load((DOCS / "asyncapi.yaml").read_text(encoding="utf-8"))
    assert document == asyncapi()
    assert [error.message for error in Draft202012Validator(ASYNCAPI_3).iter_errors(document)] == []


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        return [value for key, value in node.items() if key == "$ref"] + [
            ref for value in node.values() for ref in references(value)
        ]
    return [ref for item in node for ref in references(item)] if isinstance(node, list) else []


def test_every_reference_of_the_asyncapi_document_leads_somewhere():
    document = asyncapi()
    for reference in references(document):
        path, _, pointer = reference.partition("#")
        found: Any = json.loads((DOCS / path).read_text(encoding="utf-8")) if path else document
        for step in pointer.strip("/").split("/"):
            found = found[step]


def test_every_type_is_a_message_of_its_topic():
    channels = asyncapi()["channels"]
    names = {name for channel in channels.values() for name in channel["messages"]}
    assert names == {*TYPES, "lahar.shard.dead_lettered.v1.json"}
    for name, cls in TYPES.items():
        assert name in channels[cls.TOPIC]["messages"]
