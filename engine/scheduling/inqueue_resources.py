"""Resources that admitted jobs do not hold yet (Volcano `inqueue`), and resources held beyond the minimum (`elastic`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from engine.scheduling.cluster.amounts import Amounts, subtract
from engine.scheduling.cluster.entities import Job
from engine.scheduling.cluster.model import Cluster


def outstanding(job: Job) -> Amounts:
    """Return the resources for which a job was admitted and which it does not hold yet.

    Volcano: the minimum resources less the held ones, of a job that is Inqueue, or Running with at least its minimum of placed
    tasks (a job whose driver has ended takes nothing more).
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
    """Return the resources that a job holds beyond its minimum (Volcano `GetElasticResources`)."""
    return _beyond(job.allocated, job.min_resources or {})


def _beyond(one: Amounts, other: Amounts) -> Amounts:
    found: Amounts = {}
    for name, amount in one.items():
        least = other.get(name, 0)
        if amount > least:
            found[name] = amount - least
    return found


class _OfJob(NamedTuple):
    """Contribution of one job to the sums."""

    queue: str
    outstanding: Amounts
    extra: Amounts
    """`outstanding` less elastic resources: counts against its queue's limit besides the held resources."""


class InqueueResources:
    """Sums over all jobs, kept between sessions: an update examines only changed jobs."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._next = -1
        """Number of the first change of the cluster that is not applied yet."""
        self._of: dict[str, _OfJob] = {}
        """Key of a job → its summands, if they are not zero."""
        self._outstanding: Amounts = {}
        self._extra: dict[str, Amounts] = {}

    def outstanding(self) -> Mapping[str, float]:
        """Return the sum of `outstanding` over all jobs."""
        self._update()
        return self._outstanding

    def extra(self) -> Mapping[str, Amounts]:
        """Return by queue the sum of `outstanding` less elastic resources."""
        self._update()
        return self._extra

    def _update(self) -> None:
        changed: Iterable[Job] | None = self._cluster.changes.since(self._next)
        if changed is None:
            changed = self._cluster.jobs.values()
            self._of, self._outstanding, self._extra = {}, {}, {}
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
        lacking, beyond = outstanding(present), elastic(present)
        if lacking or beyond:
            extra = dict(lacking)
            subtract(extra, beyond.items())
            found = self._of[job.key] = _OfJob(present.queue, lacking, extra)
            self._change(found, 1)

    def _change(self, found: _OfJob, by: int) -> None:
        """Add (1) or subtract (-1) a job. Zero sums are dropped: names come from tenants."""
        subtract(self._outstanding, ((name, -by * amount) for name, amount in found.outstanding.items()))
        extra = self._extra.setdefault(found.queue, {})
        subtract(extra, ((name, -by * amount) for name, amount in found.extra.items()))
        if not extra:
            del self._extra[found.queue]
