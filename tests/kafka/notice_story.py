"""Two full queues that give notice, on a cluster that obeys at once: one with a near deadline, one with a far one."""

from __future__ import annotations

import time
from typing import Any

from deployment import FakeCluster, task, vcjob

from engine.events import Event, decode
from engine.events.attempts import AttemptEnded
from engine.events.jobs import JobPhaseChanged
from engine.events.preemptions import (
    NoticeAcknowledged,
    NoticeExecuted,
    NoticeNarrowed,
    NoticeOpened,
    NoticeWithdrawn,
    ReservationEnded,
)

NEAR, FAR = 6, 3600
"""Seconds from a notice to its execution, which name the queues."""
PODS = 2
"""Of each job."""
SCHEDULER = """
actions: "enqueue, allocate, preempt"
tiers: [{plugins: [{name: priority}, {name: gang}, {name: predicates}]}]
"""
_RECORDS = (NoticeOpened, NoticeAcknowledged, NoticeNarrowed, NoticeWithdrawn, NoticeExecuted, ReservationEnded)


class NoticeStory:
    """In each queue a job `low-…` that runs and, once it does, a privileged job `urgent-…` that needs its place."""

    def __init__(self, log: Any, partitions: int) -> None:
        """Make nodes that two jobs fill, the queues, and submit the first jobs.

        Args:
            log: with topics of so many partitions.
            partitions: of each topic.
        """
        self._log = log
        self._cluster = FakeCluster(log, partitions, _now())
        self._cluster.node("n1", cpu=PODS)
        self._cluster.node("n2", cpu=PODS)
        self._cluster.apply("Tenant", "default", mayPreempt=True)
        self._cluster.apply("PriorityClass", "high", value=1000)
        for delay in (NEAR, FAR):
            self._cluster.apply("Queue", f"q-{delay}", preemption="notice", preemptionDelaySeconds=delay)
            self._submit(f"low-{delay}", delay)

    def submit_urgent(self, delay: int) -> None:
        """Submit the privileged job of a queue."""
        self._submit(f"urgent-{delay}", delay, {"priorityClassName": "high"}, {"preempt": True})

    def _submit(self, job: str, delay: int, spec: dict[str, Any] | None = None, lahar: dict[str, Any] | None = None) -> None:
        self._cluster.now = _now()
        manifest = vcjob(job, task("w", PODS), minAvailable=PODS, queue=f"q-{delay}", **(spec or {}))
        self._cluster.submit(job, {**manifest, "lahar": lahar or {}})

    def run(self, *jobs: str) -> bool:
        """Let the cluster obey; tell whether just these jobs run, with all of their pods."""
        self._cluster.now = _now()
        self._cluster.obey()
        return sorted(uid.partition("-w-")[0] for uid in self._cluster.running()) == sorted(
            job for job in jobs for _ in range(PODS)
        )

    def phase(self, job: str) -> str:
        """Return the last phase of a job."""
        return ([event.data.phase for event in self._events(JobPhaseChanged) if event.subject == job] or ["Pending"])[-1]

    def reasons(self, job: str) -> list[str | None]:
        """Return why the attempts of a job have ended."""
        return [event.data.reason for event in self._events(AttemptEnded) if event.subject == job]

    def notices(self) -> dict[int, list[Event[Any]]]:
        """Return the records of the notice in each queue; there is one at most."""
        found: dict[str, list[Event[Any]]] = {}
        for event in self._events(*_RECORDS):
            found.setdefault(event.subject, []).append(event)
        by_queue = {int(records[0].data.queue.removeprefix("q-")): records for records in found.values()}
        assert len(by_queue) == len(found)
        return by_queue

    def _events(self, *kinds: Any) -> list[Event[Any]]:
        types = {kind.TYPE for kind in kinds}
        return [decode(record.message) for record in self._log.scan((kinds[0].TOPIC,), types)]


def _now() -> int:
    return time.time_ns() // 1000
