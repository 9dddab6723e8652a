"""Classes of jobs for which a search found nothing: the result holds for the class until something is committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from engine.scheduling.cluster.entities import Job
from engine.scheduling.pending.reasons import Reason
from engine.scheduling.session import Session


class HopelessSearches:
    """Results of one action's searches for places or victims, so that a round searches once for each class of jobs."""

    def __init__(self, session: Session) -> None:
        """Start without any."""
        self._session = session
        self._decided = session.decided
        self._reasons: dict[Hashable, Reason | None] = {}

    def includes(self, job: Job) -> bool:
        """Return whether a search for the job's class found nothing since the last commit; the job then gets that reason."""
        if self._decided != self._session.decided:
            self._decided = self._session.decided
            self._reasons.clear()
        if not self._reasons or (kind := self._class_of(job)) not in self._reasons:
            return False
        reason = self._reasons[kind]
        if reason is not None:
            self._session.outcome.explained.setdefault(job.key, reason)
        return True

    def add(self, job: Job) -> None:
        """Record that a search for a job found nothing and moved nothing."""
        if self._decided == self._session.decided:
            self._reasons[self._class_of(job)] = self._session.outcome.explained.get(job.key)

    def _class_of(self, job: Job) -> Hashable:
        """Return the key of jobs that no search distinguishes; a job that holds something has its own."""
        own = job.claims or job.sub_groups is not None or any(job.allocated.values())
        return (
            job.key if own else "",
            job.queue,
            job.namespace,
            self._session.alike(job),
            (job.preemption.tenant, job.preemption.privileged, job.priority),
            frozenset((job.min_resources or {}).items()),
            frozenset(job.annotations.items()),
            (job.min_member, job.ready, frozenset(job.role_minimum.items()), frozenset(job.role_ready.items())),
            frozenset(Counter((task.role, task.pod_class, task.priority) for task in job.with_status("Pending").values()).items()),
        )
