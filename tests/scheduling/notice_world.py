"""A small world for the model check of notices: both stages as they are, the messages between them, and nodes that obey.

Two queues, four jobs, two nodes; or five jobs, two of which compete for the places of others. A step is one message taken, one
timer, or one thing that happens outside (`notice_actions`); every step begins from the snapshot records of the stage that it moves,
so a restart of either stage lies between any two steps. Two states are the same if they differ only in ids, sequences and the
absolute time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from deployment import CLUSTER, START

from engine.events import Event
from engine.events.decisions import DecidedBound, DecidedEvicted, DecidedNoticed, DecidedNoticeEnded
from engine.events.inputs import PodObserved
from engine.events.jobs import JobPhaseChanged
from engine.lifecycle.stage import LifecycleStage
from engine.lifecycle.state import ShardState
from engine.scheduling.configuration import Configuration, PluginOption
from engine.scheduling.stage import SchedulingStage
from engine.scheduling.state.shard import State

CPUS: Final = {"n1": 2, "n2": 2, "n3": 3}
"""Node → what it has."""
CONFIGURATION: Final = Configuration(
    ("enqueue", "allocate", "preempt"), (tuple(PluginOption(name) for name in ("priority", "gang", "predicates")),)
)
LIFECYCLE: Final = LifecycleStage()
SCHEDULING: Final = SchedulingStage(CONFIGURATION)
PREEMPTOR: Final = "urgent"
PREEMPTORS: Final = {PREEMPTOR, "rush"}
Records = dict[str, bytes]


@dataclass(frozen=True)
class Lifecycle:
    """The state of lifecycle in a world."""

    records: Records = field(default_factory=dict)
    essence: tuple[object, ...] = ()
    phases: dict[str, str] = field(default_factory=dict, compare=False)
    """Job → phase. A job that has ended may be missing: a process packs it after a while."""
    halved: tuple[str, ...] = ()
    """Jobs that are half stopped by a notice."""


@dataclass(frozen=True)
class Scheduling:
    """The state of scheduling in a world."""

    records: Records = field(default_factory=dict)
    essence: tuple[object, ...] = ()
    open: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Open notice → its preemptor and its victims."""
    timers: dict[str, int] = field(default_factory=dict)
    """Open notice → when its time comes."""
    due: int | None = None
    """When the next timer fires."""
    reserved: bool = False
    """A place is reserved."""


@dataclass(frozen=True)
class World:
    """One state; nothing in it is ever changed."""

    lifecycle: Lifecycle = Lifecycle()
    scheduling: Scheduling = Scheduling()
    decisions: tuple[Event[Any], ...] = ()
    """Written by scheduling, not taken by lifecycle yet."""
    events: tuple[Event[Any], ...] = ()
    """The same the other way round."""
    pods: tuple[PodObserved, ...] = ()
    going: frozenset[str] = frozenset()
    """Pods that are being deleted."""
    nodes: tuple[str, ...] = ()
    now: int = START
    number: int = 0
    """Inputs given so far."""
    happened: frozenset[str] = frozenset()
    """What happened outside; each thing happens once."""
    told: frozenset[tuple[str, str]] = frozenset()
    """Notice and victim: the victim was WillEvicted."""
    ends: tuple[tuple[str, str], ...] = ()
    """Notice → how it stands, in the order of their opening."""
    failing: int = 0
    """Bindings that are going to fail."""
    late: int = 0
    """How often time has passed while messages were under way."""

    def over(self, notices: int) -> bool:
        """Return whether so many notices have come to their end, and everybody knows."""
        return len(self.ends) >= notices and not (self.decisions or self.events or self.scheduling.open or self.scheduling.reserved)

    def essence(self) -> tuple[object, ...]:
        """Return what makes a state: all that decides what can still happen."""
        return (
            self.lifecycle.essence,
            self.scheduling.essence,
            tuple(_message(event, self.now) for event in self.decisions),
            tuple(_message(event, self.now) for event in self.events),
            tuple((pod.job, pod.index, pod.attempt, pod.phase, pod.node, pod.uid in self.going) for pod in self.pods),
            self.nodes,
            self.happened,
            self.failing,
            self.late,
            tuple(state for _, state in self.ends),
        )


def lifecycle_of(records: Records) -> ShardState:
    """Return the state of lifecycle after a restart."""
    state = LIFECYCLE.initial()
    LIFECYCLE.load(state, records.items())
    return state


def scheduling_of(records: Records) -> State:
    """Return the state of scheduling after a restart."""
    state = SCHEDULING.initial()
    SCHEDULING.load(state, records.items())
    return state


def read_lifecycle(state: ShardState, now: int) -> Lifecycle:
    """Return what a world keeps of the state of lifecycle."""
    halved = []
    for ident, job in state.jobs.items():
        live = [attempt for attempt in job.attempts if attempt.live]
        stopped = {attempt.job_version for attempt in live if attempt.kill == "PreemptedByNotice"}
        if any(attempt.kill is None and attempt.job_version in stopped for attempt in live):
            halved.append(ident)
    phases = {ident: job.phase for ident, job in state.jobs.items()}
    return Lifecycle(dumped(LIFECYCLE, state), _of_lifecycle(state, now), phases, tuple(halved))


def read_scheduling(state: State, now: int) -> Scheduling:
    """Return what a world keeps of the state of scheduling."""
    cluster = state.clusters[CLUSTER]
    notices = [notice for notice in cluster.model.notices.values() if notice.reserved is None]
    return Scheduling(
        dumped(SCHEDULING, state),
        _of_scheduling(state, now),
        {notice.id: (notice.preemptor, *notice.victims) for notice in notices},
        {notice.id: max(notice.deadline, cluster.floor) for notice in notices},
        SCHEDULING.due(state),
        len(notices) < len(cluster.model.notices),
    )


def _of_lifecycle(state: ShardState, now: int) -> tuple[object, ...]:
    return tuple(
        (
            ident,
            job.phase,
            bool(job.notice),
            job.grouped,
            job.enqueued,
            job.requeued,
            job.retry_count,
            job.spec.total_replicas,
            None if job.deferred is None else job.deferred.action,
            tuple(
                (one.index, one.number, one.phase, one.reason, one.kill, one.object, one.decided, one.node) for one in job.attempts
            ),
            tuple(sorted((timer.kind, timer.due - now) for timer in job.timers.values())),
        )
        for ident, job in sorted(state.jobs.items())
    )


def _of_scheduling(state: State, now: int) -> tuple[object, ...]:
    cluster = state.clusters[CLUSTER]
    marks = [None if at is None else at - now for at in (cluster.own and cluster.own[0], cluster.other and cluster.other[0])]
    jobs = [
        (
            ident,
            head.job_phase,
            head.phase,
            head.grouped,
            head.enqueued,
            bool(head.enqueuing),
            bool(head.notice),
            bool(head.noticing),
            head.answered and head.answered[0],
            head.declined,
            max(head.preemption_backoff - now, 0),
            max(head.retry - now, 0),
            bool(head.runs_since),
            max(head.told_deadline - now, 0),
            sorted((one.kind, one.due - now) for one in head.open.values()),
            [
                (one.index, one.number, one.phase, one.node, one.decided, one.leaving, one.claim and one.claim.node)
                for one in (pod.attempt for pod in job.pods.values())
            ],
        )
        for ident, job in sorted(state.jobs.items())
        for head in [job.head]
    ]
    notices = [
        (one.preemptor, sorted(one.victims.items()), one.deadline - now, one.reserved and one.reserved - now)
        for one in cluster.model.notices.values()
    ]
    return (str((marks, max(cluster.floor - now, 0), jobs, notices)),)


def _message(event: Event[Any], now: int) -> tuple[object, ...]:
    data = event.data
    said: tuple[object, ...] = ()
    match data:
        case DecidedNoticed():
            said = (data.role, data.deadline - now)
        case DecidedNoticeEnded():
            said = (data.outcome, data.preemptor)
        case DecidedBound():
            said = tuple((one.index, one.attempt, one.node) for one in data.placements)
        case DecidedEvicted():
            said = tuple((one.index, one.attempt) for one in data.attempts)
        case JobPhaseChanged():
            said = (data.phase,)
        case _ if hasattr(data, "index"):
            said = (data.index, getattr(data, "attempt", None), getattr(data, "effect", None), getattr(data, "phase", None))
        case _ if hasattr(data, "kind"):
            said = (data.kind, getattr(data, "reason", None))
    return event.type, event.subject, said


def dumped(stage: Any, state: Any) -> Records:
    """Return the snapshot of a state."""
    return {record: content for record in stage.records(state) if (content := stage.dump(state, record)) is not None}
