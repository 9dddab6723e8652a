"""Overcommit: let in no more jobs than the cluster, and some more, could run."""

from __future__ import annotations

from typing import ClassVar, Final

from engine.scheduling.answers import PERMIT, REJECT, Vote
from engine.scheduling.configuration import PluginOption
from engine.scheduling.model.amounts import PODS, Amounts, add, missing, within
from engine.scheduling.model.entities import Job
from engine.scheduling.plugins.admission import claimed
from engine.scheduling.session import Plugin, Session

__all__ = ["Overcommit"]

_FACTOR: Final = 1.2


class Overcommit(Plugin):
    """Bound what is let in by a multiple of the cluster (Volcano `overcommit`).

    Argument `overcommit-factor`, 1.2; less than 1 counts as 1.2.
    """

    NAME: ClassVar[str] = "overcommit"

    def __init__(self, option: PluginOption) -> None:
        super().__init__(option)
        factor = option.arguments.number("overcommit-factor", _FACTOR)
        self._factor = _FACTOR if factor < 1 else factor

    def open(self, session: Session) -> None:
        """Sum up what is free and what is claimed when it is first needed."""
        super().open(session)
        self._sums: tuple[Amounts, Amounts, Amounts] | None = None
        self._refused: dict[tuple[tuple[str, float], ...], tuple[bool, Amounts]] = {}
        """What was asked for in vain since a job was last let in → whether the cluster is too small for it, and what is missing.
        Of thousands that wait most ask for the same."""

    def _room(self) -> tuple[Amounts, Amounts, Amounts]:
        """Return what has been let in, what may be, and what an empty cluster would let in."""
        if self._sums is None:
            cluster = self.session.cluster
            used = cluster.used()
            whole = {name: amount * self._factor for name, amount in self.session.total.items() if name != PODS}
            limit = {name: amount - used.get(name, 0) for name, amount in whole.items()}
            inqueue: Amounts = {}
            for job in cluster.jobs.values():
                add(inqueue, claimed(job).items())
            self._sums = (inqueue, limit, whole)
        return self._sums

    def job_enqueueable(self, job: Job) -> Vote:
        """Permit a job whose minimum resources still fit."""
        if job.min_resources is None:
            return PERMIT
        asked = tuple(job.min_resources.items())
        if asked not in self._refused:
            inqueue, limit, whole = self._room()
            if within(inqueue, asked, limit):
                return PERMIT
            too_much = missing({}, asked, whole)
            self._refused[asked] = bool(too_much), too_much or missing(inqueue, asked, limit)
        too_small, lacking = self._refused[asked]
        self.session.explain(job, "ClusterTooSmall" if too_small else "ClusterOvercommitted", self.NAME, missing=lacking)
        return REJECT

    def job_enqueued(self, job: Job) -> None:
        """Count what a job has been let in for."""
        if job.min_resources is not None:
            add(self._room()[0], job.min_resources.items())
            self._refused.clear()
