"""Kubernetes' Job (`batch/v1`): ends and suspensions are conditions, everything else is counts of pods."""

from __future__ import annotations

from typing import Any, Final

from engine.kubernetes.observation.kinds.job_facts import MAIN, JobFacts, Row, Values, follow_counts, pods_of, task_of
from engine.kubernetes.reading.fields import mapping, whole

CONDITIONS: Final[Values] = {
    "Complete": Row("Completed"),
    "Failed": Row("Failed"),
    "Suspended": Row("Pending", "JobSuspended"),
    "SuccessCriteriaMet": None,  # decided, but its pods are still being stopped: Complete follows
    "FailureTarget": None,  # the same: Failed follows
}


def read_batch_job(facts: JobFacts, spec: dict[str, Any], status: dict[str, Any]) -> None:
    """Read specification and status.

    `startTime` is when the controller accepted or resumed the job, before its first pod: it dates no phase.
    """
    facts.tasks = [task_of(MAIN, pods_of(spec), spec.get("template"))]
    follow_counts(facts, status, CONDITIONS, running=_has_run(status))


def _has_run(status: dict[str, Any]) -> bool:
    """Return true if the counts show that a pod runs or has run.

    `active` counts pods from their creation, so only `ready` shows a running one; before Kubernetes 1.24 `ready` does not exist. If
    none is active, terminating, uncounted, succeeded or failed pods show it.
    """
    active = whole(status.get("active"))
    if whole(status.get("ready")) or (active and "ready" not in status):
        return True
    uncounted = mapping(status.get("uncountedTerminatedPods"))
    counted = [whole(status.get(count)) for count in ("terminating", "succeeded", "failed")]
    return not active and any([*counted, uncounted.get("succeeded"), uncounted.get("failed")])
