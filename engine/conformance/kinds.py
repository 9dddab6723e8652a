"""Kinds of conformance cases, each run by the rules that the stages call.

A case is JSON; omitted fields are 0, null or empty. The defaults of manifests do not apply: `max_retry: 0` is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, cast

from engine.conformance.admission import dependency_order, validate_create, validate_task_topology, validate_update
from engine.conformance.content import (
    Content,
    group_tasks,
    read_counters,
    read_podgroup,
    read_pods,
    read_spec,
    read_target,
    read_task_counts,
    sync_tasks,
    write_duration,
    write_resources,
    write_sub_groups,
)
from engine.conformance.scheduling import SCHEDULING_KINDS
from statemachines.conditions import condition_append
from statemachines.counters import Counters, Pod, count, count_tasks
from statemachines.kill import KillPlan, kill_job, kill_target, retained, volcano_status
from statemachines.phase_rule import NextPhase, effect_of, next_phase
from statemachines.podgroup import deletes_podgroup, min_resources, podgroup_spec, task_minima_first
from statemachines.policies import Request, match
from statemachines.spec import JobSpec
from statemachines.sync import creates_pods, pod_name, pod_ready, surplus_indexes, sync_job, task_ready
from statemachines.task_rules import task_completed
from statemachines.vocabulary import JobPhase, volcano_phase

Outcome = dict[str, Any]
"""Result of the rules, with the keys of `expected`."""


class UnsupportedError(ValueError):
    """Raised when a case asks for an operation, method or task that its kind does not have."""


@dataclass(slots=True)
class Sync:
    """Result of one sync."""

    created: int = 0
    """Pods."""
    delete: list[Pod] = field(default_factory=list)
    """Pods beyond the replicas, and pods that are out of sync."""
    counters: Counters = field(default_factory=Counters)
    """Counters of Volcano's status afterwards; a created pod counts as pending."""
    tasks: dict[str, Counters] = field(default_factory=dict)


def _state(case: Content) -> Outcome:
    """Execute an action in a phase: effect, recount, phase rule."""
    phase = cast("JobPhase", case.get("phase") or "Pending")
    action = case.get("action") or ""
    spec = read_spec(case.get("spec") or {})
    status = case.get("status") or {}
    retry_count, version = status.get("retry_count") or 0, status.get("version") or 0
    # Volcano takes minAvailable into the status when it first sees the job, and with every sync that touches pods.
    min_available = (status.get("min_available") or 0) if case.get("phase") else spec.min_available
    counters, tasks = read_counters(status), read_task_counts(status)
    killed: list[Pod] = []
    effect = effect_of(phase, action)
    kill = _kill_plan(case, spec, effect) if effect.startswith("kill") else None
    if kill is not None:
        counters, tasks, killed = volcano_status(kill), {}, kill.delete
        version += kill.version_delta
    elif effect == "sync" and creates_pods(_group_phase(case)):
        sync = _sync(case, spec)
        counters, tasks, min_available, killed = sync.counters, sync.tasks, spec.min_available, sync.delete
    step = NextPhase(phase)
    # Volcano: a kill of a partition that does not exist is no step at all.
    if kill is not None or effect == "sync":
        step = next_phase(phase, action, spec, counters, retry_count, min_available, tasks=tasks)
    return {
        "phase": volcano_phase(step.phase),
        "retry_count": retry_count + step.retry_delta,
        "version": version,
        "min_available": min_available,
        "killed": [pod.name for pod in killed],
        **asdict(counters),
    }


def _group_phase(case: Content) -> str | None:
    group = case.get("podgroup")
    return None if group is None else group.get("phase") or ""


def _kill_plan(case: Content, spec: JobSpec, effect: str) -> KillPlan | None:
    pods = read_pods(case.get("pods") or ())
    if effect == "kill_target":
        return kill_target(pods, read_target(case.get("target")))
    retry_count = (case.get("status") or {}).get("retry_count") or 0
    return kill_job(pods, retained(effect, retry_count, spec.max_retry))


def _sync(case: Content, spec: JobSpec) -> Sync:
    """Sync once, with the counters of Volcano's status afterwards."""
    tasks, loose = sync_tasks(case, spec)
    sync = Sync()
    counted = [pod for task in tasks.values() for index, pod in task.pods.items() if index < task.spec.replicas]
    for task in tasks.values():
        sync.delete += [task.pods[index] for index in surplus_indexes(task.spec.replicas, task.pods)]
    for task, what, indexes in sync_job(tasks):
        if what == "delete":
            sync.delete += [task.pods[index] for index in indexes]
        else:
            sync.created += len(indexes)
            counted += [Pod(task.spec.name, "", index=index) for index in indexes]
    sync.delete += loose
    sync.counters, sync.tasks = count(counted), count_tasks(counted)
    sync.counters.terminating += len(sync.delete)  # in addition to their phases (Volcano)
    return sync


def _kill_target(case: Content) -> Outcome:
    """Kill one task, pod or partition."""
    effect = "kill_target" if case.get("target") else "kill_none"
    kill = _kill_plan(case, read_spec(case.get("spec") or {}), effect)
    deleted = [pod.name for pod in kill.delete] if kill is not None else []
    left = [pod["name"] for pod in case.get("pods") or () if pod["name"] not in deleted]
    return {"pods_deleted": deleted, "pods_left": left}


def _kill_podgroup(case: Content) -> Outcome:
    """Return whether a kill takes the PodGroup with it."""
    effect = "kill_target" if case.get("target") else "kill_none"
    return {"podgroup_deleted": deletes_podgroup(_kill_plan(case, read_spec(case.get("spec") or {}), effect))}


def _sync_job(case: Content) -> Outcome:
    """Sync once and count the pods that are there then."""
    pods = len(case.get("pods") or ())
    if not creates_pods(_group_phase(case)):
        return {"total_pods": pods}
    sync = _sync(case, read_spec(case.get("spec") or {}))
    return {"total_pods": pods + sync.created - len(sync.delete)}


def _depends_on_ready(case: Content) -> Outcome:
    """Return whether a task that others depend on is ready."""
    spec, name = read_spec(case.get("spec") or {}), case.get("depends_on_task") or ""
    task = spec.task(name)
    if task is None:
        raise UnsupportedError(f"depends_on_task: the specification has no task {name!r}")
    names = {pod_name(case.get("job_name") or "", name, index) for index in range(task.replicas)}
    ready = sum(pod.name in names and pod_ready(pod.phase, pod.containers_ready) for pod in read_pods(case.get("pods") or ()))
    return {"ready": task_ready(task, ready)}


def _task_completed(case: Content) -> Outcome:
    """Return whether all of a task's replicas succeeded."""
    spec, name = read_spec(case.get("spec") or {}), case.get("task") or ""
    task = spec.task(name)
    succeeded = sum(pod.task == name and pod.phase == "Succeeded" for pod in read_pods(case.get("pods") or ()))
    return {"task_completed": task is not None and task_completed(task, succeeded)}


def _podgroup_spec(case: Content) -> Outcome:
    """Make or update the PodGroup of a job."""
    content = case.get("spec") or {}
    spec = read_spec(content)
    group = podgroup_spec(spec, read_podgroup(case.get("podgroup_before")))
    return {
        "min_member": group.min_member,
        "min_task_member": group.min_task_member,
        "queue": group.queue,
        "priority_class_name": group.priority_class,
        "min_resources": write_resources(min_resources(group_tasks(content.get("tasks") or ()), spec.min_available)),
        "sub_group_policy": write_sub_groups(group.sub_groups),
    }


def _condition_append(case: Content) -> Outcome:
    """Append a condition."""
    conditions = condition_append(case.get("conditions") or (), case["new"])
    return {"len": len(conditions), "last": conditions[-1]}


def _pg_min_resources(case: Content) -> Outcome:
    """Calculate the minimum resources of a PodGroup by one of the two methods, or by the rule that chooses."""
    tasks, minimum = group_tasks(case.get("tasks") or ()), case.get("job_min_available") or 0
    if case.get("method") == "priority_fill":
        return {"min_resources": write_resources(task_minima_first(tasks, minimum))}
    if case.get("method") == "auto":
        return {"min_resources": write_resources(min_resources(tasks, minimum))}
    raise UnsupportedError(f"method: {case.get('method')!r} is neither 'priority_fill' nor 'auto'")


def _policy(case: Content) -> Outcome:
    """Match a request against the policies."""
    content, status = case.get("request") or {}, case.get("status") or {}
    request = Request(
        event=content.get("event") or None,
        action=content.get("action") or None,
        task=content.get("task_name") or None,
        exit_code=content.get("exit_code") or 0,
        version=content.get("job_version") or 0,
        job_uid=content.get("job_uid") or None,
    )
    found = match(
        request, read_spec(case.get("spec") or {}), version=status.get("version") or 0, job_uid=status.get("job_uid") or ""
    )
    return {"action": found.action, "delay": None if found.delay is None else write_duration(found.delay)}


def _validation(case: Content) -> Outcome:
    """Ask the admission rules, and how the dependencies of tasks are ordered."""
    operation = case.get("operation")
    if operation == "depends_on_dag":
        order = dependency_order(case.get("job") or {})
        return {"is_dag": order is not None, "order": order}
    if operation == "create":
        enabled = bool(case.get("pod_level_resources_enabled"))
        faults = validate_create(case.get("job") or {}, case.get("queues") or [], pod_level_resources_enabled=enabled)
    elif operation == "update":
        faults = validate_update(case.get("old_job") or {}, case.get("job") or {})
    elif operation == "task_topology_policy":
        faults = validate_task_topology(case.get("task") or {})
    else:
        raise UnsupportedError(f"operation: {operation!r} is none of create, update, task_topology_policy, depends_on_dag")
    return {"accepted": not faults, "reason": "; ".join(f"{fault.path}: {fault.message}" for fault in faults)}


KINDS: Final[Mapping[str, Callable[[Content], Outcome]]] = {
    "state": _state,
    "kill_target": _kill_target,
    "kill_podgroup": _kill_podgroup,
    "sync_job": _sync_job,
    "depends_on_ready": _depends_on_ready,
    "task_completed": _task_completed,
    "podgroup_spec": _podgroup_spec,
    "condition_append": _condition_append,
    "pg_min_resources": _pg_min_resources,
    "policy": _policy,
    "validation": _validation,
    **SCHEDULING_KINDS,
}
"""Function that runs a case by the rules, by kind of case."""
