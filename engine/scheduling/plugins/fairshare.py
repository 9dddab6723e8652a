"""Fairshare: namespaces share by weight; within a queue the job of the namespace that has least of its share comes first."""

from __future__ import annotations

from typing import ClassVar

from engine.scheduling.model.amounts import Amounts, add, dominant_share
from engine.scheduling.model.entities import Job
from engine.scheduling.session import Plugin, Session

__all__ = ["FairShare"]


class FairShare(Plugin):
    """Dominant shares of namespaces, by the weights that their quotas state (`volcano.sh/namespace.weight`).

    Volcano had it in `drf` and has given it up; here it is a plugin of its own.
    """

    NAME: ClassVar[str] = "fairshare"

    def open(self, session: Session) -> None:
        """Sums are made when they are first needed, and anew when tasks have moved since."""
        super().open(session)
        self._shares: dict[str, float] = {}
        self._shares_of = -1

    def job_order(self, job: Job) -> float:
        """The job whose namespace has the smallest share of its weight comes first."""
        cluster = self.session.cluster
        if self._shares_of != cluster.revision:
            sums: dict[str, Amounts] = {}
            for one in cluster.jobs.values():
                add(sums.setdefault(one.namespace, {}), one.allocated.items())
            self._shares = {
                namespace: dominant_share(allocated, self.session.total) / cluster.namespace_weights.get(namespace, 1)
                for namespace, allocated in sums.items()
            }
            self._shares_of = cluster.revision
        return self._shares.get(job.namespace, 0.0)
