"""Replay of a recorded history on a simulated cluster: recorded inputs arrive again, and pods have their recorded lives."""

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
from engine.simulation.recorded_jobs import HeldPod, RecordedJob, UserInput
from engine.simulation.recording import ClusterFact, Recording
from engine.simulation.workload import Life

_BEFORE: Final = 2 * SECOND
"""Time before the window at which jobs with bound pods are submitted, so that a scheduling cycle can admit them."""


@dataclass(slots=True)
class _Replayed:
    """Replayed job with the state of its pods at the begin of the window."""

    job: RecordedJob
    held: dict[tuple[str, int], HeldPod]
    """Pods that have not continued yet, by slot."""


class ReplayedCluster(SimulatedCluster):
    """Simulated cluster on which recorded jobs run."""

    def __init__(self, name: str, event_queue: EventQueue, conduct: Conduct, begin: Micros) -> None:
        """Create a cluster without nodes.

        Args:
            name: cluster name.
            event_queue: clock, and schedule of later actions.
            conduct: delays of nodes, for jobs without recorded ones.
            begin: begin of the window (microseconds), when the recorded pods are running again.
        """
        super().__init__(name, event_queue, conduct)
        self._begin = begin
        self._replayed: dict[str, _Replayed] = {}

    def enter(self, job: RecordedJob) -> None:
        """Submit a recorded job."""
        self._replayed[job.id] = _Replayed(job, dict(job.held))
        self._enter(job, job.submission, job.ident)
        self._jobs[job.id].lived.update(job.lived)

    def apply_fact(self, fact: ClusterFact) -> None:
        """Apply a fact about a node or another object."""
        match fact:
            case NodeObserved():
                self.add_node(fact)
            case NodeDeleted():
                self.lose_node(fact.name)
            case _:
                self.apply(fact)

    def show(self, seen: PodObserved) -> None:
        """Report a recorded observation of a service's pod."""
        self._report("pods", seen, seen.job, observation_id(seen.uid, seen.version or "", deleted=False))

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

    def _put(self, pod: Pod, held: HeldPod, node: str) -> None:
        """Put a pod on its recorded node, with its recorded times."""
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
        if held is not None and held.running is not None:  # continues its work, even on another node
            since = held.running if seen.running == held.running else now - (self._begin - held.running)
        for user_input in replayed.job.during.get((*slot, self._jobs[seen.job].lived[slot]), ()):
            self._event_queue.at(max(since + user_input.time, now), partial(self._send_while_running, seen.uid, user_input))
        if life.work is not None:
            self._end_after(pod, life, since + life.work - now)

    def _send_while_running(self, uid: str, user_input: UserInput) -> None:
        """Report a user's input if the pod is running."""
        pod = self._pods.get(uid)
        if pod is not None and pod.works:
            self.send(pod.seen.job, user_input.data, user_input.ident)


def arrange_replay(recording: Recording, event_queue: EventQueue, cluster: ReplayedCluster) -> None:
    """Schedule a recorded history in the event queue of a cluster, up to the end of its window."""
    begin, stop = recording.begin, recording.last if recording.until is None else recording.until
    early = [job for job in recording.jobs if any(held.node for held in job.held.values())]
    first = begin - _BEFORE if early else begin
    for fact in _valid_facts(recording.facts, begin):
        event_queue.at(first, partial(cluster.apply_fact, fact))
    for time, pod in recording.pods:
        if time <= begin:
            event_queue.at(first, partial(cluster.show, pod))
    for place, job in enumerate(early):
        event_queue.at(first + place, partial(cluster.enter, job))
    for time, fact in recording.facts:
        if begin < time <= stop:
            event_queue.at(time, partial(cluster.apply_fact, fact))
    begun = {job.id for job in early}
    for place, job in enumerate(job for job in recording.jobs if job.id not in begun):
        # Jobs that wait before the window keep their order.
        event_queue.at(job.submit if job.submit >= begin else begin + place, partial(cluster.enter, job))
    for time, node in recording.evictions:
        if time <= stop:
            event_queue.at(time, partial(cluster.clear_node, node))
    for time, pod in recording.pods:
        if begin < time <= stop:
            event_queue.at(time, partial(cluster.show, pod))
    for job in recording.jobs:
        for user_input in job.user_inputs:
            if user_input.time <= stop:
                event_queue.at(user_input.time, partial(cluster.send, job.id, user_input.data, user_input.ident))


def _valid_facts(facts: Sequence[tuple[Micros, ClusterFact]], moment: Micros) -> list[ClusterFact]:
    """Return the facts that are valid at a time, in the order in which they were recorded."""
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
