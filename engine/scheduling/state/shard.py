"""State of the scheduling shard: jobs with their attempts, the model of each cluster, and timers.

All snapshot records are of one subject, so a snapshot is of one moment: nodes, queues and jobs refer to each other and cannot be
restored one without the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, Final, Literal

from engine.events.attempts import AttemptEvent
from engine.events.decisions import AttemptKey, Placement
from engine.events.times import SECOND, Micros
from engine.kubernetes.observation.cluster_facts import ClusterFacts, Thing
from engine.scheduling.cluster.entities import Job, Task
from engine.scheduling.cluster.job_records import Attempt, Group, JobRecord, Slot
from engine.scheduling.cluster.model import Cluster
from engine.scheduling.cluster.objects import IMPLIED_QUEUES, Priorities
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.pending.pending_reasons import PendingReasons
from engine.scheduling.scheduler import Scheduler

PAGE: Final = 64
"""Attempts in one snapshot record of a job."""

_OUTDATED: Final = 64
"""Outdated timers in the heap beyond the number of clusters before it is rebuilt."""


def next_mark(moment: Micros) -> Micros:
    """Return the first whole second after a time."""
    return (moment // SECOND + 1) * SECOND


@dataclass(slots=True, eq=False, repr=False)
class TrackedJob(Job):
    """Job that this scheduler handles, or whose pods hold resources: the model's job with its records."""

    head: JobRecord = field(kw_only=True)
    group: Group | None = field(default=None, kw_only=True)
    """`None`: another scheduler handles it; it is held, and not among the jobs of the model."""
    pods: dict[Slot, Pod] = field(default_factory=dict)
    live: int = 0
    """Number of pods that have not ended. Derived, like all fields below."""
    last: dict[tuple[str, int], Slot] = field(default_factory=dict)
    """Task and index → newest attempt."""
    pages: dict[int, dict[Slot, Pod]] = field(default_factory=lambda: defaultdict(dict))
    bindings: dict[str, Pod] = field(default_factory=dict)
    """Pods by id of their requested binding."""

    def enter(self, pod: Pod) -> None:
        """Add a pod."""
        attempt, slot = pod.attempt, pod.attempt.slot
        self.pods[slot] = self.pages[attempt.place // PAGE][slot] = pod
        self.last[attempt.task, attempt.index] = max(slot, self.last.get((attempt.task, attempt.index), slot))
        self.live += attempt.live
        if attempt.binding:
            self.bindings[attempt.binding] = pod

    def drop(self, pod: Pod) -> None:
        """Remove a pod."""
        attempt, slot = pod.attempt, pod.attempt.slot
        del self.pods[slot]
        page = self.pages[attempt.place // PAGE]
        del page[slot]
        if not page:
            del self.pages[attempt.place // PAGE]
        self.bindings.pop(attempt.binding, None)
        if self.last[attempt.task, attempt.index] == slot:
            if (older := self._before(slot)) is None:
                del self.last[attempt.task, attempt.index]
            else:
                self.last[attempt.task, attempt.index] = older

    def _before(self, slot: Slot) -> Slot | None:
        """Return the next older attempt of a replica, which may outlive its replacement."""
        task, index, number = slot
        if number <= len(self.pods):
            return next((one for at in range(number - 1, -1, -1) if (one := (task, index, at)) in self.pods), None)
        return max((one for one in self.pods if one[:2] == (task, index)), default=None)

    def of(self, data: AttemptEvent | AttemptKey | Placement) -> Pod | None:
        """Return the pod of an event, or of a part of a decision."""
        return self.pods.get((data.task, data.index, data.attempt))


@dataclass(slots=True, eq=False, repr=False)
class Pod(Task):
    """Pod of a tracked job: the model's task with its record."""

    job: TrackedJob
    attempt: Attempt = field(kw_only=True)
    listed: str = ""
    """Node that lists it in `ClusterState.on_node`; empty: none."""


@dataclass(slots=True)
class ClusterState:
    """One cluster: its model, scheduler, counters and the time of its next round."""

    id: str
    model: Cluster
    scheduler: Scheduler
    pending_reasons: PendingReasons
    priorities: Priorities
    rounds: int = 0
    """Number of rounds that have ended."""
    own: tuple[Micros, str] | None = None
    """First change of a handled job since the last round: time at which a round is due for it, and the event."""
    other: tuple[Micros, str] | None = None
    """The same for nodes, queues and other pods; due only if a job waits."""
    ran: tuple[Micros, str] | None = None
    """The same for pods that run in complete gangs; due only if running pods matter to the scheduler."""
    newest: Micros = 0
    """Recorded time of the newest change since the last round; the next round is not dated earlier."""
    floor: Micros = 0
    """Earliest time of the next round: rounds are a second apart, however late inputs arrive."""
    wake: Micros | None = None
    """Time at which results of plugins may change without an event."""
    counts: dict[str, int] = field(default_factory=dict)
    """Kind of decision → number of jobs or attempts in all rounds."""
    refused: dict[str, int] = field(default_factory=dict)
    """Reason → number of decisions that lifecycle has refused."""
    late: int = 0
    """Number of decisions without an answer in time."""
    pending: dict[str, int] = field(default_factory=dict)
    """Queue → number of jobs pending at the end of the last round."""
    oldest: dict[str, Micros] = field(default_factory=dict)
    """Queue → submission time of the oldest of those jobs."""
    configuration: dict[str, Any] = field(default_factory=dict)
    """Actions and plugins that the last round recorded."""
    opened: int = 0
    """Number of the last opened notice of preemption, which is the number of its round."""
    notices: dict[str, int] = field(default_factory=dict)
    """Outcome (`executed`, `withdrawn`, ends of reservations) → number of notices."""
    jobs: int = 0
    """Number of handled jobs. Derived, like all fields below."""
    known: int = 0
    """Number of jobs of `State.jobs` in it."""
    things: set[Thing] = field(default_factory=set)
    """Existing nodes and other objects."""
    timer: Micros | None = None
    """Time of its next round in `State.rounds_due`."""
    waiting: dict[str, None] = field(default_factory=dict)
    """Jobs with pending decisions: to be admitted, or with pending tasks."""
    explained: dict[str, None] = field(default_factory=dict)
    """Jobs with a published pending reason."""
    retries: dict[str, Micros] = field(default_factory=dict)
    """Paused job → end of the pause after a refusal, or of the preemption backoff, whichever is earlier. Written by `pause`."""
    retries_due: list[tuple[Micros, str]] = field(default_factory=list)
    """Heap of the same; outdated entries remain until they come first."""
    on_node: dict[str, dict[Pod, None]] = field(default_factory=dict)
    """Node → pods bound to it, or decided to be; it may not exist."""

    def due(self) -> Micros | None:
        """Return the time of the next round (microseconds); `None`: none is due."""
        marks = [notice.due for notice in self.model.notices.values()]
        if self.wake is not None and self.jobs:
            marks.append(self.wake)
        marks = [max(min(marks), self.floor)] if marks else []
        if (pressing := self.pressing()) is not None:
            marks.append(pressing)
        return min(marks, default=None)

    def pressing(self) -> Micros | None:
        """Return the time of a round that a change requests (microseconds); `None`: nothing has changed."""
        if not self.jobs and not self.model.notices:
            return None
        marks = []
        while self.retries_due and self.retries.get(self.retries_due[0][1]) != self.retries_due[0][0]:
            heappop(self.retries_due)
        if self.retries_due:
            marks.append(self.retries_due[0][0])
        if self.own is not None:
            marks.append(self.own[0])
        if self.other is not None and self.waiting:
            marks.append(self.other[0])
        if self.ran is not None and self.scheduler.minds_what_runs:
            marks.append(self.ran[0])
        return max(min(marks), self.floor) if marks else None

    def pause(self, job: str, until: Micros) -> None:
        """Set the end of a job's pause or backoff (microseconds); 0: neither."""
        if not until:
            self.retries.pop(job, None)
        elif self.retries.get(job) != until:
            self.retries[job] = until
            heappush(self.retries_due, (until, job))

    def changed(self, moment: Micros, event: str, what: Literal["own", "other", "ran"]) -> None:
        """Record a change: a round is due at the next whole second. The earliest change counts, in any order of arrival."""
        before, found = getattr(self, what), (next_mark(moment), event)
        setattr(self, what, found if before is None else min(before, found))
        self.newest = max(self.newest, moment)

    def cause(self) -> str:
        """Return the id of the first event that requests a round; empty: only time does."""
        ran = self.ran if self.scheduler.minds_what_runs else None
        return min(filter(None, (self.own, self.other, ran)), default=(0, ""))[1]


@dataclass(slots=True)
class State:
    """State of the shard."""

    scheduler: Callable[[Cluster], Scheduler]
    """Factory of a cluster's scheduler."""
    facts: ClusterFacts = field(default_factory=ClusterFacts)
    clusters: dict[str, ClusterState] = field(default_factory=dict)
    jobs: dict[str, TrackedJob] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    """Forgotten cluster → number of its rounds."""
    unanswered: list[tuple[Micros, str, str]] = field(default_factory=list)
    """Heap of decisions: deadline of the answer, job, id. Derived; answered ones remain until they come first."""
    touched: dict[str, None] = field(default_factory=dict)
    stirred: set[str] = field(default_factory=set)
    """Clusters possibly changed since the last query for a timer, whose next rounds may have moved. Derived."""
    rounds_due: list[tuple[Micros, str]] = field(default_factory=list)
    """Heap of next rounds by time and cluster; outdated ones remain until they come first."""

    def cluster(self, name: str) -> ClusterState:
        """Return a cluster for a change; the first fact about a cluster creates it."""
        self.stirred.add(name)
        found = self.clusters.get(name)
        if found is None:
            model = Cluster()
            scheduler = self.scheduler(model)
            pending_reasons = PendingReasons(scheduler.pending_queue, lambda job: self.jobs[job].head)
            found = self.clusters[name] = ClusterState(name, model, scheduler, pending_reasons, Priorities(self.facts, name))
            found.rounds = found.opened = self.ended.pop(name, 0)
            for queue in IMPLIED_QUEUES:
                model.set_queue(Queue(queue))
        return found

    def rounds(self, name: str) -> int:
        """Return the number of ended rounds of a cluster."""
        found = self.clusters.get(name)
        return self.ended.get(name, 0) if found is None else found.rounds

    def notices(self, name: str) -> int:
        """Return the number of the last notice opened in a cluster, which is the number of its round."""
        found = self.clusters.get(name)
        return self.ended.get(name, 0) if found is None else found.opened

    def enter(self, job: TrackedJob) -> None:
        """Add a job."""
        self.jobs[job.key] = job
        self.cluster(job.head.cluster).known += 1

    def leave(self, job: TrackedJob) -> None:
        """Remove a job."""
        del self.jobs[job.key]
        self.cluster(job.head.cluster).known -= 1

    def drop_if_empty(self, name: str) -> bool:
        """Remove a cluster without jobs and objects, except the number of its rounds: inputs can name any cluster."""
        cluster = self.clusters[name]
        if cluster.known or cluster.things or cluster.model.notices:
            return False
        del self.clusters[name]
        if cluster.rounds:
            self.ended[name] = cluster.rounds
        return True

    def first_round(self) -> tuple[Micros, ClusterState] | None:
        """Return the time of the next round (microseconds) and its cluster; ties go to the first cluster by name."""
        for name in self.stirred:
            cluster = self.clusters.get(name)
            if cluster is not None and cluster.timer != (due := cluster.due()):
                cluster.timer = due
                if due is not None:
                    heappush(self.rounds_due, (due, name))
        self.stirred.clear()
        if len(self.rounds_due) > 2 * len(self.clusters) + _OUTDATED:
            self.rounds_due = [(cluster.timer, name) for name, cluster in self.clusters.items() if cluster.timer is not None]
            heapify(self.rounds_due)
        while self.rounds_due:
            due, name = self.rounds_due[0]
            cluster = self.clusters.get(name)
            if cluster is not None and cluster.timer == due:
                return due, cluster
            heappop(self.rounds_due)
        return None
