"""Fairshare: namespaces share by weight; within a queue the job whose namespace has the smallest share per weight comes first.

Extension points: `job_order`.
"""

from __future__ import annotations

from typing import ClassVar

from engine.scheduling.cluster.amounts import dominant_share
from engine.scheduling.cluster.entities import Job
from engine.scheduling.session import Plugin


class FairShare(Plugin):
    """Dominant shares of namespaces by the weights in their quotas (`volcano.sh/namespace.weight`).

    Volcano had this in `drf` and removed it; here it is a plugin of its own.
    """

    NAME: ClassVar[str] = "fairshare"

    def alike(self, job: Job) -> str:
        """Return the namespace: its jobs are equal here."""
        return job.namespace

    def job_order(self, job: Job) -> float:
        """Order by the smaller share per weight of the job's namespace."""
        cluster = self.session.cluster
        held = cluster.allocated_by_namespace.get(job.namespace, {})
        return dominant_share(held, self.session.total) / cluster.namespace_weights.get(job.namespace, 1)
