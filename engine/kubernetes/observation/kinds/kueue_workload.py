"""Workload of Kueue (`kueue.x-k8s.io`) without another job object, such as that of a pod group: its conditions.

The Workload of a job is not a job of its own: Kueue suspends and resumes the job itself.
"""

from __future__ import annotations

from typing import Any, Final

from engine.kubernetes.observation.kinds.job_facts import MAIN, JobFacts, Row, Values, either, follow_conditions, task_of
from engine.kubernetes.reading.fields import mapping, mappings, moment, text, whole

CONDITIONS: Final[Values] = {
    "Finished": Row("Terminated"),
    "Evicted": Row("Pending"),  # true until it is admitted again
    "Admitted": Row("Running", ""),
    "QuotaReserved": Row("Pending", "QuotaReserved"),  # it waits for admission checks
    "Preempted": None,  # beside Evicted
    "Requeued": None,
    "PodsReady": None,
    "DeactivationTarget": None,  # Evicted follows
    "BlockedOnPreemptionGates": None,
}
ENDS: Final[Values] = {
    "Succeeded": Row("Completed"),
    "Failed": Row("Failed"),
    "AdmissionChecksRejected": Row("Failed"),
    "FailedToStart": Row("Failed"),
    "OutOfSync": Row("Terminated"),  # its quota went back, its job goes on with another one, or is gone
    "OwnerNotFound": Row("Terminated"),
    "JobFinished": Row("Terminated"),  # Kueue before 0.7: only the message has the outcome
    "PodsFinished": Row("Terminated"),
}
"""Meaning by reason of the condition Finished."""


def read_workload(facts: JobFacts, spec: dict[str, Any], status: dict[str, Any]) -> None:
    """Read specification and status."""
    facts.queue = text(spec.get("queueName")) or facts.queue
    named = text(mapping(spec.get("priorityClassRef")).get("name"))
    facts.priority_class = named or text(spec.get("priorityClassName"))
    for group in mappings(spec.get("podSets")):
        facts.tasks.append(task_of(text(group.get("name")) or MAIN, either(whole(group.get("count")), 1), group.get("template")))
    follow_conditions(facts, status, CONDITIONS)
    if facts.phase is None:
        waits = next((one for one in mappings(status.get("conditions")) if one.get("type") == "QuotaReserved"), {})
        facts.enter(Row("Pending"), moment(waits.get("lastTransitionTime")), waits.get("reason"), waits.get("message"))
    elif facts.phase == "Terminated":
        reason, time, message = facts.reason or "", facts.ended, facts.message
        facts.phase = facts.ended = None
        facts.enter_value(ENDS, reason, time, reason, message)
