"""What must hold of notices of preemption, checked from a log alone: a part of `log_checker`, and as ignorant of the scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from world import PlainPod, World

from engine.events import Event
from engine.events.actions import EffectRequested
from engine.events.attempts import AttemptBound, AttemptEnded
from engine.events.decisions import DecidedBound, DecidedEvicted, DecidedNoticeEnded, DecisionAccepted, DecisionRefused
from engine.events.inputs import ObjectApplied
from engine.events.jobs import JobNoticeAnswered, JobOpened, JobPhaseChanged
from engine.events.preemptions import (
    NoticeAcknowledged,
    NoticeExecuted,
    NoticeNarrowed,
    NoticeOpened,
    NoticeWithdrawn,
    ReservationEnded,
)
from engine.events.scheduling import RoundEnded

Pods = Mapping[tuple[str, int, int], PlainPod]


def _key(job: str, data: Any) -> str:
    return f"{job}/{data.task}/{data.index}/{data.attempt}"


@dataclass
class PlainNotice:
    """A notice as its records have it."""

    preemptor: str
    victims: list[str]
    deadline: int
    state: Literal["open", "executed", "withdrawn"] = "open"
    reserved: int | None = None
    """Until when a place is kept; `None`: none is."""

    @property
    def due(self) -> int | None:
        """When it ends at the latest, or the place is kept no more; `None`: all is over."""
        return self.deadline if self.state == "open" else self.reserved


@dataclass
class NoticeChecker:
    """Notices, and what jobs have said and heard of them."""

    world: World
    pods: Mapping[str, Pods]
    """Job → its attempts that have not ended."""
    specs: Mapping[str, Any]
    succeeded: Mapping[str, set[tuple[str, int]]]
    notices: dict[str, PlainNotice] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    """Queue → its `preemption`."""
    classes: dict[str, int] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    """Tenant → its priority."""
    rights: set[str] = field(default_factory=set)
    """Tenants that may preempt."""
    tenants: dict[str, str] = field(default_factory=dict)
    """Job → its tenant."""
    phases: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Job → its phase, and the notice that it has it by."""
    answers: set[tuple[str, str, str]] = field(default_factory=set)
    """Notice, job and answer."""
    declined: set[str] = field(default_factory=set)
    """Preemptors whose notice somebody has withdrawn."""
    leaving: dict[str, list[PlainPod]] = field(default_factory=dict)
    """Decision to stop a victim → its pods, which hold nothing any more."""
    stopped: set[str] = field(default_factory=set)
    """Pods of victims when lifecycle accepted that they are stopped, until they end."""
    deleted: set[str] = field(default_factory=set)
    """Pods whose deletion was requested."""
    taken: set[str] = field(default_factory=set)
    """Pods that a node has taken."""
    round: int = 0
    """When a round ended that had come to its end."""

    # --- what was taken ---------------------------------------------------------------------------------------------------

    def absorb(self, event: Event[Any]) -> list[str]:
        """Take one event of lifecycle or one fact; return what it breaks."""
        job, data = event.subject, event.data
        match data:
            case ObjectApplied(kind="Queue"):
                self.modes[data.name] = data.spec.get("preemption") or "immediate"
            case ObjectApplied(kind="PriorityClass"):
                self.classes[data.name] = data.spec["value"]
            case ObjectApplied(kind="Tenant"):
                self.ranks[data.name] = data.spec.get("priority", 0)
                (self.rights.add if data.spec.get("mayPreempt") else self.rights.discard)(data.name)
            case JobOpened():
                self.tenants[job] = data.tenant or data.namespace
            case JobPhaseChanged():
                self.phases[job] = data.phase, data.notice
            case JobNoticeAnswered():
                self.answers.add((data.notice, job, data.answer))
            case DecisionAccepted(kind="notice_ended", reason="executed") if data.preemptor:
                self.stopped |= {pod.key for pod in self.pods[job].values()}
            case DecisionRefused(kind="notice_ended"):
                for pod in self.leaving.pop(data.decision, []):
                    pod.leaving = pod.key in self.deleted
            case EffectRequested(effect="delete_pod"):
                self.deleted.add(_key(job, data))
            case AttemptBound():
                self.taken.add(_key(job, data))
            case AttemptEnded():
                known = _key(job, data) in self.stopped
                self.stopped.discard(_key(job, data))
                return [f"{_key(job, data)} is stopped by no notice"] if data.reason == "PreemptedByNotice" and not known else []
        return []

    # --- what was decided -------------------------------------------------------------------------------------------------

    def decided(self, event: Event[Any]) -> Iterator[str]:
        """Take one event of the scheduler, before the world follows it; yield what it breaks."""
        job, data, notice = event.subject, event.data, self.notices.get(event.subject)
        match data:
            case NoticeOpened():
                yield from self._opened(event.subject, data)
                self.notices[event.subject] = PlainNotice(data.preemptor, list(data.victims), data.deadline)
            case NoticeAcknowledged() | NoticeNarrowed() | NoticeWithdrawn() | NoticeExecuted() if (
                notice is None or notice.state != "open"
            ):
                yield f"{event.type} of {event.subject}, which is not open"
            case NoticeAcknowledged() if (event.subject, data.victim, "acknowledged") not in self.answers:
                yield f"{data.victim} has not acknowledged {event.subject}"
            case NoticeNarrowed() if notice is not None:
                notice.victims.remove(data.victim)
            case NoticeWithdrawn() if notice is not None:
                notice.state = "withdrawn"
                if data.change == "WithdrawCommanded":
                    self.declined.add(notice.preemptor)
            case NoticeExecuted() if notice is not None:
                yield from self._executed(event, data, notice)
                notice.state, notice.reserved = "executed", data.reserved
            case ReservationEnded() if notice is not None:
                yield from self._given_back(event, data, notice)
                notice.reserved = None
            case DecidedNoticeEnded(outcome="executed"):
                named = self.notices[data.notice]
                if named.state != "executed" or job not in {named.preemptor, *named.victims}:
                    yield f"{job} is stopped by {data.notice}, which was not executed for it"
                self.leaving[event.id] = [pod for pod in self.pods[job].values() if data.preemptor and pod.node is not None]
                for pod in self.leaving[event.id]:
                    pod.leaving = True
            case DecidedBound():
                yield from self._bound(job, data)
            case DecidedEvicted(reason="Preempted") if self._mode(job) != "immediate":
                yield f"{job} is preempted at once in a queue with preemption {self._mode(job)}"
            case RoundEnded():
                yield from self.outlived(self.round)
                self.round = self.round if data.more else event.recordedtime

    def outlived(self, moment: int) -> list[str]:
        """Return which notices and kept places should have ended by a moment."""
        return [f"{ident} outlives its time" for ident, one in self.notices.items() if one.due is not None and one.due <= moment]

    def at_end(self) -> list[str]:
        """Return which notices should have ended, and whom one has stopped in part only."""
        half = [f"{key} runs on, and its job is stopped by a notice" for key in sorted(self.stopped - self.deleted)]
        return self.outlived(self.round) + half

    def _opened(self, ident: str, data: NoticeOpened) -> Iterator[str]:
        among = {job for one in self.notices.values() if one.due is not None for job in (one.preemptor, *self._left(one))}
        yield from (f"{job} is in two open notices" for job in (data.preemptor, *data.victims) if job in among)
        if not self.specs[data.preemptor].preempt or self.tenants[data.preemptor] not in self.rights:
            yield f"{data.preemptor} may not preempt, and {ident} is opened for it"
        if data.preemptor in self.declined:
            yield f"{data.preemptor} has a notice after one that was withdrawn by command"
        if self._mode(data.preemptor) != "notice":
            yield f"{ident} is opened in a queue with preemption {self._mode(data.preemptor)}"
        for job in data.victims:
            placed = [pod for pod in self.pods[job].values() if pod.node is not None and not pod.leaving]
            if self.specs[job].queue != self.specs[data.preemptor].queue:
                yield f"{job} is given notice for a job of another queue"
            if self._rank(job) >= self._rank(data.preemptor):
                yield f"{job} is given notice for {data.preemptor}, which has no higher rank"
            if not placed or not all(pod.preemptable for pod in placed):
                yield f"{job} is given notice: it has no place, or is not preemptable"

    def _left(self, one: PlainNotice) -> list[str]:
        return one.victims if one.state == "open" else []

    def _mode(self, job: str) -> str:
        return self.modes.get(self.specs[job].queue, "immediate")

    def _rank(self, job: str) -> tuple[int, int]:
        return self.ranks.get(self.tenants[job], 0), self.classes.get(self.specs[job].priority_class, 0)

    def _executed(self, event: Event[Any], data: NoticeExecuted, notice: PlainNotice) -> Iterator[str]:
        ident = event.subject
        if data.victims != notice.victims:
            yield f"{ident} stops {data.victims}, and names {notice.victims}"
        if data.change == "DeadlinePassed" and event.recordedtime < notice.deadline:
            yield f"{ident} is executed before its deadline"
        for job in data.victims:
            if self.phases.get(job) != ("WillEvicted", ident):
                yield f"{job} is stopped by {ident} without having been told"
            if data.change == "Acknowledged" and (ident, job, "acknowledged") not in self.answers:
                yield f"{job} is stopped by {ident} before its deadline, and has not acknowledged"
        if self._missing(notice.preemptor) <= 0:
            yield f"{data.victims} are stopped for {notice.preemptor}, which has its places"

    # --- the place that is kept -------------------------------------------------------------------------------------------

    def _missing(self, job: str, *, taken: bool = False) -> int:
        """Return how many pods of a gang have no node, or none that has taken them."""
        placed = [pod for pod in self.pods[job].values() if pod.node is not None and not pod.leaving]
        placed = [pod for pod in placed if not taken or pod.key in self.taken]
        return self.world.jobs[job].minimum - len(placed) - len(self.succeeded[job])

    def _given_back(self, event: Event[Any], data: ReservationEnded, notice: PlainNotice) -> Iterator[str]:
        job, ident = notice.preemptor, event.subject
        if data.outcome == "bound" and self._missing(job, taken=True) > 0:
            yield f"the place of {ident} is bound, and nodes have not taken {job}"
        if data.outcome == "expired" and event.recordedtime < (notice.reserved or 0):
            yield f"the place of {ident} is given back before its time"
        if data.outcome == "void" and self.phases[job][0] in {"Pending", "Privileged", "Running"}:
            yield f"the place of {ident} is given back, and {job} waits for it"

    def _bound(self, job: str, data: DecidedBound) -> Iterator[str]:
        """Look whether somebody takes a place that is kept for others; whoever has one kept too is not asked."""
        kept = [notice.preemptor for notice in self.notices.values() if notice.reserved is not None]
        for preemptor in kept if job not in kept else ():
            pending = [pod for pod in self.pods[preemptor].values() if pod.node is None and not pod.leaving]
            needed = self._missing(preemptor)
            if not 0 < needed <= len(pending) or any(pod.request != pending[0].request for pod in pending):
                continue  # of pods that differ this does not tell how many fit
            taken = [(one.node, self.pods[job].get((one.task, one.index, one.attempt))) for one in data.placements]
            more = [(node, pod.request) for node, pod in taken if pod is not None]
            if self._room(pending[0], more) < min(needed, self._room(pending[0], [])):
                yield f"{job} takes the place that is kept for {preemptor}"

    def _room(self, pod: PlainPod, more: list[tuple[str, dict[str, int]]]) -> int:
        """Return how many pods like this one fit on the nodes once all who are leaving have left, with more on some nodes."""
        found = 0
        for node in self.world.nodes.values():
            fits = node.taint in {None, pod.tolerates} and all(node.labels.get(key) == value for key, value in pod.selector.items())
            if node.cordoned or not fits:
                continue
            held = [other.request for other in self.world.pods.values() if other.node == node.name and not other.leaving]
            held += [request for name, request in more if name == node.name]
            left = {name: node.allocatable.get(name, 0) - sum(request.get(name, 0) for request in held) for name in pod.request}
            found += max(0, min(left[name] // amount for name, amount in pod.request.items() if amount))
        return found
