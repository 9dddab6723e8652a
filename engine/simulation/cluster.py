"""Simulated cluster in memory: executes requested effects and reports observations.

It replaces Kubernetes, its nodes and its users. Requested effects come in (kubernetes.md, Actuator); inputs go out, with the phases
and reasons of the pod table. It makes no scheduling decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from engine.events import Data, Event, Message, Topic, encode
from engine.events.actions import EffectRequested
from engine.events.ids import import_id, observation_id
from engine.events.inputs import (
    DEFAULT_NAMESPACE,
    CommandIssued,
    EffectReported,
    JobSubmitted,
    JobUpdated,
    NodeDeleted,
    NodeObserved,
    ObjectApplied,
    ObjectDeleted,
    PodDeleted,
    PodObserved,
)
from engine.events.jobs import JobPhaseChanged
from engine.events.times import SECOND, Micros
from engine.simulation.event_queue import EventQueue
from engine.simulation.joint_work import JointJob, JointWork
from engine.simulation.live_jobs import LiveJob, Pod
from engine.simulation.livelock import Livelock
from engine.simulation.workload import Life, PlannedJob, SimulatedJob
from statemachines.vocabulary import FINISHED_JOB_PHASES, TERMINAL_ATTEMPT_PHASES

_SOURCE: Final = "simulation"
_USER: Final = "user"
_TOPICS: Final[tuple[Topic, ...]] = ("cluster", "jobs", "pods")
_FAILED: Final = Life(None, "Failed", "AppFailed")


@dataclass(frozen=True, slots=True)
class Conduct:
    """Delays of nodes and jobs (microseconds)."""

    start: Micros = 2 * SECOND
    """From the binding until the pod runs (image pull, container start)."""
    stop: Micros = 5 * SECOND
    """From the request to delete a bound pod until the pod is gone."""
    checkpoint: Micros | None = None
    """From a notice until the job has saved its work and acknowledges it; `None`: jobs ignore notices."""


class SimulatedCluster:
    """Nodes, pods and users. Every call takes effect at the current time of the event queue."""

    def __init__(self, name: str, event_queue: EventQueue, conduct: Conduct) -> None:
        """Create a cluster without nodes.

        Args:
            name: cluster name, the `clusterid` of all inputs.
            event_queue: clock, and schedule of later actions.
            conduct: delays of nodes and jobs.
        """
        self.name: Final = name
        self._event_queue = event_queue
        self._conduct = conduct
        self._nodes: dict[str, NodeObserved] = {}
        self._jobs: dict[str, LiveJob] = {}
        self._pods: dict[str, Pod] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        """Node → uids of its pods that have not ended."""
        self._livelock = Livelock()
        self._shown = 0
        self._inputs: dict[Topic, list[Message]] = {topic: [] for topic in _TOPICS}

    @property
    def submitted(self) -> int:
        """Number of submitted jobs."""
        return len(self._jobs)

    @property
    def livelock(self) -> dict[str, int]:
        """Stops by id of each job in a livelock; empty while any pod makes progress (`Livelock`)."""
        return self._livelock.jobs(self._under_way())

    def _under_way(self) -> Iterator[Pod]:
        """Yield the pods that will start or end unless they are stopped."""
        for pod in self._pods.values():
            if pod.life is None or pod.leaving or pod.seen.phase in TERMINAL_ATTEMPT_PHASES:
                continue
            joint = self._jobs[pod.seen.job].joint
            if not pod.works or pod.end is not None or (joint is not None and joint.is_due):
                yield pod

    # --- reported inputs --------------------------------------------------------------------------------------------------

    def inputs(self) -> Iterable[tuple[Topic, list[Message]]]:
        """Return and clear the inputs since the last call: those of the cluster first, then of jobs, then of pods."""
        found = [(topic, messages) for topic, messages in self._inputs.items() if messages]
        for topic, _ in found:
            self._inputs[topic] = []
        return found

    def _report(self, topic: Topic, data: Data, subject: str, ident: str) -> None:
        about = "" if topic == "cluster" else subject
        event = Event(
            ident, _SOURCE, data.TYPE, subject, self._event_queue.now, self._event_queue.now, 0, about, "", self.name, data
        )
        self._inputs[topic].append(encode(event, self.name if topic == "cluster" else None))

    def _show_of_cluster(self, data: NodeObserved | NodeDeleted | ObjectApplied | ObjectDeleted) -> None:
        self._shown += 1
        self._report(
            "cluster", data, data.name, observation_id(f"{self.name}/{data.TYPE}/{data.name}", str(self._shown), deleted=False)
        )

    def _show(self, pod: Pod, **change: Any) -> None:  # noqa: ANN401 - fields of an observation
        """Report a pod in a new state."""
        pod.seen = replace(pod.seen, version=_next(pod.seen), proof=self._event_queue.now, **change)
        self._report("pods", pod.seen, pod.seen.job, observation_id(pod.seen.uid, pod.seen.version or "", deleted=False))

    # --- changes from outside ---------------------------------------------------------------------------------------------

    def apply(self, data: ObjectApplied | ObjectDeleted) -> None:
        """Report that a queue, a tenant or another object was applied or deleted."""
        self._show_of_cluster(data)

    def add_node(self, node: NodeObserved) -> None:
        """Add a node, or bring it back with the given state."""
        self._nodes[node.name] = node
        self._on_node.setdefault(node.name, {})
        self._show_of_cluster(node)

    def lose_node(self, name: str) -> None:
        """Remove a node; the pod garbage collector deletes its pods."""
        if self._nodes.pop(name, None) is None:
            return
        self._show_of_cluster(NodeDeleted(name))
        for uid in list(self._on_node[name]):
            lost = {"reason": "NodeLost", "rank": "inferred", "disruption": "DeletionByPodGC"}
            self._gone(uid, phase="Lost", proof=self._event_queue.now, **lost)

    def drain_node(self, name: str) -> None:
        """Cordon a node and evict its pods."""
        if name not in self._nodes:
            return
        self._nodes[name] = replace(self._nodes[name], unschedulable=True)
        self._show_of_cluster(self._nodes[name])
        self.clear_node(name)

    def clear_node(self, name: str) -> None:
        """Evict the pods of a node."""
        for uid in list(self._on_node.get(name, ())):
            self._stop(self._pods[uid], "EvictedByApi", "EvictionByEvictionAPI")

    def submit(self, plan: PlannedJob) -> None:
        """Submit a job; a job that never ran in its trace is terminated after its user's recorded patience."""
        self._enter(plan, JobSubmitted(plan.manifest()), import_id(self.name, _SOURCE, plan.row.key, "submitted"))
        if plan.run is None:
            self._event_queue.at(self._event_queue.now + plan.patience, partial(self.stop_job, plan))

    def _enter(self, job: SimulatedJob, data: JobSubmitted, ident: str) -> None:
        live = self._jobs[job.id] = LiveJob(job, job.requests(), data.manifest)
        if isinstance(job, JointJob):
            live.joint = JointWork(job, self._event_queue, partial(self._end_together, live))
        self._report("jobs", data, job.id, ident)

    def stop_job(self, plan: PlannedJob) -> None:
        """Terminate a job as its user."""
        ident = import_id(self.name, _SOURCE, plan.row.key, "stopped")
        self.send(plan.id, CommandIssued("TerminateJob", _USER, plan.row.reason or ""), ident)

    def send(self, job: str, data: Data, ident: str) -> None:
        """Report an input of a user about a submitted job; an id that was reported before is ignored.

        Args:
            job: id of the job.
            data: a command, a new specification or a custom event.
            ident: id of the input.
        """
        known = self._jobs.get(job)
        if known is not None and ident not in known.sent:
            known.sent.add(ident)
            self._report("jobs", data, job, ident)

    def resize_job(self, plan: PlannedJob, task: str, replicas: int) -> None:
        """Change the replicas of a task as the user of its job; `minAvailable` is lowered if necessary."""
        known = self._jobs.get(plan.id)
        if known is None:
            return
        self._shown += 1
        tasks = [{**one, "replicas": replicas} if one["name"] == task else one for one in known.manifest["spec"]["tasks"]]
        least = min(known.manifest["spec"]["minAvailable"], sum(one["replicas"] for one in tasks))
        known.manifest = {**known.manifest, "spec": {**known.manifest["spec"], "tasks": tasks, "minAvailable": least}}
        ident = import_id(self.name, _SOURCE, plan.row.key, f"resized {self._shown}")
        self._report("jobs", JobUpdated(known.manifest), plan.id, ident)

    def fail_job(self, job: str, most: int | None = None) -> None:
        """Fail the `most` latest created running pods of a job; `None`: all of them."""
        known = self._jobs.get(job)
        running = [] if known is None else [uid for uid, pod in known.pods.items() if pod.seen.phase == "Running"]
        for uid in running[-(most or len(running)) :]:
            self._end(uid, _FAILED)

    def phase_changed(self, event: Event[JobPhaseChanged]) -> None:
        """Schedule the acknowledgement of a notice, after the job has saved its work; a job that ends ends a livelock."""
        known, after = self._jobs.get(event.subject), self._conduct.checkpoint
        if known is None:
            return
        if event.data.phase in FINISHED_JOB_PHASES:
            self._livelock.over()
        known.notice = event.data.notice if event.data.phase == "WillEvicted" else ""
        if known.answer is not None:
            self._event_queue.cancel(known.answer)
            known.answer = None
        if known.notice and after is not None:
            known.answer = self._event_queue.at(self._event_queue.now + after, partial(self._acknowledge, known))

    def _acknowledge(self, known: LiveJob) -> None:
        known.answer = None
        known.save(self._event_queue.now)
        self._livelock.over()
        ident = import_id(self.name, _SOURCE, known.plan.id, f"acknowledged {known.notice}")
        self._report("jobs", CommandIssued("AcknowledgeNotice", _USER, "its work is saved"), known.plan.id, ident)

    # --- requested effects ------------------------------------------------------------------------------------------------

    def act(self, event: Event[EffectRequested]) -> None:
        """Execute an effect that the lifecycle stage requests."""
        effect = event.data
        uid = effect.uid or f"{event.subject}/{effect.task}/{effect.index}/{effect.attempt}"
        match effect.effect:
            case "create_pod":
                self._create(event, uid)
            case "bind_pod":
                self._bind(event, uid)
            case "delete_pod":
                pod = self._pods.get(uid)
                if pod is not None:
                    self._stop(pod)
            case "delete_job":
                pass  # its pods are deleted one by one

    def _create(self, event: Event[EffectRequested], uid: str) -> None:
        effect, job = event.data, self._jobs[event.subject]
        task = effect.task or ""
        seen = PodObserved(
            uid,
            event.subject,
            effect.pod or "",
            "Pending",
            self._event_queue.now,
            namespace=job.manifest["metadata"].get("namespace", DEFAULT_NAMESPACE),
            kind="VCJob",
            owner=job.plan.name,
            managed=True,
            task=task,
            index=effect.index,
            attempt=effect.attempt,
            reason="Queued",
            requests=job.requests[task],
        )
        pod = self._pods[uid] = job.pods[uid] = Pod(seen)
        self._show(pod)

    def _bind(self, event: Event[EffectRequested], uid: str) -> None:
        pod, node = self._pods.get(uid), event.data.node or ""
        if pod is None or pod.leaving or node not in self._nodes:
            failed = EffectReported(event.id, "failed", message=f"no pod {uid}" if pod is None else f"no node {node}")
            self._report("jobs", failed, event.subject, import_id(self.name, _SOURCE, event.id, "reported"))
            return
        life = self._settle_on(pod, node)
        self._show(pod, phase="Bound", reason="Starting", node=node, bound=self._event_queue.now)
        start = self._conduct.start if life.start is None else life.start
        self._event_queue.at(self._event_queue.now + start, partial(self._start, uid))

    def _settle_on(self, pod: Pod, node: str) -> Life:
        """Put a pod on a node; return its simulated life."""
        job = self._jobs[pod.seen.job]
        self._on_node[node][pod.seen.uid] = None
        pod.life = job.plan.life(*pod.slot, job.lived[pod.slot])
        return pod.life

    # --- nodes ------------------------------------------------------------------------------------------------------------

    def _start(self, uid: str) -> None:
        pod = self._pods.get(uid)
        if pod is None or pod.leaving or pod.life is None:
            return
        if not pod.life.runs:
            self._end(uid, pod.life)
            return
        self._show(pod, phase="Running", reason=None, running=self._event_queue.now)
        job = self._jobs[pod.seen.job]
        if job.joint is None:
            self._run(pod, pod.life)
        else:
            job.joint.go_on(job.places())

    def _run(self, pod: Pod, life: Life) -> None:
        """Schedule the end of a pod, less the work saved before."""
        if life.work is not None:
            pod.before = self._jobs[pod.seen.job].saved[pod.slot]
            self._end_after(pod, life, life.work - pod.before)

    def _end_after(self, pod: Pod, life: Life, rest: Micros) -> None:
        """Schedule the end of a pod that works alone; stopping the pod cancels it."""
        pod.end = self._event_queue.at(self._event_queue.now + max(rest, 0), partial(self._run_out, pod, life))

    def _run_out(self, pod: Pod, life: Life) -> None:
        pod.end = None
        self._end(pod.seen.uid, life)

    def _without(self, pod: Pod) -> None:
        """Cancel the end of a pod that stopped working, and let the rest of its job continue."""
        if pod.end is not None:
            self._event_queue.cancel(pod.end)
            pod.end = None
        job = self._jobs[pod.seen.job]
        if job.joint is not None:
            job.joint.go_on(job.places(), without=pod.slot[0])

    def _end_together(self, job: LiveJob) -> None:
        for pod in job.working():
            self._end(pod.seen.uid)

    def _end(self, uid: str, life: Life | None = None) -> None:
        """End a bound pod with the given outcome, or with that of its own life."""
        pod = self._pods.get(uid)
        life = life or (None if pod is None else pod.life)
        if pod is None or life is None or pod.leaving or pod.seen.phase in TERMINAL_ATTEMPT_PHASES:
            return
        if life.phase is None:
            plan = self._jobs[pod.seen.job].plan
            if isinstance(plan, PlannedJob):
                self.stop_job(plan)
            return
        self._on_node[pod.seen.node or ""].pop(uid)
        self._jobs[pod.seen.job].lived[pod.slot] += 1
        self._livelock.over()
        self._show(pod, phase=life.phase, reason=life.reason, exit_code=life.exit_code, ended=self._event_queue.now)
        if life.phase == "Failed":
            self._without(pod)

    def _stop(self, pod: Pod, reason: str | None = None, disruption: str | None = None) -> None:
        """Delete a pod; a bound pod that has not ended terminates gracefully."""
        if pod.leaving:
            return
        uid, end = pod.seen.uid, self._event_queue.now + self._conduct.stop
        if pod.seen.phase in TERMINAL_ATTEMPT_PHASES:
            self._gone(uid)
            return
        if pod.seen.node is None:
            self._gone(uid, phase="Failed", reason="DeletedByApi", ended=self._event_queue.now)
            return
        if disruption is None:  # stops by incidents are not part of a livelock
            self._livelock.stopped(pod)
        worked, pod.leaving = pod.works, True
        if worked:
            self._without(pod)
        asked = {"deleting": True, "terminating": self._event_queue.now, "deadline": end, "disruption": disruption}
        self._show(pod, phase="Terminating", reason=reason, **asked)
        self._event_queue.at(end, lambda: self._gone(uid, phase="Failed", reason=reason or "DeletedByApi", ended=end))

    def _gone(self, uid: str, **last: Any) -> None:  # noqa: ANN401 - as above
        """Delete the object of a pod; does nothing if it is already deleted.

        Args:
            uid: pod to delete.
            last: changes that its last observation shows; none for a pod that has ended.
        """
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        self._jobs[pod.seen.job].pods.pop(uid)
        self._on_node.get(pod.seen.node or "", {}).pop(uid, None)
        if pod.works:
            self._without(pod)
        seen = replace(pod.seen, version=_next(pod.seen), **last)
        self._report("pods", PodDeleted(seen), seen.job, observation_id(uid, seen.version or "", deleted=True))


def _next(seen: PodObserved) -> str:
    return str(int(seen.version or "0") + 1)
