"""Dead letters: what could not be read, and how it is put in again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from engine.events import Event, Message, Topic, decode
from engine.events.jobs import DeadLettered
from engine.kubernetes.edge import Refused, Taken, to_inputs
from engine.kubernetes.reading.documents import read_documents
from engine.log.port import Searchable
from engine.processor.dead_letters import original

__all__ = ["dead_letters", "redriven", "set_aside"]


def dead_letters(log: Searchable) -> Iterator[Event[DeadLettered]]:
    """Yield all dead letters in commit order; a record of `cluster`, which every shard takes and sets aside, once."""
    shared: set[int] = set()
    for record in log.scan(("dead-letters",), {DeadLettered.TYPE}):
        event = cast("Event[DeadLettered]", decode(record.message))
        letter = event.data
        if letter.topic == "cluster":
            if letter.offset in shared:
                continue
            shared.add(letter.offset)
        yield event


def set_aside(log: Searchable, topic: Topic) -> set[tuple[int, int]]:
    """Return partition and offset of each record on a topic that was set aside: it may be readable, and what follows too large."""
    letters = (event.data for event in dead_letters(log))
    return {(letter.partition, letter.offset) for letter in letters if letter.topic == topic}


def redriven(event: Event[DeadLettered]) -> list[tuple[Topic, Sequence[Message]]]:
    """Return what is to be appended to put a dead letter in again.

    An input goes to the topic that it came from, as it came. What the edge could not read goes through the edge of this release.
    """
    letter = event.data
    message = original(letter)
    if message.type or not message.source:
        return [(cast("Topic", letter.topic), [message])]
    inputs: list[tuple[Topic, Sequence[Message]]] = []
    for item in read_documents(message.data):
        match to_inputs(item, message.clusterid, message.recordedtime):
            case Taken(topic, messages):
                inputs.append((topic, messages))
            case Refused(topic, again):
                inputs.append((topic, [again]))
    return inputs
