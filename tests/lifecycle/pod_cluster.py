"""A small cluster for property tests: pods that live lawfully, and are told about in pieces, twice, or with gaps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from lifecycle_driver import REQUESTS, Driver

from engine.events import Event, Message, Topic, decode, encode
from engine.events.actions import EffectRequested
from engine.events.ids import observation_id
from engine.events.inputs import PodDeleted, PodObserved
from engine.kubernetes.list_moment import of_one_moment

BAD_ENDS = (
    "AppFailed",
    "OomKilled",
    "KilledBySignal",
    "EvictedByApi",
    "PreemptedByScheduler",
    "NodeShutdown",
    "RejectedByNode",
    "TimedOut",
)
LOST_ENDS = ("NodeLost", "ExitUnknown")


@dataclass
class PodLife:
    """One pod: what is true of it, everything that was ever to be seen, and how much of that was told."""

    now: PodObserved
    history: list[PodObserved | PodDeleted] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    doomed: bool = False
    gone: bool = False

    @property
    def untold(self) -> int:
        return len(self.history) - 1 - (self.told[-1] if self.told else -1)


class Cluster:
    """Pods of some jobs, and what was asked of it."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.pods: list[PodLife] = []
        self.wanted: list[EffectRequested] = []
        self.jobs_of: list[str] = []
        self.version = 100
        self.obeyed = 0

    def obey(self) -> None:
        """Note what the engine has asked for since the last time."""
        for event in self.driver.events[self.obeyed :]:
            effect = event.data
            if not isinstance(effect, EffectRequested):
                continue
            if effect.effect == "create_pod":
                self.wanted.append(effect)
                self.jobs_of.append(event.subject)
            elif effect.effect == "delete_pod":
                self._doom(event.subject, effect)
        self.obeyed = len(self.driver.events)

    def _doom(self, job: str, effect: EffectRequested) -> None:
        slot = (effect.task, effect.index, effect.attempt)
        for number, (asked, of) in enumerate(zip(self.wanted, self.jobs_of, strict=True)):
            if of == job and (asked.task, asked.index, asked.attempt) == slot:
                del self.wanted[number], self.jobs_of[number]
                return
        for pod in self.pods:
            same = (pod.now.task, pod.now.index, pod.now.attempt) == slot
            if pod.now.job == job and (pod.now.uid == effect.uid or (effect.uid is None and same)):
                pod.doomed = True

    def create(self, which: int) -> None:
        """Make a pod that was asked for."""
        effect, job = self.wanted.pop(which), self.jobs_of.pop(which)
        self.appear(job, task=effect.task, index=effect.index, attempt=effect.attempt, managed=True, name=effect.pod)

    def appear(self, job: str, **fields: Any) -> None:
        """Let a pod come into being."""
        uid = f"{job}-pod{len(self.pods)}"
        fields.setdefault("name", uid)
        now = PodObserved(
            uid=uid, job=job, phase="Pending", created=self.driver.now, requests=REQUESTS, kind="Job", reason="Queued", **fields
        )
        pod = PodLife(now)
        self.pods.append(pod)
        self._show(pod)

    def _show(self, pod: PodLife) -> None:
        self.version += 1
        pod.now = replace(pod.now, version=str(self.version), proof=self.driver.now)
        pod.history.append(pod.now)

    def progress(self, pod: PodLife, step: str, detail: int) -> None:
        """Let a pod take one lawful step; one that cannot be taken is none."""
        now, time = pod.now, self.driver.now
        phase = now.phase
        if phase in {"Succeeded", "Failed", "Lost"}:
            if not pod.gone:
                self._vanish(pod, now)
            return
        if step == "wait":
            if phase == "Pending":
                now = replace(now, reason=("Queued", "Unschedulable", "Gated")[detail % 3])
            elif phase == "Bound":
                now = replace(now, reason=("Starting", "ImagePullBackOff")[detail % 2])
            elif phase == "Running":
                now = replace(now, restarts=now.restarts + detail % 2, ready=bool(detail % 3))
        elif step == "go" and phase in {"Pending", "Bound"}:
            if phase == "Pending":
                now = replace(now, phase="Bound", reason="Starting", node=f"n{detail % 3}", bound=time)
            else:
                now = replace(now, phase="Running", reason=None, running=time)
        elif (step == "delete" or pod.doomed) and phase != "Terminating":
            now = replace(now, phase="Terminating", reason=None, terminating=time, ready=False)
        elif step == "end" and (phase != "Pending" or pod.doomed):
            if detail % 3 == 0 and phase == "Running":
                now = replace(now, phase="Succeeded", reason=None, exit_code=0, ended=time, ready=False)
            elif detail % 7 == 1 and phase == "Running":
                now = replace(now, phase="Lost", reason=LOST_ENDS[detail % 2], rank="inferred", ready=False)
            else:
                code = detail % 4
                now = replace(
                    now,
                    phase="Failed",
                    reason=BAD_ENDS[detail % len(BAD_ENDS)],
                    exit_code=code,
                    first_exit_code=code,
                    ended=time if detail % 2 else None,
                    ready=False,
                )
        elif step == "vanish":
            self._vanish(
                pod, replace(now, phase="Lost", reason="EndUnknown", rank="inferred", ended=None), inferred=True, same_version=True
            )
            return
        else:
            return
        pod.now = now
        self._show(pod)

    def _vanish(self, pod: PodLife, last: PodObserved, *, inferred: bool = False, same_version: bool = False) -> None:
        pod.gone = True
        if not same_version:
            self.version += 1
            last = replace(last, version=str(self.version))
        pod.now = last
        pod.history.append(PodDeleted(last, inferred))

    # --- telling ----------------------------------------------------------------------------------------------------------

    def tell(self, pod: PodLife, skip: int) -> None:
        """Tell the engine what comes next about a pod, leaving out some states as a relist does."""
        position = min((pod.told[-1] if pod.told else -1) + 1 + skip, len(pod.history) - 1)
        pod.told.append(position)
        self.driver.take(self.event(pod, position))
        self.obey()

    def repeat(self, pod: PodLife, position: int) -> None:
        """Tell it again what it was told: nothing may follow."""
        made = self.driver.take(self.event(pod, position))
        assert made == [], [event.data for event in made]

    def event(self, pod: PodLife, position: int, driver: Driver | None = None) -> Any:
        """One thing that is to be seen of a pod, as an input."""
        data = pod.history[position]
        deleted = isinstance(data, PodDeleted)
        seen = data.last if isinstance(data, PodDeleted) else data
        return (driver or self.driver).event(data, seen.job, observation_id(seen.uid, seen.version or "", deleted=deleted))

    def listed(self, job: str, order: Random) -> list[Message]:
        """Return what a List shows of the pods of a job that stand, as inputs; the engine counts as told of them."""
        pods = [pod for pod in self.pods if pod.now.job == job and not pod.gone]
        order.shuffle(pods)
        for pod in pods:
            pod.told.append(len(pod.history) - 1)
        inputs: list[tuple[Topic, Message]] = [("pods", encode(self.event(pod, pod.told[-1]))) for pod in pods]
        return [message for _, message in of_one_moment(inputs)]

    def list(self, job: str, order: Random, *, cut: int = 0) -> list[Event[Any]]:
        """Tell the engine what a List shows of a job; the last `cut` inputs do not arrive. Returns what followed."""
        inputs = self.listed(job, order)
        made = [event for message in inputs[: len(inputs) - cut] for event in self.driver.take(decode(message))]
        self.obey()
        return made
