"""Rows of `lahar inspect`: the pod table's verdict on each pod, the requests of each job. Keys have a fixed order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from engine.kubernetes.observation.jobs import read_job_facts
from engine.kubernetes.observation.table import exit_code, judge
from engine.kubernetes.observation.view import PodView
from engine.kubernetes.reading.accelerators import BUILT_IN, Accelerators
from engine.kubernetes.reading.documents import Document
from engine.kubernetes.reading.fields import mapping, mappings, text
from engine.kubernetes.reading.requests import effective_requests, template_requests
from statemachines.spec import Requests

_POD_KEYS: Final = (
    "phase",
    "state",
    "reason",
    "exit_code",
    "node",
    "ready",
    "restarts",
    "init_restarts",
    "deleting",
    "owners",
    "requests",
)
_JOB_KEYS: Final = ("phase", "reason", "queue", "min_available", "tasks", "total_requests")


def inspect_pod(document: Document, accelerators: Accelerators = BUILT_IN) -> dict[str, Any]:
    """Return the row of one object: its identity and, for a pod, the pod table's verdict; other fields are `None`.

    `phase` is Kubernetes' own, `state` and `reason` are the pod table's. A pod with a DELETED watch envelope counts as deleted.
    """
    row = _who(document)
    if document.kind != "Pod":
        return row | dict.fromkeys(_POD_KEYS)
    pod = PodView(document.content)
    verdict = judge(pod, deleted=document.change == "DELETED")
    code = 0 if verdict.phase == "Succeeded" else exit_code(pod) if verdict.phase == "Failed" else None
    owners = [
        f"{text(owner.get('kind')) or ''}/{text(owner.get('name')) or ''}"
        for owner in mappings(pod.metadata.get("ownerReferences"))
    ]
    return row | {
        "phase": pod.phase,
        "state": verdict.phase,
        "reason": verdict.reason,
        "exit_code": code,
        "node": pod.node,
        "ready": bool(pod.true("Ready")),
        "restarts": sum(one.restarts for one in pod.containers),
        "init_restarts": sum(one.restarts for one in pod.inits),
        "deleting": pod.deletion is not None,
        "owners": owners,
        "requests": effective_requests(pod.spec, pod.status, pod.metadata.get("annotations"), accelerators).document(),
    }


def inspect_job(document: Document, accelerators: Accelerators = BUILT_IN) -> dict[str, Any]:
    """Return the row of one object: its identity and, for a job of a supported kind, its requests and phase.

    `phase` and `reason` are Lahar's; `requests` are of one pod; any other object has `supported: false`, and other fields are
    `None`.
    """
    row = _who(document)
    facts = read_job_facts(document.content)
    if facts is None:
        return row | dict.fromkeys(_JOB_KEYS) | {"supported": False}
    asked = [template_requests(task.template, accelerators) for task in facts.tasks]
    return row | {
        "phase": facts.phase,
        "reason": facts.reason,
        "queue": facts.queue,
        "min_available": facts.min_available,
        "tasks": [
            {
                "name": task.name,
                "replicas": task.replicas,
                "min_available": task.min_available,
                "requests": requests.document(),
            }
            for task, requests in zip(facts.tasks, asked, strict=True)
        ],
        "total_requests": _total(zip((task.replicas for task in facts.tasks), asked, strict=True)).document(),
        "supported": True,
    }


def _who(document: Document) -> dict[str, Any]:
    metadata = mapping(document.content.get("metadata"))
    return {
        "kind": document.kind,
        "namespace": text(metadata.get("namespace")),
        "name": text(metadata.get("name")),
        "uid": text(metadata.get("uid")),
    }


def _total(pods: Iterable[tuple[int, Requests]]) -> Requests:
    """Return the requests of all pods, from the number of pods and the requests of each task."""
    cpu, memory, gpu, unmetered = 0, 0, 0, Counter[str]()
    for count, asked in pods:
        cpu += count * asked.cpu_milli
        memory += count * asked.memory_bytes
        gpu += count * asked.gpu_billionths
        unmetered.update({name: count * amount for name, amount in asked.unmetered.items()})
    return Requests(cpu, memory, gpu_nano=gpu, unmetered=dict(unmetered))
