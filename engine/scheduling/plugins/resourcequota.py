"""Resourcequota: reject the admission of jobs whose minimum resources exceed a quota of their namespace.

Extension points: `job_enqueueable`, `job_enqueued`.
"""

from __future__ import annotations

from typing import ClassVar

from engine.scheduling.cluster.amounts import Amounts, add
from engine.scheduling.cluster.entities import Job, Minimum
from engine.scheduling.limits import explain_too_small
from engine.scheduling.plugin_results import PERMIT, REJECT, Vote
from engine.scheduling.session import Plugin, Session


class ResourceQuota(Plugin):
    """Quotas of namespaces (Volcano `resourcequota`)."""

    NAME: ClassVar[str] = "resourcequota"

    def open(self, session: Session) -> None:
        """Reset the resources admitted in this session."""
        super().open(session)
        self._pending: dict[str, Amounts] = {}

    def alike(self, job: Job) -> tuple[str, Minimum | None]:
        """Return namespace and minimum resources: jobs with equal ones are equal here."""
        return job.namespace, job.minimum

    def job_enqueueable(self, job: Job) -> Vote:
        """Reject a job that would exceed a quota of a requested resource, with the jobs admitted before it.

        Volcano: a quota with scopes is ignored, since it may not cover the job's pods.
        """
        if job.min_resources is None:
            return PERMIT
        pending = self._pending.get(job.namespace, {})
        for quota in self.session.cluster.quotas:
            if quota.namespace != job.namespace or quota.scoped:
                continue
            wanted = {name: amount for name in quota.hard if (amount := _asked(job.min_resources, name)) > 0}
            missing = {
                name: excess
                for name, amount in wanted.items()
                if (excess := quota.used.get(name, 0) + _asked(pending, name) + amount - quota.hard[name]) > 0
            }
            if missing:
                if not explain_too_small(self.session, job, "QuotaTooSmall", self.NAME, job.namespace, wanted, quota.hard):
                    self.session.explain(job, "QuotaExceeded", self.NAME, job.namespace, missing)
                return REJECT
        return PERMIT

    def job_enqueued(self, job: Job) -> None:
        """Add an admitted job's minimum resources."""
        if job.min_resources is not None:
            add(self._pending.setdefault(job.namespace, {}), job.min_resources.items())


def _asked(amounts: Amounts, name: str) -> float:
    """Return the requested amount of a quota's resource; `requests.cpu` is `cpu`, `count/pods` is `pods` (Kubernetes)."""
    return amounts.get(name.removeprefix("requests.").removeprefix("count/"), 0)
