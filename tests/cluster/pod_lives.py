"""What becomes of a pod: how it was drawn to fare, and its object's parts as schedulers and kubelets write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from api_server import Object, set_condition
from simulated_time import stamp

IMAGE = "registry.example/research/resnet:2.7.1"


@dataclass(frozen=True, slots=True)
class Life:
    """How one pod fares unless something else happens to it. Times in seconds."""

    scheduled_after: int = 1
    started_after: int = 2
    """From its node to its first container's start."""
    runs: int = 30
    ending: Literal["exit", "oom", "signal"] = "exit"
    code: int = 0
    """Exit code; of a signal, 128 + its number."""
    on_term: Literal["obeys", "succeeds", "ignores"] = "obeys"
    """What it does at SIGTERM: exits with 143, exits with 0, or goes on until SIGKILL at the end of its grace period."""
    term_takes: int = 1
    """From SIGTERM to its exit, where it does not ignore it."""
    grace: int = 30
    """terminationGracePeriodSeconds."""
    finalizer: bool = False
    """It carries a finalizer, which a controller removes some time after its end or the request for its deletion."""
    rejected: bool = False
    """Its node turns it away."""


def new_pod(*, name: str, namespace: str, owner: Object, annotations: dict[str, str], life: Life, tolerated: int = 60) -> Object:
    """Return the manifest of a pod.

    Args:
        name: of the pod.
        namespace: of the pod.
        owner: the job object that controls it.
        annotations: of the pod.
        life: how it will fare.
        tolerated: seconds for which it stays on a node that is unreachable.
    """
    made: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": annotations,
            "labels": {"volcano.sh/job-name": owner["metadata"]["name"]},
            "ownerReferences": [
                {
                    "apiVersion": owner["apiVersion"],
                    "kind": owner["kind"],
                    "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "containers": [{"name": "c", "image": IMAGE, "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
            "restartPolicy": "Never",
            "schedulerName": "volcano",
            "terminationGracePeriodSeconds": life.grace,
            "tolerations": [
                {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": tolerated}
                for key in ("not-ready", "unreachable")
            ],
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }
    if life.finalizer:
        made["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    return made


def bind(pod: Object, node: str, now: int) -> None:
    """Give a pod its node, as a scheduler's binding does."""
    pod["spec"]["nodeName"] = node
    set_condition(pod, "PodScheduled", "True", None, now)


def show_started_sandbox(pod: Object, now: int) -> None:
    """Show that the kubelet has taken a pod up and pulls its image."""
    pod["status"] |= {"startTime": stamp(now), "hostIP": "10.4.0.17"}
    set_condition(pod, "Initialized", "True", None, now)
    _ready(pod, "False", "ContainersNotReady", now)
    _container(pod, {"waiting": {"reason": "ContainerCreating"}}, ready=False)


def show_running(pod: Object, started: int, now: int) -> None:
    """Show that the container runs."""
    pod["status"]["phase"] = "Running"
    _ready(pod, "True", None, now)
    _container(pod, {"running": {"startedAt": stamp(started)}}, ready=True)


def show_ended(pod: Object, end: Object, now: int) -> None:
    """Show that the container has ended; see `end_of`."""
    succeeded = end["exitCode"] == 0
    pod["status"]["phase"] = "Succeeded" if succeeded else "Failed"
    _ready(pod, "False", "PodCompleted" if succeeded else None, now)
    _container(pod, {"terminated": end}, ready=False)


def end_of(started: int | None, finished: int, code: int, reason: str) -> Object:
    """Return `state.terminated` of a container.

    Args:
        started: when it started (microseconds); `None`: it never did, and its kubelet invents its end (`SetPodStatus` of a pod that
            is terminal although its container is not).
        finished: when it ended (microseconds).
        code: exit code.
        reason: Completed, Error or OOMKilled.
    """
    if started is None:
        return {
            "exitCode": 137,
            "reason": "ContainerStatusUnknown",
            "message": "The container could not be located when the pod was terminated",
            "startedAt": None,
            "finishedAt": None,
        }
    return {
        "exitCode": code,
        "reason": reason,
        "startedAt": stamp(started),
        "finishedAt": stamp(finished),
        "containerID": "containerd://1",
    }


def reject(pod: Object, reason: str, message: str) -> None:
    """End a pod by its status alone: its kubelet turns it away, or evicts it."""
    pod["status"] |= {"phase": "Failed", "reason": reason, "message": message}


def _ready(pod: Object, status: str, reason: str | None, now: int) -> None:
    set_condition(pod, "Ready", status, reason, now)
    set_condition(pod, "ContainersReady", status, reason, now)


def _container(pod: Object, state: Object, *, ready: bool) -> None:
    pod["status"]["containerStatuses"] = [
        {"name": "c", "image": IMAGE, "ready": ready, "restartCount": 0, "started": ready, "state": state, "lastState": {}}
    ]
