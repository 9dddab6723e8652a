"""What the shard of scheduling knows: jobs with their attempts, by cluster the model that rounds decide on, and what is due.

One snapshot is of one moment: all records are of one subject. Nodes, queues and jobs hold together, so facts about one of them
cannot be taken again without the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, Final, Literal

from engine.events.attempts import AttemptEvent
from engine.events.times import SECOND, Micros
from engine.kubernetes.observation.cluster_facts import ClusterFacts, Thing
from engine.scheduling.cluster.entities import Job, Task
from engine.scheduling.cluster.job_records import Attempt, Group, JobRecord, Slot
from engine.scheduling.cluster.model import Cluster
from engine.scheduling.cluster.objects import IMPLIED_QUEUES, Priorities
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.pending.pending_reasons import PendingReasons
from engine.scheduling.scheduler import Scheduler

__all__ = ["PAGE", "ClusterState", "State", "TrackedJob", "next_mark"]

PAGE: Final = 64
"""Attempts of a job in one record."""

_OUTDATED: Final = 64
"""Outdated timers that may stand in a heap beside as many as there are clusters."""


def next_mark(moment: Micros) -> Micros:
    """Return the first whole second behind a moment."""
    return (moment // SECOND + 1) * SECOND


@dataclass(slots=True)
class TrackedJob:
    """A job with attempts that take something, or that we schedule."""

    id: str
    head: JobRecord
    group: Group | None = None
    """`None`: we do not schedule it."""
    attempts: dict[Slot, Attempt] = field(default_factory=dict)
    live: int = 0
    """Attempts that have not ended. Derived, as all that follows."""
    last: dict[tuple[str, int], Slot] = field(default_factory=dict)
    """Task and index → the newest attempt."""
    pages: dict[int, dict[Slot, Attempt]] = field(default_factory=lambda: defaultdict(dict))
    model: Job | None = None
    """Of one that we schedule."""
    tasks: dict[Slot, Task] = field(default_factory=dict)
    where: dict[Slot, str] = field(default_factory=dict)
    """The node under which an attempt stands in `ClusterState.on_node`."""
    bindings: dict[str, Attempt] = field(default_factory=dict)
    """By id of the requested binding."""

    def enter(self, attempt: Attempt) -> None:
        """Add an attempt."""
        slot = attempt.slot
        self.attempts[slot] = self.pages[attempt.place // PAGE][slot] = attempt
        self.last[attempt.task, attempt.index] = max(slot, self.last.get((attempt.task, attempt.index), slot))
        self.live += attempt.live
        if attempt.binding:
            self.bindings[attempt.binding] = attempt

    def drop(self, attempt: Attempt) -> None:
        """Forget an attempt."""
        del self.attempts[attempt.slot]
        page = self.pages[attempt.place // PAGE]
        del page[attempt.slot]
        if not page:
            del self.pages[attempt.place // PAGE]
        self.bindings.pop(attempt.binding, None)
        if self.last[attempt.task, attempt.index] == attempt.slot:
            if (older := self._before(attempt.slot)) is None:
                del self.last[attempt.task, attempt.index]
            else:
                self.last[attempt.task, attempt.index] = older

    def _before(self, slot: Slot) -> Slot | None:
        """Return the newest attempt of a replica before one: it may outlive its replacement."""
        task, index, number = slot
        if number <= len(self.attempts):
            return next((one for at in range(number - 1, -1, -1) if (one := (task, index, at)) in self.attempts), None)
        return max((one for one in self.attempts if one[:2] == (task, index)), default=None)

    def of(self, data: AttemptEvent) -> Attempt | None:
        """Return the attempt that an event is about."""
        return self.attempts.get((data.task, data.index, data.attempt))


@dataclass(slots=True)
class ClusterState:
    """One cluster: the model, and when its next round is due."""

    id: str
    model: Cluster
    scheduler: Scheduler
    pending_reasons: PendingReasons
    priorities: Priorities
    rounds: int = 0
    """Rounds that have ended."""
    own: tuple[Micros, str] | None = None
    """What changed of the jobs that we schedule since the last round: when a round is due for it, and the event; the first one."""
    other: tuple[Micros, str] | None = None
    """The same of nodes, queues and other pods: due only if a job waits."""
    ran: tuple[Micros, str] | None = None
    """The same of pods that came up where their gangs have all places: due only if the scheduler minds what runs."""
    newest: Micros = 0
    """Recorded time of the newest change since the last round: the round that looks at it is not dated earlier."""
    floor: Micros = 0
    """The next round is not due earlier: whatever the recorded times of what is taken late, rounds are a second apart."""
    wake: Micros | None = None
    """When time alone may change what plugins answer."""
    counts: dict[str, int] = field(default_factory=dict)
    """Kind of decision → jobs or attempts that it was about, in all rounds."""
    refused: dict[str, int] = field(default_factory=dict)
    """Reason → decisions that lifecycle has refused."""
    late: int = 0
    """Decisions that were not answered in time."""
    pending: dict[str, int] = field(default_factory=dict)
    """Queue → jobs that wait in it, at the end of the last round."""
    oldest: dict[str, Micros] = field(default_factory=dict)
    """Queue → when the first submitted of those jobs was submitted."""
    configuration: dict[str, Any] = field(default_factory=dict)
    """Actions and plugins of the last round, as it recorded them."""
    opened: int = 0
    """Number of the last notice of preemption that was opened: that of its round."""
    notices: dict[str, int] = field(default_factory=dict)
    """What became of them (`executed`, `withdrawn`, and the ends of reservations) → how many."""
    jobs: int = 0
    """Jobs that we schedule. Derived, as all that follows."""
    known: int = 0
    """Jobs of `State.jobs` in it."""
    things: set[Thing] = field(default_factory=set)
    """Its nodes and other objects that there are."""
    timer: Micros | None = None
    """When its next round is due, as it stands in `State.rounds_due`."""
    others: dict[str, Job] = field(default_factory=dict)
    """Namespace → stands for its pods that others place."""
    waiting: dict[str, None] = field(default_factory=dict)
    """Jobs with something to be decided."""
    explained: dict[str, None] = field(default_factory=dict)
    """Jobs about which a reason stands."""
    retries: dict[str, Micros] = field(default_factory=dict)
    """Jobs that are left alone for a while after a refusal, or evict nobody for a while: when the first of both ends. Written by
    `pause` only."""
    retries_due: list[tuple[Micros, str]] = field(default_factory=list)
    """The same as a heap; what has changed since stays in it until it comes first."""
    on_node: dict[str, dict[tuple[str, Slot], None]] = field(default_factory=dict)
    """Node → attempts that are there, or are to be."""

    def due(self) -> Micros | None:
        """Return when the next round is due (microseconds); `None`: nothing asks for one."""
        marks = [notice.due for notice in self.model.notices.values()]
        if self.wake is not None and self.jobs:
            marks.append(self.wake)
        marks = [max(min(marks), self.floor)] if marks else []
        if (pressing := self.pressing()) is not None:
            marks.append(pressing)
        return min(marks, default=None)

    def pressing(self) -> Micros | None:
        """Return when a round is due because something changed (microseconds); `None`: nothing has."""
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
        """Note until when a job is left alone, or evicts nobody (microseconds); 0: it does not wait."""
        if not until:
            self.retries.pop(job, None)
        elif self.retries.get(job) != until:
            self.retries[job] = until
            heappush(self.retries_due, (until, job))

    def changed(self, moment: Micros, event: str, what: Literal["own", "other", "ran"]) -> None:
        """Note that something changed: a round is due at the next whole second. The first change stands, whatever their order."""
        before, found = getattr(self, what), (next_mark(moment), event)
        setattr(self, what, found if before is None else min(before, found))
        self.newest = max(self.newest, moment)

    def cause(self) -> str:
        """Return the id of the first event that asks for a round; empty: time alone does."""
        ran = self.ran if self.scheduler.minds_what_runs else None
        return min(filter(None, (self.own, self.other, ran)), default=(0, ""))[1]


@dataclass(slots=True)
class State:
    """The shard of scheduling."""

    scheduler: Callable[[Cluster], Scheduler]
    """Makes the scheduler of a cluster."""
    facts: ClusterFacts = field(default_factory=ClusterFacts)
    clusters: dict[str, ClusterState] = field(default_factory=dict)
    jobs: dict[str, TrackedJob] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    """Cluster of which nothing is known any more → rounds that have ended there."""
    unanswered: list[tuple[Micros, str, str]] = field(default_factory=list)
    """Heap of decisions: when they count as late, job, id. Derived; those that were answered stay until they come first."""
    touched: dict[str, None] = field(default_factory=dict)
    stirred: set[str] = field(default_factory=set)
    """Clusters that were looked up since a timer was asked for: their next rounds may be due at another time. Derived, too."""
    rounds_due: list[tuple[Micros, str]] = field(default_factory=list)
    """Heap of clusters by their next rounds; what is outdated stays until it comes first."""

    def cluster(self, name: str) -> ClusterState:
        """Return a cluster, to be changed; it begins to be known with the first fact about it."""
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
        """Return how many rounds of a cluster have ended."""
        found = self.clusters.get(name)
        return self.ended.get(name, 0) if found is None else found.rounds

    def notices(self, name: str) -> int:
        """Return the number of the last notice that was opened in a cluster; the round that opened it has the same."""
        found = self.clusters.get(name)
        return self.ended.get(name, 0) if found is None else found.opened

    def enter(self, known: TrackedJob) -> None:
        """Add a job."""
        self.jobs[known.id] = known
        self.cluster(known.head.cluster).known += 1

    def leave(self, known: TrackedJob) -> None:
        """Forget a job."""
        del self.jobs[known.id]
        self.cluster(known.head.cluster).known -= 1

    def drop_if_empty(self, name: str) -> bool:
        """Forget a cluster without jobs, nodes and other objects, but for the number of its rounds: anybody can name one."""
        cluster = self.clusters[name]
        if cluster.known or cluster.things or cluster.model.notices:
            return False
        del self.clusters[name]
        if cluster.rounds:
            self.ended[name] = cluster.rounds
        return True

    def first_round(self) -> tuple[Micros, ClusterState] | None:
        """Return when the next round is due (microseconds), and where; of those at one time the cluster that is first by name."""
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
