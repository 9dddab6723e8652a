"""Dead letters: undecodable inputs, and discards of them."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from engine.events import Event, Topic, decode
from engine.events.outcomes import DeadLettered, LetterDiscarded
from engine.history.errors import NotFoundError
from engine.log.port import Searchable


def dead_letters(log: Searchable) -> Iterator[Event[DeadLettered]]:
    """Yield all dead letters in commit order; a record dead-lettered by several shards appears once."""
    seen: set[tuple[str, int, int]] = set()
    for record in log.scan(("dead-letters",), {DeadLettered.TYPE}):
        event = cast("Event[DeadLettered]", decode(record.message))
        letter = event.data
        place = letter.topic, letter.partition, letter.offset
        if place not in seen:
            seen.add(place)
            yield event


class Letter(NamedTuple):
    """Undecodable input with all its redrives."""

    event: Event[DeadLettered]
    """The newest dead letter."""
    tries: int
    """Number of times it was appended."""
    discarded: Event[LetterDiscarded] | None = None
    """The discard; `None` if it is open."""


def latest_letters(log: Searchable) -> list[Letter]:
    """Return the newest letter of each content, in commit order: a failed redrive adds another letter."""
    latest: dict[tuple[object, ...], Letter] = {}
    for event in dead_letters(log):
        data = event.data
        place = (data.topic, data.partition, data.offset)
        # The line ending is not part of the object.
        same = place if data.digest else (data.topic, base64.b64decode(data.content).strip())
        before = latest.pop(same, None)
        latest[same] = Letter(event, 1 if before is None else before.tries + 1)
    discarded = _discarded(log) if latest else {}
    return [letter._replace(discarded=discarded.get(letter.event.id)) for letter in latest.values()]


def _discarded(log: Searchable) -> dict[str, Event[LetterDiscarded]]:
    """Return the first discard of each letter."""
    found: dict[str, Event[LetterDiscarded]] = {}
    for record in log.scan(("job-events",), {LetterDiscarded.TYPE}):
        found.setdefault(record.message.subject, cast("Event[LetterDiscarded]", decode(record.message)))
    return found


def meant_letters(letters: Sequence[Letter], ids: Sequence[str]) -> list[Letter]:
    """Return the letters whose ids have one of the prefixes.

    Raises:
        NotFoundError: no letter matches a prefix.
    """
    for given in ids:
        if not any(letter.event.id.startswith(given) for letter in letters):
            raise NotFoundError("dead letter", given)
    return [letter for letter in letters if letter.event.id.startswith(tuple(ids))]


def dead_lettered(log: Searchable, topic: Topic) -> set[tuple[int, int]]:
    """Return partition and offset of each dead-lettered record of a topic, including decodable ones with too large outputs."""
    letters = (event.data for event in dead_letters(log))
    return {(letter.partition, letter.offset) for letter in letters if letter.topic == topic}
