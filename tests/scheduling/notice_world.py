"""A small world for the model check of notices: both stages as they are, the messages between them, and nodes that obey.

Two queues, four jobs, two nodes. A step is one message taken, one timer, or one thing that happens outside; every step begins from
the snapshot records of the stage that it moves, so a restart of either stage lies between any two steps. Two states are the same if
they differ only in ids, sequences and the absolute time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from deployment import CLUSTER, START, task, vcjob

from engine.events import Data, Event
from engine.events.actions import EffectRequested
from engine.events.decisions import DecidedBound, DecidedEvicted, DecidedNoticed, DecidedNoticeEnded, DecisionEvent
from engine.events.ids import observation_id
from engine.events.inputs import (
    CommandIssued,
    EffectReported,
    JobSubmitted,
    JobUpdated,
    NodeDeleted,
    NodeObserved,
    ObjectApplied,
    PodDeleted,
    PodObserved,
)
from engine.events.jobs import JobPhaseChanged
from engine.events.preemptions import NoticeExecuted, NoticeNarrowed, NoticeOpened, NoticeWithdrawn, ReservationEnded
from engine.lifecycle.stage import LifecycleStage
from engine.lifecycle.state import ShardState
from engine.scheduling.configuration import Configuration, PluginOption
from engine.scheduling.model.notices import Notice
from engine.scheduling.stage import SchedulingStage
from engine.scheduling.state import State
from statemachines.spec import Requests

__all__ = ["DELAY", "JOBS", "PREEMPTOR", "World", "actions", "first", "take"]

DELAY: Final = 2
"""Seconds from a notice to its execution."""
CPUS: Final = {"n1": 2, "n2": 2, "n3": 3}
"""Node → what it has."""
CONFIGURATION: Final = Configuration(
    ("enqueue", "allocate", "preempt"), (tuple(PluginOption(name) for name in ("priority", "gang", "predicates")),)
)
LIFECYCLE: Final = LifecycleStage()
SCHEDULING: Final = SchedulingStage(CONFIGURATION)
PREEMPTOR: Final = "urgent"
JOBS: Final = {"low1": 1, "low2": 2, "other": 1, PREEMPTOR: 3}
"""Job → pods of 1 CPU; a gang each. The first two are the victims: the nodes have 4 CPUs."""

Records = dict[str, bytes]


def manifest(job: str, pods: int) -> dict[str, Any]:
    more: dict[str, Any] = {"priorityClassName": "high"} if job == PREEMPTOR else {}
    made = vcjob(job, task("w", pods), minAvailable=pods, queue="p" if job == "other" else "q", **more)
    return {**made, "lahar": {"preempt": True}} if job == PREEMPTOR else made


@dataclass(frozen=True)
class Lifecycle:
    """The state of lifecycle in a world."""

    records: Records = field(default_factory=dict)
    essence: tuple[object, ...] = ()
    phases: dict[str, str] = field(default_factory=dict)
    """Job → phase."""
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


def _lifecycle(records: Records) -> ShardState:
    state = LIFECYCLE.initial()
    LIFECYCLE.load(state, records.items())
    return state


def _scheduling(records: Records) -> State:
    state = SCHEDULING.initial()
    SCHEDULING.load(state, records.items())
    return state


def _read_lifecycle(state: ShardState, now: int) -> Lifecycle:
    halved = []
    for ident, job in state.jobs.items():
        live = [attempt for attempt in job.attempts if attempt.live]
        stopped = {attempt.job_version for attempt in live if attempt.kill == "PreemptedByNotice"}
        if any(attempt.kill is None and attempt.job_version in stopped for attempt in live):
            halved.append(ident)
    phases = {ident: job.phase for ident, job in state.jobs.items()}
    return Lifecycle(_dumped(LIFECYCLE, state), _of_lifecycle(state, now), phases, tuple(halved))


def _read_scheduling(state: State, now: int) -> Scheduling:
    cluster = state.clusters[CLUSTER]
    notices = [notice for notice in cluster.model.notices.values() if notice.reserved is None]
    return Scheduling(
        _dumped(SCHEDULING, state),
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
            max(head.patience - now, 0),
            max(head.retry - now, 0),
            bool(head.runs_since),
            max(head.told_deadline - now, 0),
            sorted((one.kind, one.due - now) for one in head.open.values()),
            [
                (one.index, one.number, one.phase, one.node, one.decided, one.leaving, one.claim and one.claim.node)
                for one in known.attempts.values()
            ],
        )
        for ident, known in sorted(state.jobs.items())
        for head in [known.head]
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


# --- steps ----------------------------------------------------------------------------------------------------------------------


class Step:
    """One step: the stages that it moves, and what it has seen them write."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.decisions, self.events = list(world.decisions), list(world.events)
        self.pods, self.going = {pod.uid: pod for pod in world.pods}, set(world.going)
        self.nodes, self.now, self.number, self.failing = list(world.nodes), world.now, world.number, world.failing
        self.told, self.ends = set(world.told), dict(world.ends)
        self.written: list[Event[Any]] = []
        """By scheduling, in this step."""
        self.faults: list[str] = []
        self._lifecycle: ShardState | None = None
        self._scheduling: State | None = None

    @property
    def lifecycle(self) -> ShardState:
        if self._lifecycle is None:
            self._lifecycle = _lifecycle(self.world.lifecycle.records)
        return self._lifecycle

    @property
    def scheduling(self) -> State:
        if self._scheduling is None:
            self._scheduling = _scheduling(self.world.scheduling.records)
        return self._scheduling

    def done(self, happened: frozenset[str] = frozenset()) -> World:
        """Return the state that it has led to."""
        lifecycle, scheduling = self._lifecycle, self._scheduling
        own = self.world.lifecycle if lifecycle is None else _read_lifecycle(lifecycle, self.now)
        if lifecycle is not None and _dumped(LIFECYCLE, _lifecycle(own.records)) != own.records:
            self.faults.append("a restart of lifecycle changes its state")
        other = self.world.scheduling if scheduling is None else _read_scheduling(scheduling, self.now)
        if scheduling is not None and _read_scheduling(_scheduling(other.records), self.now) != other:
            self.faults.append("a restart of scheduling changes its state")
        return World(
            own,
            other,
            tuple(self.decisions),
            tuple(self.events),
            tuple(pod for _, pod in sorted(self.pods.items())),
            frozenset(self.going),
            tuple(self.nodes),
            self.now,
            self.number,
            self.world.happened | happened,
            frozenset(self.told),
            tuple(self.ends.items()),
            self.failing,
            self.world.late,
        )

    # --- inputs ---------------------------------------------------------------------------------------------------------------

    def give(self, data: Data, subject: str, ident: str = "") -> None:
        """Have lifecycle take an input; a fact of the cluster is taken by scheduling at once too."""
        self.number += 1
        event = Event(ident or f"i{self.number}", "test", data.TYPE, subject, self.now, self.now, 0, subject, "", CLUSTER, data)
        if data.TOPIC == "cluster":
            SCHEDULING.absorb(self.scheduling, event)
            LIFECYCLE.absorb(self.lifecycle, event)
        self.take(event)

    def node(self, name: str) -> None:
        """Show a node."""
        self.nodes.append(name)
        self.give(NodeObserved(name, cpu_milli=CPUS[name] * 1000, memory_bytes=64 << 30, pods=20), name)

    def take(self, event: Event[Any]) -> None:
        """Have lifecycle take an input or a decision."""
        asked: list[Event[Any]] = []
        for made in LIFECYCLE.decide(self.lifecycle, event, self.now):
            self._made(made, asked)
        self._obey(asked)

    def _made(self, made: Event[Any], asked: list[Event[Any]]) -> None:
        LIFECYCLE.evolve(self.lifecycle, made)
        self.events.append(made)
        if isinstance(made.data, EffectRequested):
            asked.append(made)
        if isinstance(made.data, JobPhaseChanged) and made.data.phase == "WillEvicted":
            self.told.add((made.data.notice, made.subject))

    def fire_lifecycle(self) -> None:
        """Fire the timers of lifecycle that are due."""
        while (due := LIFECYCLE.due(self.lifecycle)) is not None and due <= self.now:
            asked: list[Event[Any]] = []
            for made in LIFECYCLE.fire(self.lifecycle, self.now):
                self._made(made, asked)
            self._obey(asked)

    def _obey(self, asked: list[Event[Any]]) -> None:
        for event in asked:
            effect, uid = event.data, f"{event.subject}-{event.data.index}-{event.data.attempt}"
            if effect.effect == "create_pod":
                requests = Requests(1000, 1 << 30)
                pod = PodObserved(
                    uid, event.subject, effect.pod, "Pending", self.now, kind="VCJob", managed=True, requests=requests
                )
                self._see(replace(pod, task="w", index=effect.index, attempt=effect.attempt))
            elif effect.effect == "bind_pod" and self.failing:
                self.failing -= 1
                self.give(EffectReported(event.id, "failed"), event.subject)
            elif effect.effect == "bind_pod" and uid in self.pods and effect.node in self.nodes:
                self._see(replace(self.pods[uid], phase="Running", node=effect.node, bound=self.now, running=self.now))
            elif effect.effect == "delete_pod" and (effect.uid or uid) in self.pods:
                self.going.add(effect.uid or uid)

    def _see(self, pod: PodObserved) -> None:
        pod = replace(pod, version=str(self.number + 1), proof=self.now)
        self.pods[pod.uid] = pod
        self.give(pod, pod.job, observation_id(pod.uid, pod.version or "", deleted=False))

    def end(self, uid: str) -> None:
        """Let a pod succeed."""
        self._see(replace(self.pods[uid], phase="Succeeded", exit_code=0, ended=self.now))

    def gone(self, uid: str) -> None:
        """Let a pod go."""
        last = self.pods.pop(uid)
        self.going.discard(uid)
        if last.phase != "Succeeded":
            last = replace(last, phase="Failed", reason="KilledByAction", ended=self.now)
        last = replace(last, version=str(self.number + 1))
        self.give(PodDeleted(last), last.job, observation_id(uid, last.version or "", deleted=True))

    # --- scheduling -----------------------------------------------------------------------------------------------------------

    def tick(self, *, deaf: bool) -> None:
        """Let time pass until a timer of scheduling is due, and fire it; unless it is deaf, it takes all events before."""
        state = self.scheduling
        if not deaf:
            for event in self.events:
                SCHEDULING.absorb(state, event)
            self.events = []
            if not self.decisions:
                self._linked()
        due = SCHEDULING.due(state)
        if due is None:
            return
        self.now = max(self.now, due)
        if any(timer[0] <= self.now for timer in self.lifecycle.timers):
            self.fire_lifecycle()
        while (due := SCHEDULING.due(state)) is not None and due <= self.now:
            for made in SCHEDULING.fire(state, self.now):
                self._decided(made)
                SCHEDULING.evolve(state, made)

    def _linked(self) -> None:
        """Compare phases and notices, now that nobody has anything to take."""
        cluster = self.scheduling.clusters[CLUSTER]
        notices = [notice for notice in cluster.model.notices.values() if notice.reserved is None]
        members = {job for notice in notices for job in (notice.preemptor, *notice.victims)}
        for job, phase in self.world.lifecycle.phases.items():
            own = "Privileged" if job == PREEMPTOR else "WillEvicted"
            if phase in {"Privileged", "WillEvicted"} and (phase != own or job not in members):
                self.faults.append(f"{job} is {phase}, and in no open notice")
            if job in members and phase != own and cluster.own is None:
                self.faults.append(f"{job} is {phase} and in an open notice, and no round will look at it")

    def _decided(self, made: Event[Any]) -> None:
        """Look at what scheduling writes, before the state follows it."""
        self.written.append(made)
        data, notices = made.data, self.scheduling.clusters[CLUSTER].model.notices
        if isinstance(data, DecisionEvent):
            self.decisions.append(made)
        match data:
            case DecidedBound():
                self._bound(made, data)
            case ReservationEnded(outcome="bound") if self._placed(notices[made.subject].preemptor, bound=True) < 0:
                self.faults.append(f"reservation {made.subject} ends as bound, and no node has taken the gang")
            case NoticeOpened():
                self._opened(made, data, notices)
            case NoticeWithdrawn() | NoticeExecuted():
                if self.ends.get(made.subject) != "open":
                    self.faults.append(f"notice {made.subject} ends twice")
                self.ends[made.subject] = "executed" if isinstance(data, NoticeExecuted) else "withdrawn"
                if isinstance(data, NoticeExecuted):
                    self._executed(made, data, notices[made.subject])
            case NoticeNarrowed() if self.ends.get(made.subject) != "open":
                self.faults.append(f"notice {made.subject} changes after its end")

    def _opened(self, made: Event[Any], data: NoticeOpened, notices: dict[str, Notice]) -> None:
        self.ends[made.subject] = "open"
        among = {job for notice in notices.values() for job in (notice.preemptor, *notice.victims)}
        if among & {data.preemptor, *data.victims}:
            self.faults.append("a job is in two open notices")
        if data.preemptor != PREEMPTOR or not set(data.victims) <= {"low1", "low2"} or not data.victims:
            self.faults.append(f"{data.victims} are given notice for {data.preemptor}")

    def _placed(self, job: str, *, bound: bool = False) -> int:
        """Return how many pods of a gang have a node, or one that a node has confirmed, beyond those that it needs."""
        known = self.scheduling.jobs[job]
        placed = [one for one in known.attempts.values() if one.live and _has_node(one) and (not bound or one.phase != "Pending")]
        return len(placed) - (0 if known.group is None else known.group.spec.min_available)

    def _bound(self, made: Event[Any], data: DecidedBound) -> None:
        """Look whether somebody takes what is reserved for another."""
        for notice in self.scheduling.clusters[CLUSTER].model.notices.values():
            if notice.reserved is None or notice.preemptor in {made.subject, *self._gone()}:
                continue
            others = sum(_takes(one, self.nodes) for known in self.scheduling.jobs.values() for one in known.attempts.values())
            if sum(CPUS[node] for node in self.nodes) - others - len(data.placements) < -self._placed(notice.preemptor):
                self.faults.append(f"{made.subject} takes the place that is reserved for {notice.preemptor}")

    def _gone(self) -> set[str]:
        """Return the jobs that need no place any more."""
        return {job for job in JOBS if (known := self.scheduling.jobs.get(job)) is None or not known.head.grouped}

    def _executed(self, made: Event[Any], data: NoticeExecuted, notice: Notice) -> None:
        untold = [victim for victim in data.victims if (made.subject, victim) not in self.told]
        if untold:
            self.faults.append(f"{untold} are stopped without having been told")
        known = self.scheduling.jobs.get(notice.preemptor)
        if known is None or self._placed(notice.preemptor) >= 0:
            self.faults.append(f"{data.victims} are stopped though {notice.preemptor} has its places elsewhere")
        for victim in data.victims:
            if victim not in self.scheduling.jobs or self.scheduling.jobs[victim].head.job_phase != "WillEvicted":
                self.faults.append(f"{victim} is stopped though it is WillEvicted no more")


def _has_node(attempt: Any) -> bool:
    return bool(attempt.node or attempt.decided or (attempt.claim is not None and attempt.claim.node)) and not attempt.leaving


def _takes(attempt: Any, nodes: list[str]) -> bool:
    """Whether an attempt has a place on one of the nodes that it is not about to leave."""
    where = attempt.node or attempt.decided or (attempt.claim.node if attempt.claim is not None else "")
    return attempt.live and _has_node(attempt) and where in nodes


def _dumped(stage: Any, state: Any) -> Records:
    return {record: content for record in stage.records(state) if (content := stage.dump(state, record)) is not None}


# --- which steps there are ------------------------------------------------------------------------------------------------------


def _commands() -> dict[str, tuple[str, Any]]:
    return {
        "abort low1": ("low1", CommandIssued("AbortJob", "ann")),
        "abort urgent": (PREEMPTOR, CommandIssued("AbortJob", "ann")),
        "restart low2": ("low2", CommandIssued("RestartJob", "ann")),
        "ack low1": ("low1", CommandIssued("AcknowledgeNotice", "ann")),
        "ack low2": ("low2", CommandIssued("AcknowledgeNotice", "ann")),
        "withdraw": (PREEMPTOR, CommandIssued("WithdrawNotice", "ann")),
        "scale urgent": (PREEMPTOR, JobUpdated(manifest(PREEMPTOR, 1))),
        "scale low2": ("low2", JobUpdated(manifest("low2", 1))),
        "scale low1": ("low1", JobUpdated(manifest("low1", 6))),
    }


def _outside(world: World) -> Iterator[str]:
    """Yield what can happen outside."""
    running = {pod.job for pod in world.pods if pod.phase == "Running" and pod.uid not in world.going}
    yield from _commands()
    yield from (f"finish {job}" for job in sorted(running))
    if "n1" in world.nodes:
        yield "lose n1"
    yield "gain n3"
    yield "bindings fail"


def actions(world: World, most: int, late: int) -> list[str]:
    """Return the steps that can be taken.

    Args:
        world: the state.
        most: things that happen outside, on the way from the beginning.
        late: how often time passes while messages are under way, on that way.
    """
    found = []
    if world.decisions:
        found.append("lifecycle takes a decision")
    # Scheduling takes events before time passes or not at all: in between nobody would see a difference.
    if (world.scheduling.due is not None or world.events) and (world.late < late or not world.decisions):
        found.append("time passes")
    if world.scheduling.due is not None and world.events and world.late < late:
        found.append("time passes for a deaf scheduling")
    if world.going:
        found.append("pods go")
    if len(world.happened) < most:
        found += [name for name in _outside(world) if name not in world.happened]
    return found


def take(world: World, action: str) -> tuple[World, list[str]]:
    """Take a step; return the state that it leads to, and what was wrong on the way."""
    step = Step(world)
    outside = frozenset[str]()
    match action.split():
        case ["lifecycle", *_]:
            step.take(step.decisions.pop(0))
        case ["time", *_]:
            deaf = action != "time passes"
            step.tick(deaf=deaf)
            return replace(step.done(), late=world.late + (deaf or bool(world.decisions))), step.faults
        case ["pods", *_]:
            for uid in sorted(step.going):
                step.gone(uid)
        case ["finish", job]:
            outside = frozenset({action})
            for pod in [pod for pod in world.pods if pod.job == job and pod.phase == "Running" and pod.uid not in world.going]:
                step.end(pod.uid)
        case ["bindings", _]:
            outside = frozenset({action})
            step.failing = 4  # all of the gang, and one of them again: only then others are before it
        case ["gain", node]:
            outside = frozenset({action})
            step.node(node)
        case ["lose", node]:
            outside = frozenset({action})
            step.nodes.remove(node)
            step.give(NodeDeleted(node), node)
            for pod in [pod for pod in world.pods if pod.node == node]:
                step.gone(pod.uid)
        case _:
            outside = frozenset({action})
            job, data = _commands()[action]
            step.give(data, job)
    return step.done(outside), step.faults


def first() -> World:
    """Return the state in which a notice was just opened: the low jobs run, and the privileged one waits for their places."""
    step = Step(World())
    for name in ("n1", "n2"):
        step.node(name)
    step.give(ObjectApplied("Queue", "q", {"preemption": "notice", "preemptionDelaySeconds": DELAY, "reservationSeconds": 5}), "q")
    step.give(ObjectApplied("Queue", "p", {"preemption": "immediate"}), "p")
    step.give(ObjectApplied("Tenant", "default", {"mayPreempt": True}), "default")
    step.give(ObjectApplied("PriorityClass", "high", {"value": 1000}), "high")
    for job in ("low1", "low2", "other"):
        step.give(JobSubmitted(manifest(job, JOBS[job])), job)
    world = _quiet(step.done())
    step = Step(world)
    step.give(JobSubmitted(manifest(PREEMPTOR, JOBS[PREEMPTOR])), PREEMPTOR)
    world = step.done()
    while not any(event.subject == PREEMPTOR and event.type == DecidedNoticed.TYPE for event in world.decisions):
        world = _next(world)
    return world


def _next(world: World) -> World:
    return take(world, next(iter(actions(world, 0, 0))))[0]


def _quiet(world: World) -> World:
    for _ in range(200):
        if not actions(world, 0, 0):
            return world
        world = _next(world)
    return world
