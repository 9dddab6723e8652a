"""Redrive of dead letters: their inputs appended again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from engine.events import Event, Message, Topic
from engine.events.outcomes import DeadLettered
from engine.events.vocabulary import INPUT_TOPICS
from engine.kubernetes.edge import Refused, Taken, to_inputs
from engine.kubernetes.reading.accelerators import BUILT_IN, Accelerators
from engine.kubernetes.reading.documents import read_documents
from engine.processor.dead_letters import original


def objection(letter: DeadLettered) -> str | None:
    """Return the reason why a dead letter cannot be redriven; `None` if it can."""
    if letter.digest:
        return "was too large to be kept"
    if letter.topic not in INPUT_TOPICS:
        return f"is no input: stages write {letter.topic}, and its consumers would see the record twice"
    return None


def redriven(event: Event[DeadLettered], accelerators: Accelerators = BUILT_IN) -> list[tuple[Topic, Sequence[Message]]]:
    """Return the messages to append to redrive a dead letter.

    An input returns unchanged to its topic. An object that the edge could not parse is parsed by the edge of this release.
    """
    letter = event.data
    message = original(letter)
    if message.type or not message.source:
        return [(cast("Topic", letter.topic), [message])]
    inputs: list[tuple[Topic, Sequence[Message]]] = []
    for item in read_documents(message.data):
        match to_inputs(item, message.clusterid, message.recordedtime, accelerators):
            case Taken(topic, messages):
                inputs.append((topic, messages))
            case Refused(topic, again):
                inputs.append((topic, [again]))
    return inputs
