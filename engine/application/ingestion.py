"""What a cluster shows, as a Python program puts it in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from engine.application.feed import Feed
from engine.events import Message, Topic
from engine.kubernetes.edge import Ignored, Refused, to_inputs
from engine.kubernetes.list_moment import ListMoments
from engine.kubernetes.reading.documents import read_documents
from engine.kubernetes.tally import Tally
from engine.log.producer_time import wall_clock

__all__ = ["Ingested", "append_objects", "ingested"]


@dataclass(frozen=True, slots=True)
class Ingested:
    """How many objects were put in, and what became of them: what `lahar ingest --json` says."""

    objects: int
    """All of them, items of Lists each for itself."""
    taken: int
    """Inputs that followed from them."""
    ignored: int
    """Objects from which nothing follows: kinds that Lahar does not read, bookmarks."""
    ignored_kinds: dict[str, int]
    """The same by kind."""
    unreadable: int
    """Objects of which nothing can be made; each ends as a dead letter."""
    first_unreadable: str
    """Which was the first of them, and why: `object 3: line 1: metadata.uid: missing`; empty: there are none."""
    errors: int
    """Errors that a server reported instead of objects."""
    first_error: str
    processed: int
    """Inputs taken and timers fired by this call; 0 also where somebody else processes what was appended."""

    @property
    def complete(self) -> bool:
        """All of it could be read, and no server says that some of it is missing."""
        return not self.unreadable and not self.errors


def append_objects(feed: Feed, cluster: str, objects: Iterable[Mapping[str, Any]], tally: Tally) -> None:
    """Append what follows from objects.

    Args:
        feed: into the log.
        cluster: that shows them.
        objects: Kubernetes objects, Lists or watch events, as decoded JSON.
        tally: counts them.

    Raises:
        LogUnavailableError: the log cannot be written.
        Exception: whatever the iterable raises; what it gave before is appended.
    """
    moments = ListMoments()
    for number, content in enumerate(objects, start=1):
        for item in read_documents(json.dumps(content).encode()):
            outcome = to_inputs(item, cluster, wall_clock())
            tally.add(f"object {number}: ", item, outcome)
            inputs: list[tuple[Topic, Message]] = []
            if isinstance(outcome, Refused):
                feed.append(outcome.topic, [outcome.message])
            elif not isinstance(outcome, Ignored):
                inputs = [(outcome.topic, message) for message in outcome.messages]
            _append(feed, moments.take(item.of_list, inputs))
        _append(feed, moments.end())


def ingested(tally: Tally, processed: int) -> Ingested:
    """Return what was counted."""
    kinds = dict(tally.kinds.most_common())
    return Ingested(
        tally.objects, tally.taken, tally.ignored, kinds, tally.unreadable, tally.first, tally.errors, tally.error, processed
    )


def _append(feed: Feed, inputs: Iterable[tuple[Topic, Message]]) -> None:
    for topic, run in groupby(inputs, itemgetter(0)):
        feed.append(topic, [message for _, message in run])
