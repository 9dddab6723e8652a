"""A second, slow model of one managed job, written from volcano.md and lifecycle.md alone, against which the engine is compared.

It is told what the engine is told, in the same order, and answers with the phase, the counters of retries and the pods to be made.
Everything is found by going through all pods again at every step; nothing of `statemachines` or of the lifecycle stage is used.
Two facts are the engine's to decide, and read from its events: that a pod is given up after a time-out, and in which order timers
of one instant fire.

Deliberate differences from Volcano, with their source in lifecycle.md where no other page is named:

1.  An AbortJob, TerminateJob or CompleteJob during Restarting is remembered and carried out once the restart resolves ("Job").
2.  A restart whose cause is no fault of the user burns no retry ("Failure classes").
3.  Evictions, deletions and losses raise PodEvicted however they are seen, also as Failed (kubernetes.md 1.4, "Volcano compares").
    PodEvicted has no exit code, as in Volcano.
4.  A pod first seen running raises PodRunning, one first seen after its end raises what its end raises ("Levels and phases").
5.  The end of a pod whose deletion the engine asked for raises OutOfSync (kubernetes.md 1.4, "Our own doing").
6.  A pod that was evicted, deleted or lost is replaced without a policy as soon as its object is gone; its deletion is asked for if
    nobody has ("An ended attempt may still have its object"). Volcano does so when the object goes, whoever deleted it.
7.  A replica that succeeded stays so when its pod is deleted later ("exit 0 stays Succeeded").
8.  Counters are true: Volcano's are rebuilt by each kill from the pods that it reached ("Job").
9.  A command without an effect where the job stands is refused, as is one on a replica that does not exist.
10. A finished job answers no policy; its pods are swept up.
11. The deletion of the job's object is a TerminateJob; a job that is Aborted then is Terminated.
12. TaskCompleted is raised once per start of the task.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

EVICTIONS = {
    "PreemptedByScheduler",
    "PreemptedByKubelet",
    "EvictedByApi",
    "EvictedByTaint",
    "EvictedByNode",
    "NodeShutdown",
    "NodeLost",
    "DeletedByApi",
    "EndUnknown",
}
"""Ends that Volcano would see as a deletion: kubernetes.md 1.4 rows 2-7 and 15."""
TRANSIENT = EVICTIONS | {"RejectedByNode", "ExitUnknown"}
FINISHED = {"Completed", "Failed", "Terminated"}
RESTARTS = {"RestartJob", "RestartTask", "RestartPod"}
STOPS = {"AbortJob": "Aborting", "TerminateJob": "Terminating", "CompleteJob": "Completing"}


class DifferenceError(AssertionError):
    """Raised when the engine and the reference disagree."""


@dataclass
class RefPod:
    """One pod of one replica."""

    task: str
    index: int
    number: int
    version: int
    """Job version for which it was made."""
    uid: str | None = None
    refused: bool = False
    """Its creation failed, and was not asked for again."""
    made: bool = False
    """Its creation was reported done: if it fails when it is asked for again, the pod is there already."""
    phase: str = "Pending"
    """Kubernetes' phase."""
    reason: str | None = None
    ready: bool = False
    asked: bool = False
    """The engine asked for its deletion."""
    asked_before_end: bool = False
    deleting: bool = False
    """Its deletion timestamp was seen."""
    gone: bool = False
    replace: bool = False
    """Its replica is to have another pod."""
    seen_version: int = 0
    """resourceVersion of the last observation."""

    @property
    def ended(self) -> bool:
        return self.phase in {"Succeeded", "Failed"}

    def counter(self) -> str | None:
        """Return the counter in which it is; `None`: in none, its replica is empty."""
        if not self.ended:
            return "terminating" if self.asked or self.deleting else self.phase.lower()
        if self.replace and self.gone:
            return None
        if self.replace and (self.asked or self.deleting):
            return "terminating"
        return self.phase.lower()


@dataclass
class Delay:
    """A delayed action."""

    due: int
    action: str
    event: str
    task: str | None
    index: int | None
    number: int | None
    pod: str | None

    @property
    def of_class(self) -> str:
        return {"RestartTask": "task", "RestartPod": "pod"}.get(self.action, "job")


@dataclass
class RefJob:
    """One job. `spec` is the specification as `job.opened` and `job.revised` record it: plain data."""

    name: str
    spec: Any
    phase: str = "Pending"
    retry_count: int = 0
    restarts: int = 0
    version: int = 0
    group: bool = True
    """Its PodGroup stands: pods may be made."""
    object_deleted: bool = False
    waits: dict[str, Any] | None = None
    """The order that waits for a restart to resolve."""
    pods: list[RefPod] = field(default_factory=list)
    delays: list[Delay] = field(default_factory=list)
    completed: set[str] = field(default_factory=set)
    """Tasks for whose present start TaskCompleted was raised."""
    path: list[str] = field(default_factory=list)
    """Phases entered."""
    made: list[tuple[str, int, int]] = field(default_factory=list)
    """Pods asked for: (task, index, number)."""
    now: int = 0

    # --- looking through all pods -----------------------------------------------------------------------------------------

    def current(self, task: str, index: int) -> RefPod | None:
        """Return the last pod of a replica."""
        return next((pod for pod in reversed(self.pods) if (pod.task, pod.index) == (task, index)), None)

    def currents(self) -> list[RefPod]:
        """Return the last pod of each replica."""
        return [pod for pod in self.pods if self.current(pod.task, pod.index) is pod]

    def count(self, counter: str, task: str | None = None) -> int:
        """Count pods."""
        return sum(pod.counter() == counter for pod in self.currents() if task in {None, pod.task})

    @property
    def total(self) -> int:
        return sum(task.replicas for task in self.spec.tasks)

    # --- the state table -----------------------------------------------------------------------------------------------------

    def execute(self, action: str, *, task: str | None = None, index: int | None = None, burns: bool = True) -> None:
        """Carry out an action that a policy, a timer or a command asks for."""
        phase = self.phase
        if phase == "Restarting" and action in STOPS:
            self.waits = {"action": action}
            return
        self._cancel_of_class(action, task, index)
        if action in {"RestartJob", "AbortJob", "TerminateJob", "CompleteJob"} or (
            action == "ResumeJob" and phase in {"Aborting", "Aborted"}
        ):
            self.version += 1
            self.group = False
        if action in {"RestartTask", "RestartPod"}:
            self.completed.discard(task or "")
        elif action != "ResumeJob" or phase in {"Aborting", "Aborted"}:
            self.completed.clear()
        if phase in {"Pending", "Running"}:
            if action == "RestartJob":
                self._kill(self.currents(), soft=self._last_retry(burns))
            elif action in RESTARTS:
                self._kill(self._target(action, task, index))
            elif action in STOPS:
                self._kill(self.currents(), soft=True)
            else:
                self.sync_phase()
                return
            if action in RESTARTS:
                self.retry_count += burns
                self.restarts += 1
            self._enter(STOPS.get(action, "Restarting"))
        elif phase == "Restarting":
            if action in {"RestartTask", "RestartPod"}:
                self._kill(self._target(action, task, index))
            else:
                self._kill(self.currents(), soft=self._last_retry(burns))
            self._resolve()
        elif action == "ResumeJob" and phase in {"Aborting", "Aborted"}:
            self._kill(self.currents(), soft=True)
            self.retry_count += 1
            self._enter("Restarting")
        else:
            self._kill(self.currents(), soft=True)
            self._drained()

    def _target(self, action: str, task: str | None, index: int | None) -> list[RefPod]:
        if action == "RestartTask":
            return [pod for pod in self.currents() if pod.task == task]
        return [pod for pod in self.currents() if (pod.task, pod.index) == (task, index)]

    def _last_retry(self, burns: bool) -> bool:
        return self.retry_count + burns >= self.spec.max_retry

    def _kill(self, pods: list[RefPod], *, soft: bool = False) -> None:
        for pod in pods:
            counter = pod.counter()
            if counter not in {None, "terminating"} and not (soft and counter in {"succeeded", "failed"}):
                self.ask_deletion(pod)

    def ask_deletion(self, pod: RefPod) -> None:
        """Ask for the deletion of a pod."""
        pod.asked = pod.replace = True
        if not pod.ended:
            pod.asked_before_end = True
            if pod.uid is None and pod.refused:
                self.end(pod, "Failed", "NeverStarted", deleting=False, gone=True)

    def _enter(self, phase: str) -> None:
        if phase == self.phase:
            return
        self.phase = phase
        self.path.append(phase)
        if phase == "Pending":
            self.group = True
        if phase in FINISHED:
            self.delays.clear()
            self.waits = None

    # --- until nothing follows -------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Sync again and again until nothing follows."""
        while True:
            before = (self.phase, len(self.made), [(pod.asked, pod.counter()) for pod in self.pods], self.waits)
            if self.waits is not None and self.phase != "Restarting":
                waits, self.waits = self.waits, None
                self.execute(waits["action"])
            else:
                self._sync()
            if before == (self.phase, len(self.made), [(pod.asked, pod.counter()) for pod in self.pods], self.waits):
                return

    def _sync(self) -> None:
        if self.phase in {"Pending", "Running", "Restarting"}:
            if self.waits is None:
                self._make_pods()
        elif self.count("pending") + self.count("running"):
            self._kill(self.currents(), soft=True)
        self.sync_phase()

    def _make_pods(self) -> None:
        if not self.group:
            return
        for task in self.spec.tasks:
            for index in range(task.replicas):
                pod = self.current(task.name, index)
                if pod is not None and pod.ended and pod.replace and not pod.gone and not pod.deleting:
                    self.ask_deletion(pod)
                if (pod is None or (pod.ended and pod.replace and pod.gone)) and self._may_start(task):
                    number = 1 + max((one.number for one in self.pods if (one.task, one.index) == (task.name, index)), default=0)
                    self.pods.append(RefPod(task.name, index, number, self.version))
                    self.made.append((task.name, index, number))

    def _may_start(self, task: Any) -> bool:
        if task.depends_on is None:
            return True
        return all(self._is_ready(name) for name in task.depends_on.names)

    def _is_ready(self, name: str) -> bool:
        task = next((one for one in self.spec.tasks if one.name == name), None)
        if task is None:
            return False
        ready = [
            pod
            for pod in self.currents()
            if pod.task == name and (pod.counter() == "succeeded" or (pod.counter() == "running" and pod.ready))
        ]
        return task.min_available is None or len(ready) >= task.min_available

    def sync_phase(self) -> None:
        """Let the phase follow the counters."""
        if self.phase == "Pending":
            if self.spec.min_available <= self.count("running") + self.count("succeeded") + self.count("failed"):
                self._enter("Running")
        elif self.phase == "Running":
            self._running()
        elif self.phase == "Restarting":
            self._resolve()
        else:
            self._drained()

    def _running(self) -> None:
        succeeded, failed = self.count("succeeded"), self.count("failed")
        least = self.spec.min_success
        if self.total == 0:
            return
        if least is not None and succeeded >= least:
            self._enter("Completed")
        elif succeeded + failed == self.total:
            minima = sum(task.replicas if task.min_available is None else task.min_available for task in self.spec.tasks)
            short = self.spec.min_available >= minima and any(
                task.min_available is not None
                and any(pod.task == task.name for pod in self.currents())
                and self.count("succeeded", task.name) < task.min_available
                for task in self.spec.tasks
            )
            if short or least is not None or succeeded < self.spec.min_available:
                self._enter("Failed")
            else:
                self._enter("Completed")
        elif self.count("pending") > self.total - self.spec.min_available:
            self._enter("Pending")

    def _resolve(self) -> None:
        if self.retry_count >= self.spec.max_retry:
            self._enter("Failed")
        elif self.total - self.count("terminating") >= self.spec.min_available:
            self._enter("Pending")

    def _drained(self) -> None:
        ends = {"Aborting": "Aborted", "Completing": "Completed", "Terminating": "Terminated"}
        if self.phase in ends and not self.count("terminating") + self.count("pending") + self.count("running"):
            self._enter(ends[self.phase])
        if self.phase == "Aborted" and self.object_deleted:
            self._enter("Terminated")

    # --- what is seen ----------------------------------------------------------------------------------------------------------

    def see(self, seen: Any, *, deleted: bool) -> None:
        """Take in an observation of a pod, or that it is gone (`deleted`, `seen` being its last state)."""
        pod = self._pod_of(seen)
        if pod is None:
            return
        if not _is_news(pod, seen.version, deleted=deleted):
            return
        pod.seen_version = int(seen.version)
        first, pod.uid = pod.uid is None, seen.uid
        if pod.ended:
            if first:  # it was given up before it came into view: its object stands after all
                pod.gone = False
            self._see_object(pod, deleting=seen.deleting, gone=deleted)
            self.settle()
            return
        before = pod.phase
        pod.ready = seen.ready
        if seen.phase in {"Succeeded", "Failed", "Lost"}:
            self.end(pod, "Succeeded" if seen.phase == "Succeeded" else "Failed", seen.reason, seen.deleting, deleted)
            self.after_end(pod, seen.first_exit_code)
        else:
            if seen.running is not None:
                pod.phase = "Running"
            pod.deleting = seen.phase == "Terminating"
            event = None
            if first and (pod.deleting or pod.phase == "Pending"):
                event = "PodPending"
            elif before == "Pending" and pod.phase == "Running" and not pod.deleting:
                event = "PodRunning"
            if event == "PodRunning" or (event is not None and not pod.asked):
                self.cancel_by_event(event, pod)
                self.raise_event(event, pod)
        if first:
            self.delete_surplus(pod)
        self.settle()

    def _pod_of(self, seen: Any) -> RefPod | None:
        """Return the attempt that an observation is about; `None`: that attempt is another pod (an anomaly, and it is to go)."""
        for pod in self.pods:
            same = (pod.task, pod.index, pod.number) == (seen.task, seen.index, seen.attempt)
            if pod.uid == seen.uid or (pod.uid is None and same):
                return pod
        return None

    def end(self, pod: RefPod, phase: str, reason: str | None, deleting: bool, gone: bool) -> None:
        """Let a pod end."""
        pod.phase, pod.reason = phase, reason
        pod.replace = pod.asked or reason in EVICTIONS or reason == "NeverStarted"
        self._see_object(pod, deleting=deleting, gone=gone)

    def after_end(self, pod: RefPod, exit_code: int = 0) -> None:
        """Raise what the end of a pod raises."""
        self.cancel_by_event("PodRunning" if pod.phase == "Succeeded" else "PodFailed", pod)
        if pod.phase == "Succeeded":
            replicas = next(task.replicas for task in self.spec.tasks if task.name == pod.task)
            if 0 < replicas <= self.count("succeeded", pod.task) and pod.task not in self.completed:
                self.completed.add(pod.task)
                self.raise_event("TaskCompleted", pod)
        elif pod.asked_before_end:
            return
        elif pod.reason in EVICTIONS:
            self.raise_event("PodEvicted", pod)
        else:
            self.raise_event("PodFailed", pod, exit_code)

    def _see_object(self, pod: RefPod, *, deleting: bool, gone: bool) -> None:
        pod.deleting = pod.deleting or deleting
        pod.gone = gone or pod.gone
        if (deleting or gone) and pod.phase == "Failed" and self.phase not in FINISHED:
            pod.replace = True

    def delete_surplus(self, pod: RefPod) -> None:
        """Ask for the deletion of a pod beyond the replicas of its task."""
        replicas = next(task.replicas for task in self.spec.tasks if task.name == pod.task)
        if pod.index >= replicas:
            self._kill([pod])

    def revise(self, spec: Any) -> None:
        """Take in a changed specification."""
        self.spec = spec
        for pod in self.currents():
            self.delete_surplus(pod)
        self.settle()

    def delete_object(self) -> None:
        """Take in that the job's object is gone."""
        self.object_deleted = True
        if self.phase not in FINISHED | {"Aborting", "Aborted", "Completing", "Terminating"}:
            self.execute("TerminateJob")
        self.settle()

    def answer(self, task: str, index: int, number: int, *, refused: bool, made: bool = False) -> None:
        """Take in that the creation of a pod was done, failed, or was asked for again."""
        for pod in self.pods:
            if (pod.task, pod.index, pod.number) == (task, index, number):
                pod.made = pod.made or made
                pod.refused = refused and not pod.made

    def accepts(self, action: str, task: str | None, index: int | None) -> bool:
        """Tell whether a command has an effect where the job stands."""
        if self.phase in FINISHED | {"Completing", "Terminating"}:
            return False
        if (action == "ResumeJob") != (self.phase in {"Aborting", "Aborted"}):
            return False
        if action in {"RestartTask", "RestartPod"} and all(one.name != task for one in self.spec.tasks):
            return False
        return action != "RestartPod" or self.current(task or "", index or 0) is not None

    # --- events and policies -----------------------------------------------------------------------------------------------------

    def raise_event(self, event: str, pod: RefPod, exit_code: int = 0) -> None:
        """Ask the policies what an event leads to, and do it or set a timer. PodRunning is Volcano's own: no policy answers it."""
        if event == "PodRunning":
            return
        found = self._match(event, pod, exit_code)
        if found is None or self.phase in FINISHED:
            return
        if found.timeout is None:
            self.execute(found.action, task=pod.task, index=pod.index, burns=self._burns(pod))
            return
        name = f"{self.name}-{pod.task}-{pod.index}"
        if any(delay.pod == name and delay.action == found.action for delay in self.delays):
            return
        self.delays = [delay for delay in self.delays if delay.pod != name]
        self.delays.append(Delay(self.now + found.timeout, found.action, event, pod.task, pod.index, pod.number, name))

    def _match(self, event: str, pod: RefPod, exit_code: int) -> Any:
        if pod.version < self.version:
            return None
        task = next(one for one in self.spec.tasks if one.name == pod.task)
        for policy in [*task.policies, *self.spec.policies]:
            named = event in policy.events or "*" in policy.events
            if named and (event != "PodPending" or policy.timeout is not None):
                return policy
            if policy.exit_code is not None and policy.exit_code == exit_code:
                return policy
        return None

    def _burns(self, pod: RefPod | None) -> bool:
        """Tell whether a restart because of a pod burns a retry: not if its end was nobody's fault, or ours."""
        if pod is None or pod.phase != "Failed":
            return True
        return not pod.asked_before_end and pod.reason not in TRANSIENT

    def expire(self, delay: Delay) -> None:
        """Carry out a delayed action whose time has come; the policies are not asked again."""
        self.delays.remove(delay)
        pod = next((one for one in self.pods if (one.task, one.index, one.number) == (delay.task, delay.index, delay.number)), None)
        self.execute(delay.action, task=delay.task, index=delay.index, burns=self._burns(pod))
        self.settle()

    def cancel_by_event(self, event: str, pod: RefPod) -> None:
        """Cancel the delayed actions that a change of a pod makes pointless."""
        name = f"{self.name}-{pod.task}-{pod.index}"
        if event not in {"PodRunning", "PodFailed", "PodEvicted"}:
            return
        self.delays = [
            delay
            for delay in self.delays
            if delay.pod != name
            or not (
                (delay.event == "PodPending" and self._uid(delay) == pod.uid)
                or (event == "PodRunning" and delay.event in {"PodFailed", "PodEvicted"})
            )
        ]

    def _uid(self, delay: Delay) -> str | None:
        return next(
            (one.uid for one in self.pods if (one.task, one.index, one.number) == (delay.task, delay.index, delay.number)), None
        )

    def _cancel_of_class(self, action: str, task: str | None, index: int | None) -> None:
        of_class = {"RestartTask": "task", "RestartPod": "pod"}.get(action, "job")
        if action == "SyncJob":
            return
        pod = f"{self.name}-{task}-{index}"
        self.delays = [
            delay
            for delay in self.delays
            if delay.of_class != of_class or (of_class == "task" and delay.task != task) or (of_class == "pod" and delay.pod != pod)
        ]


def _is_news(pod: RefPod, version: str, *, deleted: bool) -> bool:
    """Tell whether an observation is newer than the last one; a deletion is, up to its own version."""
    return int(version) > pod.seen_version or (deleted and not pod.gone and int(version) == pod.seen_version)
