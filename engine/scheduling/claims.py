"""What jobs that have been let in have claimed and not taken yet, and what others hold beyond their minimum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from engine.scheduling.model.amounts import Amounts, subtract
from engine.scheduling.model.cluster import Cluster
from engine.scheduling.model.entities import Job

__all__ = ["Claims", "claimed", "elastic"]


def claimed(job: Job) -> Amounts:
    """Return what a job has been let in for and does not hold yet.

    Volcano: of a job that is Inqueue its minimum resources less what it holds; of one that is Running the same, once it has as
    many tasks placed as it needs (a job whose driver has ended claims nothing any more).
    """
    if job.min_resources is None:
        return {}
    if job.phase not in {"Inqueue", "Running"}:
        return {}
    lacking = _beyond(job.min_resources, job.allocated)
    if lacking and job.phase == "Running" and job.count("Bound", "Binding", "Running", "Allocated") < job.min_member:
        return {}
    return lacking


def elastic(job: Job) -> Amounts:
    """Return what a job holds beyond its minimum resources (Volcano `GetElasticResources`)."""
    return _beyond(job.allocated, job.min_resources or {})


def _beyond(one: Amounts, other: Amounts) -> Amounts:
    found: Amounts = {}
    for name, amount in one.items():
        least = other.get(name, 0)
        if amount > least:
            found[name] = amount - least
    return found


class _Claim(NamedTuple):
    """Of one job."""

    queue: str
    claimed: Amounts
    extra: Amounts
    """`claimed` less what it holds beyond its minimum: what counts against its queue's limit besides what the queue holds."""


class Claims:
    """Sums over all jobs. They are kept from session to session: only the jobs that changed are looked at."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._next = -1
        """Number of the first change of the cluster that is not taken."""
        self._of: dict[str, _Claim] = {}
        """Key of a job → what it claims, or holds beyond its minimum; most do neither."""
        self._claimed: Amounts = {}
        self._extra: dict[str, Amounts] = {}

    def claimed(self) -> Mapping[str, float]:
        """Return what all jobs claim now."""
        self._update()
        return self._claimed

    def extra(self) -> Mapping[str, Amounts]:
        """Return by queue what its jobs claim now, less what they hold beyond their minima."""
        self._update()
        return self._extra

    def _update(self) -> None:
        changed: Iterable[Job] | None = self._cluster.changes.since(self._next)
        if changed is None:
            changed = self._cluster.jobs.values()
            self._of, self._claimed, self._extra = {}, {}, {}
        for job in changed:
            self._take(job)
        self._next = self._cluster.changes.end

    def _take(self, job: Job) -> None:
        before = self._of.pop(job.key, None)
        if before is not None:
            self._change(before, -1)
        present = self._cluster.jobs.get(job.key)
        if present is None:
            return
        claims, beyond = claimed(present), elastic(present)
        if claims or beyond:
            extra = dict(claims)
            subtract(extra, beyond.items())
            found = self._of[job.key] = _Claim(present.queue, claims, extra)
            self._change(found, 1)

    def _change(self, claim: _Claim, by: int) -> None:
        """Count a claim (1), or no more (-1). What sums up to nothing is not kept: names are anybody's."""
        subtract(self._claimed, ((name, -by * amount) for name, amount in claim.claimed.items()))
        extra = self._extra.setdefault(claim.queue, {})
        subtract(extra, ((name, -by * amount) for name, amount in claim.extra.items()))
        if not extra:
            del self._extra[claim.queue]
