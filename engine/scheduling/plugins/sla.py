"""Sla: a job that has waited for its agreed time is admitted and keeps its promised nodes, whatever other plugins vote.

Extension points: `job_order`, `job_pipelined`, `job_enqueueable`.
"""

from __future__ import annotations

from math import inf
from typing import ClassVar, Final

from engine.kubernetes.reading.durations import parse_duration
from engine.scheduling.cluster.entities import Job
from engine.scheduling.configuration import PluginOption
from engine.scheduling.plugin_results import ABSTAIN, PERMIT, Vote
from engine.scheduling.session import Plugin

_WAITING_TIME: Final = "sla-waiting-time"


class Sla(Plugin):
    """Agreed waiting times (Volcano `sla`).

    Argument `sla-waiting-time`: default for jobs without the annotation of that name; absent: no limit.
    """

    NAME: ClassVar[str] = "sla"

    def __init__(self, option: PluginOption) -> None:
        super().__init__(option)
        self._general = option.arguments.duration(_WAITING_TIME, None)

    def _due(self, job: Job) -> float:
        """Return the end of a job's agreed waiting time (microseconds)."""
        stated = job.annotations.get(_WAITING_TIME)
        waiting = self._general
        if stated is not None:
            try:
                waiting = parse_duration(stated)
            except ValueError:
                waiting = self._general
        return inf if waiting is None or waiting <= 0 else job.created + waiting

    def alike(self, job: Job) -> str:
        """Return the end of the waiting time: jobs without one are equal here."""
        return "" if self._due(job) == inf else job.key

    def job_order(self, job: Job) -> float:
        """Order by the earlier end of the waiting time."""
        return self._due(job)

    def _vote(self, job: Job) -> Vote:
        return PERMIT if self.session.now >= self._due(job) else ABSTAIN

    def job_enqueueable(self, job: Job) -> Vote:
        """Permit a job whose waiting time is over."""
        return self._vote(job)

    def job_pipelined(self, job: Job) -> Vote:
        """Permit a job whose waiting time is over to keep its promised nodes, even if they are too few."""
        return self._vote(job)

    def next_change(self, now: int) -> int | None:
        """Return the next end of a waiting time of a pending job (microseconds); `None`: none."""
        waiting = [
            job
            for job in self.session.cluster.jobs.values()
            if not job.held and (job.phase in {"", "Pending"} or job.with_status("Pending"))
        ]
        due = [at for job in waiting if now < (at := self._due(job)) < inf]
        return int(min(due)) if due else None
