"""Ingestion of cluster state by Python programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from engine.application.arguments import as_json
from engine.application.feed import Feed
from engine.events import Message, Topic
from engine.events.bounds import MOMENT_INPUTS
from engine.kubernetes.device_claims import DeviceClaims
from engine.kubernetes.edge import Ignored, Refused, to_inputs
from engine.kubernetes.ingest_report import IngestReport
from engine.kubernetes.list_moment import ListMoments
from engine.kubernetes.owner_chains import OwnerChains
from engine.kubernetes.reading.accelerators import BUILT_IN, Accelerators
from engine.kubernetes.reading.documents import read_documents
from engine.log.producer_time import wall_clock


@dataclass(frozen=True, slots=True)
class Ingested:
    """Counts of ingested objects by outcome, as in `lahar ingest --json`."""

    objects: int
    """All objects; each item of a List counts."""
    taken: int
    """Inputs made from them."""
    ignored: int
    """Objects without an input: kinds that Lahar ignores, bookmarks."""
    ignored_kinds: dict[str, int]
    """Ignored objects by kind."""
    unreadable: int
    """Unreadable objects; each becomes a dead letter."""
    first_unreadable: str
    """The first unreadable object and why: `object 3: line 1: metadata.uid: missing`; empty: none."""
    errors: int
    """Errors that a server reported instead of objects."""
    first_error: str
    processed: int
    """Inputs taken and timers fired by this call; 0 if another process processes the inputs."""

    @property
    def complete(self) -> bool:
        """Whether all objects could be read and no server reported missing ones."""
        return not self.unreadable and not self.errors


def append_objects(
    feed: Feed, cluster: str, objects: Iterable[Mapping[str, Any]], tally: IngestReport, accelerators: Accelerators = BUILT_IN
) -> None:
    """Append the inputs made from objects.

    Pods whose claims of devices were not read wait for the rest of a sequence; an iterator may be a watch that goes on.

    Args:
        feed: appends to the log.
        cluster: the cluster of the objects.
        objects: Kubernetes objects, Lists or watch events, as decoded JSON.
        tally: counts them.
        accelerators: the table that says which resources are GPUs.

    Raises:
        LogUnavailableError: the log cannot be written.
        RequestError: an object cannot be written as JSON; earlier objects are appended.
        Exception: whatever the iterable raises; earlier objects are appended.
    """
    chains = OwnerChains()
    claims = DeviceClaims(accelerators)
    moments = ListMoments(chains)
    pending: list[tuple[Topic, Message]] = []

    def take(inputs: Sequence[tuple[Topic, Message]]) -> None:
        pending.extend(inputs)
        if len(pending) >= MOMENT_INPUTS or not (claims.incomplete and isinstance(objects, Sequence)):
            flush()

    def flush() -> None:
        inputs = claims.resolve(chains.resolve(pending))
        pending.clear()
        for topic, run in groupby(inputs, itemgetter(0)):
            feed.append(topic, [message for _, message in run])

    try:
        for number, content in enumerate(objects, start=1):
            for item in read_documents(as_json(content, f"object {number}")):
                outcome = to_inputs(item, cluster, wall_clock(), accelerators)
                tally.add(f"object {number}: ", item, outcome)
                chains.note(item)
                claims.note(item, outcome)
                inputs: list[tuple[Topic, Message]] = []
                if isinstance(outcome, Refused):
                    take([(outcome.topic, outcome.message)])
                elif not isinstance(outcome, Ignored):
                    inputs = [(outcome.topic, message) for message in outcome.messages]
                take(moments.take(item.of_list, inputs))
            take(moments.end())
    finally:
        flush()


def ingested(tally: IngestReport, processed: int) -> Ingested:
    """Return the counts of a tally."""
    kinds = dict(tally.kinds.most_common())
    return Ingested(
        tally.objects, tally.taken, tally.ignored, kinds, tally.unreadable, tally.first, tally.errors, tally.error, processed
    )
