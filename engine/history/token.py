"""The position of a subscription as an opaque text for clients: URL-safe, versioned, validated on use.

A token maps each partition to its next offset and a digest of the last event before it. The digest ties the token to the log's
content: a copy or backup of the log accepts it, another log does not.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, get_args

from engine.events import Topic
from engine.events.ids import digest
from engine.history.errors import ExpiredTokenError, ForeignTokenError, MalformedTokenError
from engine.log.port import Log, Partition

_VERSION: Final = 1
_EPOCH: Final = 1
"""Schema epoch: incremented when offsets of the topic change their meaning."""


class Place(NamedTuple):
    """Position in one partition."""

    next: int
    """Next offset to read."""
    last: int = -1
    """Offset of the last event before it; -1: none."""
    mark: str = ""
    """Digest of that event's id."""


def digest_of(event_id: str) -> str:
    """Return the digest of an event id in a token."""
    return digest(event_id.encode(errors="surrogatepass"))[:12]


def write_token(topic: Topic, places: Mapping[int, Place]) -> str:
    """Return a token for positions in a topic's partitions."""
    content = {"v": _VERSION, "e": _EPOCH, "t": topic, "p": {str(number): places[number] for number in sorted(places)}}
    return base64.urlsafe_b64encode(json.dumps(content, separators=(",", ":")).encode()).decode().rstrip("=")


def is_token(text: str) -> bool:
    """Return whether a text begins as every token does: with the base64 of a JSON object."""
    return text.startswith("eyJ")


def read_token(token: str) -> tuple[Topic, dict[int, Place]]:
    """Return the topic and the positions of a token.

    Raises:
        MalformedTokenError: not a token, or one of another version.
        ForeignTokenError: from another schema epoch.
    """
    try:
        content: Any = json.loads(base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True))
        version, epoch, topic = content["v"], content["e"], content["t"]
        if version != _VERSION:
            raise MalformedTokenError(f"version {version!r}, this release reads {_VERSION}")
        if epoch != _EPOCH:
            raise ForeignTokenError(f"schema epoch {epoch!r}, this log is of epoch {_EPOCH}")
        places = {int(number): Place(*place) for number, place in content["p"].items()}
        sound = all(
            type(place.next) is int and type(place.last) is int and type(place.mark) is str and -1 <= place.last < place.next
            for place in places.values()
        )
    except (binascii.Error, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, MalformedTokenError | ForeignTokenError):
            raise
        raise MalformedTokenError("it cannot be read") from None
    if topic not in get_args(Topic) or not sound:
        raise MalformedTokenError("it cannot be read")
    return topic, places


def check(log: Log, topic: Topic, places: Mapping[int, Place]) -> None:
    """Check that a log holds every event from these positions on.

    Raises:
        ForeignTokenError: the positions are from another log.
        ExpiredTokenError: later events are no longer retained.
    """
    count = log.partitions(topic)
    for number, place in places.items():
        partition = Partition(topic, number)
        name = f"{topic}/{number}"
        if not 0 <= number < count:
            raise ForeignTokenError(f"it names {name}, this log has {count} partitions of {topic}")
        if place.next > log.end(partition):
            raise ForeignTokenError(f"it resumes at {name} offset {place.next}, beyond this log's end {log.end(partition)}")
        known = place.last >= 0
        found = log.read(partition, place.last if known else place.next, 1)
        first = found[0].offset if found else log.end(partition)
        if known and found and first == place.last:
            if digest_of(found[0].message.id) != place.mark:
                raise ForeignTokenError(f"another event is at {name} offset {place.last}")
        elif first > place.next:
            raise ExpiredTokenError(name, place.next, first)
