"""Why jobs wait, as records: what a round has found, and when it is worth a record of its own."""

from __future__ import annotations

from itertools import islice
from math import ceil
from typing import Final

from engine.events.scheduling import JobExplained
from engine.events.times import SECOND, Micros
from engine.scheduling.job_records import Head
from engine.scheduling.outcome import Outcome

__all__ = ["NAMES", "alike", "changed", "due_at", "explanations"]

NAMES: Final = 50
"""Resources, and words for nodes, that one reason names: a pod may ask for thousands."""

_AHEAD: Final = 3
_FIRST: Final = 8
"""Places in a queue each of which is told."""
_MINUTE: Final = 60 * SECOND
_LONGEST: Final = 60 * _MINUTE
_ALIKE: Final = {"GangNotComplete": "InsufficientResource"}
"""Reasons between which a job goes to and fro while room comes and goes."""


def explanations(outcome: Outcome) -> dict[str, JobExplained]:
    """Return job → why it waits, queue by queue, the first job of each first."""
    found: dict[str, JobExplained] = {}
    for queue, waiting in sorted(outcome.waiting.items()):
        for at, ident in enumerate(waiting):
            reason = outcome.reasons[ident]
            found[ident] = JobExplained(
                reason.code,
                reason.action,
                reason.plugin,
                reason.subject,
                {name: ceil(amount) for name, amount in islice(reason.missing.items(), NAMES)},
                dict(islice(reason.nodes.items(), NAMES)),
                queue,
                at + 1,
                len(waiting),
                waiting[max(at - _AHEAD, 0) : at],
                reason.message,
            )
    return found


def changed(said: JobExplained, before: JobExplained | None) -> bool:
    """Return whether a reason is another one than before: not only its figures, and its place more than a little."""
    if before is None or _essence(said) != _essence(before):
        return True
    nearer, farther = sorted((said.place, before.place))
    return nearer != farther and (nearer <= _FIRST or farther >= 2 * nearer)


def alike(one: str, other: str) -> bool:
    """Tell whether two reasons are the same, or go to and fro as room comes and goes."""
    return _ALIKE.get(one, one) == _ALIKE.get(other, other)


def due_at(said: JobExplained, head: Head) -> Micros | None:
    """Return from when on a reason of a job is worth a record (microseconds); `None`: never, what stands says the same.

    Another reason is worth one at once. Where figures alone differ, as they do each second in a busy cluster, they are told at a
    full minute: one minute after the last record at least, and the longer the reason stands the more rarely, down to once an hour.
    """
    before = head.reason
    if before is None or changed(said, before):
        return 0
    if (said.reason, said.missing, said.nodes) == (before.reason, before.missing, before.nodes):
        return None
    wait = min(max(head.told - head.since, _MINUTE), _LONGEST)
    return -(-(head.told + wait) // _MINUTE) * _MINUTE


def _essence(said: JobExplained) -> tuple[object, ...]:
    word = _ALIKE.get(said.reason, said.reason)
    return word, said.action, said.plugin, said.about, said.nodes.keys(), said.message, said.queue
