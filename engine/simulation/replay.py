"""A recorded history on a simulated cluster: what came from outside comes again, and pods live as they lived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from engine.events import Event
from engine.events.actions import EffectRequested
from engine.events.ids import observation_id
from engine.events.inputs import NodeDeleted, NodeObserved, ObjectDeleted, PodObserved
from engine.events.times import SECOND, Micros
from engine.simulation.cluster import Conduct, SimulatedCluster
from engine.simulation.event_queue import EventQueue
from engine.simulation.live_jobs import Pod
from engine.simulation.recorded_jobs import Held, RecordedJob, Said
from engine.simulation.recording import ClusterFact, Recording
from engine.simulation.workload import Life

__all__ = ["ReplayedCluster", "arrange_replay"]

_BEFORE: Final = 2 * SECOND
"""How long before the window jobs that held nodes are submitted: a round lets them in, and their pods are where they were."""


@dataclass(slots=True)
class _Replayed:
    """A job, and what its pods had done when the window began."""

    job: RecordedJob
    held: dict[tuple[str, int], Held]
    """Pods that have not gone on yet."""


class ReplayedCluster(SimulatedCluster):
    """A cluster on which recorded jobs run."""

    def __init__(self, name: str, event_queue: EventQueue, conduct: Conduct, begin: Micros) -> None:
        """Make a cluster without nodes.

        Args:
            name: its name.
            event_queue: takes what it will do later.
            conduct: how long nodes take, where a job does not say.
            begin: begin of the window: by then pods are where they were.
        """
        super().__init__(name, event_queue, conduct)
        self._begin = begin
        self._replayed: dict[str, _Replayed] = {}

    def enter(self, job: RecordedJob) -> None:
        """Let a user submit a job."""
        self._replayed[job.id] = _Replayed(job, dict(job.held))
        self._enter(job, job.submission, job.ident)
        self._jobs[job.id].lived.update(job.lived)

    def learn(self, fact: ClusterFact) -> None:
        """Take a fact about a node or another object."""
        match fact:
            case NodeObserved():
                self.add_node(fact)
            case NodeDeleted():
                self.lose_node(fact.name)
            case _:
                self.apply(fact)

    def show(self, seen: PodObserved) -> None:
        """Show a pod of a service as it was."""
        self._say("pods", seen, seen.job, observation_id(seen.uid, seen.version or "", deleted=False))

    def _create(self, event: Event[EffectRequested], uid: str) -> None:
        super()._create(event, uid)
        pod = self._pods[uid]
        held = self._replayed[event.subject].held.get(pod.slot)
        if held is None:
            return
        if held.ended is not None:
            self._show(pod, phase="Succeeded", reason=None, exit_code=0, ended=held.ended)
        elif held.node in self._nodes and self._event_queue.now < self._begin:
            self._put(pod, held, held.node)

    def _put(self, pod: Pod, held: Held, node: str) -> None:
        """Show a pod where it was, since then."""
        life = self._settle_on(pod, node)
        self._show(pod, phase="Bound", reason="Starting", node=node, bound=held.bound)
        if held.running is None:
            start = self._conduct.start if life.start is None else life.start
            self._event_queue.at(max(held.bound + start, self._begin), partial(self._start, pod.seen.uid))
        else:
            self._show(pod, phase="Running", reason=None, running=held.running)
            self._run(pod, life)

    def _run(self, pod: Pod, life: Life) -> None:
        seen, slot = pod.seen, pod.slot
        replayed, now = self._replayed[seen.job], self._event_queue.now
        held = replayed.held.pop(slot, None)
        since = now
        if held is not None and held.running is not None:  # it goes on with its work, also on another node
            since = held.running if seen.running == held.running else now - (self._begin - held.running)
        for said in replayed.job.during.get((*slot, self._jobs[seen.job].lived[slot]), ()):
            self._event_queue.at(max(since + said.time, now), partial(self._tell_while, seen.uid, said))
        if life.work is not None:
            self._end_after(pod, life, since + life.work - now)

    def _tell_while(self, uid: str, said: Said) -> None:
        """Let a user say something, if the pod that ran then runs."""
        pod = self._pods.get(uid)
        if pod is not None and pod.works:
            self.tell(pod.seen.job, said.data, said.ident)


def arrange_replay(recording: Recording, event_queue: EventQueue, cluster: ReplayedCluster) -> None:
    """Note a recorded history in the event queue of a cluster: up to the end of its window."""
    begin, stop = recording.begin, recording.last if recording.until is None else recording.until
    early = [job for job in recording.jobs if any(held.node for held in job.held.values())]
    first = begin - _BEFORE if early else begin
    for fact in _standing(recording.facts, begin):
        event_queue.at(first, partial(cluster.learn, fact))
    for time, pod in recording.pods:
        if time <= begin:
            event_queue.at(first, partial(cluster.show, pod))
    for place, job in enumerate(early):
        event_queue.at(first + place, partial(cluster.enter, job))
    for time, fact in recording.facts:
        if begin < time <= stop:
            event_queue.at(time, partial(cluster.learn, fact))
    begun = {job.id for job in early}
    for place, job in enumerate(job for job in recording.jobs if job.id not in begun):
        # Those that wait by then keep their order.
        event_queue.at(job.submit if job.submit >= begin else begin + place, partial(cluster.enter, job))
    for time, node in recording.evictions:
        if time <= stop:
            event_queue.at(time, partial(cluster.clear_node, node))
    for time, pod in recording.pods:
        if begin < time <= stop:
            event_queue.at(time, partial(cluster.show, pod))
    for job in recording.jobs:
        for said in job.said:
            if said.time <= stop:
                event_queue.at(said.time, partial(cluster.tell, job.id, said.data, said.ident))


def _standing(facts: Sequence[tuple[Micros, ClusterFact]], moment: Micros) -> list[ClusterFact]:
    """Return the facts that hold at a moment, in the order in which they became known."""
    found: dict[tuple[str, str], ClusterFact] = {}
    for time, fact in facts:
        if time > moment:
            break
        key = (fact.kind if hasattr(fact, "kind") else "Node", fact.name)
        if isinstance(fact, NodeDeleted | ObjectDeleted):
            found.pop(key, None)
        else:
            found[key] = fact
    return list(found.values())
