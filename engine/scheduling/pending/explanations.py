"""Why jobs wait, as records: what a round has found, and when it is worth a record of its own."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from math import ceil
from operator import attrgetter
from typing import Final
from zlib import crc32

from engine.events.scheduling import JobExplained
from engine.events.times import SECOND, Micros
from engine.scheduling.cluster.job_records import JobRecord
from engine.scheduling.pending.reasons import Reason

__all__ = [
    "FIRST",
    "NAMES",
    "alike",
    "due_at",
    "explanation",
    "figures_due",
    "margin",
    "same_but_figures",
    "same_figures",
    "told_alike",
    "words_of",
]

NAMES: Final = 50
"""Resources, and words for nodes, that one reason names: a pod may ask for thousands."""
FIRST: Final = 8
"""Places in a queue each of which is told, and at which figures are."""

_MINUTE: Final = 60 * SECOND
_LONGEST: Final = 60 * _MINUTE
_ALIKE: Final = {"GangNotComplete": "InsufficientResource"}
"""Reasons that are the same words: a job goes to and fro between them while room comes and goes."""
_OF_ROOM: Final = frozenset({"GangNotComplete", "InsufficientResource", "NodeTooSmall", "ClusterTooSmall"})


def explanation(reason: Reason, queue: str) -> JobExplained:
    """Return a reason as it is told, but for the place in the queue."""
    return JobExplained(
        reason.code,
        reason.action,
        reason.plugin,
        reason.subject,
        {name: ceil(amount) for name, amount in islice(reason.missing.items(), NAMES)},
        dict(islice(reason.nodes.items(), NAMES)),
        queue,
        message=reason.message,
        asked={name: ceil(amount) for name, amount in islice(reason.asked.items(), NAMES)},
    )


def words_of(said: JobExplained) -> int:
    """Return a checksum of a reason's words: of all but its figures and place."""
    reason, *others = _told(said)
    return crc32("\n".join((_ALIKE.get(reason, reason), *others, said.queue, *sorted(said.nodes))).encode())


def alike(one: str, other: str) -> bool:
    """Return whether two reasons are the same, or go to and fro as room and nodes come and go."""
    return one == other or {one, other} <= _OF_ROOM


def margin(place: int, told: int) -> int:
    """Return by how many a place must change at least until it is worth a record; 0: it is."""
    if min(place, told) <= FIRST:
        return int(place == told)
    return max(0, min(place - max(FIRST, told // 2), 2 * told - place))


def due_at(said: JobExplained, place: int, head: JobRecord) -> Micros | None:
    """Return from when on a reason of a job is worth a record (microseconds); `None`: never, what stands says the same.

    New words are worth one at once, so are those of a job about which no reason stands. Figures, places, and words that the job was
    told before change each second in a busy cluster: they are told at a full minute, one minute after the last record at least, and
    the longer the job waits the more rarely, down to once an hour. Behind the first of a queue figures are told with a new place.

    Args:
        said: the reason, whatever place it says.
        place: the job's place in its queue.
        head: of the job.
    """
    before = head.reason
    if before is None:
        return 0
    if not same_but_figures(said, before):
        return figures_due(head) if words_of(said) in head.told_words else 0
    news = margin(place, before.place) == 0 or (place <= FIRST and not same_figures(said, before))
    return figures_due(head) if news else None


def same_figures(said: JobExplained, before: JobExplained) -> bool:
    """Return whether two reasons that are the same but for figures have the same figures, too."""
    return said.reason == before.reason and said.missing == before.missing and said.nodes == before.nodes


def figures_due(head: JobRecord) -> Micros:
    """Return from when on other figures, another place or earlier words are worth a record (microseconds)."""
    wait = min(max(head.told - head.since, _MINUTE), _LONGEST)
    return -(-(head.told + wait) // _MINUTE) * _MINUTE


def same_but_figures(said: JobExplained, before: JobExplained) -> bool:
    """Return whether two reasons differ in nothing but figures and place."""
    return said.queue == before.queue and _same_words(_told(said), said.nodes, _told(before), before.nodes)


def told_alike(one: Reason, other: Reason) -> bool:
    """Return whether two reasons of jobs in one queue are the same but for figures, as they are told."""
    return one is other or _same_words(_found(one), one.nodes, _found(other), other.nodes)


_told: Final = attrgetter("reason", "action", "plugin", "about", "message")
_found: Final = attrgetter("code", "action", "plugin", "subject", "message")


def _same_words(one: tuple[str, ...], nodes: Mapping[str, int], other: tuple[str, ...], of_other: Mapping[str, int]) -> bool:
    same = one == other or (_ALIKE.get(one[0], one[0]) == _ALIKE.get(other[0], other[0]) and one[1:] == other[1:])
    return same and nodes.keys() == of_other.keys()
