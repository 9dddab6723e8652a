"""The codec for Faust: records in CloudEvents' binary or structured mode become `Received`."""

from __future__ import annotations

from typing import Any

import faust

from streams.agents.received import Received
from streams.codec import decode

__all__ = ["EventSchema"]

_MILLISECONDS = 1_000


class EventSchema(faust.Schema[Any, Any]):
    """Reads keys as bytes and values as `Received`. It never fails: what is no event says so when its event is asked for.

    That matters: Faust acknowledges a record that its codec refuses at once, before those that stand before it are done.
    """

    def loads_key(self, app: Any, message: Any, **_: Any) -> Any:  # noqa: ANN401, ARG002  as Faust calls it
        """Return the key as it is."""
        return message.key

    def loads_value(self, app: Any, message: Any, **_: Any) -> Any:  # noqa: ANN401, ARG002  as Faust calls it
        """Return the record, headers and all."""
        held, _metadata = decode(message.key, message.value, message.headers or (), int((message.timestamp or 0) * _MILLISECONDS))
        return Received(held, message.topic, message.partition, message.offset)
