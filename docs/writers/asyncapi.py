"""The AsyncAPI 3.0 document: topics as channels, who writes and who reads them, event types as messages.

A message is a record on Kafka: the payload is the event's data, by the JSON Schemas beside the document, and the attributes are
headers. No servers are named: they belong to a deployment.
"""

from __future__ import annotations

from typing import Any, Final

from on_kafka import BYTES, JSON, headers_schemas

import engine
from engine.events.docstrings import summary
from engine.events.outcomes import DeadLettered
from engine.events.topics import TOPICS, level, types_by_topic
from engine.events.vocabulary import INPUT_TOPICS, Data, Topic

_SCHEMA_FORMAT: Final = "application/schema+json;version=draft-2020-12"


def asyncapi() -> dict[str, Any]:
    """Return the document, ready to be written as YAML or JSON."""
    by_topic = types_by_topic()
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Lahar",
            "version": engine.__version__,
            "description": "Events of an event-sourced job lifecycle engine for Kubernetes batch and AI platforms. "
            "They are CloudEvents 1.0, on Kafka in binary mode: the attributes are headers `ce_*`, the data are the value, and "
            "messages here are such records. Read with `isolation.level=read_committed`. In files and on the command line events "
            "are in structured mode, by the schemas in `schemas/` as a whole.",
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": JSON,
        "channels": {topic: _channel(topic, classes) for topic, classes in by_topic.items()},
        "operations": dict(_operation(topic) for topic in by_topic),
        "components": {
            "messages": {name: made for classes in by_topic.values() for name, made in _messages(classes).items()},
            "schemas": headers_schemas(),
        },
    }


def _channel(topic: Topic, classes: list[type[Data]]) -> dict[str, Any]:
    about = TOPICS[topic]
    return {
        "address": topic,
        "title": about.title,
        "description": f"{about.text} Key: {about.key}.",
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in _messages(classes)},
    }


def _operation(topic: Topic) -> tuple[str, dict[str, Any]]:
    about = TOPICS[topic]
    name, action = (f"take-{topic}", "receive") if topic in INPUT_TOPICS else (f"write-{topic}", "send")
    return name, {"action": action, "channel": {"$ref": f"#/channels/{topic}"}, "summary": about.text}


def _messages(classes: list[type[Data]]) -> dict[str, dict[str, Any]]:
    """Return the messages of a topic. A dead letter has two forms; that of the original bytes has the event's name."""
    made = {cls.TYPE: _message(cls.TYPE, cls) for cls in classes}
    if DeadLettered in classes:
        bare = f"{DeadLettered.TYPE}.json"
        made[bare] = _message(bare, DeadLettered)
        made[DeadLettered.TYPE] |= {
            "contentType": BYTES,
            "headers": _headers(DeadLettered, BYTES, "output-headers", "dead-letter-headers"),
            "payload": {"type": "string", "format": "binary", "description": "The original bytes."},
        }
    return made


def _message(name: str, cls: type[Data]) -> dict[str, Any]:
    return {
        "name": name,
        "title": cls.__name__,
        "summary": summary(cls).split("\n\n")[0],
        "contentType": JSON,
        "tags": [{"name": level(cls)}, {"name": cls.STABILITY}],
        "headers": _headers(cls, JSON, "input-headers" if cls.TOPIC in INPUT_TOPICS else "output-headers"),
        "payload": {"schemaFormat": _SCHEMA_FORMAT, "schema": {"$ref": f"./schemas/{cls.TYPE}.json#/properties/data"}},
        "bindings": {"kafka": {"key": {"type": "string", "description": TOPICS[cls.TOPIC].key}, "bindingVersion": "0.5.0"}},
    }


def _headers(cls: type[Data], content_type: str, *schemas: str) -> dict[str, Any]:
    return {
        "type": "object",
        "allOf": [{"$ref": f"#/components/schemas/{name}"} for name in schemas],
        "properties": {"content-type": {"const": content_type}, "ce_type": {"const": cls.TYPE}},
    }
