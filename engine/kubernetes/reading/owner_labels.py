"""Labels and annotations with a pod's owner above its controller, its task and its replica, as tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from engine.kubernetes.reading.fields import text, whole

COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"


class Join(NamedTuple):
    """An owner whose pods are controlled by objects in between, and have a label with the owner's uid."""

    kind: str
    through: str
    """Kind of the objects in between, which control the pods."""
    uid: str
    """Label with the owner's uid. A name alone is not enough, because names are reused."""
    name: str
    task: str
    parts: tuple[str, str] | None = None
    """Labels for indexed pods of each object in between: its index within the task, and the number of such objects."""


JOINS: Final = (
    Join(
        "JobSet",
        "Job",
        "jobset.sigs.k8s.io/jobset-uid",
        "jobset.sigs.k8s.io/jobset-name",
        "jobset.sigs.k8s.io/replicatedjob-name",
        ("jobset.sigs.k8s.io/job-index", "jobset.sigs.k8s.io/replicatedjob-replicas"),
    ),
    Join("PipelineRun", "TaskRun", "tekton.dev/pipelineRunUID", "tekton.dev/pipelineRun", "tekton.dev/pipelineTask"),
)


class TaskLabel(NamedTuple):
    """Labels with a pod's task, by kind of the controlling job."""

    task: str
    replica: str | None = None
    """Label with the index of the replica."""
    pattern: str = "(.*)"
    """Pattern whose first group is the task in the value."""
    named: Mapping[str, str] = {}
    """Task names for special values."""


TASK_LABELS: Final = (
    TaskLabel("training.kubeflow.org/replica-type", "training.kubeflow.org/replica-index"),
    TaskLabel("training.kubeflow.org/job-role", "training.kubeflow.org/replica-index"),  # pods of the MPI operator
    TaskLabel("FC_TASKROLE_NAME", "FC_TASK_INDEX"),
    TaskLabel("replica-type", "replica-index"),
    TaskLabel("ray.io/group", named={"headgroup": "head"}),
    TaskLabel("spark-role"),
    # `flow[0].train(2:b)` is the third branch of a fan-out step, or its third try.
    TaskLabel("workflows.argoproj.io/node-name", pattern=r"\.([^.()]+)(?:\([^()]*\))?$"),
)
"""Labels in order of precedence."""


def label(key: str, annotations: dict[str, Any], labels: dict[str, Any]) -> str | None:
    """Return the value of a label, or of an annotation with that name."""
    return text(labels.get(key)) or text(annotations.get(key))


def number(key: str | None, annotations: dict[str, Any], labels: dict[str, Any]) -> int | None:
    """Return the whole number in an annotation, or in a label with that name; `None` if there is none."""
    if key is None:
        return None
    found = whole(annotations.get(key))
    return whole(labels.get(key)) if found is None else found


def join_of(controller: str | None, annotations: dict[str, Any], labels: dict[str, Any]) -> Join | None:
    """Return the row by which an object belongs to an owner above its controller; `None` if it belongs to its controller.

    Args:
        controller: kind of its controller.
        annotations: annotations of the object.
        labels: labels of the object.
    """
    for row in JOINS:
        if row.through == controller and label(row.uid, annotations, labels) and label(row.name, annotations, labels):
            return row
    return None


def task_of(annotations: dict[str, Any], labels: dict[str, Any]) -> tuple[str | None, int | None]:
    """Return task and index by `TASK_LABELS`; `None` if no label has it."""
    for row in TASK_LABELS:
        value = label(row.task, annotations, labels)
        found = None if value is None else re.search(row.pattern, value)
        if found is not None:
            task = found.group(1)
            return row.named.get(task, task), number(row.replica, annotations, labels)
    return None, None


def joined_slot(join: Join, annotations: dict[str, Any], labels: dict[str, Any]) -> tuple[str | None, int | None]:
    """Return task and index of a pod of an owner above its controller; `None` if no label has it.

    Of n objects in between, the one with index i has the pods i, n + i, 2n + i, …, because no pod has the number of pods of each
    object.
    """
    index = number(COMPLETION_INDEX, annotations, labels)
    part, parts = (number(key, annotations, labels) for key in join.parts or (None, None))
    if index is not None:
        index = None if part is None or parts is None or part >= parts else index * parts + part
    return label(join.task, annotations, labels), index
