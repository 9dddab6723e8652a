"""RayCluster (`ray.io`) without a RayJob: it runs until it is deleted, so no status is an end."""

from __future__ import annotations

from typing import Any, Final

from engine.kubernetes.observation.kinds.job_facts import JobFacts, Row, Values, follow_conditions
from engine.kubernetes.observation.kinds.ray_job import ray_tasks
from engine.kubernetes.reading.fields import mapping, moment, text

STATES: Final[Values] = {
    "": Row("Pending", ""),
    "ready": Row("Running", ""),
    "suspended": Row("Pending", "JobSuspended"),
    "failed": None,  # operators before 1.3: some of its pods cannot be made
    "unhealthy": None,  # operators before 1.0
}
CONDITIONS: Final[Values] = {
    "RayClusterSuspending": Row("Pending", "JobSuspended"),  # its state is still ready
    "RayClusterSuspended": Row("Pending", "JobSuspended"),
    "RayClusterProvisioned": None,  # all pods were ready once: its state is ready
    "HeadPodReady": None,
    "ReplicaFailure": None,
}


def read_ray_cluster(facts: JobFacts, spec: dict[str, Any], status: dict[str, Any]) -> None:
    """Read specification and status."""
    facts.tasks = ray_tasks(spec)
    follow_conditions(facts, status, CONDITIONS)
    if facts.phase is None:
        state = text(status.get("state")) or ""
        facts.owner_decides = state != ""  # before, its head may run alone
        facts.enter_value(STATES, state, moment(mapping(status.get("stateTransitionTimes")).get(state)), status.get("reason"))
