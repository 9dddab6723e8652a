"""Notices of preemption without end: who is given one lets go, refuses, ends, or says nothing, as dice have it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Final

from deployment import SECOND, FakeCluster, task, vcjob

from engine.events import Event, Topic, decode
from engine.events.decisions import (
    DecidedBound,
    DecidedEnqueued,
    DecidedEvicted,
    DecidedNoticed,
    DecidedNoticeEnded,
    DecisionAccepted,
    DecisionRefused,
)
from engine.events.inputs import CommandIssued
from engine.events.jobs import JobPhaseChanged
from engine.events.preemptions import NoticeExecuted, NoticeOpened, NoticeWithdrawn, ReservationEnded
from engine.log.port import Partition

_DELAYS: Final = (6, 10, 16, 24)
"""Seconds from a notice to its execution, of the queues in turn."""
_RESERVED: Final = (6, 40)
"""Seconds for which a place is kept: the one too short for some, the other long enough unless somebody is stopped for long."""
_PLANS: Final = {
    "nothing": 3,
    "acknowledge": 4,
    "acknowledge once": 1,
    "withdraw": 2,
    "abort": 1,
    "finish": 2,
    "restart": 1,
    "fail": 1,
}
"""What happens after a notice was given, and how often."""
_OVER: Final = frozenset({"Completed", "Failed", "Terminated", "Aborted"})


@dataclass
class _Lane:
    """A queue that is full: two jobs that run, and one that needs both their places."""

    number: int
    pool: str
    """Of nodes: some lanes have one of their own, in others jobs take what another lane leaves."""
    lows: list[str] = field(default_factory=list)
    urgent: str = ""
    """Privileged job that has not ended; empty: there is none."""
    ends: bool = False
    """It runs, and is about to end."""


class Notices:
    """Queues in which jobs are given notice again and again, on a cluster without room for all."""

    def __init__(self, cluster: FakeCluster, seed: int, lanes: int) -> None:
        """Make nodes and queues, and submit the first jobs.

        Args:
            cluster: obeys, by whoever calls `act`.
            seed: of the dice.
            lanes: queues.
        """
        self.seen: Counter[str] = Counter()
        """Records of notices by type (`opened`, `executed` …), and the answers that were `given`."""
        self.more = True
        """Others are to be given notice."""
        self.cluster = cluster
        self._dice = random.Random(seed)  # noqa: S311  what happens is to be random, not secret
        self._open: set[str] = set()
        """Notices that are open, or have a place kept."""
        self._todo: list[tuple[int, int, Callable[[], object]]] = []
        self._number = 0
        topics: tuple[Topic, ...] = ("preemptions", "job-events")
        self._read = {Partition(topic, number): 0 for topic in topics for number in range(cluster.log.partitions(topic))}
        cluster.apply("Tenant", "default", mayPreempt=True)
        cluster.apply("PriorityClass", "high", value=1000)
        self._lanes = [_Lane(number, f"p{number}" if number % 4 else "common") for number in range(lanes)]
        for lane in self._lanes:
            cluster.node(f"n{lane.number}", cpu=2, labels={"pool": lane.pool})
            delay, reserved = _DELAYS[lane.number % len(_DELAYS)], _RESERVED[lane.number // len(_DELAYS) % len(_RESERVED)]
            cluster.apply(
                "Queue", f"q{lane.number}", preemption="notice", preemptionDelaySeconds=delay, reservationSeconds=reserved
            )
            for _ in range(2):
                self._submit_low(lane)

    # --- what there is ------------------------------------------------------------------------------------------------------

    def at_rest(self) -> bool:
        """Tell whether no notice is open, no privileged job is left, and all others run."""
        return not (self._open or self._todo or any(lane.urgent for lane in self._lanes)) and all(map(self._is_full, self._lanes))

    def _is_full(self, lane: _Lane) -> bool:
        return all(self._running(job) for job in lane.lows)

    def _running(self, job: str) -> list[str]:
        return [uid for uid, pod in self.cluster.pods.items() if pod.now.job == job and pod.now.phase == "Running"]

    # --- what happens -------------------------------------------------------------------------------------------------------

    def act(self) -> None:
        """Read what the stages have written, and do what is to be done by now."""
        for place in self._read:
            while records := self.cluster.log.read(place, self._read[place], 500):
                for record in records:
                    if place.topic == "preemptions" or record.message.type == JobPhaseChanged.TYPE:
                        self._take(decode(record.message))
                self._read[place] = records[-1].offset + 1
        while self._todo and self._todo[0][0] <= self.cluster.now:
            heappop(self._todo)[2]()
        for lane in self._lanes:
            self._tend(lane)

    def _tend(self, lane: _Lane) -> None:
        if lane.urgent and not lane.ends and len(self._running(lane.urgent)) == 2:
            lane.ends = True
            self._later(3, lambda: self._end(lane))
        if self.more and not lane.urgent and self._is_full(lane):
            self._number += 1
            lane.urgent, lane.ends = f"urgent-{lane.number}-{self._number}", False
            self._submit(lane, lane.urgent, 2, {"priorityClassName": "high"}, {"preempt": True})

    def _take(self, event: Event[Any]) -> None:
        match event.data:
            case JobPhaseChanged(phase=phase):
                if phase in _OVER:
                    self._replace(event.subject)
                return
            case NoticeOpened():
                self._open.add(event.subject)
                self._follow(event.subject, event.data)
            case NoticeWithdrawn() | ReservationEnded():
                self._open.remove(event.subject)
        self.seen[event.type.split(".")[2]] += 1

    def _replace(self, job: str) -> None:
        """Have another job come where one has ended; a privileged one comes when there is none."""
        lane = self._lanes[int(job.split("-")[1])]
        if job == lane.urgent:
            lane.urgent = ""
        else:
            lane.lows.remove(job)
            self._submit_low(lane)

    def _follow(self, notice: str, data: NoticeOpened) -> None:
        plan = self._dice.choices(list(_PLANS), list(_PLANS.values()))[0]
        soon = data.delay / SECOND
        match plan:
            case "acknowledge":
                for victim in data.victims:
                    self._later(soon, lambda job=victim: self._answer(job, "AcknowledgeNotice", notice))  # type: ignore[misc]
            case "acknowledge once":
                self._later(soon, lambda: self._answer(data.victims[0], "AcknowledgeNotice", notice))
            case "withdraw":
                self._later(soon, lambda: self._answer(data.preemptor, "WithdrawNotice", notice))
                # Who is given no other notice is not waited for.
                self._later(3 * soon, lambda: self.cluster.command(data.preemptor, "TerminateJob"))
            case "abort":
                self._later(soon + 6, lambda: self.cluster.command(data.preemptor, "AbortJob"))
            case "finish":
                self._later(soon, lambda: self._finish(data.victims[0]))
            case "restart":
                self._later(soon, lambda: self.cluster.command(data.victims[0], "RestartJob"))
            case "fail":
                self.cluster.failing = True

    def _later(self, most: float, act: Callable[[], object]) -> None:
        """Have something happen within some seconds."""
        at = self.cluster.now + int(self._dice.uniform(0, most) * SECOND)
        self._number += 1
        heappush(self._todo, (at, self._number, act))

    def _answer(self, job: str, action: Any, notice: str) -> None:
        self.cluster.give("jobs", CommandIssued(action, "ann", notice=notice), job)
        self.seen["given"] += 1

    def _end(self, lane: _Lane) -> None:
        """Let the privileged job of a queue end by itself, if it still runs."""
        self._finish(lane.urgent)
        lane.ends = False

    def _finish(self, job: str) -> None:
        """Let a job end by itself, if it runs; it may have been stopped meanwhile."""
        for uid in self._running(job):
            self.cluster.end(uid)

    def _submit_low(self, lane: _Lane) -> None:
        self._number += 1
        lane.lows.append(f"low-{lane.number}-{self._number}")
        self._submit(lane, lane.lows[-1], 1)

    def _submit(
        self, lane: _Lane, job: str, pods: int, spec: dict[str, Any] | None = None, lahar: dict[str, Any] | None = None
    ) -> None:
        pod = task("w", pods, nodeSelector={"pool": lane.pool})
        manifest = vcjob(job, pod, minAvailable=pods, queue=f"q{lane.number}", maxRetry=1_000, **(spec or {}))
        self.cluster.submit(job, {**manifest, "lahar": lahar or {}})


# --- what must have become of them ----------------------------------------------------------------------------------------------


def wrongly_ended(log: Any) -> list[str]:
    """Return the notices that have not ended exactly once, as their own records tell."""
    ends: dict[str, list[type]] = {}
    for record in log.scan(("preemptions",)):
        event = decode(record.message)
        if isinstance(event.data, NoticeOpened | NoticeExecuted | NoticeWithdrawn | ReservationEnded):
            ends.setdefault(event.subject, []).append(type(event.data))
    right = [NoticeOpened, NoticeWithdrawn], [NoticeOpened, NoticeExecuted, ReservationEnded]
    return [f"{notice}: {[kind.__name__ for kind in kinds]}" for notice, kinds in ends.items() if kinds not in right]


def unanswered(log: Any) -> list[str]:
    """Return the decisions that lifecycle has not answered exactly once."""
    asked = {DecidedEnqueued.TYPE, DecidedBound.TYPE, DecidedEvicted.TYPE, DecidedNoticed.TYPE, DecidedNoticeEnded.TYPE}
    given = {DecisionAccepted.TYPE, DecisionRefused.TYPE}
    answers: Counter[str] = Counter()
    for record in log.scan(("job-events",), given):
        data: Any = decode(record.message).data
        answers[data.decision] += 1
    decisions = [record.message for record in log.scan(("decisions",), asked)]
    return [f"{one.type} of {one.subject}: {answers[one.id]} answers" for one in decisions if answers[one.id] != 1]
