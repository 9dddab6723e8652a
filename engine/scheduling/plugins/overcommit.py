"""Overcommit: limit admitted jobs to a multiple of the cluster's resources.

Extension points: `job_enqueueable`, `job_enqueued`.
"""

from __future__ import annotations

from typing import ClassVar, Final

from engine.scheduling.cluster.amounts import PODS, Amounts, add, missing
from engine.scheduling.cluster.entities import Job, Minimum
from engine.scheduling.configuration import Arguments, PluginOption
from engine.scheduling.limits import explain_too_small
from engine.scheduling.plugin_results import PERMIT, REJECT, Vote
from engine.scheduling.session import Plugin, Session

_ARGUMENT: Final = "overcommit-factor"
_FACTOR: Final = 1.2


class Overcommit(Plugin):
    """Limit of admission by a multiple of the cluster (Volcano `overcommit`).

    Arguments: `overcommit-factor`, 1.2, and `overcommit-factor.NAME` for one resource; less than 1 counts as 1.2.
    """

    NAME: ClassVar[str] = "overcommit"

    def __init__(self, option: PluginOption) -> None:
        super().__init__(option)
        self._factor = _factor(option.arguments, _ARGUMENT)
        named = option.arguments.beginning(f"{_ARGUMENT}.")
        self._factors = {name: _factor(option.arguments, f"{_ARGUMENT}.{name}") for name in named}

    def open(self, session: Session) -> None:
        """Reset: free and inqueue resources are computed on first use."""
        super().open(session)
        self._sums: tuple[Amounts, Amounts, Amounts] | None = None
        self._found: dict[Minimum, Amounts] = {}
        """Minimum resources → lacking amounts; cleared when a job is admitted."""

    def _room(self) -> tuple[Amounts, Amounts, Amounts]:
        """Return the admitted resources, their limit, and the limit of an empty cluster."""
        if self._sums is None:
            cluster = self.session.cluster
            used = cluster.used()
            whole = {
                name: amount * self._factors.get(name, self._factor) for name, amount in self.session.total.items() if name != PODS
            }
            limit = {name: amount - used.get(name, 0) for name, amount in whole.items()}
            self._sums = (dict(self.session.inqueue.outstanding()), limit, whole)
        return self._sums

    def alike(self, job: Job) -> Minimum | None:
        """Return the minimum resources: jobs with equal ones are equal here."""
        return job.minimum

    def job_enqueueable(self, job: Job) -> Vote:
        """Permit a job whose minimum resources fit within the limit."""
        wanted = job.minimum
        if wanted is None:
            return PERMIT
        if wanted not in self._found:
            inqueue, limit, _ = self._room()
            self._found[wanted] = missing(inqueue, wanted, limit)
        lacking = self._found[wanted]
        if not lacking:
            return PERMIT
        if not explain_too_small(self.session, job, "ClusterTooSmall", self.NAME, "", dict(wanted), self._room()[2]):
            self.session.explain(job, "ClusterOvercommitted", self.NAME, missing=lacking)
        return REJECT

    def job_enqueued(self, job: Job) -> None:
        """Add an admitted job's minimum resources."""
        self._found.clear()
        if job.min_resources is not None:
            add(self._room()[0], job.min_resources.items())


def _factor(arguments: Arguments, name: str) -> float:
    factor = arguments.number(name, _FACTOR)
    return _FACTOR if factor < 1 else factor
