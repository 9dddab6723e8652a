"""Records that no producer of ours writes."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

from chaos_feed import Given, Raw, dice

from engine.events import Message, Topic

_TOPICS: tuple[Topic, ...] = ("pods", "jobs", "cluster")
_JSON = ("content-type", b"application/json")


def with_garbage(given: Sequence[Given], every: int, seed: int) -> tuple[list[Given], dict[Topic, int]]:
    """Put a bad record behind each so many inputs, on all input topics in turn.

    Returns:
        All of it, and the number of bad records by topic.
    """
    chance, made, counts = dice(seed), [], dict.fromkeys(_TOPICS, 0)
    for place, found in enumerate(given):
        made.append(found)
        if place % every == 0:
            topic = _TOPICS[place // every % len(_TOPICS)]
            counts[topic] += 1
            made.append((topic, _bad(chance, found[1])))
    return made, counts


def _bad(chance: random.Random, near: Message | Raw) -> Raw:
    """Return a record that cannot be read, of one of many kinds."""
    assert isinstance(near, Message)
    key, noise = near.key.encode(), chance.randbytes(chance.randrange(1, 400))
    event = {"specversion": "1.0", "id": near.id, "source": "elsewhere", "type": near.type, "subject": near.subject}
    headers = [_JSON, *((f"ce_{name}", value.encode()) for name, value in event.items() if value)]
    structured = [("content-type", b"application/cloudevents+json")]
    kinds = (
        # Bytes of all sorts.
        Raw(key, noise, []),
        Raw(noise, noise, []),
        Raw(key, near.data[: len(near.data) // 2], headers),
        # Nothing.
        Raw(key, None, []),
        Raw(key, b"", headers),
        Raw(None, b"", []),
        # Events of the wrong shape, of no known type, of a type that is no input.
        Raw(key, b'{"uid": 7}', headers),
        Raw(key, b"[]", headers),
        Raw(key, near.data, [(name, b"lahar.unheard.of.v9" if name == "ce_type" else value) for name, value in headers]),
        Raw(key, b"{}", [(name, b"lahar.job.opened.v1" if name == "ce_type" else value) for name, value in headers]),
        Raw(key, near.data, [(name, value) for name, value in headers if name != "ce_id"]),
        Raw(key, near.data, [*headers, ("ce_sequence", b"many")]),
        Raw(key, near.data, [*headers, ("ce_recordedtime", b"yesterday")]),
        # Structured mode.
        Raw(key, noise, structured),
        Raw(key, json.dumps({**event, "data": {"uid": 7}}).encode(), structured),
        Raw(key, json.dumps([event]).encode(), [("content-type", b"application/cloudevents-batch+json")]),
        Raw(key, b'{"specversion": "1.0"', structured),
        # Huge keys.
        Raw(b"k" * 200_000, noise, []),
        Raw(chance.randbytes(50_000), b"{}", headers),
        # What only shards write.
        Raw(key, noise, [("lahar_shard", b"lifecycle/0"), ("lahar_shardsequence", b"1"), ("lahar_basis", b"0,0,0")]),
    )
    return kinds[chance.randrange(len(kinds))]


def with_large_jobs(given: Sequence[Given], every: int, size: int, seed: int) -> tuple[list[Given], int]:
    """Make some submitted jobs so large that the events about them do not fit.

    Returns:
        All of it, and how many are large.
    """
    chance, made, count = dice(seed), [], 0
    seen: set[str] = set()
    for topic, found in given:
        message = found
        # One that is repeated is known by its id, and nothing follows from it.
        if isinstance(found, Message) and found.type == "lahar.job.submitted.v1" and found.id not in seen:
            seen.add(found.id)
            if len(seen) % every == 0:
                count += 1
                body = json.loads(found.data)
                containers = body["manifest"]["spec"]["tasks"][0]["template"]["spec"]["containers"]
                containers[0]["args"] = [chance.randbytes(size // 2).hex()]
                message = found._replace(data=json.dumps(body).encode())
        made.append((topic, message))
    return made, count
