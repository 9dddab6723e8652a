"""The list of jobs: one line for each, with the filters that operators use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.events.job_state import STATED
from engine.events.jobs import Accounted
from engine.history.claimed_names import CLAIMING
from engine.history.facts import OTHER, JobLine, Jobs

__all__ = ["LISTED", "Filter", "JobLine", "Listing", "in_order"]

LISTED: Final[tuple[str, ...]] = (*(cls.TYPE for cls in (*STATED, *CLAIMING)), Accounted.TYPE)
"""Types of the events that the list is a fold of."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs are listed; `None` or empty lets all pass."""

    queue: str | None = None
    user: str | None = None
    tenant: str | None = None
    cluster: str | None = None
    namespace: str | None = None
    node: str | None = None
    """An attempt has been on it."""
    phases: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()
    """Of the job, of an attempt that lives, or with which one has ended."""
    since: int | None = None
    """The job's phase has changed since then (microseconds); opening it counts."""
    other: bool = False
    """List jobs of kind `Other` too: pods of services and of nobody."""

    def passes(self, job: JobLine) -> bool:
        """Tell whether a job is listed."""
        return (
            (self.other or job.kind != OTHER)
            and self.queue in {None, job.queue}
            and self.user in {None, job.user}
            and self.tenant in {None, job.tenant}
            and self.cluster in {None, job.cluster}
            and self.namespace in {None, job.namespace}
            and (self.node is None or self.node in job.nodes)
            and (not self.phases or job.phase in self.phases)
            and (not self.reasons or not self.reasons.isdisjoint(job.reasons))
            and (self.since is None or job.since >= self.since)
        )


def in_order(job: JobLine) -> tuple[int, str, int, str, str]:
    """Return what jobs are listed by: the time of their submission.

    Of one moment by name, shorter ones first (`train-9` before `train-10`): in what order partitions were read does not show.
    """
    return job.submitted, job.namespace, len(job.name), job.name, job.id


class Listing(Jobs):
    """The list of all jobs, folded in memory."""

    def lines(self, wanted: Filter | None = None) -> list[JobLine]:
        """Return the jobs that pass a filter, `in_order`."""
        lines = [*self._jobs.values(), *self._waiting()]
        for line in lines:
            line.now = self._now
        return sorted(filter((wanted or Filter()).passes, lines), key=in_order)
