"""Pending reasons as records, and the rule when a changed reason is published."""

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

NAMES: Final = 50
"""Greatest number of resources, and of node reasons, in one record: a pod may request thousands."""
FIRST: Final = 8
"""First positions of a queue, at which every change of position and figures is published."""

_MINUTE: Final = 60 * SECOND
_LONGEST: Final = 60 * _MINUTE
_ALIKE: Final = {"GangNotComplete": "InsufficientResource"}
"""Reason codes that count as equal: jobs alternate between them while free resources vary."""
_OF_ROOM: Final = frozenset({"GangNotComplete", "InsufficientResource", "NodeTooSmall", "ClusterTooSmall"})


def explanation(reason: Reason, queue: str) -> JobExplained:
    """Return a reason as it is published, without the position in the queue."""
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
    """Return a checksum of a reason without its figures and position."""
    reason, *others = _told(said)
    return crc32("\n".join((_ALIKE.get(reason, reason), *others, said.queue, *sorted(said.nodes))).encode())


def alike(one: str, other: str) -> bool:
    """Return whether two reason codes are equal, or alternate while free resources vary."""
    return one == other or {one, other} <= _OF_ROOM


def margin(place: int, told: int) -> int:
    """Return the least further change of a position that is published; 0: the present change is."""
    if min(place, told) <= FIRST:
        return int(place == told)
    return max(0, min(place - max(FIRST, told // 2), 2 * told - place))


def due_at(said: JobExplained, place: int, head: JobRecord) -> Micros | None:
    """Return the time from which a reason of a job is published (microseconds); `None`: never, it equals the published one.

    A new reason is published at once. Figures, positions and earlier reasons vary every second in a busy cluster: they are
    published at a full minute, at least one minute after the last record, and less often the longer the job waits, down to once
    an hour. Behind the first positions of a queue figures are published with a new position only.

    Args:
        said: the reason; its position is ignored.
        place: the job's position in its queue.
        head: the job's record.
    """
    before = head.reason
    if before is None:
        return 0
    if not same_but_figures(said, before):
        return figures_due(head) if words_of(said) in head.told_words else 0
    news = margin(place, before.place) == 0 or (place <= FIRST and not same_figures(said, before))
    return figures_due(head) if news else None


def same_figures(said: JobExplained, before: JobExplained) -> bool:
    """Return whether two reasons that are equal except for figures have equal figures."""
    return said.reason == before.reason and said.missing == before.missing and said.nodes == before.nodes


def figures_due(head: JobRecord) -> Micros:
    """Return the time from which figures, positions and earlier reasons are published (microseconds)."""
    wait = min(max(head.told - head.since, _MINUTE), _LONGEST)
    return -(-(head.told + wait) // _MINUTE) * _MINUTE


def same_but_figures(said: JobExplained, before: JobExplained) -> bool:
    """Return whether two reasons differ in figures and position only."""
    return said.queue == before.queue and _same_words(_told(said), said.nodes, _told(before), before.nodes)


def told_alike(one: Reason, other: Reason) -> bool:
    """Return whether two reasons of jobs in one queue are equal as published, except for figures."""
    return one is other or _same_words(_found(one), one.nodes, _found(other), other.nodes)


_told: Final = attrgetter("reason", "action", "plugin", "about", "message")
_found: Final = attrgetter("code", "action", "plugin", "subject", "message")


def _same_words(one: tuple[str, ...], nodes: Mapping[str, int], other: tuple[str, ...], of_other: Mapping[str, int]) -> bool:
    same = one == other or (_ALIKE.get(one[0], one[0]) == _ALIKE.get(other[0], other[0]) and one[1:] == other[1:])
    return same and nodes.keys() == of_other.keys()
