"""Jobs that ask to be scheduled, on a cluster that obeys at once, and what must have become of them, whoever was killed."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, NamedTuple

from deployment import FakeCluster, task, vcjob
from log_checker import faults_of

from engine.events import decode
from engine.events.decisions import DecidedBound, DecisionAccepted
from engine.events.outcomes import Accounted

PODS = 3
"""Of each job; all of them start together or none does."""


class Found(NamedTuple):
    """What the checker says of a log to which nobody writes any more."""

    outputs: int
    lost: int
    """Pods that do not run, and gaps in the sequence of a subject."""
    doubled: int
    """Decisions and accounts that stand there twice, and pods bound twice."""
    faults: list[str]
    """What decisions have broken."""


class Written(NamedTuple):
    """What the scheduling stage has written."""

    outputs: int
    lost: int
    """Gaps in the sequence of a subject."""
    doubled: int


def written(log: Any) -> Written:
    """Count what the scheduling stage has written to a log."""
    subjects: Counter[tuple[str, str]] = Counter()
    ids: list[str] = []
    lost = 0
    for topic in ("decisions", "scheduling", "preemptions"):
        for record in log.scan((topic,)):
            if record.message.type != Accounted.TYPE:
                place = topic, record.message.subject
                subjects[place] += 1
                lost += record.message.sequence != subjects[place]
                ids.append(record.message.id)
    return Written(len(ids), lost, len(ids) - len(set(ids)))


class ScheduledJobs:
    """As many nodes as there may be jobs, so that every job can run."""

    def __init__(self, log: Any, partitions: int, most: int) -> None:
        """Make the nodes.

        Args:
            log: with topics of so many partitions.
            partitions: of each topic.
            most: jobs that there may be.
        """
        self._log = log
        self._cluster = FakeCluster(log, partitions, _now())
        self._jobs = 0
        for number in range(most):
            self._cluster.node(f"n{number}", cpu=4)

    def submit(self, jobs: int) -> None:
        """Submit so many more."""
        self._cluster.now = _now()
        for number in range(self._jobs, self._jobs + jobs):
            self._cluster.submit(f"job-{number}", vcjob(f"job-{number}", task("w", PODS, minAvailable=PODS)))
        self._jobs += jobs

    def bound(self) -> int:
        """Let the cluster obey; return how many decisions to bind there are."""
        self._cluster.now = _now()
        self._cluster.obey()
        return len(self._of(DecidedBound))

    def all_run(self) -> bool:
        """Let the cluster obey; tell whether all pods run, and lifecycle has accepted that they were bound."""
        self._cluster.now = _now()
        self._cluster.obey()
        return len(self._cluster.running()) == self._jobs * PODS and self._accepted() >= self._jobs * PODS

    def found(self) -> Found:
        """Check the log."""
        found, pods = written(self._log), self._jobs * PODS
        lost, doubled = found.lost + pods - len(self._cluster.running()), found.doubled + self._accepted() - pods
        return Found(found.outputs, lost, doubled, faults_of(self._log))

    def must_be_sound(self) -> Found:
        """Fail unless nothing is lost, doubled or broken; return what was found."""
        found = self.found()
        assert (found.lost, found.doubled, found.faults) == (0, 0, [])
        return found

    def _accepted(self) -> int:
        return sum(len(data.placements) for data in self._of(DecisionAccepted) if data.kind == "bound")

    def _of(self, kind: Any) -> list[Any]:
        return [decode(record.message).data for record in self._log.scan((kind.TOPIC,), {kind.TYPE})]


def _now() -> int:
    return time.time_ns() // 1000
