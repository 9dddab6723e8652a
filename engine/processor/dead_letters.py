"""Dead letters: undecodable inputs with their content and origin, and their replay (design rule 7)."""

from __future__ import annotations

import base64
from hashlib import sha256
from typing import Final

from engine.events import Event, Message
from engine.events.ids import output_id
from engine.events.outcomes import DeadLettered
from engine.log.port import Record, ShardId

_TEXTS: Final = ("id", "source", "type", "subject", "correlationid", "causationid", "clusterid")
_NUMBERS: Final = ("time", "recordedtime", "sequence")
_TEXT_LIMIT: Final = 200
"""Maximum length of a key or an id in a letter without content (characters)."""


def dead_letter(shard: ShardId, record: Record, reason: str, now: int, sequence: int) -> Event[DeadLettered]:
    """Return the dead-letter event of an input.

    Args:
        shard: the shard that took the input.
        record: the input and its offset. The event's id is derived from the offset, because an unreadable input may have no id, and
            from the shard, because each shard writes its own letter for an input that all shards read.
        reason: why it is a dead letter.
        now: the shard's time (microseconds).
        sequence: sequence of the event among the shard's dead letters.
    """
    (topic, partition), offset, message = record.partition, record.offset, record.message
    attributes = {name: value for name in _TEXTS if (value := getattr(message, name))}
    attributes |= {name: str(value) for name in _NUMBERS if (value := getattr(message, name))}
    content = base64.b64encode(message.data).decode()
    letter = DeadLettered(reason, topic, partition, offset, message.key, content, attributes)
    return _event(shard, record, letter, now, sequence)


def too_large(shard: ShardId, record: Record, reason: str, now: int, sequence: int) -> Event[DeadLettered]:
    """Return the dead-letter event of an input whose output is too large for the log: its origin and a digest.

    Args:
        shard: the shard that took the input.
        record: the input and its offset.
        reason: the error of the log.
        now: the shard's time (microseconds).
        sequence: sequence of the event among the shard's dead letters.
    """
    (topic, partition), offset, message = record.partition, record.offset, record.message
    digest = sha256(message.data).hexdigest()
    letter = DeadLettered(reason[:_TEXT_LIMIT], topic, partition, offset, message.key[:_TEXT_LIMIT], "", digest=digest)
    return _event(shard, record, letter, now, sequence, _TEXT_LIMIT)


def _event(
    shard: ShardId, record: Record, letter: DeadLettered, now: int, sequence: int, limit: int | None = None
) -> Event[DeadLettered]:
    """Return the event of a letter, with the input's texts cut to `limit` characters (`None`: whole)."""
    (topic, partition), message = record.partition, record.message
    return Event(
        output_id(shard.stage, f"{shard}/{topic}/{partition}/{record.offset}", 0),
        f"lahar/{shard.stage}",
        DeadLettered.TYPE,
        str(shard),
        message.recordedtime,
        now,
        sequence,
        message.correlationid[:limit],
        message.id[:limit],
        message.clusterid[:limit],
        letter,
    )


def original(letter: DeadLettered) -> Message:
    """Return the input unchanged, to append it again once it can be read.

    Raises:
        ValueError: the letter has a digest instead of the content.
    """
    if letter.digest:
        raise ValueError(
            f"the input at {letter.topic}/{letter.partition} {letter.offset} was too large to be kept as a dead letter; "
            "let the topics accept larger records and append it again"
        )
    texts = letter.attributes
    return Message(
        letter.key,
        texts.get("id", ""),
        texts.get("source", ""),
        texts.get("type", ""),
        texts.get("subject", ""),
        int(texts.get("time", "0")),
        int(texts.get("recordedtime", "0")),
        int(texts.get("sequence", "0")),
        texts.get("correlationid", ""),
        texts.get("causationid", ""),
        texts.get("clusterid", ""),
        base64.b64decode(letter.content),
    )
