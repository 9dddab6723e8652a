"""The AsyncAPI 3.0 document: topics as channels, who writes and who reads them, event types as messages.

Payloads point at the JSON Schemas beside the document. No servers are named: they belong to a deployment.
"""

from __future__ import annotations

from typing import Any, Final

import engine
from engine.events.docstrings import summary
from engine.events.topics import TOPICS, level, types_by_topic
from engine.events.vocabulary import Data, Topic

__all__ = ["asyncapi"]

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
            "They are CloudEvents 1.0: structured mode in files and on the command line; on Kafka binary mode, with the "
            "attributes as headers `ce_*` and the data as value.",
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/cloudevents+json",
        "channels": {topic: _channel(topic, classes) for topic, classes in by_topic.items()},
        "operations": dict(_operation(topic) for topic in by_topic),
        "components": {"messages": {cls.TYPE: _message(cls) for classes in by_topic.values() for cls in classes}},
    }


def _channel(topic: Topic, classes: list[type[Data]]) -> dict[str, Any]:
    about = TOPICS[topic]
    return {
        "address": topic,
        "title": about.title,
        "description": f"{about.text} Key: {about.key}.",
        "messages": {cls.TYPE: {"$ref": f"#/components/messages/{cls.TYPE}"} for cls in classes},
    }


def _operation(topic: Topic) -> tuple[str, dict[str, Any]]:
    about = TOPICS[topic]
    name, action = (f"take-{topic}", "receive") if about.from_outside else (f"write-{topic}", "send")
    return name, {"action": action, "channel": {"$ref": f"#/channels/{topic}"}, "summary": about.text}


def _message(cls: type[Data]) -> dict[str, Any]:
    return {
        "name": cls.TYPE,
        "title": cls.__name__,
        "summary": summary(cls).split("\n\n")[0],
        "contentType": "application/cloudevents+json",
        "tags": [{"name": level(cls)}, {"name": cls.STABILITY}],
        "payload": {"schemaFormat": _SCHEMA_FORMAT, "schema": {"$ref": f"./schemas/{cls.TYPE}.json"}},
    }
