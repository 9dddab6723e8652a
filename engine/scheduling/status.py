"""Status of queues, nodes, tenants and pod groups, read from the shard's state; shares are those of a session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import floor, isfinite
from operator import itemgetter
from typing import Any, Final, NamedTuple, get_args

from engine.events.scheduling import GroupPhase, JobExplained
from engine.events.times import Micros
from engine.scheduling.cluster.amounts import Amounts, add
from engine.scheduling.cluster.entities import EFFECTS, Job, Status
from engine.scheduling.cluster.entities import Node as ModelNode
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.session import Session
from engine.scheduling.state.shard import ClusterState, State, TrackedJob


class JobName(NamedTuple):
    """Name of a job in the job events."""

    namespace: str
    name: str
    tenant: str


Names = Mapping[str, JobName]
"""Id of a job → name."""
Whole = dict[str, int]
"""Resource → amount: memory in bytes, all others in thousandths."""

_NAMELESS: Final = JobName("", "", "")


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """Pod group of an unfinished job."""

    cluster: str
    job: str
    """Id."""
    namespace: str
    name: str
    queue: str
    phase: GroupPhase
    priority: int
    min_available: int
    tasks: dict[str, int]
    """Task → its minimum members, where stated."""
    members: dict[Status, int]
    """State → number of pods."""
    reason: JobExplained | None
    """Last published pending reason; `None`: none."""
    promised: tuple[str, ...]
    """Nodes that its pods are promised once others have left them."""
    held: bool
    """It is not scheduled now: it is parked, stopping or restarting, or pauses after a refusal."""

    @property
    def waits(self) -> bool:
        """Whether it awaits admission, or some of its pods await nodes."""
        return self.phase in {"", "Pending"} or self.members.get("Pending", 0) > 0

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        reason = self.reason
        return {
            "cluster": self.cluster,
            "job": self.job,
            "name": f"{self.namespace}/{self.name}",
            "queue": self.queue,
            "phase": self.phase,
            "priority": self.priority,
            "min_available": self.min_available,
            "min_available_of_tasks": self.tasks,
            "members": self.members,
            "promised": self.promised,
            "held": self.held,
            "reason": None if reason is None else reason.reason,
            "missing": {} if reason is None else reason.missing,
            "nodes": {} if reason is None else reason.nodes,
        }


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """Queue; its sums are over the jobs that Lahar schedules in it and in the queues below it."""

    cluster: str
    name: str
    state: str
    """`Open`, `Closing` (closed with unfinished jobs), `Closed`, or `Unknown`."""
    parent: str
    weight: int
    priority: int
    reclaimable: bool
    capability: Whole
    guarantee: Whole
    allocated: Whole
    """Resources of pods that have a node and are not releasing."""
    requested: Whole
    """`allocated`, plus the requests of pending pods."""
    plugin: str
    """Plugin of the following fields, `proportion` or `capacity`; empty: no plugin limits queues, or the queue has no jobs."""
    deserved: Whole
    limit: Whole
    """Greatest amounts that it may hold; an absent resource is not limited."""
    share: float | None
    """Share of its deserved resources that it holds, the largest over all resources."""
    overused: bool
    """It holds its deserved resources, and gets no more until others have theirs."""
    jobs: dict[str, int]
    """Phase of the pod group → number of jobs."""
    waiting: tuple[GroupStatus, ...]
    """Its own pending jobs, in order."""

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self) | {"waiting": [group.document() for group in self.waiting]}


@dataclass(frozen=True, slots=True)
class PodStatus:
    """Pod on a node."""

    job: str
    """Id."""
    namespace: str
    name: str
    """Of the job."""
    task: str
    index: int
    attempt: int
    status: Status
    ours: bool
    """Placed by Lahar."""


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A node."""

    cluster: str
    name: str
    ready: str
    """`True`, `False` or `Unknown`."""
    cordoned: bool
    taints: tuple[str, ...]
    """`KEY=VALUE:EFFECT`"""
    labels: dict[str, str]
    allocatable: Whole
    used: Whole
    idle: Whole
    """Negative: its pods take more than it has."""
    releasing: Whole
    """Resources of releasing pods."""
    pods: tuple[PodStatus, ...]

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class QuotaStatus:
    """Observed quota of a namespace."""

    namespace: str
    hard: Whole
    used: Whole


@dataclass(frozen=True, slots=True)
class TenantStatus:
    """Tenant that was applied, or that has an unfinished job."""

    cluster: str
    name: str
    weight: int
    """Weight of its share, which plugin `fairshare` compares."""
    namespaces: tuple[str, ...]
    """Its own namespaces, and those of its jobs."""
    jobs: int
    """Number of unfinished jobs."""
    waiting: int
    """Number of unfinished jobs that await the scheduler."""
    allocated: Whole
    """Resources of its pods that have a node and are not releasing, placed by any scheduler."""
    quotas: tuple[QuotaStatus, ...]
    """Quotas of its namespaces."""

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


def _whole(amounts: Mapping[str, float]) -> Whole:
    """Return amounts rounded down."""
    return {name: floor(amount) for name, amount in sorted(amounts.items()) if amount and isfinite(amount)}


# --- pod groups -----------------------------------------------------------------------------------------------------------------


def group_statuses(state: State, names: Names) -> list[GroupStatus]:
    """Return the pod groups, by cluster and in the order of their jobs' opening."""
    jobs = [job for job in state.jobs.values() if job.group is not None and not job.head.finished]
    jobs.sort(key=lambda job: (job.head.cluster, job.head.created, job.key))
    return [_group(job, names) for job in jobs]


def _group(job: TrackedJob, names: Names) -> GroupStatus:
    head, called = job.head, names.get(job.key, _NAMELESS)
    members: dict[Status, int] = {status: count for status in EFFECTS if (count := job.count(status))}
    return GroupStatus(
        head.cluster,
        job.key,
        called.namespace or head.namespace,
        called.name,
        job.queue,
        head.phase,
        job.priority,
        job.min_member,
        dict(job.role_minimum),
        members,
        head.reason,
        tuple(sorted({node for *_, node in head.promised}))
        if head.reason is None or head.reason.reason == "VictimsLeaving"
        else (),
        job.held,
    )


# --- queues ---------------------------------------------------------------------------------------------------------------------


def queue_statuses(state: State, names: Names, now: Micros) -> list[QueueStatus]:
    """Return the queues by cluster and name.

    Args:
        state: state of the shard.
        names: names of its jobs.
        now: time of the session that computes shares and orders (microseconds).

    Raises:
        PluginError: a plugin fails.
    """
    groups = {group.job: group for group in group_statuses(state, names)}
    found = []
    for _, cluster in sorted(state.clusters.items()):
        session, _ = cluster.scheduler.open(now, guarded=True)
        own: dict[str, list[Job]] = {}
        for ident in groups:
            if (job := cluster.model.jobs.get(ident)) is not None:
                own.setdefault(job.queue, []).append(job)
        for name, queue in sorted(cluster.model.queues.items()):
            jobs = sorted(own.get(name, ()), key=session.job_key)
            found.append(_queue(cluster, session, queue, [groups[job.key] for job in jobs]))
    return found


def _queue(cluster: ClusterState, session: Session, queue: Queue, groups: list[GroupStatus]) -> QueueStatus:
    share = session.share_of(queue)
    phases = [group.phase or "Pending" for group in groups]
    return QueueStatus(
        cluster.id,
        queue.name,
        "Open" if queue.open else "Closing" if queue.state == "Closed" and groups else queue.state,
        queue.parent,
        queue.weight,
        queue.priority,
        queue.reclaimable,
        _whole(queue.capability),
        _whole(queue.guarantee),
        _whole(queue.allocated),
        _whole(queue.requested),
        "" if share is None else share.plugin,
        {} if share is None else _whole(share.deserved),
        {} if share is None else {name: floor(amount) for name, amount in sorted(share.limit.items()) if isfinite(amount)},
        None if share is None else share.share,
        share is not None and session.overused(queue),
        {phase: count for phase in get_args(GroupPhase) if (count := phases.count(phase))},
        tuple(group for group in groups if group.waits),
    )


# --- nodes ----------------------------------------------------------------------------------------------------------------------


def node_statuses(state: State, names: Names) -> list[NodeStatus]:
    """Return the nodes by cluster and name."""
    return [
        _node(state, cluster, node, names)
        for _, cluster in sorted(state.clusters.items())
        for _, node in sorted(cluster.model.nodes.items())
    ]


def _node(state: State, cluster: ClusterState, node: ModelNode, names: Names) -> NodeStatus:
    model, seen = cluster.model, state.facts.nodes[cluster.id, node.name]
    model.settle()
    idle = {name: int(model.table.idle[row, node.row]) for name, row in model.table.resources.items()}
    releasing: Amounts = {}
    for task in node.tasks.values():
        if task.status == "Releasing":
            add(releasing, task.pod_class.items)
    # Resources that the node lacks, and of which nothing is taken, are omitted.
    used = {name: node.allocatable.get(name, 0) - amount for name, amount in idle.items()}
    return NodeStatus(
        cluster.id,
        node.name,
        seen.ready,
        node.unschedulable,
        tuple(f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}" for taint in node.taints),
        dict(sorted(node.labels.items())),
        _whole(node.allocatable),
        _whole(used),
        {name: floor(idle[name]) for name in sorted(idle) if node.allocatable.get(name, 0) or used[name]},
        _whole(releasing),
        tuple(_pods(cluster, node.name, names)),
    )


def _pods(cluster: ClusterState, node: str, names: Names) -> Iterator[PodStatus]:
    for pod in sorted(cluster.on_node.get(node, ()), key=lambda pod: (pod.job.key, pod.attempt.slot)):
        job = pod.job
        called = names.get(job.key, _NAMELESS)
        yield PodStatus(job.key, called.namespace, called.name, *pod.attempt.slot, pod.status, ours=job.group is not None)


# --- tenants --------------------------------------------------------------------------------------------------------------------


def tenant_statuses(state: State, names: Names) -> list[TenantStatus]:
    """Return the tenants by cluster and name."""
    jobs: dict[tuple[str, str], list[TrackedJob]] = {
        (cluster, name): [] for cluster, kind, name in state.facts.objects if kind == "Tenant"
    }
    for job in state.jobs.values():
        if tenant := names.get(job.key, _NAMELESS).tenant:
            jobs.setdefault((job.head.cluster, tenant), []).append(job)
    return [_tenant(state.cluster(cluster), name, job) for (cluster, name), job in sorted(jobs.items(), key=itemgetter(0))]


def _tenant(cluster: ClusterState, name: str, jobs: list[TrackedJob]) -> TenantStatus:
    cluster.model.settle()
    namespaces = {name, *(job.head.namespace for job in jobs)}
    allocated: Amounts = {}
    for job in jobs:
        for task in job.tasks.values():
            if task.node is not None and EFFECTS[task.status].counted:
                add(allocated, task.pod_class.items)
    return TenantStatus(
        cluster.id,
        name,
        cluster.model.namespace_weights.get(name, 1),
        tuple(sorted(namespaces)),
        sum(not job.head.finished for job in jobs),
        sum(job.key in cluster.waiting for job in jobs),
        _whole(allocated),
        tuple(_quotas(cluster, namespaces)),
    )


def _quotas(cluster: ClusterState, namespaces: Iterable[str]) -> Iterator[QuotaStatus]:
    for quota in cluster.model.quotas:
        if quota.namespace in namespaces:
            used = {name: floor(quota.used.get(name, 0)) for name in sorted(quota.hard)}
            yield QuotaStatus(quota.namespace, {name: floor(amount) for name, amount in sorted(quota.hard.items())}, used)
