"""Projection of a pod object to an input."""

from __future__ import annotations

from typing import Final

from engine.events.inputs import POD, PodDeleted, PodObserved
from engine.events.pod_shape import PREEMPTABLE, HostPort
from engine.kubernetes.errors import ProjectionError
from engine.kubernetes.observation.messages import pod_message
from engine.kubernetes.observation.pod_timestamps import pod_moments
from engine.kubernetes.observation.table import Verdict, exit_code, judge
from engine.kubernetes.observation.view import PodView
from engine.kubernetes.reading.accelerators import BUILT_IN, Accelerators
from engine.kubernetes.reading.fields import last_write, mapping, text, whole
from engine.kubernetes.reading.identity import (
    SERVICE_KINDS,
    controller,
    job_kind,
    owner_above,
    people,
    pod_job_kind,
    queue_of,
    slot_of,
)
from engine.kubernetes.reading.owner_labels import join_of, label
from engine.kubernetes.reading.pod_shape import host_ports
from engine.kubernetes.reading.requests import observed_requests
from statemachines.vocabulary import TERMINAL_ATTEMPT_PHASES, Rank

_BY_CONTROL_PLANE: Final = "NodeLost"
"""Reason of ends that the control plane reports for a kubelet that stopped reporting."""


def observe_pod(pod: object, accelerators: Accelerators = BUILT_IN) -> PodObserved:
    """Project a pod object.

    Args:
        pod: the object as decoded JSON. Unreadable parts count as absent.
        accelerators: table of the resources that are GPUs.

    Raises:
        ProjectionError: it is not a mapping, lacks `metadata.uid` or `metadata.name`, or has no time.
    """
    view = _view(pod)
    return _project(view, judge(view), accelerators)


def delete_pod(pod: object, accelerators: Accelerators = BUILT_IN, *, inferred: bool = False) -> PodDeleted:
    """Project the last known state of a deleted pod.

    Args:
        pod: the object as decoded JSON.
        accelerators: as in `observe_pod`.
        inferred: the deletion was not observed; a full list lacks the pod.

    Raises:
        ProjectionError: as in `observe_pod`.
    """
    view = _view(pod)
    last = _project(view, judge(view, deleted=True, inferred=inferred), accelerators, inferred=inferred)
    return PodDeleted(last, inferred=inferred)


def _view(pod: object) -> PodView:
    if not isinstance(pod, dict):
        raise ProjectionError("", f"a pod is a mapping, not a {type(pod).__name__}")
    return PodView(pod)


def _project(view: PodView, verdict: Verdict, accelerators: Accelerators, *, inferred: bool = False) -> PodObserved:
    metadata = view.metadata
    uid, name = text(metadata.get("uid")), text(metadata.get("name"))
    if uid is None:
        raise ProjectionError("metadata.uid", "missing: only an API server sets it, so this is not an observed pod")
    if name is None:
        raise ProjectionError("metadata.name", "missing")
    annotations, labels = mapping(metadata.get("annotations")), mapping(metadata.get("labels"))
    claimed = text(annotations.get("lahar/job"))
    owner = controller(metadata)
    owner_kind, api_version = text(owner.get("kind")), owner.get("apiVersion")
    if owner_kind == "ConfigMap" and text(annotations.get("FC_FRAMEWORK_NAME") or labels.get("FC_FRAMEWORK_NAME")):
        owner_kind = "Framework"  # FrameworkController puts a ConfigMap between a Framework and its pods
    owner_uid, owner_name = text(owner.get("uid")), text(owner.get("name"))
    kind = job_kind(owner_kind, api_version) if owner_uid else None
    through = direct = None
    join = join_of(kind, annotations, labels) if claimed is None else None
    if join is not None:
        kind, through, direct = join.kind, owner_name, owner_uid
        owner_uid, owner_name = label(join.uid, annotations, labels), label(join.name, annotations, labels)
    elif kind == POD and (above := owner_above(metadata)):
        kind, through, direct = job_kind(text(above.get("kind")), above.get("apiVersion")), owner_name, owner_uid
        owner_uid, owner_name = text(above.get("uid")), text(above.get("name"))
    task, index = slot_of(name, annotations, labels, join)
    tenant, project, user = people(labels)
    phase = verdict.phase
    times = pod_moments(view, phase)
    code = 0 if phase == "Succeeded" else exit_code(view) if phase == "Failed" else None
    containers = view.containers
    requests, resources = observed_requests(view.spec, view.status, annotations, accelerators)
    return PodObserved(
        uid=uid,
        job=owner_uid or claimed or uid,
        name=name,
        phase=phase,
        created=times.created,
        namespace=text(metadata.get("namespace")) or "default",
        version=text(metadata.get("resourceVersion")),
        kind=pod_job_kind(kind, view.spec),
        owner=owner_name if owner_uid else None,
        through=through,
        controller=direct,
        service=kind if kind in SERVICE_KINDS else None,
        managed=claimed is not None and owner_uid in {None, claimed},
        claimed=claimed if owner_uid not in {None, claimed} else None,
        task=task,
        index=index,
        attempt=whole(annotations.get("lahar/attempt")),
        job_version=whole(annotations.get("volcano.sh/job-version")) or 0,
        reason=verdict.reason,
        message=pod_message(view, phase),
        exit_code=code,
        first_exit_code=(containers[0].exit_code or 0) if containers else 0,
        node=view.node,
        ready=bool(view.true("Ready")),
        restarts=sum([one.restarts for one in containers]),
        init_restarts=sum([one.restarts for one in view.inits]),
        requests=requests,
        bound=times.bound,
        running=times.running,
        terminating=times.terminating,
        deleting=view.deletion is not None,
        deadline=view.deletion,
        ended=times.ended,
        proof=times.proof,
        rank=_rank(verdict, ended=times.ended is not None, inferred=inferred),
        disruption=view.disruption,
        queue=queue_of(annotations, labels),
        tenant=tenant,
        project=project,
        user=user,
        resources=resources,
        host_ports=[_port(port) for port in host_ports(view.spec)],
        priority_class=text(view.spec.get("priorityClassName")),
        preemptible=labels.get(PREEMPTABLE) == "true",
        restarted=_restarted(view),
        written=last_write(metadata),
    )


def _restarted(view: PodView) -> int | None:
    """Return the latest start or end of a restarted container; `None` if none has restarted, or there is no time."""
    restarted = (one for one in (*view.containers, *view.inits) if one.restarts)
    times = (time for one in restarted for time in (one.started, one.finished, one.last_started, one.last_finished))
    return max((time for time in times if time is not None), default=None)


def _port(port: HostPort) -> str:
    on_every_address = port == HostPort(port.port, port.protocol)
    return f"{port.port}/{port.protocol}" + ("" if on_every_address else f"/{port.ip}")


def _rank(verdict: Verdict, *, ended: bool, inferred: bool) -> Rank:
    """Return the source of the evidence for the end of an ended pod."""
    if ended or verdict.phase not in TERMINAL_ATTEMPT_PHASES:
        return "node"
    if verdict.row == 15:
        return "inferred" if inferred else "watcher"
    return "inferred" if verdict.reason == _BY_CONTROL_PLANE else "node"
