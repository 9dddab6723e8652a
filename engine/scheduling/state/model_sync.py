"""Sync of the model with job records, attempts and cluster facts; nothing else creates its tasks, jobs and nodes."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import partial
from typing import Final

from engine.events.attempts import AttemptStarted
from engine.events.pod_shape import HostPort, PodShape, pairs
from engine.kubernetes.observation.cluster_facts import Thing
from engine.scheduling.cluster.amounts import CPU, MEMORY, PODS, Amounts, bounded
from engine.scheduling.cluster.entities import ONE_POD, Job, KeptPlace, Task
from engine.scheduling.cluster.job_records import Attempt, Group, JobRecord, Slot
from engine.scheduling.cluster.model import Cluster
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
from engine.scheduling.state.shard import ClusterState, State, TrackedJob
from statemachines.podgroup import GroupTask, PodGroupSpec, min_resources, podgroup_spec

_TASK_PRIORITY: Final = "volcano.sh/task-priority"
_LONGEST_PORT: Final = 100
RESOURCE_NAME_BYTES: Final = 317
"""Longest resource name in Kubernetes. Longer ones of other schedulers' pods are not counted: a record holds the requests of 64
pods, with `RESOURCES` names each."""


def touch(state: State, known: TrackedJob) -> None:
    """Mark the record of a job as changed."""
    state.touched[head_record(known.id)] = None


def touch_attempt(state: State, known: TrackedJob, attempt: Attempt) -> None:
    """Mark the record of an attempt as changed, and sync its task."""
    state.touched[page_record(known.id, attempt.place)] = None
    sync_attempt(state, known, attempt)


# --- jobs -----------------------------------------------------------------------------------------------------------------------


def sync_job(state: State, known: TrackedJob) -> None:
    """Update the model's job, except its tasks, from the job record; no-op for a job that another scheduler handles."""
    group, head = known.group, known.head
    if group is None:
        return
    cluster = state.cluster(head.cluster)
    if known.model is None:
        known.model = Job(
            known.id, head.namespace, group.spec.queue, created=head.created, sub_groups=_sub_groups(podgroup_spec(group.spec))
        )
        _ask(state, head.cluster, known.model, group)
        cluster.model.add_job(known.model)
        cluster.jobs += 1
    model = known.model
    preemption = _preemption(head, group)
    claims = {task_key(known, claim.slot): KeptPlace(claim.node, claim.until, claim.own) for claim in head.claims}
    stands = head.is_held(), head.preemption_backoff > 0, head.phase, preemption, claims
    if (model.held, model.backing_off, model.phase, model.preemption, model.claims) != stands:
        model.held, model.backing_off, model.phase, model.preemption, model.claims = stands
        cluster.model.note(model)
    note_waiting(cluster, known)
    cluster.pause(known.id, min(filter(None, (head.retry, head.preemption_backoff)), default=0))


def _preemption(head: JobRecord, group: Group) -> Preemption:
    least = group.spec.min_run_seconds
    privileged = group.spec.preempt and not head.declined
    least_run = None if least is None else micros(least)
    left = head.left_notice or (bool(head.notice) and head.parked)
    return Preemption(head.tenant, privileged, head.job_phase, head.runs_since, least_run, left=left)


def sync_spec(state: State, known: TrackedJob) -> None:
    """Update the minimum resources and priorities of a job and its tasks from its specification."""
    if known.group is not None and known.model is not None:
        _ask(state, known.head.cluster, known.model, known.group)
        cluster = state.cluster(known.head.cluster)
        for task in known.tasks.values():
            task.priority = _priority(cluster.priorities, known.group, task.pod_class.shape, task.pod_class.annotations)
        cluster.model.note(known.model)


def _ask(state: State, cluster: str, job: Job, group: Group) -> None:
    spec, priorities = group.spec, state.cluster(cluster).priorities
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


def note_waiting(cluster: ClusterState, known: TrackedJob) -> None:
    """Record whether a job has pending decisions."""
    model = known.model
    if model is not None and not model.held and (model.phase in {"", "Pending"} or model.with_status("Pending")):
        cluster.waiting[known.id] = None
    else:
        cluster.waiting.pop(known.id, None)


def forget_job(state: State, known: TrackedJob) -> None:
    """Remove a job and its attempts from the model."""
    cluster = state.cluster(known.head.cluster)
    for attempt in list(known.attempts.values()):
        remove_attempt(state, known, attempt)
    if known.model is not None:
        cluster.model.remove_job(known.id)
        known.model = None
        cluster.jobs -= 1
    cluster.pause(known.id, 0)
    for table in (cluster.waiting, cluster.explained):
        table.pop(known.id, None)


# --- attempts -------------------------------------------------------------------------------------------------------------------


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


def sync_attempt(state: State, known: TrackedJob, attempt: Attempt) -> None:
    """Update the task of an attempt: its status and its node."""
    cluster = state.cluster(known.head.cluster)
    status, name = attempt.stands()
    _index(cluster, known, attempt, name if attempt.live else "")
    task = known.tasks.get(attempt.slot)
    if known.group is None and not (attempt.live and name):
        if task is not None:
            _remove_task(cluster, known, attempt, task)
        return
    node = cluster.model.nodes.get(name)
    if task is None:
        task = known.tasks[attempt.slot] = _task(state, cluster.model, known, attempt)
        cluster.model.add_task(task, status, name)
    elif (task.status, task.node) != (status, node):
        cluster.model.move(task, status, node)
    task.bound, task.running = attempt.bound, attempt.running
    if known.group is not None:
        note_waiting(cluster, known)


def task_key(known: TrackedJob, slot: Slot) -> str:
    """Return the key of an attempt's task in the model."""
    task, index, number = slot
    return f"{known.id}/{task}/{index}/{number}"


def _task(state: State, model: Cluster, known: TrackedJob, attempt: Attempt) -> Task:
    group, key = known.group, task_key(known, attempt.slot)
    if group is None or known.model is None:
        shape = attempt.shape or PodShape()
        others = _others(state.cluster(known.head.cluster), known.head.namespace)
        return Task(key, others, model.class_of(shape), attempt.task, attempt.index, attempt.created)
    pod_class = model.class_of(group.shapes.get(attempt.task) or attempt.shape or PodShape())
    priority = _priority(state.cluster(known.head.cluster).priorities, group, pod_class.shape, pod_class.annotations)
    return Task(key, known.model, pod_class, attempt.task, attempt.index, attempt.created, priority)


def _priority(priorities: Priorities, group: Group, shape: PodShape, annotations: dict[str, str]) -> int:
    """Return the priority of a task: of its annotation, else of its class, else 1 (Volcano)."""
    try:
        return int(annotations[_TASK_PRIORITY])
    except (KeyError, ValueError):
        pass
    value = _class_value(priorities, group, shape)
    return 1 if value is None else value


def _others(cluster: ClusterState, namespace: str) -> Job:
    """Return the job with all pods of a namespace that other schedulers place: they only hold resources.

    It is not among the model's jobs, whose ids clients choose.
    """
    found = cluster.others.get(namespace)
    if found is None:
        found = cluster.others[namespace] = Job(f"namespace {namespace}", namespace, "", phase="Running", held=True)
    return found


def remove_attempt(state: State, known: TrackedJob, attempt: Attempt) -> None:
    """Remove an attempt from the model."""
    cluster = state.cluster(known.head.cluster)
    _index(cluster, known, attempt, "")
    task = known.tasks.get(attempt.slot)
    if task is not None:
        _remove_task(cluster, known, attempt, task)
    if known.group is not None:
        note_waiting(cluster, known)


def _remove_task(cluster: ClusterState, known: TrackedJob, attempt: Attempt, task: Task) -> None:
    cluster.model.remove_task(task)
    del known.tasks[attempt.slot]
    if known.group is None and not task.job.tasks:
        cluster.others.pop(known.head.namespace, None)
        cluster.model.forget_namespace(known.head.namespace)


def _index(cluster: ClusterState, known: TrackedJob, attempt: Attempt, name: str) -> None:
    before, key = known.where.get(attempt.slot, ""), (known.id, attempt.slot)
    if before == name:
        return
    if before:
        del known.where[attempt.slot]
        cluster.on_node[before].pop(key)
        if not cluster.on_node[before]:
            del cluster.on_node[before]
    if name:
        known.where[attempt.slot] = name
        cluster.on_node.setdefault(name, {})[key] = None


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
        _sync_attempts(state, cluster.on_node.get(name, ()))
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
        _sync_attempts(state, cluster.on_node.get(name, ()))
    return True


def _sync_attempts(state: State, keys: Iterable[tuple[str, tuple[str, int, int]]]) -> None:
    for ident, slot in list(keys):
        known = state.jobs[ident]
        sync_attempt(state, known, known.attempts[slot])


def _update_priorities(state: State, cluster: ClusterState) -> None:
    """Recompute the priorities of all jobs and tasks; priority classes change rarely."""
    cluster.priorities = Priorities(state.facts, cluster.id)
    for known in state.jobs.values():
        if known.head.cluster == cluster.id:
            sync_spec(state, known)
