"""Jobs of the training operators (`kubeflow.org`): the last true condition in order is their phase."""

from __future__ import annotations

from typing import Any, Final

from engine.kubernetes.observation.kinds.job_facts import JobFacts, Row, Values, either, follow_conditions, task_of
from engine.kubernetes.reading.fields import mapping, text, whole

REPLICA_SPECS: Final = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "MXJob": "mxReplicaSpecs",
}
"""Field with the tasks, by kind. Pods have a label with the task in lower case."""

CONDITIONS: Final[Values] = {
    "Succeeded": Row("Completed"),
    "Failed": Row("Failed"),
    "Suspended": Row("Pending", "JobSuspended"),
    "Restarting": Row("Restarting"),
    "Running": Row("Running", ""),
    "Created": Row("Pending", ""),
}
_EVICTED: Final = "MPIJobEvicted"
"""Reason of a failed MPIJob that the MPI operator requeues."""


def read_training_job(facts: JobFacts, spec: dict[str, Any], status: dict[str, Any]) -> None:
    """Read specification and status."""
    for name, replica in mapping(spec.get(REPLICA_SPECS[facts.kind])).items():
        if isinstance(replica, dict) and isinstance(name, str):
            facts.tasks.append(task_of(name, either(whole(replica.get("replicas")), 1), replica.get("template")))
    policy = mapping(mapping(spec.get("runPolicy")).get("schedulingPolicy"))
    facts.queue = facts.queue or text(policy.get("queue"))
    facts.priority_class = text(policy.get("priorityClass"))
    facts.min_available = whole(policy.get("minAvailable"))
    follow_conditions(facts, status, CONDITIONS)
    if facts.phase is None:
        facts.phase, facts.owner_decides = "Pending", False
    if facts.phase == "Failed" and facts.reason == _EVICTED:
        facts.phase, facts.since, facts.ended = "Restarting", facts.ended, None
