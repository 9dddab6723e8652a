"""Whose pod it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pod_builders import owner, pod

from engine.kubernetes.errors import ProjectionError
from engine.kubernetes.observation.pods import observe_pod
from engine.kubernetes.reading.owner_labels import JOINS, TASK_LABELS
from statemachines.spec import Requests


def observed(name: str = "train-0", annotations: Any = None, labels: Any = None, **metadata: Any) -> Any:
    return observe_pod(pod(metadata={"name": name, "annotations": annotations, "labels": labels, **metadata}))


@pytest.mark.parametrize(
    ("kind", "api_version", "expected"),
    [
        ("Job", "batch/v1", "Job"),
        ("Job", "batch.volcano.sh/v1alpha1", "VCJob"),
        ("PyTorchJob", "kubeflow.org/v1", "PyTorchJob"),
        ("RayCluster", "ray.io/v1", "RayCluster"),
        ("ReplicaSet", "apps/v1", "Other"),
        ("DaemonSet", "apps/v1", "Other"),
        ("StatefulSet", "apps/v1", "Other"),
        ("Deployment", "apps/v1", "Other"),
        ("ReplicationController", "v1", "Other"),
        ("Node", "v1", "Other"),
        ("DaskCluster", "kubernetes.dask.org/v1", "DaskCluster"),
        ("FlinkDeployment", "flink.apache.org/v1beta1", "FlinkDeployment"),
        ("Notebook", "kubeflow.org/v1", "Notebook"),
        ("Pod", "v1", "Pod"),
        ("ConfigMap", "v1", "ConfigMap"),
    ],
)
def test_kind_of_the_job(kind: str, api_version: str, expected: str) -> None:
    seen = observed(**owner(kind, api_version))
    assert (seen.kind, seen.job, seen.owner) == (expected, "owner-uid", "train")


@pytest.mark.parametrize(
    ("policy", "kind"), [("Never", "Pod"), ("OnFailure", "Pod"), ("Always", "Other"), (None, "Other"), ([], "Other")]
)
def test_a_pod_without_owner_is_a_job_or_a_service_if_always_restarted(policy: Any, kind: str) -> None:
    for metadata in ({}, owner("Job", controller=False), {"ownerReferences": "x"}):
        seen = observe_pod(pod(metadata={"name": "p", **metadata}, spec={"restartPolicy": policy}))
        assert (seen.kind, seen.job, seen.owner, seen.managed) == (kind, seen.uid, None, False)


def test_framework_controller_puts_a_config_map_in_between() -> None:
    annotations = {"FC_FRAMEWORK_NAME": "tf", "FC_TASKROLE_NAME": "ps", "FC_TASK_INDEX": "1"}
    seen = observed(annotations=annotations, **owner("ConfigMap", "v1"))
    assert (seen.kind, seen.task, seen.index) == ("Framework", "ps", 1)


def test_lahars_own_annotations_win() -> None:
    annotations = {
        "lahar/job": "our-job",
        "lahar/task": "worker",
        "lahar/index": "3",
        "lahar/attempt": "2",
        "volcano.sh/task-spec": "other",
    }
    seen = observed(annotations=annotations)
    assert (seen.job, seen.managed, seen.task, seen.index, seen.attempt) == ("our-job", True, "worker", 3, 2)


def test_a_controlled_pod_is_of_its_controller_whatever_its_annotation() -> None:
    controlled = owner("Job")
    uid = controlled["ownerReferences"][0]["uid"]
    seen = observed(annotations={"lahar/job": "our-job"}, **controlled)
    assert (seen.job, seen.managed, seen.claimed) == (uid, False, "our-job")
    seen = observed(annotations={"lahar/job": uid}, **controlled)
    assert (seen.job, seen.managed, seen.claimed) == (uid, True, None)


@pytest.mark.parametrize(
    ("annotations", "labels", "slot"),
    [
        ({"volcano.sh/task-spec": "worker", "volcano.sh/job-version": "4"}, {}, ("worker", 7)),
        ({"volcano.sh/task-spec": "worker", "volcano.sh/task-index": "2"}, {}, ("worker", 2)),
        ({}, {"volcano.sh/task-spec": "worker", "volcano.sh/task-index": "5"}, ("worker", 5)),
        ({"batch.kubernetes.io/job-completion-index": "9"}, {}, (None, 9)),
        ({}, {"batch.kubernetes.io/job-completion-index": "8"}, (None, 8)),
        ({}, {"training.kubeflow.org/replica-type": "master", "training.kubeflow.org/replica-index": "0"}, ("master", 0)),
        ({"lahar/task": "worker", "lahar/index": "-1"}, {}, ("worker", None)),
        ({"lahar/index": "1"}, {}, (None, None)),
        (None, ["x"], (None, None)),
    ],
)
def test_slot(annotations: Any, labels: Any, slot: tuple[str | None, int | None]) -> None:
    seen = observed("job-worker-7", annotations, labels)
    assert (seen.task, seen.index) == slot


SET = {
    "jobset.sigs.k8s.io/jobset-uid": "set-uid",
    "jobset.sigs.k8s.io/jobset-name": "set",
    "jobset.sigs.k8s.io/replicatedjob-name": "workers",
    "jobset.sigs.k8s.io/replicatedjob-replicas": "3",
    "jobset.sigs.k8s.io/job-index": "2",
}
COMPLETION = {"batch.kubernetes.io/job-completion-index": "4"}


@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_a_pod_of_a_job_of_a_job_set_is_of_the_job_set(place: Any) -> None:
    seen = observed(**{"annotations": COMPLETION, place: COMPLETION | SET}, **owner("Job"))
    assert (seen.job, seen.kind, seen.owner, seen.through) == ("set-uid", "JobSet", "set", "train")
    assert (seen.task, seen.index) == ("workers", 14)


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_replicas_of_a_job_set_are_numbered_without_gap_or_doublet(parts: int) -> None:
    """However many Jobs it has: those of each are as many as its pods."""
    indexes = [
        observed(
            annotations={"batch.kubernetes.io/job-completion-index": str(index)},
            labels=SET | {"jobset.sigs.k8s.io/replicatedjob-replicas": str(parts), "jobset.sigs.k8s.io/job-index": str(part)},
            **owner("Job"),
        ).index
        for part in range(parts)
        for index in range(3)
    ]
    assert sorted(indexes) == list(range(parts * 3))


@pytest.mark.parametrize(
    ("labels", "index"),
    [
        (SET, None),  # not indexed
        (SET | COMPLETION | {"jobset.sigs.k8s.io/job-index": "3"}, None),  # there are three
        (SET | COMPLETION | {"jobset.sigs.k8s.io/job-index": "x"}, None),
        ({name: value for name, value in (SET | COMPLETION).items() if "replicas" not in name}, None),
    ],
)
def test_a_replica_of_a_job_set_whose_number_is_not_known_is_given_one(labels: Any, index: Any) -> None:
    assert (observed(labels=labels, **owner("Job")).task, observed(labels=labels, **owner("Job")).index) == ("workers", index)


@pytest.mark.parametrize(
    ("labels", "controlled"),
    [
        (SET, {}),  # nobody stands in between
        (SET, owner("ReplicaSet", "apps/v1")),
        (SET, owner("Job", "batch.volcano.sh/v1alpha1")),
        ({name: value for name, value in SET.items() if "uid" not in name}, owner("Job")),  # a name may be used again
    ],
)
def test_labels_alone_join_nothing(labels: Any, controlled: Any) -> None:
    seen = observed(labels=labels, **controlled)
    assert (seen.job, seen.through) == ("owner-uid" if controlled else seen.uid, None)


def test_a_pod_that_names_a_managed_job_is_joined_to_no_other() -> None:
    seen = observed(annotations={"lahar/job": "owner-uid"}, labels=SET, **owner("Job"))
    assert (seen.job, seen.managed, seen.through) == ("owner-uid", True, None)


def test_a_pod_of_a_task_run_is_of_its_pipeline_run() -> None:
    labels = {"tekton.dev/pipelineRunUID": "run-uid", "tekton.dev/pipelineRun": "run", "tekton.dev/pipelineTask": "build"}
    seen = observed(labels=labels, **owner("TaskRun", "tekton.dev/v1"))
    assert (seen.job, seen.kind, seen.owner, seen.task, seen.index) == ("run-uid", "PipelineRun", "run", "build", None)


@pytest.mark.parametrize(
    ("annotations", "labels", "task"),
    [
        ({}, {"ray.io/group": "headgroup", "ray.io/node-type": "head", "ray.io/cluster": "c"}, "head"),
        ({}, {"ray.io/group": "gpu-workers", "ray.io/node-type": "worker", "ray.io/cluster": "c"}, "gpu-workers"),
        ({"workflows.argoproj.io/node-name": "flow-x7"}, {}, None),
        ({"workflows.argoproj.io/node-name": "flow-x7[0].train"}, {}, "train"),
        ({"workflows.argoproj.io/node-name": "flow-x7.prepare[1].train(2:b=0.5,c)"}, {}, "train"),
        ({"workflows.argoproj.io/node-name": "flow-x7.evaluate(1)"}, {}, "evaluate"),
        ({"workflows.argoproj.io/node-name": "." + "(" * 100_000}, {}, None),
    ],
)
def test_tasks_by_what_an_operator_writes(annotations: Any, labels: Any, task: str | None) -> None:
    assert observed(annotations=annotations, labels=labels).task == task


def test_the_page_has_every_row_of_the_tables() -> None:
    page = (Path(__file__).parents[2] / "docs" / "kubernetes-objects.md").read_text(encoding="utf-8")
    for join in JOINS:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| {join.kind} | {join.through} |")]
        assert all(f"`{key}`" in row for key in (join.uid, join.name, join.task, *(join.parts or ())))
    for label in TASK_LABELS:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{label.task}`")]
        assert label.replica is None or f"`{label.replica}`" in row


def test_job_version_of_a_volcano_pod() -> None:
    assert observed(annotations={"volcano.sh/job-version": "4"}).job_version == 4
    assert observed().job_version == 0


@pytest.mark.parametrize(
    ("annotations", "labels"),
    [
        ({"volcano.sh/queue-name": "q"}, {}),
        ({"scheduling.volcano.sh/queue-name": "q"}, {}),
        ({}, {"kueue.x-k8s.io/queue-name": "q"}),
        ({}, {"kai.scheduler/queue": "q"}),
    ],
)
def test_queue(annotations: Any, labels: Any) -> None:
    assert observed(annotations=annotations, labels=labels).queue == "q"


def test_people_and_request() -> None:
    seen = observed(labels={"lahar/tenant": "t", "lahar/project": "p", "lahar/user": "u"})
    assert (seen.tenant, seen.project, seen.user) == ("t", "p", "u")
    assert seen.requests == Requests(cpu_milli=500, memory_bytes=2**30)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "a pod is a mapping, not a list"),
        ({}, "metadata.uid: missing"),
        ({"metadata": {"uid": 5, "name": "x"}}, "metadata.uid: missing"),
        ({"metadata": {"uid": "u"}}, "metadata.name: missing"),
    ],
)
def test_what_is_no_observed_pod(content: Any, message: str) -> None:
    with pytest.raises(ProjectionError, match=message):
        observe_pod(content)
