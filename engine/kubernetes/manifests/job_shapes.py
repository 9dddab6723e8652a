"""Shapes of the accepted kinds of jobs: Volcano's vcjob and the `batch/v1` Job."""

from __future__ import annotations

from typing import Any

from engine.kubernetes.manifests.pod_shapes import PodTemplate
from engine.kubernetes.reading.shapes import Int32, Int64, Metadata, Shape


class LifecyclePolicy(Shape):
    """One policy of a job or a task."""

    action: str | None = None
    event: str | None = None
    events: list[str] | None = None
    exit_code: Int32 | None = None
    timeout: str | None = None

    @property
    def all_events(self) -> list[str]:
        """`events` and `event` without duplicates."""
        return list(dict.fromkeys([*(self.events or []), *([self.event] if self.event else [])]))


class DependsOnSpec(Shape):
    """Tasks on which a task depends."""

    name: list[str] | None = None
    iteration: str | None = None


class NetworkTopology(Shape):
    """Maximum network distance of pods."""

    mode: str | None = None
    highest_tier_allowed: Int32 | None = None
    highest_tier_name: str | None = None


class PartitionPolicy(Shape):
    """Division of a task into equal groups."""

    total_partitions: Int32 | None = None
    partition_size: Int32 | None = None
    min_partitions: Int32 | None = None
    network_topology: NetworkTopology | None = None


class Task(Shape):
    """One task of a vcjob."""

    name: str | None = None
    replicas: Int32 | None = None
    min_available: Int32 | None = None
    template: PodTemplate | None = None
    policies: list[LifecyclePolicy] | None = None
    topology_policy: str | None = None
    max_retry: Int32 | None = None
    depends_on: DependsOnSpec | None = None
    partition_policy: PartitionPolicy | None = None


class VolumeSpec(Shape):
    """Volume that Volcano mounts into every pod of the job."""

    mount_path: str | None = None
    volume_claim_name: str | None = None
    volume_claim: dict[str, Any] | None = None


class VolcanoJobSpec(Shape):
    """`spec` of a vcjob."""

    scheduler_name: str | None = None
    min_available: Int32 | None = None
    volumes: list[VolumeSpec] | None = None
    tasks: list[Task] | None = None
    policies: list[LifecyclePolicy] | None = None
    plugins: dict[str, list[str] | None] | None = None
    running_estimate: str | None = None
    queue: str | None = None
    max_retry: Int32 | None = None
    ttl_seconds_after_finished: Int32 | None = None
    priority_class_name: str | None = None
    min_success: Int32 | None = None
    network_topology: NetworkTopology | None = None
    managed_by: str | None = None


class BatchJobSpec(Shape):
    """`spec` of a `batch/v1` Job."""

    PASSED = frozenset({"manualSelector", "podReplacementPolicy", "selector"})

    parallelism: Int32 | None = None
    completions: Int32 | None = None
    completion_mode: str | None = None
    backoff_limit: Int32 | None = None
    backoff_limit_per_index: Int32 | None = None
    max_failed_indexes: Int32 | None = None
    pod_failure_policy: dict[str, Any] | None = None
    success_policy: dict[str, Any] | None = None
    active_deadline_seconds: Int64 | None = None
    ttl_seconds_after_finished: Int32 | None = None
    suspend: bool | None = None
    managed_by: str | None = None
    template: PodTemplate | None = None


class _Job(Shape):
    # `lahar` has its own schema; `status` is not validated.
    PASSED = frozenset({"lahar", "status"})

    api_version: str | None = None
    kind: str | None = None
    metadata: Metadata | None = None


class VolcanoJob(_Job):
    """A vcjob."""

    spec: VolcanoJobSpec | None = None


class BatchJob(_Job):
    """A `batch/v1` Job."""

    spec: BatchJobSpec | None = None
