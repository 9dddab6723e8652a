"""Defaults of a vcjob, and its conversion to a specification (Volcano: its mutating webhook, on creation only)."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final, cast

from engine.kubernetes.manifests.job_shapes import LifecyclePolicy, Task, VolcanoJobSpec
from engine.kubernetes.reading.accelerators import Accelerators
from engine.kubernetes.reading.durations import parse_duration
from engine.kubernetes.reading.requests import template_requests
from engine.kubernetes.reading.shapes import child
from statemachines.spec import DependsOn, JobSpec, Partition, Policy, TaskSpec
from statemachines.vocabulary import Action

DEFAULT_QUEUE: Final = "default"
DEFAULT_SCHEDULER: Final = "volcano"
_MAX_RETRY: Final = 3
_IMPLIED_PLUGINS: Final = {"tensorflow": ("svc",), "mpi": ("svc", "ssh"), "pytorch": ("svc",), "ray": ("svc",)}


def fill_defaults(spec: VolcanoJobSpec) -> None:
    """Fill in defaults in place; 0 and the empty text count as absent where they do in Volcano."""
    spec.queue = spec.queue or DEFAULT_QUEUE
    spec.scheduler_name = spec.scheduler_name or DEFAULT_SCHEDULER
    spec.max_retry = spec.max_retry or _MAX_RETRY
    for index, task in enumerate(spec.tasks or []):
        task.name = task.name or f"default{index}"
        task.replicas = task.replicas or 0
        task.max_retry = task.max_retry or _MAX_RETRY
        if task.min_available is None:
            task.min_available = _least_of_partitions(task) or task.replicas
    spec.min_available = spec.min_available or sum(task.min_available or 0 for task in spec.tasks or [])
    if spec.plugins is not None:
        implied = [other for name in spec.plugins for other in _IMPLIED_PLUGINS.get(name, ())]
        spec.plugins = {**spec.plugins, **{name: [] for name in implied if name not in spec.plugins}}


def volcano_spec(spec: VolcanoJobSpec, given: dict[str, Any], accelerators: Accelerators) -> JobSpec:
    """Convert a vcjob's shape to a specification.

    Args:
        spec: valid shape with defaults.
        given: `spec` of the manifest, for the original pod templates.
        accelerators: table of the resources that are GPUs.
    """
    templates = [_template(task) for task in given.get("tasks") or []]
    return JobSpec(
        tasks=tuple(_task(task, template, accelerators) for task, template in zip(spec.tasks or [], templates, strict=True)),
        min_available=spec.min_available or 0,
        min_success=spec.min_success,
        max_retry=spec.max_retry or _MAX_RETRY,
        queue=spec.queue or DEFAULT_QUEUE,
        scheduler_name=spec.scheduler_name or DEFAULT_SCHEDULER,
        priority_class=spec.priority_class_name or None,
        policies=_policies(spec.policies),
        plugins=tuple(spec.plugins or {}),
        ttl_seconds_after_finished=spec.ttl_seconds_after_finished,
    )


def unused_fields(spec: VolcanoJobSpec) -> Iterator[tuple[str, str]]:
    """Yield path and message for each field that Volcano supports and Lahar does not."""
    for name, arguments in (spec.plugins or {}).items():
        if arguments:
            yield child("spec.plugins", name), "arguments of job plugins are ignored"


def _least_of_partitions(task: Task) -> int:
    partition = task.partition_policy
    return (partition.min_partitions or 0) * (partition.partition_size or 0) if partition is not None else 0


def _task(task: Task, template: dict[str, Any], accelerators: Accelerators) -> TaskSpec:
    depends_on, partition = task.depends_on, task.partition_policy
    return TaskSpec(
        name=task.name or "",
        replicas=task.replicas or 0,
        min_available=task.min_available,
        max_retry=task.max_retry or _MAX_RETRY,
        policies=_policies(task.policies),
        depends_on=DependsOn(names=tuple(depends_on.name), any=depends_on.iteration == "any")
        if depends_on is not None and depends_on.name
        else None,
        partition=Partition(
            total=partition.total_partitions or 0, size=partition.partition_size or 0, min=partition.min_partitions or 0
        )
        if partition is not None
        else None,
        requests=template_requests(template, accelerators),
        template=template,
    )


def _template(task: Any) -> dict[str, Any]:  # noqa: ANN401 - a part of a manifest as written
    template = deepcopy((task or {}).get("template") or {})
    spec = template.get("spec")
    if spec and spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    return cast("dict[str, Any]", template)


def _policies(policies: list[LifecyclePolicy] | None) -> tuple[Policy, ...]:
    return tuple(
        Policy(
            action=cast("Action", policy.action),
            events=tuple(policy.all_events),
            exit_code=policy.exit_code,
            timeout=None if policy.timeout is None else parse_duration(policy.timeout),
        )
        for policy in policies or []
    )
