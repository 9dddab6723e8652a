"""JobSet (`jobset.x-k8s.io`): ends and suspensions are conditions, everything else is counts of its Jobs."""

from __future__ import annotations

from typing import Any, Final

from engine.kubernetes.observation.kinds.job_facts import MAIN, JobFacts, Row, Values, either, follow_counts, pods_of, task_of
from engine.kubernetes.reading.fields import mapping, mappings, text, whole

CONDITIONS: Final[Values] = {
    "Completed": Row("Completed"),
    "Failed": Row("Failed"),
    "Suspended": Row("Pending", "JobSuspended"),
    "StartupPolicyInProgress": None,
    "StartupPolicyCompleted": None,
}


def read_job_set(facts: JobFacts, spec: dict[str, Any], status: dict[str, Any]) -> None:
    """Read specification and status."""
    for group in mappings(spec.get("replicatedJobs")):
        job = mapping(mapping(group.get("template")).get("spec"))
        replicas = either(whole(group.get("replicas")), 1) * pods_of(job)
        facts.tasks.append(task_of(text(group.get("name")) or MAIN, replicas, job.get("template")))
    facts.retry_count = whole(status.get("restarts"))
    follow_counts(facts, status, CONDITIONS, running=some_ready(status.get("replicatedJobsStatus")))


def some_ready(groups: object) -> bool:
    """Return true if a Job of the groups is ready or has ended."""
    return any(whole(group.get(count)) for group in mappings(groups) for count in ("ready", "succeeded", "failed"))
