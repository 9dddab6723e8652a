"""Dead letters: what could not be read, and how it is put in again."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import cast

from engine.events import Event, Message, Topic, decode
from engine.events.jobs import DeadLettered
from engine.events.times import parse_time
from engine.log.port import Searchable

__all__ = ["dead_letters", "redriven"]


def dead_letters(log: Searchable) -> Iterator[Event[DeadLettered]]:
    """Yield all dead letters in commit order."""
    for record in log.scan(("dead-letters",), {DeadLettered.TYPE}):
        yield cast("Event[DeadLettered]", decode(record.message))


def redriven(event: Event[DeadLettered]) -> tuple[Topic, Message]:
    """Return the topic that a dead letter came from and the input as it came."""
    letter = event.data
    given = letter.attributes
    message = Message(
        letter.key,
        given.get("id", ""),
        given.get("source", ""),
        given.get("type", ""),
        given.get("subject", letter.key),
        parse_time(given["time"]) if "time" in given else event.time,
        parse_time(given["recordedtime"]) if "recordedtime" in given else event.recordedtime,
        int(given.get("sequence", "0")),
        given.get("correlationid", letter.key),
        given.get("causationid", ""),
        given.get("clusterid", ""),
        base64.b64decode(letter.content),
    )
    return cast("Topic", letter.topic), message
