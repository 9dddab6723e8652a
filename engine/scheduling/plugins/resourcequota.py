"""Resourcequota: let in no job whose minimum resources its namespace's quotas do not allow."""

from __future__ import annotations

from typing import ClassVar

from engine.scheduling.cluster.amounts import Amounts, add
from engine.scheduling.cluster.entities import Job, Minimum
from engine.scheduling.limits import explain_too_small
from engine.scheduling.plugin_results import PERMIT, REJECT, Vote
from engine.scheduling.session import Plugin, Session

__all__ = ["ResourceQuota"]


class ResourceQuota(Plugin):
    """Quotas of namespaces (Volcano `resourcequota`)."""

    NAME: ClassVar[str] = "resourcequota"

    def open(self, session: Session) -> None:
        """Start with nothing let in in this session."""
        super().open(session)
        self._pending: dict[str, Amounts] = {}

    def alike(self, job: Job) -> tuple[str, Minimum | None]:
        """Jobs of a namespace that ask for the same are alike."""
        return job.namespace, job.minimum

    def job_enqueueable(self, job: Job) -> Vote:
        """Reject a job that with what was let in before it would exceed a quota of something that it asks for.

        Volcano: a quota with scopes, which may not mean the job's pods, has no say.
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
        """Count what a job has been let in for."""
        if job.min_resources is not None:
            add(self._pending.setdefault(job.namespace, {}), job.min_resources.items())


def _asked(amounts: Amounts, name: str) -> float:
    """Return how much of what a quota names is asked for; `requests.cpu` is `cpu`, `count/pods` is `pods` (Kubernetes)."""
    return amounts.get(name.removeprefix("requests.").removeprefix("count/"), 0)
