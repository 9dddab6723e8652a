"""Nodes and their kubelets: containers really start and end there, whether or not the API server hears of it.

What a container did (`Container`) is the truth against which the engine's history and bills are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from api_server import ApiError, ApiServer, Object, WatchEvent, set_condition, uid_of
from pod_lives import Life, end_of, reject, show_ended, show_running, show_started_sandbox
from simulated_time import Timeline


@dataclass
class Container:
    """The container of one pod, as it really fares."""

    namespace: str
    pod: str
    uid: str
    life: Life
    started: int | None = None
    """Microseconds."""
    finished: int | None = None
    code: int = 0
    reason: str = ""
    over: bool = False
    """It will not run any more; `started` is `None` if it never has."""
    stopping: bool = False
    """It was sent SIGTERM."""
    evicted: bool = False
    rejected: bool = False

    def end(self, now: int, code: int, reason: str) -> None:
        """End it, unless it is over."""
        if self.over:
            return
        self.over = True
        if self.started is not None:
            self.finished, self.code, self.reason = now, code, reason


class Kubelet:
    """One node's kubelet. While it is silent its containers go on, and nobody hears of them."""

    def __init__(self, name: str, api: ApiServer, timeline: Timeline) -> None:
        self.name = name
        self.silent = False
        self.gone = False
        """The machine is gone, and its containers with it."""
        self.containers: dict[str, Container] = {}
        """By uid of the pod; what it has confirmed as removed is kept, being the truth."""
        self._api = api
        self._timeline = timeline
        api.informers.append(self._hear)

    # --- pods that come and go ----------------------------------------------------------------------------------------------

    def take(self, pod: Object, life: Life) -> None:
        """Take up a pod that was bound to the node."""
        metadata = pod["metadata"]
        container = Container(metadata["namespace"], metadata["name"], uid_of(pod), life)
        self.containers[container.uid] = container
        if life.rejected:
            container.rejected = container.over = True
            self._sync(container)
            return
        self._write(container, lambda found: show_started_sandbox(found, self._timeline.now))
        self._timeline.after(life.started_after, lambda: self._start(container))
        self._follow(container, pod)

    def _start(self, container: Container) -> None:
        if container.over or container.stopping or self.gone:
            return
        container.started = self._timeline.now
        self._sync(container)
        life = container.life
        reasons = {"exit": "Error" if life.code else "Completed", "oom": "OOMKilled", "signal": "Error"}
        self._timeline.after(life.runs, lambda: self._end(container, life.code, reasons[life.ending]))

    def _end(self, container: Container, code: int, reason: str) -> None:
        if not self.gone:
            container.end(self._timeline.now, code, reason)
            self._sync(container)

    def _hear(self, event: WatchEvent) -> None:
        if event.kind != "Pod" or event.object["spec"].get("nodeName") != self.name or self.silent or self.gone:
            return
        container = self.containers.get(uid_of(event.object))
        if container is not None:
            self._follow(container, event.object if event.change != "DELETED" else None)

    def _follow(self, container: Container, pod: Object | None) -> None:
        """Do what the object asks for: stop a container whose pod is to be deleted, at once if the object is gone."""
        if pod is None:
            self._stop(container, 0)
        elif "deletionTimestamp" in pod["metadata"]:
            self._stop(container, pod["metadata"]["deletionGracePeriodSeconds"])
            if container.over:
                self._confirm(container)

    def _stop(self, container: Container, grace: int) -> None:
        if container.over:
            return
        life = container.life
        if container.started is None:
            container.end(self._timeline.now, 137, "")
            # Written by an action of its own: it may be in the middle of a change that others are told of.
            self._timeline.after(0, lambda: self._sync(container))
        elif grace == 0:
            self._timeline.after(0, lambda: self._end(container, 137, "Error"))
        elif not container.stopping:
            container.stopping = True
            obeys = life.on_term != "ignores" and life.term_takes < grace
            code, reason = (137, "Error") if not obeys else (0, "Completed") if life.on_term == "succeeds" else (143, "Error")
            self._timeline.after(life.term_takes if obeys else grace, lambda: self._end(container, code, reason))

    def _confirm(self, container: Container) -> None:
        """Let the object of a deleted pod go, its container being over (kubelet: a deletion with grace 0 and the uid)."""

        def act() -> None:
            if self.silent or self.gone:
                return
            try:
                self._api.delete("Pod", container.namespace, container.pod, uid=container.uid, grace=0)
            except ApiError:
                return

        self._timeline.after(1, act)

    # --- what it shows ------------------------------------------------------------------------------------------------------

    def _sync(self, container: Container) -> None:
        if self.silent or self.gone:
            return
        now = self._timeline.now

        def show(pod: Object) -> None:
            if pod["status"]["phase"] in {"Succeeded", "Failed"}:
                return  # a terminal phase is final (kubelet and API server)
            if container.evicted:
                reject(pod, "Evicted", "The node was low on resource: memory.")
                set_condition(pod, "DisruptionTarget", "True", "TerminationByKubelet", now)
            if container.rejected:
                reject(pod, "UnexpectedAdmissionError", "Allocate failed due to no healthy devices present")
            elif container.over:
                failed = container.evicted
                end = end_of(container.started, container.finished or now, container.code, container.reason)
                show_ended(pod, end, now)
                if failed:
                    pod["status"]["phase"] = "Failed"
            elif container.started is not None:
                show_running(pod, container.started, now)

        shown = self._write(container, show)
        if container.over and shown is not None and "deletionTimestamp" in shown["metadata"]:
            self._confirm(container)

    def _write(self, container: Container, change: Callable[[Object], None]) -> Object | None:
        """Write a pod's status, if the object is still there."""
        try:
            return self._api.update("Pod", container.namespace, container.pod, change, uid=container.uid)
        except ApiError:
            return None

    # --- what happens to nodes ------------------------------------------------------------------------------------------------

    def evict(self, uid: str) -> None:
        """Evict a pod because the node runs out of memory. Its object stays, and nobody asks for its deletion."""
        container = self.containers.get(uid)
        if container is None or container.over or self.silent or self.gone:
            return
        container.evicted = True
        self._end(container, 137, "Error")

    def return_(self) -> None:
        """Speak again: show what has become of all containers meanwhile, and stop those whose pods are gone or to go."""
        self.silent = False
        for container in list(self.containers.values()):
            found = self._api.find("Pod", container.namespace, container.pod)
            pod = found if found is not None and uid_of(found) == container.uid else None
            if pod is not None:
                self._sync(container)
                pod = self._api.find("Pod", container.namespace, container.pod)
            self._follow(container, pod)

    def vanish(self) -> None:
        """Lose the machine."""
        self.gone = True
        for container in self.containers.values():
            container.end(self._timeline.now, 137, "Error")
