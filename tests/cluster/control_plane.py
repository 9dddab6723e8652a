"""The cluster's own components: a scheduler, the node controller, the taint manager, the pod and ownership garbage collectors.

Sources: `pkg/controller/nodelifecycle`, `pkg/controller/tainteviction`, `pkg/controller/podgc`, `pkg/controller/garbagecollector`,
`pkg/controller/job` (finalizers). Waiting times are shorter than a real cluster's where only their order matters.
"""

from __future__ import annotations

from collections.abc import Callable

from api_server import ApiError, ApiServer, Object, WatchEvent, set_condition, uid_of
from kubelets import Container, Kubelet
from pod_lives import Life, bind
from simulated_time import Timeline, stamp

GRACE_OF_NODES = 40
"""Seconds of silence after which a node is no longer Ready (`--node-monitor-grace-period`)."""
QUARANTINE = 40
"""Seconds for which the pods of a node that is gone are left alone (podgc)."""
TOLERATED = 60
"""Seconds for which pods stay on an unreachable node (`tolerationSeconds`; 300 by default)."""
UNTRACKED_AFTER = 3
"""Seconds after which a finalizer is removed from a pod that has ended, or is to go."""

_ENDED = frozenset({"Succeeded", "Failed"})
_UNREACHABLE = "node.kubernetes.io/unreachable"


class Cluster:
    """An API server, nodes and the components that act on both."""

    def __init__(self, timeline: Timeline, lives: Callable[[], Life], nodes: int = 2) -> None:
        """Bring a cluster up.

        Args:
            timeline: its clock.
            lives: says how the next pod will fare.
            nodes: how many nodes it has.
        """
        self.timeline = timeline
        self.api = ApiServer(timeline)
        self.api.informers.append(self._hear)
        self._lives = lives
        self._life_of: dict[str, Life] = {}
        self.nodes: dict[str, Kubelet] = {}
        for number in range(nodes):
            self.add_node(f"n{number}")

    def life(self) -> Life:
        """Draw how a pod that is about to be made will fare."""
        return self._lives()

    def made(self, pod: Object, life: Life) -> None:
        """Note how a pod that has been made fares."""
        self._life_of[uid_of(pod)] = life
        self.timeline.after(life.scheduled_after, lambda: self._schedule(uid_of(pod), pod["metadata"]))

    def containers(self) -> dict[str, Container]:
        """Return the truth: what the container of each pod has done, by uid of the pod; none for pods that had no node."""
        return {uid: container for kubelet in self.nodes.values() for uid, container in kubelet.containers.items()}

    def pods(self) -> list[Object]:
        """Return the pods that exist."""
        return self.api.list("Pod")

    # --- scheduler ----------------------------------------------------------------------------------------------------------

    def _schedule(self, uid: str, metadata: Object) -> None:
        pod = self.api.find("Pod", metadata["namespace"], metadata["name"])
        if pod is None or uid_of(pod) != uid or "nodeName" in pod["spec"] or "deletionTimestamp" in pod["metadata"]:
            return
        free = [name for name in self.nodes if self.takes(name)]
        now = self.timeline.now
        if not free:
            self.api.update(
                "Pod", *_name(pod), lambda found: set_condition(found, "PodScheduled", "False", "Unschedulable", now), uid=uid
            )
            return
        load = {name: len([on for on in self._pods_on(name) if on["status"]["phase"] not in _ENDED]) for name in free}
        node = min(free, key=lambda name: (load[name], name))
        bound = self.api.update("Pod", *_name(pod), lambda found: bind(found, node, now), uid=uid)
        self.timeline.after(0, lambda: self._start(node, bound))

    def _start(self, node: str, bound: Object) -> None:
        pod = self.api.find("Pod", *_name(bound))
        kubelet = self.nodes[node]
        if pod is None or uid_of(pod) != uid_of(bound) or kubelet.silent or kubelet.gone:
            return
        kubelet.take(pod, self._life_of[uid_of(pod)])

    def takes(self, name: str) -> bool:
        """Tell whether pods may be put on a node."""
        node = self.api.find("Node", "", name)
        return node is not None and not node["spec"].get("taints")

    def _schedule_waiting(self) -> None:
        for pod in self.pods():
            if "nodeName" not in pod["spec"]:
                self._schedule(uid_of(pod), pod["metadata"])

    # --- controllers that react to changes ------------------------------------------------------------------------------------

    def _hear(self, event: WatchEvent) -> None:
        found = event.object
        if event.kind == "Pod" and event.change != "DELETED" and found["metadata"].get("finalizers"):
            if found["status"]["phase"] in _ENDED or "deletionTimestamp" in found["metadata"]:
                self.timeline.after(UNTRACKED_AFTER, lambda: self._untrack(found))
        elif event.kind == "Job" and event.change == "DELETED":
            self.timeline.after(2, lambda: self._collect_pods_of(uid_of(found)))

    def _untrack(self, pod: Object) -> None:
        try:
            self.api.update("Pod", *_name(pod), lambda found: found["metadata"].pop("finalizers", None), uid=uid_of(pod))
        except ApiError:
            return

    def _collect_pods_of(self, owner: str) -> None:
        for pod in self.pods():
            if pod["metadata"]["ownerReferences"][0]["uid"] == owner:
                self.api.delete("Pod", *_name(pod), uid=uid_of(pod))

    # --- nodes ----------------------------------------------------------------------------------------------------------------

    def add_node(self, name: str) -> None:
        """Let a new node join."""
        self.api.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name},
                "spec": {},
                "status": {
                    "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"},
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": stamp(self.timeline.now)}],
                },
            }
        )
        self.nodes[name] = Kubelet(name, self.api, self.timeline)

    def silence(self, name: str) -> None:
        """Cut a node off: Unknown after a while, tainted, its pods deleted when they tolerate that no longer."""
        kubelet = self.nodes[name]
        if kubelet.silent or kubelet.gone:
            return
        kubelet.silent = True
        self.timeline.after(GRACE_OF_NODES, lambda: self._not_ready(name))

    def _not_ready(self, name: str) -> None:
        if not self.nodes[name].silent or self.nodes[name].gone:
            return
        now = self.timeline.now

        def change(node: Object) -> None:
            set_condition(node, "Ready", "Unknown", "NodeStatusUnknown", now)
            node["spec"]["taints"] = [{"key": _UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute")]

        self.api.update("Node", "", name, change)
        for pod in self._pods_on(name):
            self.api.update("Pod", *_name(pod), lambda found: set_condition(found, "Ready", "False", None, now))
        self.timeline.after(TOLERATED, lambda: self._evict_by_taint(name, _UNREACHABLE))

    def restore(self, name: str) -> None:
        """Let a silent node speak again."""
        kubelet = self.nodes[name]
        if not kubelet.silent or kubelet.gone:
            return
        now = self.timeline.now

        def change(node: Object) -> None:
            set_condition(node, "Ready", "True", "KubeletReady", now)
            node["spec"].pop("taints", None)

        self.api.update("Node", "", name, change)
        kubelet.return_()
        for pod in self._pods_on(name):
            if uid_of(pod) not in kubelet.containers:
                self._start(name, pod)
        self._schedule_waiting()

    def taint(self, name: str) -> None:
        """Put a taint NoExecute on a healthy node for a while: its pods are evicted by the taint manager."""
        if not self.takes(name) or self.nodes[name].silent:
            return
        self.api.update("Node", "", name, lambda node: node["spec"].update(taints=[{"key": "repair", "effect": "NoExecute"}]))
        self._evict_by_taint(name, "repair")
        self.timeline.after(30, lambda: self._untaint(name))

    def _untaint(self, name: str) -> None:
        node = self.api.find("Node", "", name)
        if node is not None and not self.nodes[name].silent:
            self.api.update("Node", "", name, lambda found: found["spec"].pop("taints", None))
            self._schedule_waiting()

    def _evict_by_taint(self, name: str, key: str) -> None:
        node = self.api.find("Node", "", name)
        if node is None or all(taint["key"] != key for taint in node["spec"].get("taints", [])):
            return
        for pod in self._pods_on(name):
            if pod["status"]["phase"] not in _ENDED and "deletionTimestamp" not in pod["metadata"]:
                self.api.disrupt(*_name(pod), "DeletionByTaintManager", uid=uid_of(pod))
                self.api.delete("Pod", *_name(pod), uid=uid_of(pod))

    def remove_node(self, name: str) -> None:
        """Lose a node for good: its object is deleted, and after a while its pods by the pod garbage collector."""
        kubelet = self.nodes[name]
        if kubelet.gone:
            return
        kubelet.vanish()
        self.api.delete("Node", "", name)
        self.timeline.after(QUARANTINE, lambda: self._collect_orphans(name))

    def _collect_orphans(self, name: str) -> None:
        for pod in self._pods_on(name):
            if pod["status"]["phase"] not in _ENDED:
                self.api.disrupt(*_name(pod), "DeletionByPodGC", uid=uid_of(pod))
                self.api.update("Pod", *_name(pod), lambda found: found["status"].update(phase="Failed"), uid=uid_of(pod))
            self.api.delete("Pod", *_name(pod), uid=uid_of(pod), grace=0)

    def _pods_on(self, name: str) -> list[Object]:
        return [pod for pod in self.pods() if pod["spec"].get("nodeName") == name]


def _name(pod: Object) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]
