"""Fairshare: namespaces share by weight; within a queue the job of the namespace that has least of its share comes first."""

from __future__ import annotations

from typing import ClassVar

from engine.scheduling.cluster.amounts import dominant_share
from engine.scheduling.cluster.entities import Job
from engine.scheduling.session import Plugin

__all__ = ["FairShare"]


class FairShare(Plugin):
    """Dominant shares of namespaces, by the weights that their quotas state (`volcano.sh/namespace.weight`).

    Volcano had it in `drf` and has given it up; here it is a plugin of its own.
    """

    NAME: ClassVar[str] = "fairshare"

    def alike(self, job: Job) -> str:
        """Jobs of one namespace are alike."""
        return job.namespace

    def job_order(self, job: Job) -> float:
        """The job whose namespace has the smallest share of its weight comes first."""
        cluster = self.session.cluster
        held = cluster.allocated_by_namespace.get(job.namespace, {})
        return dominant_share(held, self.session.total) / cluster.namespace_weights.get(job.namespace, 1)
