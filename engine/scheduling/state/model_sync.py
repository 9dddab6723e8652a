"""Sync of the model with job records, attempts and cluster facts; nothing else creates its tasks, jobs and nodes."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Final

from engine.events.attempts import AttemptStarted
from engine.events.pod_shape import HostPort, PodShape, pairs
from engine.kubernetes.observation.cluster_facts import Thing
from engine.scheduling.cluster.amounts import CPU, MEMORY, PODS, Amounts, bounded
from engine.scheduling.cluster.entities import ONE_POD, KeptPlace
from engine.scheduling.cluster.job_records import Attempt, Group, JobRecord, Slot
from engine.scheduling.cluster.notices import Preemption
from engine.scheduling.cluster.objects import (
    GPU,
    Priorities,
    budgets_of,
    micros,
    node_of,
    queue_of,
    quotas_of,
    tenants_of,
    weights_of,
)
from engine.scheduling.cluster.sub_groups import SubGroupPolicy, SubGroups
from engine.scheduling.state.record_names import head_record, page_record
from engine.scheduling.state.shard import ClusterState, Pod, State, TrackedJob
from statemachines.podgroup import GroupTask, PodGroupSpec, min_resources, podgroup_spec

_TASK_PRIORITY: Final = "volcano.sh/task-priority"
_LONGEST_PORT: Final = 100
RESOURCE_NAME_BYTES: Final = 317
"""Longest resource name in Kubernetes. Longer ones of other schedulers' pods are not counted: a record holds the requests of 64
pods, with `RESOURCES` names each."""


def touch(state: State, job: TrackedJob) -> None:
    """Mark the record of a job as changed."""
    state.touched[head_record(job.key)] = None


def touch_pod(state: State, pod: Pod) -> None:
    """Mark the record of a pod as changed, and sync the pod with it."""
    state.touched[page_record(pod.job.key, pod.attempt.place)] = None
    sync_pod(state, pod)


# --- jobs -----------------------------------------------------------------------------------------------------------------------


def track_job(state: State, key: str, head: JobRecord, group: Group | None = None) -> TrackedJob:
    """Add a job; one without a group, which another scheduler handles, is not among the model's jobs."""
    if group is None:
        job = TrackedJob(key, head.namespace, "", phase="Running", held=True, head=head)
        state.enter(job)
        return job
    gangs = _sub_groups(podgroup_spec(group.spec))
    job = TrackedJob(key, head.namespace, group.spec.queue, created=head.created, sub_groups=gangs, head=head, group=group)
    state.enter(job)
    cluster = state.cluster(head.cluster)
    _ask(cluster, job, group)
    cluster.model.add_job(job)
    cluster.jobs += 1
    sync_job(state, job)
    return job


def sync_job(state: State, job: TrackedJob) -> None:
    """Update a job, except its pods, from its record; no-op for a job that another scheduler handles."""
    group, head = job.group, job.head
    if group is None:
        return
    cluster = state.cluster(head.cluster)
    preemption = _preemption(head, group)
    claims = {task_key(job, claim.slot): KeptPlace(claim.node, claim.until, claim.own) for claim in head.claims}
    stands = head.is_held(), head.preemption_backoff > 0, head.phase, preemption, claims
    if (job.held, job.backing_off, job.phase, job.preemption, job.claims) != stands:
        job.held, job.backing_off, job.phase, job.preemption, job.claims = stands
        cluster.model.note(job)
    note_waiting(cluster, job)
    cluster.pause(job.key, min(filter(None, (head.retry, head.preemption_backoff)), default=0))


def _preemption(head: JobRecord, group: Group) -> Preemption:
    least = group.spec.min_run_seconds
    privileged = group.spec.preempt and not head.declined
    least_run = None if least is None else micros(least)
    left = head.left_notice or (bool(head.notice) and head.parked)
    return Preemption(head.tenant, privileged, head.job_phase, head.runs_since, least_run, left=left)


def sync_spec(state: State, job: TrackedJob) -> None:
    """Update the minimum resources and priorities of a job and its tasks from its specification."""
    if job.group is not None:
        cluster = state.cluster(job.head.cluster)
        _ask(cluster, job, job.group)
        for task in job.tasks.values():
            task.priority = _priority(cluster.priorities, job.group, task.pod_class.shape, task.pod_class.annotations)
        cluster.model.note(job)


def _ask(cluster: ClusterState, job: TrackedJob, group: Group) -> None:
    spec, priorities = group.spec, cluster.priorities
    made = podgroup_spec(spec)
    job.min_member, job.role_minimum = made.min_member, made.min_task_member
    job.priority = priorities.value(spec.priority_class) or 0
    job.annotations, job.labels = group.annotations, group.labels
    tasks = [
        GroupTask(
            task.replicas,
            {name: Fraction(amount) for name, amount in shape.requests},
            _class_value(priorities, group, shape) or 0,
            task.min_available,
        )
        for task in spec.tasks
        if (shape := group.shapes.get(task.name)) is not None
    ]
    job.min_resources = _amounts(min_resources(tasks, spec.min_available))


def _sub_groups(made: PodGroupSpec) -> SubGroups | None:
    """Return the sub-groups of a job, which never change."""
    policies = [SubGroupPolicy(one.name, one.size, one.min_sub_groups, partition=one.size) for one in made.sub_groups]
    return SubGroups(policies) if policies else None


def _amounts(resources: dict[str, Fraction]) -> Amounts:
    """Return minimum resources without the duplicates under the names of quotas."""
    return {
        name: int(amount * ONE_POD if name == PODS else amount)
        for name, amount in resources.items()
        if not name.startswith(("requests.", "count/"))
    }


def _class_value(priorities: Priorities, group: Group, shape: PodShape) -> int | None:
    return shape.priority if shape.priority is not None else priorities.value(shape.priority_class or group.spec.priority_class)


def note_waiting(cluster: ClusterState, job: TrackedJob) -> None:
    """Record whether a job has pending decisions."""
    if not job.held and (job.phase in {"", "Pending"} or job.with_status("Pending")):
        cluster.waiting[job.key] = None
    else:
        cluster.waiting.pop(job.key, None)


def forget_job(state: State, job: TrackedJob) -> None:
    """Remove a job and its pods."""
    cluster = state.cluster(job.head.cluster)
    for pod in job.pods.values():
        remove_pod(state, pod)
    if job.group is not None:
        cluster.model.remove_job(job.key)
        cluster.jobs -= 1
    else:
        cluster.model.forget_namespace(job.namespace)
    cluster.pause(job.key, 0)
    for table in (cluster.waiting, cluster.explained):
        table.pop(job.key, None)
    state.leave(job)


# --- pods -----------------------------------------------------------------------------------------------------------------------


def shape_of(data: AttemptStarted) -> PodShape:
    """Return the shape of a pod that another scheduler places: its requests and host ports."""
    requests = {CPU: data.requests.cpu_milli, MEMORY: data.requests.memory_bytes, GPU: data.requests.gpu * 1000, **data.resources}
    taken = {name: bounded(amount) for name, amount in requests.items() if amount and len(name.encode()) <= RESOURCE_NAME_BYTES}
    ports = tuple(port for text in data.host_ports if (port := _port(text)) is not None)
    return PodShape(pairs(taken), host_ports=ports)


def _port(text: str) -> HostPort | None:
    number, _, rest = text[:_LONGEST_PORT].partition("/")
    protocol, _, address = rest.partition("/")
    if not (text.isascii() and number.isdecimal()):
        return None
    return HostPort(int(number), protocol or "TCP", address) if address else HostPort(int(number), protocol or "TCP")


def track_pod(state: State, job: TrackedJob, attempt: Attempt) -> Pod:
    """Add a pod to its job; `sync_pod` adds it to the model."""
    group, cluster = job.group, state.cluster(job.head.cluster)
    shape = None if group is None else group.shapes.get(attempt.task)
    pod_class = cluster.model.class_of(shape or attempt.shape or PodShape())
    pod = Pod(task_key(job, attempt.slot), job, pod_class, attempt.task, attempt.index, attempt.created, attempt=attempt)
    if group is not None:
        pod.priority = _priority(cluster.priorities, group, pod_class.shape, pod_class.annotations)
    job.enter(pod)
    return pod


def sync_pod(state: State, pod: Pod) -> None:
    """Update the status and the node of a pod from its record."""
    job, attempt = pod.job, pod.attempt
    cluster = state.cluster(job.head.cluster)
    status, name = attempt.stands()
    _list(cluster, pod, name if attempt.live else "")
    if pod.key not in job.tasks:
        cluster.model.add_task(pod, status, name)
    elif (pod.status, pod.node) != (status, node := cluster.model.nodes.get(name)):
        cluster.model.move(pod, status, node)
    pod.bound, pod.running = attempt.bound, attempt.running
    note_waiting(cluster, job)


def task_key(job: TrackedJob, slot: Slot) -> str:
    """Return the key of a pod in the model."""
    task, index, number = slot
    return f"{job.key}/{task}/{index}/{number}"


def _priority(priorities: Priorities, group: Group, shape: PodShape, annotations: dict[str, str]) -> int:
    """Return the priority of a task: of its annotation, else of its class, else 1 (Volcano)."""
    try:
        return int(annotations[_TASK_PRIORITY])
    except (KeyError, ValueError):
        pass
    value = _class_value(priorities, group, shape)
    return 1 if value is None else value


def remove_pod(state: State, pod: Pod) -> None:
    """Remove a pod from the model."""
    cluster = state.cluster(pod.job.head.cluster)
    _list(cluster, pod, "")
    cluster.model.remove_task(pod)
    note_waiting(cluster, pod.job)


def _list(cluster: ClusterState, pod: Pod, node: str) -> None:
    """List a pod under the name of its node; empty: none."""
    before = pod.listed
    if before == node:
        return
    if before:
        del cluster.on_node[before][pod]
        if not cluster.on_node[before]:
            del cluster.on_node[before]
    if node:
        cluster.on_node.setdefault(node, {})[pod] = None
    pod.listed = node


# --- facts ----------------------------------------------------------------------------------------------------------------------


def sync_fact(state: State, cluster: ClusterState, thing: Thing) -> bool:
    """Update the model from the facts about an object; return whether that affects scheduling."""
    _, kind, name = thing
    (cluster.things.add if state.facts.is_there(thing) else cluster.things.discard)(thing)
    match kind:
        case "Node":
            return _update_node(state, cluster, name)
        case "Queue":
            _set_queue(state, cluster, name)
        case "ResourceQuota" | "Tenant" | "PodDisruptionBudget":
            cluster.model.outdated = partial(_read_limits, state, cluster)
        case "PriorityClass":
            _update_priorities(state, cluster)
        case _:
            return False
    cluster.model.revision += 1
    return True


def _read_limits(state: State, cluster: ClusterState) -> None:
    """Read all quotas, weights, budgets and tenants: once per round, since quotas change with every pod."""
    model = cluster.model
    model.quotas = quotas_of(state.facts, cluster.id)
    model.namespace_weights = weights_of(state.facts, cluster.id)
    model.budgets = budgets_of(state.facts, cluster.id)
    model.tenants = tenants_of(state.facts, cluster.id)


def _set_queue(state: State, cluster: ClusterState, name: str) -> None:
    queue = queue_of(name, state.facts.objects.get((cluster.id, "Queue", name)))
    if queue is not None:
        cluster.model.set_queue(queue)
    else:
        cluster.model.remove_queue(name)


def _update_node(state: State, cluster: ClusterState, name: str) -> bool:
    seen, model = state.facts.nodes.get((cluster.id, name)), cluster.model
    known = model.nodes.get(name)
    if seen is None:
        if known is None:
            return False
        model.nodes.pop(name)
        _sync_pods(state, cluster, name)
        model.nodes[name] = known
        model.remove_node(name)
        return True
    node = node_of(seen)
    if known is not None and (known.allocatable, known.labels, known.taints, known.unschedulable) == (
        node.allocatable,
        node.labels,
        node.taints,
        node.unschedulable,
    ):
        return False
    model.set_node(node)
    if known is None:
        _sync_pods(state, cluster, name)
    return True


def _sync_pods(state: State, cluster: ClusterState, node: str) -> None:
    for pod in list(cluster.on_node.get(node, ())):
        sync_pod(state, pod)


def _update_priorities(state: State, cluster: ClusterState) -> None:
    """Recompute the priorities of all jobs and tasks; priority classes change rarely."""
    cluster.priorities = Priorities(state.facts, cluster.id)
    for job in state.jobs.values():
        if job.head.cluster == cluster.id:
            sync_spec(state, job)
