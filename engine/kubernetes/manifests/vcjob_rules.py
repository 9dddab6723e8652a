"""Rules for a vcjob on creation (Volcano: its validating webhook, and its CRD).

Volcano validates in two places: `create_faults` is the webhook, which the conformance cases test; `schema_faults` is the CRD's
schema and the admission policy, which apply before the webhook.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from engine.events.outcomes import Fault
from engine.kubernetes.errors import DurationError
from engine.kubernetes.manifests.checks import at_least, one_of
from engine.kubernetes.manifests.dependencies import order_of
from engine.kubernetes.manifests.job_shapes import LifecyclePolicy, NetworkTopology, Task, VolcanoJob, VolcanoJobSpec, VolumeSpec
from engine.kubernetes.manifests.names import label_fault, qualified_name_fault, subdomain_fault
from engine.kubernetes.manifests.pod_resources import readable_quantity
from engine.kubernetes.manifests.pod_shapes import PodSpec, PodTemplate, Resources
from engine.kubernetes.manifests.pod_template import template_faults
from engine.kubernetes.manifests.policy_rules import policy_faults
from engine.kubernetes.reading.durations import parse_duration
from engine.kubernetes.reading.shapes import Metadata, child
from statemachines.names import hint
from statemachines.vocabulary import USER_ACTIONS

JOB_PLUGINS: Final = frozenset({"env", "svc", "ssh", "tensorflow", "pytorch", "mpi", "ray", "hcclrank"})
"""Job plugins of Volcano."""

Queues = list[dict[str, Any]]


def create_faults(job: VolcanoJob, queues: Queues, *, declared: Collection[str] = (), pod_level: bool = True) -> Iterator[Fault]:
    """Validate a new job, like Volcano's webhook.

    Args:
        job: shape of the job, with or without defaults; none are filled in here.
        queues: existing queues: `name`, `parent`, `state` of each.
        declared: custom events that policies may name.
        pod_level: true if the cluster supports resources of whole pods.
    """
    spec, metadata = job.spec or VolcanoJobSpec(), job.metadata or Metadata()
    tasks = spec.tasks or []
    if not tasks:
        yield Fault("spec.tasks", "No task specified in job spec")
        return
    if "mpi" in (spec.plugins or {}):
        master = _mpi_master((spec.plugins or {})["mpi"] or [])
        if master not in {task.name for task in tasks}:
            yield Fault("spec.plugins.mpi", f"The specified mpi master task was not found: no task is called {master}")
            return
    yield from _topology_choice_faults(spec.network_topology, "spec.networkTopology")
    if not metadata.namespace:
        yield Fault("metadata.namespace", "is required")
    seen: set[str | None] = set()
    for index, task in enumerate(tasks):
        path = child("spec", "tasks", index)
        yield from size_faults(task, path)
        if task.name in seen:
            yield Fault(child(path, "name"), f"duplicated task name {task.name}")
            break
        seen.add(task.name)
        yield from policy_faults(task.policies, child(path, "policies"), declared)
        if message := subdomain_fault(task.name or ""):
            yield Fault(child(path, "name"), message)
        elif message := qualified_name_fault(f"{metadata.name or ''}-{task.name}-{index}"):
            yield Fault(child(path, "name"), f"the name of its pods {message}")
        template = list(template_faults(task.template, child(path, "template"), pod_level=pod_level))
        # Volcano checks the CPU request only in an otherwise valid template.
        yield from template or topology_faults(task, path)
    if message := qualified_name_fault(metadata.name or ""):
        yield Fault("metadata.name", message)
    if sum(task.replicas or 0 for task in tasks) < (spec.min_available or 0):
        yield Fault("spec.minAvailable", "job 'minAvailable' should not be greater than total replicas in tasks")
    yield from policy_faults(spec.policies, "spec.policies", declared)
    for name in spec.plugins or {}:
        if name not in JOB_PLUGINS:
            yield Fault(child("spec.plugins", name), f"unable to find job plugin: there are {', '.join(sorted(JOB_PLUGINS))}")
    yield from _volume_faults(spec.volumes or [])
    yield from queue_faults(spec.queue or "", queues)
    if (missing := _missing_dependency(tasks)) is not None:
        yield missing
    elif any(task.depends_on is not None for task in tasks) and order_of(tasks) is None:
        yield Fault("spec.tasks", "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)")


def _missing_dependency(tasks: Sequence[Task]) -> Fault | None:
    """Return a fault of the first task with a dependency on an unknown task; `None` if there is none."""
    names = {task.name or "" for task in tasks}
    for index, task in enumerate(tasks):
        for number, other in enumerate((task.depends_on.name if task.depends_on else None) or []):
            if other not in names:
                message = f"the job has no task {other}: it has {', '.join(sorted(names))}{hint(other, names)}"
                return Fault(child("spec.tasks", index, "dependsOn", "name", number), message)
    return None


def size_faults(task: Task, path: str) -> Iterator[Fault]:
    """Validate a task's replicas, minimum and partitions, on creation and on update."""
    replicas, least = task.replicas or 0, task.min_available
    if least is not None and least > replicas:
        yield Fault(child(path, "minAvailable"), f"'minAvailable' is greater than 'replicas' ({replicas})")
    partition = task.partition_policy
    if partition is None:
        return
    where = child(path, "partitionPolicy")
    total, size, needed = partition.total_partitions or 0, partition.partition_size or 0, partition.min_partitions or 0
    for field, value in (("totalPartitions", total), ("partitionSize", size)):
        if value <= 0:
            yield Fault(child(where, field), "must be greater than 0")
    if total > 0 and size > 0 and replicas != total * size:
        yield Fault(child(path, "replicas"), f"'replicas' is not equal to TotalPartitions*PartitionSize ({total * size})")
    if needed > 0 and least is not None and least != needed * size:
        yield Fault(child(path, "minAvailable"), f"'minAvailable' is not equal to MinPartitions*PartitionSize ({needed * size})")
    yield from _topology_choice_faults(partition.network_topology, child(where, "networkTopology"))


def topology_faults(task: Task, path: str) -> Iterator[Fault]:
    """Validate the CPU requests of a task with a topology policy: whole cores in every container.

    For a container without requests its limits count (Volcano).
    """
    if not task.topology_policy or task.topology_policy == "none":
        return
    spec = (task.template or PodTemplate()).spec or PodSpec()
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers or []):
            resources = container.resources or Resources()
            cores = readable_quantity((resources.requests or resources.limits or {}).get("cpu"))
            if cores is None or cores <= 0 or cores.denominator != 1:
                where = child(path, "template", "spec", field, index, "resources", "requests", "cpu")
                yield Fault(where, f"the cpu request isn't an integer, which topologyPolicy {task.topology_policy} asks for")


def queue_faults(name: str, queues: Queues) -> Iterator[Fault]:
    """Validate the queue of a new job: it exists, is open, and is neither the root nor a parent."""
    queue = next((queue for queue in queues if queue.get("name") == name), None)
    if queue is None:
        yield Fault("spec.queue", f"unable to find job queue: there is no queue {name!r}")
        return
    state = queue.get("state") or "Open"
    if state != "Open":
        yield Fault("spec.queue", f"can only submit job to queue with state `Open`, queue `{name}` status is `{state}`")
    children = sum(other.get("parent") == name for other in queues)
    if name == "root":
        yield Fault("spec.queue", "can not submit job to root queue")
    elif children:
        yield Fault("spec.queue", f"can only submit job to leaf queue, queue `{name}` has {children} child queues")


def schema_faults(job: VolcanoJob) -> Iterator[Fault]:
    """Validate what Volcano's CRD and admission policy check: ranges of numbers, names of tasks, allowed values."""
    spec = job.spec or VolcanoJobSpec()
    yield from at_least(spec.min_available, 0, "spec.minAvailable")
    yield from at_least(spec.max_retry, 0, "spec.maxRetry")
    yield from at_least(spec.ttl_seconds_after_finished, 0, "spec.ttlSecondsAfterFinished")
    yield from at_least(spec.min_success, 1, "spec.minSuccess")
    yield from _mode_faults(spec.network_topology, "spec.networkTopology")
    yield from _action_faults(spec.policies, "spec.policies")
    if spec.running_estimate is not None:
        try:
            parse_duration(spec.running_estimate)
        except DurationError as error:
            yield Fault("spec.runningEstimate", str(error))
    for index, task in enumerate(spec.tasks or []):
        path = child("spec", "tasks", index)
        if message := label_fault(task.name or ""):
            yield Fault(child(path, "name"), message)
        yield from at_least(task.replicas, 0, child(path, "replicas"))
        yield from at_least(task.min_available, 0, child(path, "minAvailable"))
        yield from at_least(task.max_retry, -1, child(path, "maxRetry"))
        yield from one_of(
            task.topology_policy, ("none", "best-effort", "restricted", "single-numa-node"), child(path, "topologyPolicy")
        )
        if task.depends_on is not None:
            yield from one_of(task.depends_on.iteration, ("any", "all"), child(path, "dependsOn", "iteration"))
        if task.partition_policy is not None:
            where = child(path, "partitionPolicy")
            yield from at_least(task.partition_policy.min_partitions, 0, child(where, "minPartitions"))
            yield from _mode_faults(task.partition_policy.network_topology, child(where, "networkTopology"))
        yield from _action_faults(task.policies, child(path, "policies"))


def _mpi_master(arguments: list[str]) -> str:
    """Return the name of the master task from the plugin's arguments, parsed like Go's flag package."""
    words, master = iter(arguments), "master"
    for word in words:
        flag, equals, value = word.partition("=")
        if flag.removeprefix("-").removeprefix("-") not in {"master", "worker", "port"} or not flag.startswith("-"):
            break
        value = value if equals else next(words, "")
        if flag.endswith("-master"):
            master = value
    return master


def _topology_choice_faults(topology: NetworkTopology | None, path: str) -> Iterator[Fault]:
    if topology is not None and topology.highest_tier_allowed is not None and topology.highest_tier_name:
        yield Fault(path, "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously")


def _mode_faults(topology: NetworkTopology | None, path: str) -> Iterator[Fault]:
    if topology is not None:
        yield from one_of(topology.mode, ("hard", "soft"), child(path, "mode"))


def _action_faults(policies: list[LifecyclePolicy] | None, path: str) -> Iterator[Fault]:
    for index, policy in enumerate(policies or []):
        if policy.action not in USER_ACTIONS:
            yield Fault(child(path, index, "action"), f"must be {' or '.join(sorted(USER_ACTIONS))}")


def _volume_faults(volumes: list[VolumeSpec]) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        path, claim = child("spec", "volumes", index), volume.volume_claim_name
        if not volume.mount_path:
            yield Fault(child(path, "mountPath"), "mountPath is required")
        elif volume.mount_path in seen:
            yield Fault(child(path, "mountPath"), f"duplicated mountPath: {volume.mount_path}")
        elif volume.volume_claim is None and not claim:
            yield Fault(path, "either VolumeClaim or VolumeClaimName must be specified")
        elif volume.volume_claim is not None and claim:
            yield Fault(path, "conflict: volumeClaimName is for a claim that exists, volumeClaim for a new one; give one of them")
        elif claim and (message := subdomain_fault(claim)):
            yield Fault(child(path, "volumeClaimName"), message)
        if volume.mount_path:
            seen.add(volume.mount_path)
