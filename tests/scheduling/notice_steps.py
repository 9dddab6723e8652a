"""A step in the small world of notices: it moves the stages, and looks at what they write on the way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from deployment import CLUSTER
from notice_world import (
    CPUS,
    LIFECYCLE,
    PREEMPTORS,
    SCHEDULING,
    World,
    dumped,
    lifecycle_of,
    read_lifecycle,
    read_scheduling,
    scheduling_of,
)

from engine.events import Data, Event
from engine.events.actions import EffectRequested
from engine.events.decisions import DecidedBound, DecisionEvent
from engine.events.ids import observation_id
from engine.events.inputs import EffectReported, NodeObserved, PodDeleted, PodObserved
from engine.events.jobs import JobPhaseChanged
from engine.events.preemptions import NoticeExecuted, NoticeNarrowed, NoticeOpened, NoticeWithdrawn, ReservationEnded
from engine.lifecycle.state import ShardState
from engine.scheduling.cluster.notices import Notice
from engine.scheduling.state.shard import State
from statemachines.spec import Requests


@dataclass
class Live:
    """Processes that are never restarted: their states, which steps change."""

    lifecycle: ShardState
    scheduling: State

    @classmethod
    def of(cls, world: World) -> Live:
        """Return processes that begin in a state of the world."""
        return cls(lifecycle_of(world.lifecycle.records), scheduling_of(world.scheduling.records))


class Step:
    """One step: the stages that it moves, and what it has seen them write."""

    def __init__(self, world: World, live: Live | None = None) -> None:
        self.world = world
        self.decisions, self.events = list(world.decisions), list(world.events)
        self.pods, self.going = {pod.uid: pod for pod in world.pods}, set(world.going)
        self.nodes, self.now, self.number, self.failing = list(world.nodes), world.now, world.number, world.failing
        self.told, self.ends = set(world.told), dict(world.ends)
        self.written: list[Event[Any]] = []
        """By scheduling, in this step."""
        self.faults: list[str] = []
        self._lifecycle = None if live is None else live.lifecycle
        self._scheduling = None if live is None else live.scheduling

    @property
    def lifecycle(self) -> ShardState:
        if self._lifecycle is None:
            self._lifecycle = lifecycle_of(self.world.lifecycle.records)
        return self._lifecycle

    @property
    def scheduling(self) -> State:
        if self._scheduling is None:
            self._scheduling = scheduling_of(self.world.scheduling.records)
        return self._scheduling

    def done(self, happened: frozenset[str] = frozenset()) -> World:
        """Return the state that it has led to."""
        lifecycle, scheduling = self._lifecycle, self._scheduling
        own = self.world.lifecycle if lifecycle is None else read_lifecycle(lifecycle, self.now)
        if lifecycle is not None and dumped(LIFECYCLE, lifecycle_of(own.records)) != own.records:
            self.faults.append("a restart of lifecycle changes its state")
        other = self.world.scheduling if scheduling is None else read_scheduling(scheduling, self.now)
        if scheduling is not None and read_scheduling(scheduling_of(other.records), self.now) != other:
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
            own = "Privileged" if job in PREEMPTORS else "WillEvicted"
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
        if data.preemptor not in PREEMPTORS or not set(data.victims) <= {"low1", "low2"} or not data.victims:
            self.faults.append(f"{data.victims} are given notice for {data.preemptor}")

    def _placed(self, job: str, *, bound: bool = False) -> int:
        """Return how many pods of a gang have a node, or one that a node has confirmed, beyond those that it needs."""
        known = self.scheduling.jobs[job]
        attempts = [pod.attempt for pod in known.pods.values()]
        placed = [one for one in attempts if one.live and _has_node(one) and (not bound or one.phase != "Pending")]
        return len(placed) - (0 if known.group is None else known.group.spec.min_available)

    def _bound(self, made: Event[Any], data: DecidedBound) -> None:
        """Look whether somebody takes what is reserved for another. Those for whom a place is reserved take theirs by key."""
        reserved = {notice.preemptor for notice in self.scheduling.clusters[CLUSTER].model.notices.values() if notice.reserved}
        for preemptor in sorted(reserved - {made.subject} - self._gone()):
            if made.subject in reserved and made.subject < preemptor:
                continue
            others = sum(_takes(pod.attempt, self.nodes) for known in self.scheduling.jobs.values() for pod in known.pods.values())
            if sum(CPUS[node] for node in self.nodes) - others - len(data.placements) < -self._placed(preemptor):
                self.faults.append(f"{made.subject} takes the place that is reserved for {preemptor}")

    def _gone(self) -> set[str]:
        """Return the jobs that need no place any more."""
        return {job for job in PREEMPTORS if (known := self.scheduling.jobs.get(job)) is None or not known.head.grouped}

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
