"""A whole pod object as an API server sends it, for measuring the edge: about 3.4 KB, running, one GPU."""

from __future__ import annotations

from typing import Any


def full_pod(number: int) -> dict[str, Any]:
    """Return the `number`-th pod; only its identity differs from that of the others."""
    uid = f"{number:08x}-1111-4000-8000-{number:012x}"
    job = f"{number // 4:08x}-2222-4000-8000-{number // 4:012x}"
    name = f"resnet-{number // 4}-worker-{number % 4}"
    resources = {
        "limits": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"},
        "requests": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"},
    }
    token = {"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "kube-api-access", "readOnly": True}
    started, ready = "2026-03-02T09:00:07Z", "2026-03-02T09:00:09Z"
    conditions = [
        {"lastProbeTime": None, "lastTransitionTime": at, "observedGeneration": 1, "status": "True", "type": kind}
        for kind, at in (
            ("PodReadyToStartContainers", started),
            ("Initialized", "2026-03-02T09:00:02Z"),
            ("Ready", ready),
            ("ContainersReady", ready),
            ("PodScheduled", "2026-03-02T09:00:01Z"),
        )
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "annotations": {
                "batch.kubernetes.io/job-completion-index": str(number % 4),
                "kubernetes.io/limit-ranger": "LimitRanger plugin set: ephemeral-storage request for container trainer",
            },
            "creationTimestamp": "2026-03-02T09:00:00Z",
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "generateName": f"resnet-{number // 4}-worker-",
            "generation": 1,
            "labels": {
                "batch.kubernetes.io/controller-uid": job,
                "batch.kubernetes.io/job-completion-index": str(number % 4),
                "batch.kubernetes.io/job-name": f"resnet-{number // 4}",
                "lahar/project": "vision",
                "lahar/user": "ada",
            },
            "name": name,
            "namespace": "research",
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "blockOwnerDeletion": True,
                    "controller": True,
                    "kind": "Job",
                    "name": f"resnet-{number // 4}",
                    "uid": job,
                }
            ],
            "resourceVersion": str(80_000_000 + number),
            "uid": uid,
        },
        "spec": {
            "containers": [
                {
                    "args": ["--epochs=90", "--batch-size=256", "--data=/data/imagenet"],
                    "command": ["torchrun", "--nproc-per-node=1", "train.py"],
                    "env": [
                        {"name": "NCCL_DEBUG", "value": "WARN"},
                        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
                    ],
                    "image": "registry.example/research/resnet:2.7.1",
                    "imagePullPolicy": "IfNotPresent",
                    "name": "trainer",
                    "resources": resources,
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "volumeMounts": [{"mountPath": "/data", "name": "data"}, token],
                }
            ],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": True,
            "nodeName": f"gpu-{number % 500:03d}",
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0,
            "restartPolicy": "Never",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "serviceAccount": "default",
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {"effect": "NoExecute", "key": f"node.kubernetes.io/{key}", "operator": "Exists", "tolerationSeconds": 300}
                for key in ("not-ready", "unreachable")
            ],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "imagenet", "readOnly": True}},
                {
                    "name": "kube-api-access",
                    "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"path": "token"}}]},
                },
            ],
        },
        "status": {
            "conditions": conditions,
            "containerStatuses": [
                {
                    "allocatedResources": resources["requests"],
                    "containerID": f"containerd://{number:064x}",
                    "image": "registry.example/research/resnet:2.7.1",
                    "imageID": f"registry.example/research/resnet@sha256:{'7a' * 32}",
                    "lastState": {},
                    "name": "trainer",
                    "ready": True,
                    "resources": resources,
                    "restartCount": 0,
                    "started": True,
                    "state": {"running": {"startedAt": started}},
                }
            ],
            "hostIP": "10.4.0.17",
            "hostIPs": [{"ip": "10.4.0.17"}],
            "phase": "Running",
            "podIP": "10.244.3.9",
            "podIPs": [{"ip": "10.244.3.9"}],
            "qosClass": "Guaranteed",
            "startTime": "2026-03-02T09:00:01Z",
        },
    }
