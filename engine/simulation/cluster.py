"""A cluster that exists in memory: it does what the lifecycle stage requests and says what is to be seen of it.

It is what Kubernetes, its nodes and the users are in production. Requested effects come in (kubernetes.md, Actuator); inputs come
out, with the phases and reasons of the pod table. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from engine.events import Data, Event, Message, Topic, encode
from engine.events.actions import EffectRequested
from engine.events.ids import import_id, observation_id
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
from engine.events.times import SECOND, Micros
from engine.simulation.agenda import Agenda
from engine.simulation.joint_work import JointJob, Progress
from engine.simulation.workload import PlannedJob
from statemachines.spec import Requests
from statemachines.vocabulary import TERMINAL_ATTEMPT_PHASES

__all__ = ["Conduct", "SimulatedCluster"]

_SOURCE: Final = "simulation"
_USER: Final = "user"
_TOPICS: Final[tuple[Topic, ...]] = ("cluster", "jobs", "pods")


@dataclass(frozen=True, slots=True)
class Conduct:
    """How long nodes take (microseconds)."""

    start: Micros = 2 * SECOND
    """From a binding until the pod runs: images are pulled, containers are made."""
    stop: Micros = 5 * SECOND
    """From the request to delete a pod with a node until the pod is gone."""
    checkpoint: Micros | None = None
    """From a notice until a job whose pods work together has saved its work, and acknowledges; `None`: it ignores notices."""


@dataclass(slots=True)
class _Pod:
    seen: PodObserved
    """As it was last shown."""
    job: PlannedJob
    leaving: bool = False
    """Its deletion was requested."""

    @property
    def works(self) -> bool:
        return self.seen.phase == "Running" and not self.leaving


@dataclass(slots=True)
class _Job:
    plan: PlannedJob
    requests: Mapping[str, Requests]
    """Of a pod, by task."""
    manifest: dict[str, Any] = field(default_factory=dict)
    stopped: bool = False
    """Its user has stopped it."""
    notice: str = ""
    """The notice that it has been given, while it is open."""
    progress: Progress = field(default_factory=Progress)
    """If its pods work together."""


class SimulatedCluster:
    """Nodes, pods and users. Each call happens at the present of its agenda."""

    def __init__(self, name: str, agenda: Agenda, conduct: Conduct) -> None:
        """Make a cluster without nodes.

        Args:
            name: its name, `clusterid` of all inputs.
            agenda: takes what it will do later.
            conduct: how long nodes take.
        """
        self.name: Final = name
        self._agenda = agenda
        self._conduct = conduct
        self._nodes: dict[str, NodeObserved] = {}
        self._jobs: dict[str, _Job] = {}
        self._pods: dict[str, _Pod] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        """Node → uids of the pods on it that have not ended."""
        self._shown = 0
        self._inputs: dict[Topic, list[Message]] = {topic: [] for topic in _TOPICS}

    @property
    def submitted(self) -> int:
        """How many jobs were submitted."""
        return len(self._jobs)

    # --- what it says -----------------------------------------------------------------------------------------------------

    def inputs(self) -> Iterable[tuple[Topic, list[Message]]]:
        """Return what is to be seen since the last call: facts of the cluster first, then of jobs, then of pods."""
        found = [(topic, messages) for topic, messages in self._inputs.items() if messages]
        for topic, _ in found:
            self._inputs[topic] = []
        return found

    def _say(self, topic: Topic, data: Data, subject: str, ident: str) -> None:
        about = "" if topic == "cluster" else subject
        event = Event(ident, _SOURCE, data.TYPE, subject, self._agenda.now, self._agenda.now, 0, about, "", self.name, data)
        self._inputs[topic].append(encode(event, self.name if topic == "cluster" else None))

    def _show_of_cluster(self, data: NodeObserved | NodeDeleted | ObjectApplied) -> None:
        self._shown += 1
        self._say(
            "cluster", data, data.name, observation_id(f"{self.name}/{data.TYPE}/{data.name}", str(self._shown), deleted=False)
        )

    def _show(self, pod: _Pod, **change: Any) -> None:  # noqa: ANN401 - fields of an observation
        """Show a pod in a new state."""
        pod.seen = replace(pod.seen, version=_next(pod.seen), proof=self._agenda.now, **change)
        self._say("pods", pod.seen, pod.seen.job, observation_id(pod.seen.uid, pod.seen.version or "", deleted=False))

    # --- what comes from outside ------------------------------------------------------------------------------------------

    def apply(self, data: ObjectApplied) -> None:
        """Give the cluster a queue, a tenant or another object."""
        self._show_of_cluster(data)

    def add_node(self, node: NodeObserved) -> None:
        """Let a node join, or come back as it is given."""
        self._nodes[node.name] = node
        self._on_node.setdefault(node.name, {})
        self._show_of_cluster(node)

    def lose_node(self, name: str) -> None:
        """Let a node vanish with all that runs on it: the garbage collector of pods removes their objects."""
        if self._nodes.pop(name, None) is None:
            return
        self._show_of_cluster(NodeDeleted(name))
        for uid in list(self._on_node[name]):
            lost = {"reason": "NodeLost", "rank": "inferred", "disruption": "DeletionByPodGC"}
            self._gone(uid, phase="Lost", proof=self._agenda.now, **lost)

    def drain_node(self, name: str) -> None:
        """Cordon a node and evict its pods."""
        if name not in self._nodes:
            return
        self._nodes[name] = replace(self._nodes[name], unschedulable=True)
        self._show_of_cluster(self._nodes[name])
        for uid in list(self._on_node[name]):
            self._stop(self._pods[uid], "EvictedByApi", "EvictionByEvictionAPI")

    def submit(self, plan: PlannedJob) -> None:
        """Let a user submit a job; one that never ran in its trace is stopped when its user lost patience there."""
        manifest = plan.manifest()
        self._jobs[plan.id] = _Job(plan, {name: requests for name, requests, _ in plan.tasks()}, manifest)
        self._say("jobs", JobSubmitted(manifest), plan.id, import_id(self.name, _SOURCE, plan.row.key, "submitted"))
        if plan.run is None:
            self._agenda.at(self._agenda.now + plan.patience, partial(self.stop_job, plan.id))

    def stop_job(self, job: str) -> None:
        """Let the user of a job stop it, once."""
        known = self._jobs.get(job)
        if known is None or known.stopped:
            return
        known.stopped = True
        ident = import_id(self.name, _SOURCE, known.plan.row.key, "stopped")
        self._say("jobs", CommandIssued("TerminateJob", _USER, known.plan.row.reason or ""), job, ident)

    def resize_job(self, job: str, task: str, replicas: int) -> None:
        """Let the user of a job change the number of pods of a task; its gang then needs no more pods than there are."""
        known = self._jobs.get(job)
        if known is None:
            return
        self._shown += 1
        tasks = [{**one, "replicas": replicas} if one["name"] == task else one for one in known.manifest["spec"]["tasks"]]
        least = min(known.manifest["spec"]["minAvailable"], sum(one["replicas"] for one in tasks))
        known.manifest = {**known.manifest, "spec": {**known.manifest["spec"], "tasks": tasks, "minAvailable": least}}
        ident = import_id(self.name, _SOURCE, known.plan.row.key, f"resized {self._shown}")
        self._say("jobs", JobUpdated(known.manifest), job, ident)

    def fail_job(self, job: str, most: int | None = None) -> None:
        """Let running pods of a job fail: so many, those made last; `None`: all."""
        running = [uid for uid, pod in self._pods.items() if pod.job.id == job and pod.seen.phase == "Running"]
        for uid in running[-(most or len(running)) :]:
            self._end(uid, failed=True)

    def phase_changed(self, event: Event[JobPhaseChanged]) -> None:
        """Let a job that is given notice save its work and acknowledge, if it does so."""
        known, after = self._jobs[event.subject], self._conduct.checkpoint
        known.notice = event.data.notice if event.data.phase == "WillEvicted" else ""
        if known.notice and after is not None and isinstance(known.plan, JointJob):
            self._agenda.at(self._agenda.now + after, partial(self._acknowledge, known, known.notice))

    def _acknowledge(self, known: _Job, notice: str) -> None:
        if known.notice == notice:
            known.progress.proceed(self._agenda.now)
            known.progress.save()
            ident = import_id(self.name, _SOURCE, known.plan.row.key, f"acknowledged {notice}")
            self._say("jobs", CommandIssued("AcknowledgeNotice", _USER, "its work is saved"), known.plan.id, ident)

    # --- what is requested ------------------------------------------------------------------------------------------------

    def act(self, event: Event[EffectRequested]) -> None:
        """Do what the lifecycle stage requests."""
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
                pass  # its pods go one by one

    def _create(self, event: Event[EffectRequested], uid: str) -> None:
        effect, job = event.data, self._jobs[event.subject]
        task = effect.task or ""
        seen = PodObserved(
            uid,
            event.subject,
            effect.pod or "",
            "Pending",
            self._agenda.now,
            namespace=job.manifest["metadata"]["namespace"],
            kind="VCJob",
            owner=job.plan.row.name,
            managed=True,
            task=task,
            index=effect.index,
            attempt=effect.attempt,
            reason="Queued",
            requests=job.requests[task],
        )
        self._pods[uid] = _Pod(seen, job.plan)
        self._show(self._pods[uid])

    def _bind(self, event: Event[EffectRequested], uid: str) -> None:
        pod, node = self._pods.get(uid), event.data.node or ""
        if pod is None or pod.leaving or node not in self._nodes:
            failed = EffectReported(event.id, "failed", message=f"no pod {uid}" if pod is None else f"no node {node}")
            self._say("jobs", failed, event.subject, import_id(self.name, _SOURCE, event.id, "reported"))
            return
        self._on_node[node][uid] = None
        self._show(pod, phase="Bound", reason="Starting", node=node, bound=self._agenda.now)
        self._agenda.at(self._agenda.now + self._conduct.start, partial(self._start, uid))

    # --- what nodes do ----------------------------------------------------------------------------------------------------

    def _start(self, uid: str) -> None:
        pod = self._pods.get(uid)
        if pod is None or pod.leaving:
            return
        self._show(pod, phase="Running", reason=None, running=self._agenda.now)
        job = pod.job
        if isinstance(job, JointJob):
            self._go_on(job)
        elif job.run is not None:
            self._agenda.at(self._agenda.now + job.run, partial(self._end, uid, failed=job.row.phase == "Failed"))

    def _go_on(self, job: JointJob, *, lost: bool = False) -> None:
        """Let a job go on at the rate of the pods that work now, if work is lost from what is saved."""
        progress = self._jobs[job.id].progress
        progress.proceed(self._agenda.now)
        if lost:
            progress.lose()
        places = [(pod.seen.task or "", pod.seen.node or "") for pod in self._working(job)]
        if progress.end is not None:
            self._agenda.cancel(progress.end)
        end = progress.go_on(job.rate(places), job.amount)
        progress.end = None if end is None else self._agenda.at(end, partial(self._end_together, job))

    def _without(self, pod: _Pod) -> None:
        """Let the job of a pod that works no more go on."""
        if isinstance(pod.job, JointJob):
            self._go_on(pod.job, lost=pod.job.holds_work(pod.seen.task or ""))

    def _end_together(self, job: JointJob) -> None:
        self._jobs[job.id].progress.end = None
        for pod in self._working(job):
            self._end(pod.seen.uid, failed=False)

    def _working(self, job: PlannedJob) -> list[_Pod]:
        return [pod for pod in self._pods.values() if pod.job is job and pod.works]

    def _end(self, uid: str, *, failed: bool) -> None:
        """End a pod as its trace says: it succeeds, it fails (no exit code is invented), or its job's user stops the job."""
        pod = self._pods.get(uid)
        if pod is None or not pod.works:
            return
        if pod.job.row.phase == "Terminated" and not failed:
            self.stop_job(pod.job.id)
            return
        self._on_node[pod.seen.node or ""].pop(uid)
        if failed:
            self._show(pod, phase="Failed", reason="AppFailed", ended=self._agenda.now)
            self._without(pod)
        else:
            self._show(pod, phase="Succeeded", reason=None, exit_code=0, ended=self._agenda.now)

    def _stop(self, pod: _Pod, reason: str | None = None, disruption: str | None = None) -> None:
        """Delete a pod: one that has a node and has not ended takes its time."""
        if pod.leaving:
            return
        uid, end = pod.seen.uid, self._agenda.now + self._conduct.stop
        if pod.seen.phase in TERMINAL_ATTEMPT_PHASES:
            self._gone(uid)
            return
        if pod.seen.node is None:
            self._gone(uid, phase="Failed", reason="DeletedByApi", ended=self._agenda.now)
            return
        worked, pod.leaving = pod.works, True
        if worked:
            self._without(pod)
        asked = {"deleting": True, "terminating": self._agenda.now, "deadline": end, "disruption": disruption}
        self._show(pod, phase="Terminating", reason=reason, **asked)
        self._agenda.at(end, lambda: self._gone(uid, phase="Failed", reason=reason or "DeletedByApi", ended=end))

    def _gone(self, uid: str, **last: Any) -> None:  # noqa: ANN401 - as above
        """Remove the object of a pod.

        Args:
            uid: the pod; one that is gone already stays so.
            last: what its last state shows beside the state shown before; nothing for a pod that has ended.
        """
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        self._on_node.get(pod.seen.node or "", {}).pop(uid, None)
        if pod.works:
            self._without(pod)
        seen = replace(pod.seen, version=_next(pod.seen), **last)
        self._say("pods", PodDeleted(seen), seen.job, observation_id(uid, seen.version or "", deleted=True))


def _next(seen: PodObserved) -> str:
    return str(int(seen.version or "0") + 1)
