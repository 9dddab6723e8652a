"""The list of jobs: one line per job, with operators' filters."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Final, cast, get_type_hints

from engine.arguments import must_fit, set_of_texts
from engine.events.inputs import OTHER
from engine.events.job_state import STATED, JobState
from engine.events.outcomes import Accounted
from engine.events.times import Micros
from engine.history.claimed_names import CLAIMING
from engine.history.job_projection import JobLine, Jobs
from engine.history.moment_argument import moment_of
from statemachines.names import must_be_known
from statemachines.vocabulary import JOB_PHASES

__all__ = ["LISTED", "Filter", "JobLine", "Listing", "in_order"]

LISTED: Final[tuple[str, ...]] = (*(cls.TYPE for cls in (*STATED, *CLAIMING)), Accounted.TYPE)
"""Event types that the list folds."""

_SEVERAL: Final = ("phases", "reasons")
"""Conditions of a filter that accept several values."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions on a job; `None` or empty matches all."""

    queue: str | None = None
    user: str | None = None
    tenant: str | None = None
    cluster: str | None = None
    namespace: str | None = None
    node: str | None = None
    """Node of one of its attempts."""
    phases: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()
    """Reason of the job, or of one of its open or closed attempts."""
    since: Micros | datetime | str | None = None
    """Earliest time of the job's opening or last change of phase, in any form of `as_of`."""
    other: bool = False
    """Include jobs of kind `Other`: pods of services."""
    name: str | None = None
    """Name without the namespace."""

    def __post_init__(self) -> None:
        """Check types, and names of closed vocabularies; one phase or reason may be given as a text, several in any collection.

        Raises:
            RequestError: a condition has a wrong type, is empty, or is not a time.
            UnknownNameError: the phase is unknown.
        """
        for name, wanted in _conditions().items():
            given = getattr(self, name)
            if name in _SEVERAL:
                object.__setattr__(self, name, set_of_texts(name, given))
            else:
                must_fit(name, given, wanted)
        must_be_known("job phase", self.phases, JOB_PHASES)
        if self.since is not None:
            object.__setattr__(self, "since", moment_of(self.since))

    @property
    def changed_since(self) -> Micros | None:
        """`since` (microseconds)."""
        return cast("Micros | None", self.since)

    def passes(self, job: JobLine) -> bool:
        """Return true if a job matches."""
        return (
            (self.other or job.kind != OTHER)
            and self.queue in {None, job.queue}
            and self.user in {None, job.user}
            and self.tenant in {None, job.tenant}
            and self.cluster in {None, job.cluster}
            and self.namespace in {None, job.namespace}
            and self.name in {None, job.name}
            and (self.node is None or self.node in job.nodes)
            and (not self.phases or job.phase in self.phases)
            and (not self.reasons or not self.reasons.isdisjoint(job.reasons))
            and (self.changed_since is None or job.since >= self.changed_since)
        )


@cache
def _conditions() -> dict[str, object]:
    """Return the allowed types of a filter's conditions."""
    return get_type_hints(Filter)


def in_order(job: JobState) -> tuple[int, str, int, str, str]:
    """Return the sort key of the list: the time of submission.

    Ties sort by name, shorter names first (`train-9` before `train-10`), so the order does not depend on partitions.
    """
    return job.submitted, job.namespace, len(job.name), job.name, job.id


class Listing(Jobs):
    """The list of all jobs, folded in memory."""

    def lines(self, wanted: Filter | None = None) -> list[JobLine]:
        """Return the jobs that match a filter, `in_order`."""
        lines = [*self._jobs.values(), *self._waiting()]
        for line in lines:
            line.now = self._now
        return sorted(filter((wanted or Filter()).passes, lines), key=in_order)
