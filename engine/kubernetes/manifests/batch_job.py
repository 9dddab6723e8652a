"""`batch/v1` Jobs: their rules, and the resulting specification.

A Job has one task, `main`, with a replica per completion, or, in a work queue without completions, per pod that may run at once.
Kubernetes replaces failed pods until `backoffLimit` is used up: here a policy PodFailed → RestartPod with one more retry, because
the state machine also counts the failure that ends the job. With `restartPolicy: OnFailure` container restarts in live pods have
the same limit of their own: the last one raises TaskFailed, without a retry.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from engine.events.outcomes import Fault
from engine.kubernetes.manifests.checks import at_least, one_of
from engine.kubernetes.manifests.job_shapes import BatchJobSpec
from engine.kubernetes.manifests.pod_template import template_faults
from engine.kubernetes.manifests.volcano_defaults import DEFAULT_QUEUE, DEFAULT_SCHEDULER
from engine.kubernetes.reading.accelerators import Accelerators
from engine.kubernetes.reading.requests import template_requests
from engine.kubernetes.reading.shapes import child
from statemachines.spec import JobSpec, Policy, TaskSpec

BATCH_JOB: Final = "Job"
"""Kind of these jobs, to distinguish them from Volcano's."""
TASK: Final = "main"
COMPARED: Final = frozenset(
    {"activeDeadlineSeconds", "backoffLimit", "completions", "parallelism", "suspend", "ttlSecondsAfterFinished"}
)
"""Fields that updates compare by value, so that a missing field equals its default."""
_BACKOFF_LIMIT: Final = 6
_QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"


def batch_faults(spec: BatchJobSpec) -> Iterator[Fault]:
    """Validate a Job's specification (Kubernetes: validation of `batch/v1`)."""
    yield from at_least(spec.parallelism, 0, "spec.parallelism")
    yield from at_least(spec.completions, 0, "spec.completions")
    yield from at_least(spec.backoff_limit, 0, "spec.backoffLimit")
    yield from at_least(spec.active_deadline_seconds, 0, "spec.activeDeadlineSeconds")
    yield from at_least(spec.ttl_seconds_after_finished, 0, "spec.ttlSecondsAfterFinished")
    yield from one_of(spec.completion_mode, ("NonIndexed", "Indexed"), "spec.completionMode")
    if spec.completion_mode == "Indexed" and spec.completions is None:
        yield Fault("spec.completions", "is required when completionMode is Indexed")
    yield from template_faults(spec.template, "spec.template")
    pod = spec.template.spec if spec.template is not None else None
    if pod is not None and (pod.restart_policy or "Always") == "Always":
        yield Fault("spec.template.spec.restartPolicy", "must be OnFailure or Never: a pod of a Job comes to an end")


def batch_spec(spec: BatchJobSpec, given: dict[str, Any], queue: str, accelerators: Accelerators) -> JobSpec:
    """Convert a Job's shape to a specification.

    Args:
        spec: valid shape.
        given: `spec` of the manifest, for the original pod template.
        queue: name of the queue.
        accelerators: table of the resources that are GPUs.
    """
    replicas = batch_replicas(spec)
    at_once = 1 if spec.parallelism is None else spec.parallelism
    # A work queue is done when one pod has succeeded and all have ended.
    least = min(at_once, replicas) if spec.completions is not None else min(1, replicas)
    template = deepcopy(given.get("template") or {})
    pod = spec.template.spec if spec.template is not None else None
    limit = _BACKOFF_LIMIT if spec.backoff_limit is None else spec.backoff_limit
    in_place = pod is not None and pod.restart_policy == "OnFailure"
    return JobSpec(
        tasks=(
            TaskSpec(
                name=TASK,
                replicas=replicas,
                min_available=least,
                max_retry=max(limit, 1) if in_place else -1,
                requests=template_requests(template, accelerators),
                template=template,
            ),
        ),
        min_available=least,
        min_success=spec.completions or None,
        max_retry=limit + 1,
        queue=queue,
        scheduler_name=(pod.scheduler_name if pod is not None else None) or DEFAULT_SCHEDULER,
        priority_class=(pod.priority_class_name if pod is not None else None) or None,
        policies=(Policy("RestartPod", events=("PodFailed", "TaskFailed") if in_place else ("PodFailed",)),),
        ttl_seconds_after_finished=spec.ttl_seconds_after_finished,
        active_deadline_seconds=spec.active_deadline_seconds,
    )


def batch_replicas(spec: BatchJobSpec) -> int:
    """Return the replicas of the only task."""
    if spec.completions is not None:
        return spec.completions
    return 1 if spec.parallelism is None else spec.parallelism


def batch_queue(annotations: dict[str, str] | None) -> str:
    """Return the queue of a Job (Volcano: an annotation)."""
    return (annotations or {}).get(_QUEUE_ANNOTATION) or DEFAULT_QUEUE


def batch_unused_fields(spec: BatchJobSpec) -> Iterator[tuple[str, str]]:
    """Yield path and message for each field that Kubernetes supports and Lahar does not."""
    for field, value in (
        ("backoffLimitPerIndex", spec.backoff_limit_per_index),
        ("maxFailedIndexes", spec.max_failed_indexes),
        ("podFailurePolicy", spec.pod_failure_policy),
        ("successPolicy", spec.success_policy),
    ):
        if value is not None:
            yield child("spec", field), "is not acted on"
    if spec.suspend:
        yield "spec.suspend", "is not acted on: the job starts as soon as it can"
    if spec.parallelism is not None and spec.parallelism < batch_replicas(spec):
        yield "spec.parallelism", f"is not a limit: all {batch_replicas(spec)} completions may run at once"
