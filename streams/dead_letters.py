"""Dead letters in Kafka Connect's format: the original bytes are the value, reason and origin are headers.

The headers are those of Kafka Connect's dead letter queues (`__connect.errors.*`), beside the CloudEvents headers of the shard's
event. `unpack` and `pack` convert between event and record.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError
from pydantic_core import from_json

from engine.events.outcomes import DeadLettered
from engine.events.vocabulary import adapter

_PREFIX: Final = "__connect.errors."
_ATTRIBUTES: Final = "lahar_attributes"


def unpack(key: str, data: bytes) -> tuple[bytes, list[tuple[str, bytes]]] | None:
    """Return the original bytes of a dead letter, and headers for its other fields.

    Args:
        key: key of the record.
        data: data of the event.

    Returns:
        Bytes and headers; `None` if headers cannot represent the data, which is then written as JSON.
    """
    try:
        letter = adapter(DeadLettered).validate_json(data)
        original = base64.b64decode(letter.content, validate=True)
    except (ValidationError, ValueError):
        return None
    headers = [
        (f"{_PREFIX}topic", letter.topic.encode()),
        (f"{_PREFIX}partition", b"%d" % letter.partition),
        (f"{_PREFIX}offset", b"%d" % letter.offset),
        (f"{_PREFIX}stage", b"VALUE_CONVERTER"),
        (f"{_PREFIX}exception.message", letter.reason.encode()),
        (_ATTRIBUTES, json.dumps(letter.attributes, ensure_ascii=False).encode()),
    ]
    if not original or pack(key, original, dict(headers)) != data:
        return None
    return original, headers


def pack(key: str, original: bytes, headers: Mapping[str, bytes]) -> bytes:
    """Return the event data of a dead letter.

    Raises:
        ValueError: a header is missing or not a number.
    """
    try:
        letter = DeadLettered(
            headers[f"{_PREFIX}exception.message"].decode(),
            headers[f"{_PREFIX}topic"].decode(),
            int(headers[f"{_PREFIX}partition"]),
            int(headers[f"{_PREFIX}offset"]),
            key,
            base64.b64encode(original).decode(),
            from_json(headers.get(_ATTRIBUTES, b"{}")),
        )
    except KeyError as missing:
        raise ValueError(f"a dead letter without the header {missing}") from None
    return adapter(DeadLettered).dump_json(letter, exclude_defaults=True)
