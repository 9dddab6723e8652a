"""Tdm: revocable nodes run preemptable pods during stated hours; the pods are evicted when the hours end.

Extension points: `job_order`, `job_pipelined`, `job_starving`, `predicate`, `node_order`, `preemptable`, `victims`.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

import numpy as np

from engine.events.pod_shape import PREEMPTABLE, REVOCABLE_ZONE
from engine.events.times import SECOND
from engine.scheduling.cluster.entities import Job, PodClass, Task
from engine.scheduling.configuration import PluginOption
from engine.scheduling.errors import ConfigurationError
from engine.scheduling.plugin_results import PERMIT, REJECT, Mask, Rows, Scores, Verdict, Vote
from engine.scheduling.session import Plugin

_ZONE: Final = "tdm.revocable-zone."
_HOURS: Final = re.compile(r"(\d{1,2}):(\d{2})-(\d{1,2}):(\d{2})", re.ASCII)
_AMOUNT: Final = re.compile(r"(\d{1,9})(%)?", re.ASCII)
"""A whole number or a percentage (Kubernetes `IntOrString`)."""
_MINUTE: Final = 60 * SECOND
_DAY: Final = 24 * 60
_BEST: Final = 100.0
_EVICTED_AT: Final = "evicted_at"
_MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"
_MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"


class Tdm(Plugin):
    """Time division multiplexing of nodes with the label `volcano.sh/revocable-zone` (Volcano `tdm`).

    Arguments: `tdm.revocable-zone.ZONE`: its hours as `8:00-18:00` (UTC; an end that is not after the start is the next day's);
    `tdm.evict.period`, 1 minute: time between evictions outside the hours.
    """

    NAME: ClassVar[str] = "tdm"

    def __init__(self, option: PluginOption) -> None:
        super().__init__(option)
        given = option.arguments.beginning(_ZONE)
        self._hours = {zone: _minutes(f"{_ZONE}{zone}", str(value)) for zone, value in given.items()}
        self._period = option.arguments.duration("tdm.evict.period", _MINUTE) or _MINUTE

    def _lent(self, zone: str) -> bool:
        """Return whether the session's time is within a zone's hours."""
        hours = self._hours.get(zone)
        if hours is None:
            return False
        start, end = hours
        minute = self.session.now // _MINUTE % _DAY
        return start <= minute < end if start < end else minute >= start or minute < end

    def _zones(self) -> tuple[Mask, Mask]:
        """Return masks of the revocable nodes, and of those within their hours."""
        column = self.session.cluster.table.column(REVOCABLE_ZONE)
        revocable = np.array([value is not None for value in column.values], np.bool_)[column.codes]
        lent = np.array([value is not None and self._lent(value) for value in column.values], np.bool_)[column.codes]
        return revocable, lent

    def predicate(self, pod_class: PodClass) -> list[Verdict]:
        """Filter revocable nodes: only pods with a revocable zone, within the hours."""
        revocable, lent = self._zones()
        if not revocable.any():
            return []
        passes = ~revocable | lent if pod_class.shape.revocable_zone else ~revocable
        return [Verdict("RevocableZone", passes, resolvable=False)]

    def node_order(self, pod_class: PodClass, rows: Rows) -> Scores | None:
        """Score revocable nodes higher for pods with a revocable zone."""
        if not pod_class.shape.revocable_zone:
            return None
        _, lent = self._zones()
        return np.where(lent[rows.rows], _BEST, 0.0) if lent.any() else None

    def alike(self, job: Job) -> bool:
        """Return whether a job is preemptable: equal ones are equal here."""
        return job.preemptable

    def job_order(self, job: Job) -> float:
        """Order jobs that are not preemptable first."""
        return float(job.preemptable)

    def job_pipelined(self, job: Job) -> Vote:
        """Permit a job to keep its promised nodes if it would be ready with them."""
        return PERMIT if job.ready + job.count("Pipelined") >= job.min_member else REJECT

    def job_starving(self, job: Job) -> bool:
        """Return whether a job that is not preemptable has pending tasks."""
        return not job.preemptable and bool(job.with_status("Pending"))

    def preemptable(self, task: Task, candidates: list[Task]) -> list[Task] | None:
        """Return preemptable pods on nodes that are not revocable.

        Volcano: a task that is preemptable or has a revocable zone preempts nobody.
        """
        if _stated_preemptable(task) or task.pod_class.shape.revocable_zone:
            return []
        by_job: dict[str, list[Task]] = {}
        for victim in candidates:
            if victim.node is not None and REVOCABLE_ZONE not in victim.node.labels and victim.pod_class.preemptable:
                by_job.setdefault(victim.job.key, []).append(victim)
        return [victim for victims in by_job.values() for victim in self._tolerable(victims[0].job, victims)]

    def victims(self, running: list[Task]) -> list[Task]:
        """Return pods on revocable nodes outside their hours, once a period, as many of a job as it can spare."""
        now = self.session.now
        if now - self.memory.get(_EVICTED_AT, now - self._period) < self._period:
            return []
        by_job: dict[str, list[Task]] = {}
        for task in running:
            zone = task.node.labels.get(REVOCABLE_ZONE) if task.node is not None else None
            if zone is not None and zone in self._hours and not self._lent(zone) and task.pod_class.preemptable:
                by_job.setdefault(task.job.key, []).append(task)
        if by_job:
            self.memory[_EVICTED_AT] = now
        return [victim for victims in by_job.values() for victim in self._tolerable(victims[0].job, victims)]

    def _tolerable(self, job: Job, victims: list[Task]) -> list[Task]:
        """Return as many victims as the job can spare, its last tasks first."""
        ordered = sorted(victims, key=self.session.task_key, reverse=True)
        return ordered[: spared(job)]

    def next_change(self, now: int) -> int | None:
        """Return the start of the next minute, or the end of the period if earlier (microseconds); `None`: no zones."""
        if not self._hours:
            return None
        minute = (now // _MINUTE + 1) * _MINUTE
        period = self.memory.get(_EVICTED_AT, now - self._period) + self._period
        return min(minute, period) if period > now else minute


def spared(job: Job) -> int:
    """Return the number of running tasks that a job can spare at once.

    Volcano: `jdb-max-unavailable` less the tasks that neither run nor have finished; else the running tasks less
    `jdb-min-available`; else one. Percentages are of all tasks, rounded up.
    """
    total, running = len(job.tasks), job.count("Running")
    if job.annotations.get(_MAX_UNAVAILABLE):
        missing = total - running - job.count("Succeeded", "Failed")
        return max(0, _amount(job.annotations[_MAX_UNAVAILABLE], total) - missing)
    if job.annotations.get(_MIN_AVAILABLE):
        return max(0, running - _amount(job.annotations[_MIN_AVAILABLE], total))
    return 1


def _amount(text: str, total: int) -> int:
    form = _AMOUNT.fullmatch(text)
    if form is None:
        return 0
    return int(text) if form[2] is None else -(-int(form[1]) * total // 100)


def _stated_preemptable(task: Task) -> bool:
    return task.pod_class.preemptable and (PREEMPTABLE in task.pod_class.annotations or PREEMPTABLE in task.pod_class.labels)


def _minutes(name: str, text: str) -> tuple[int, int]:
    form = _HOURS.fullmatch(text.strip())
    if form is None:
        raise ConfigurationError(f"argument {name}: {text!r} is not of the form 8:00-18:00")
    hours = [int(group) for group in form.groups()]
    start, end = hours[0] * 60 + hours[1], hours[2] * 60 + hours[3]
    if max(start, end) > _DAY:
        raise ConfigurationError(f"argument {name}: {text!r} is beyond 24:00")
    return start, end
