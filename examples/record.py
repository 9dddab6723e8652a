"""Writes the recorded watches of the stories: what `kubectl get pods -w --output-watch-events -o json` would have printed.

    python examples/record.py

Nothing here is needed to play a story. It is kept so that the streams can be read, changed and written anew.
"""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

import yaml

__all__ = ["STORIES", "record"]

HERE = Path(__file__).parent
GRACE = 30
"""Seconds between the request to delete a pod and its end at the latest, unless its template says otherwise."""


class Cluster:
    """One cluster over one story: hands out resource versions and writes down what watches show."""

    def __init__(self, story: str, day: str, manifest: str = "job.yaml") -> None:
        self.folder = HERE / story
        self.day = day
        self.of(manifest)
        self.streams: dict[str, list[str]] = {}
        self.stream = ""
        self._version = 48_210_000
        self._address = 16

    def of(self, manifest: str) -> None:
        """Let the pods that are asked for from now on be of this job."""
        self.job: dict[str, Any] = yaml.safe_load((self.folder / manifest).read_text())

    def to(self, stream: str) -> None:
        """Write what follows to this stream."""
        self.stream = stream
        self.streams.setdefault(stream, [])

    def show(self, kind: str, content: dict[str, Any]) -> None:
        """Write one event of a watch; every write to an object gives it another resource version."""
        self._version += 7
        content["metadata"]["resourceVersion"] = str(self._version)
        self.streams[self.stream].append(json.dumps({"type": kind, "object": content}, sort_keys=True))

    def uid(self, *name: object, job: dict[str, Any] | None = None) -> str:
        """Return a uid that is the same on every run."""
        return str(uuid5(NAMESPACE_URL, "/".join(map(str, ((job or self.job)["metadata"]["uid"], *name)))))

    def time(self, clock: str, seconds: int = 0) -> str:
        """Return a moment of the story's day, `10:31:40`, as the API server writes it."""
        moment = datetime.fromisoformat(f"{self.day}T{clock}").replace(tzinfo=UTC) + timedelta(seconds=seconds)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    def address(self) -> str:
        """Return the next address of a pod."""
        self._address += 1
        return f"10.244.3.{self._address}"

    def pod(self, task: str, index: int, attempt: int = 1) -> Pod:
        """Return a pod that Lahar asked for, not yet created."""
        return Pod(self, task, index, attempt)


class Pod:
    """One pod as the API server keeps it; each method is a write to it, by whoever writes such things."""

    def __init__(self, cluster: Cluster, task: str, index: int, attempt: int) -> None:
        self.cluster, self.job = cluster, cluster.job
        self.task, self.index, self.attempt = task, index, attempt
        metadata = self.job["metadata"]
        self.name = f"{metadata['name']}-{task}-{index}"
        self.key = (task, index, attempt)
        self.content: dict[str, Any] = {}
        self.container: dict[str, Any] = {}

    def uid(self, *name: object) -> str:
        """Return a uid of something of its job."""
        return self.cluster.uid(*name, job=self.job)

    def created(self, clock: str) -> Pod:
        """The actuator creates it."""
        self.content = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": self._metadata(clock),
            "spec": self._spec(),
            "status": {"phase": "Pending", "qosClass": "Burstable"},
        }
        return self._show("ADDED")

    def scheduled(self, clock: str, node: str) -> Pod:
        """The scheduler binds it, and the kubelet takes it up: it pulls the image."""
        self.content["spec"]["nodeName"] = node
        self._condition("PodScheduled", "True", clock)
        self._show("MODIFIED")
        image = self.content["spec"]["containers"][0]["image"]
        self.container = {
            "image": image,
            "imageID": "",
            "lastState": {},
            "name": self.content["spec"]["containers"][0]["name"],
            "ready": False,
            "restartCount": 0,
            "started": False,
            "state": {"waiting": {"reason": "ContainerCreating"}},
        }
        host = f"10.0.7.{10 + sum(map(ord, node)) % 200}"
        self.content["status"] |= {
            "containerStatuses": [self.container],
            "hostIP": host,
            "hostIPs": [{"ip": host}],
            "startTime": self.cluster.time(clock),
        }
        self._condition("PodReadyToStartContainers", "False", clock)
        self._condition("Initialized", "True", clock)
        self._not_ready(clock, "ContainersNotReady")
        return self._show("MODIFIED")

    def running(self, clock: str) -> Pod:
        """The kubelet has started its container."""
        started = self.uid(*self.key, "container").replace("-", "") * 2
        self.container |= {
            "containerID": f"containerd://{started}",
            "imageID": f"{self.container['image'].partition(':')[0]}@sha256:{self._image_digest()}",
            "ready": True,
            "started": True,
            "state": {"running": {"startedAt": self.cluster.time(clock)}},
        }
        address = self.cluster.address()
        self.content["status"] |= {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
        for condition in ("PodReadyToStartContainers", "Ready", "ContainersReady"):
            self._condition(condition, "True", clock)
        return self._show("MODIFIED")

    def ended(self, clock: str, code: int = 0, reason: str | None = None) -> Pod:
        """Its container has ended, and with it the pod."""
        started = self.container["state"]["running"]["startedAt"]
        self.container |= {
            "ready": False,
            "started": False,
            "state": {
                "terminated": {
                    "containerID": self.container["containerID"],
                    "exitCode": code,
                    "finishedAt": self.cluster.time(clock),
                    "reason": reason or ("Error" if code else "Completed"),
                    "startedAt": started,
                }
            },
        }
        self.content["status"]["phase"] = "Failed" if code else "Succeeded"
        self._condition("PodReadyToStartContainers", "False", clock)
        self._not_ready(clock, "PodFailed" if code else "PodCompleted")
        return self._show("MODIFIED")

    def unreachable(self, clock: str) -> Pod:
        """The node controller has not heard of its node for too long."""
        self._condition("Ready", "False", clock, reason="NodeNotReady", message="Node is not ready")
        return self._show("MODIFIED")

    def disrupted(self, clock: str, reason: str, message: str) -> Pod:
        """Some controller says why it is about to be deleted."""
        self._condition("DisruptionTarget", "True", clock, reason=reason, message=message)
        return self._show("MODIFIED")

    def collected(self, clock: str) -> Pod:
        """The pod garbage collector says that it failed, as nobody else can."""
        self.content["status"]["phase"] = "Failed"
        self._condition("DisruptionTarget", "True", clock, reason="DeletionByPodGC", message="PodGC: node no longer exists")
        return self._show("MODIFIED")

    def deleting(self, clock: str) -> Pod:
        """Its deletion is asked for, with time to end."""
        self.content["metadata"] |= {
            "deletionTimestamp": self.cluster.time(clock, GRACE),
            "deletionGracePeriodSeconds": GRACE,
        }
        return self._show("MODIFIED")

    def gone(self) -> Pod:
        """The object is removed."""
        self.content["metadata"]["deletionGracePeriodSeconds"] = self.content["metadata"].get("deletionGracePeriodSeconds", 0)
        return self._show("DELETED")

    def removed(self, clock: str) -> Pod:
        """It had ended, and is deleted at once."""
        self.content["metadata"] |= {"deletionTimestamp": self.cluster.time(clock), "deletionGracePeriodSeconds": 0}
        return self._show("DELETED")

    def _show(self, kind: str) -> Pod:
        self.cluster.show(kind, self.content)
        return self

    def _metadata(self, clock: str) -> dict[str, Any]:
        job = self.job["metadata"]
        queue = self.job["spec"]["queue"]
        return {
            "annotations": {
                "lahar/attempt": str(self.attempt),
                "lahar/index": str(self.index),
                "lahar/job": job["uid"],
                "lahar/task": self.task,
                "scheduling.k8s.io/group-name": f"{job['name']}-{job['uid']}",
                "volcano.sh/job-name": job["name"],
                "volcano.sh/job-version": "0",
                "volcano.sh/queue-name": queue,
                "volcano.sh/task-index": str(self.index),
                "volcano.sh/task-spec": self.task,
                "volcano.sh/template-uid": f"{job['name']}-{self.task}",
            },
            "creationTimestamp": self.cluster.time(clock),
            "labels": {
                "volcano.sh/job-name": job["name"],
                "volcano.sh/job-namespace": job["namespace"],
                "volcano.sh/queue-name": queue,
                "volcano.sh/task-index": str(self.index),
                "volcano.sh/task-spec": self.task,
            },
            "name": self.name,
            "namespace": job["namespace"],
            "ownerReferences": [
                {
                    "apiVersion": "batch.volcano.sh/v1alpha1",
                    "blockOwnerDeletion": True,
                    "controller": True,
                    "kind": "Job",
                    "name": job["name"],
                    "uid": job["uid"],
                }
            ],
            "uid": self.uid(*self.key),
        }

    def _spec(self) -> dict[str, Any]:
        task = next(one for one in self.job["spec"]["tasks"] if one["name"] == self.task)
        spec: dict[str, Any] = copy.deepcopy(task["template"]["spec"])
        volume = f"kube-api-access-{self.uid(*self.key, 'token')[:5]}"
        mount = {"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": volume, "readOnly": True}
        for container in spec["containers"]:
            container["resources"].setdefault("requests", dict(container["resources"]["limits"]))
            container |= {
                "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "volumeMounts": [mount],
            }
        tolerated = [toleration.get("key") for toleration in spec.get("tolerations", [])]
        kept = [
            {"effect": "NoExecute", "key": key, "operator": "Exists", "tolerationSeconds": 300}
            for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
            if key not in tolerated
        ]
        return {
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0,
            "schedulerName": self.job["spec"]["schedulerName"],
            "securityContext": {},
            "serviceAccount": "default",
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": GRACE,
            **spec,
            "tolerations": [*spec.get("tolerations", []), *kept],
            "volumes": [
                {
                    "name": volume,
                    "projected": {
                        "defaultMode": 420,
                        "sources": [
                            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                            {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
                        ],
                    },
                }
            ],
        }

    def _not_ready(self, clock: str, reason: str) -> None:
        for condition in ("Ready", "ContainersReady"):
            self._condition(condition, "False", clock, reason=reason)

    def _condition(self, kind: str, value: str, clock: str, **fields: str) -> None:
        conditions = self.content["status"].setdefault("conditions", [])
        made = {"lastProbeTime": None, "lastTransitionTime": self.cluster.time(clock), "status": value, "type": kind, **fields}
        for place, known in enumerate(conditions):
            if known["type"] == kind:
                conditions[place] = made
                return
        conditions.append(made)

    def _image_digest(self) -> str:
        return UUID(self.uid("image", self.container["image"])).hex * 2


class Node:
    """One node as the API server keeps it, from the file that the story applies."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        nodes = yaml.safe_load_all((cluster.folder / "nodes.yaml").read_text())
        self.content: dict[str, Any] = next(node for node in nodes if node["metadata"]["name"] == name)
        self.content["metadata"] |= {"creationTimestamp": cluster.time("06:00:00"), "uid": cluster.uid("node", name)}

    def silent(self, last: str, clock: str) -> Node:
        """Its kubelet was last heard at `last`; the node controller gives up waiting."""
        self.content["spec"] = {
            "taints": [
                {"effect": effect, "key": "node.kubernetes.io/unreachable", "timeAdded": self.cluster.time(clock)}
                for effect in ("NoSchedule", "NoExecute")
            ]
        }
        self.content["status"]["conditions"] = [
            {
                "lastHeartbeatTime": self.cluster.time(last),
                "lastTransitionTime": self.cluster.time(clock),
                "message": "Kubelet stopped posting node status.",
                "reason": "NodeStatusUnknown",
                "status": "Unknown",
                "type": kind,
            }
            for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
        ]
        self.cluster.show("MODIFIED", self.content)
        return self

    def gone(self, clock: str) -> Node:
        """Whoever runs the machines takes it away."""
        self.content["metadata"]["deletionTimestamp"] = self.cluster.time(clock)
        self.cluster.show("DELETED", self.content)
        return self


def ensemble() -> Cluster:
    """The combiner ends; two of three learners still run."""
    cluster = Cluster("ensemble", "2026-03-02")
    cluster.to("pods.jsonl")
    combiner = cluster.pod("combiner", 0)
    learners = [cluster.pod("learner", index) for index in range(3)]
    for pod in (combiner, *learners):
        pod.created("09:00:01")
    for pod, node in zip((combiner, *learners), ("cpu-1", "gpu-1", "gpu-1", "gpu-2"), strict=True):
        pod.scheduled("09:00:03", node)
    combiner.running("09:00:09")
    for pod, clock in zip(learners, ("09:00:31", "09:00:31", "09:00:34"), strict=True):
        pod.running(clock)
    learners[0].ended("10:12:05")
    combiner.ended("10:31:40")
    for pod in learners[1:]:
        pod.deleting("10:31:41")
    for pod, clock in zip(learners[1:], ("10:31:46", "10:31:49"), strict=True):
        pod.ended(clock, 143)
        pod.gone()
    return cluster


def out_of_memory() -> Cluster:
    """One worker is OOM-killed and made anew."""
    cluster = Cluster("out-of-memory", "2026-03-03")
    cluster.to("pods.jsonl")
    servers = [cluster.pod("ps", index) for index in range(2)]
    workers = [cluster.pod("worker", index) for index in range(3)]
    for pod in (*servers, *workers):
        pod.created("11:00:01")
    for pod, node in zip((*servers, *workers), ("cpu-1", "cpu-2", "gpu-1", "gpu-2", "gpu-3"), strict=True):
        pod.scheduled("11:00:02", node)
    for pod in servers:
        pod.running("11:00:10")
    for pod in workers:
        pod.running("11:00:25")
    workers[1].ended("11:52:40", 137, "OOMKilled")
    workers[1].removed("11:52:41")
    again = cluster.pod("worker", 1, attempt=2)
    again.created("11:52:42").scheduled("11:52:43", "gpu-2").running("11:52:50")
    for pod, clock in zip((workers[0], workers[2], again), ("13:20:11", "13:20:15", "13:48:02"), strict=True):
        pod.ended(clock)
    for pod in servers:
        pod.deleting("13:48:03")
    for pod in servers:
        pod.ended("13:48:05", 143)
        pod.gone()
    return cluster


def lost_node() -> Cluster:
    """A node falls silent and is taken away; the user gives up while the gang is being restarted."""
    cluster = Cluster("lost-node", "2026-03-04")
    node = Node(cluster, "gpu-3")
    workers = [cluster.pod("worker", index) for index in range(4)]
    cluster.to("pods-1.jsonl")
    for pod in workers:
        pod.created("14:00:01")
    for number, pod in enumerate(workers, 1):
        pod.scheduled("14:00:03", f"gpu-{number}")
    for pod in workers:
        pod.running("14:00:28")
    cluster.to("nodes-1.jsonl")
    node.silent("15:19:58", "15:20:40")
    cluster.to("pods-2.jsonl")
    lost = workers.pop(2)
    lost.unreachable("15:20:41")
    lost.disrupted("15:21:41", "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
    lost.deleting("15:21:41")
    cluster.to("nodes-2.jsonl")
    node.gone("15:24:00")
    cluster.to("pods-3.jsonl")
    lost.collected("15:24:40")
    lost.gone()
    for pod in workers:
        pod.deleting("15:24:41")
    cluster.to("pods-4.jsonl")
    for pod, clock in zip(workers, ("15:25:02", "15:25:04", "15:25:04"), strict=True):
        pod.ended(clock, 143)
        pod.gone()
    return cluster


def last_gpu() -> Cluster:
    """A gang waits for one GPU until a job of another queue ends."""
    cluster = Cluster("last-gpu", "2026-03-05", "embed.yaml")
    cluster.to("embed-1.jsonl")
    embed = cluster.pod("embed", 0)
    embed.created("09:00:02").scheduled("09:00:04", "gpu-1").running("09:00:20")
    cluster.of("train.yaml")
    cluster.to("train-1.jsonl")
    workers = [cluster.pod("worker", index) for index in range(3)]
    for worker in workers:
        worker.created("09:30:02")
    cluster.to("embed-2.jsonl")
    embed.ended("10:12:40")
    cluster.to("train-2.jsonl")
    for number, worker in enumerate(workers, 1):
        worker.scheduled("10:12:43", f"gpu-{number}")
    for worker in workers:
        worker.running("10:13:05")
    return cluster


def lent_queue() -> Cluster:
    """One queue uses what another does not need, until that one does."""
    cluster = Cluster("lent-queue", "2026-03-06", "sweep.yaml")
    cluster.to("sweep-1.jsonl")
    trials = [cluster.pod("trial", index) for index in range(8)]
    for trial in trials:
        trial.created("08:00:02")
    for index, trial in enumerate(trials):
        trial.scheduled("08:00:04", f"gpu-{index % 2 + 1}")
    for trial in trials:
        trial.running("08:00:15")
    cluster.of("rank.yaml")
    cluster.to("rank-1.jsonl")
    servers = [cluster.pod("server", index) for index in range(4)]
    for server in servers:
        server.created("11:00:02")
    cluster.of("sweep.yaml")
    cluster.to("sweep-2.jsonl")
    for trial in trials[::2]:
        trial.deleting("11:00:04")
    for trial in trials[::2]:
        trial.ended("11:00:09", 143)
        trial.gone()
    for index in range(0, 8, 2):
        cluster.pod("trial", index, attempt=2).created("11:00:10")
    cluster.to("rank-2.jsonl")
    for server in servers:
        server.scheduled("11:00:12", "gpu-1")
    for server in servers:
        server.running("11:00:30")
    return cluster


def short_notice() -> Cluster:
    """A privileged job needs the node, and the training on it is given notice."""
    cluster = Cluster("short-notice", "2026-03-09", "train.yaml")
    cluster.to("train-1.jsonl")
    workers = [cluster.pod("worker", index) for index in range(2)]
    for worker in workers:
        worker.created("08:00:02")
    for worker in workers:
        worker.scheduled("08:00:04", "gpu-1")
    for worker in workers:
        worker.running("08:00:20")
    cluster.of("check.yaml")
    cluster.to("check-1.jsonl")
    check = cluster.pod("check", 0).created("10:00:02")
    cluster.of("train.yaml")
    cluster.to("train-2.jsonl")
    for worker in workers:
        worker.deleting("10:02:02")
    for worker in workers:
        worker.ended("10:02:14", 143)
        worker.gone()
    cluster.to("check-2.jsonl")
    cluster.of("check.yaml")
    check.scheduled("10:02:16", "gpu-1").running("10:02:28")
    return cluster


STORIES = {
    "ensemble": ensemble,
    "out-of-memory": out_of_memory,
    "lost-node": lost_node,
    "last-gpu": last_gpu,
    "lent-queue": lent_queue,
    "short-notice": short_notice,
}


def record(story: str) -> dict[str, str]:
    """Return the streams of a story: file name → content."""
    return {name: "\n".join(lines) + "\n" for name, lines in STORIES[story]().streams.items()}


if __name__ == "__main__":
    for story in STORIES:
        for name, content in record(story).items():
            (HERE / story / name).write_text(content)
