"""From what was read to the inputs that a log takes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from pod_builders import at, owner, pod, running, terminated

from engine.events import UndecodableError, decode, encode, to_cloudevent
from engine.events.examples import EXAMPLES, example
from engine.events.ids import observation_id
from engine.events.inputs import (
    JobDeleted,
    JobObserved,
    JobSubmitted,
    JobUpdated,
    NodeDeleted,
    NodeObserved,
    ObjectApplied,
    ObjectDeleted,
    Taint,
)
from engine.events.vocabulary import INPUT_TOPICS
from engine.kubernetes.edge import Ignored, Refused, Taken, line_to_inputs, to_inputs
from engine.kubernetes.errors import ObjectError, ProjectionError
from engine.kubernetes.manifests.cluster_objects import apply_object
from engine.kubernetes.observation.jobs import observe_job
from engine.kubernetes.reading.documents import Document, Unreadable, read_documents

NOW = at(60)


def outcome(content: dict[str, Any], change: Any = None) -> Any:
    return to_inputs(Document(3, "items[1]", content, change), "east", NOW)


def taken(content: dict[str, Any], change: Any = None) -> list[Any]:
    found = outcome(content, change)
    assert isinstance(found, Taken)
    return [decode(message) for message in found.messages]


def job(metadata: dict[str, Any] | None = None, api_version: str = "batch/v1", **fields: Any) -> dict[str, Any]:
    who = {"name": "train", "namespace": "research", "uid": "j-1", "resourceVersion": "12"}
    return {"apiVersion": api_version, "kind": "Job", "metadata": {**who, **(metadata or {})}, **fields}


def node(name: str | None = "n1", **fields: Any) -> dict[str, Any]:
    return {"kind": "Node", "metadata": {"name": name, "uid": "n-uid", "resourceVersion": "8", "labels": {"a": "b"}}, **fields}


def test_a_pod_becomes_an_observation_keyed_by_its_job() -> None:
    found = outcome(pod("Failed", terminated(1), metadata=owner("Job")))
    assert isinstance(found, Taken)
    [message] = found.messages
    assert (found.topic, message.key, message.subject, message.correlationid) == ("pods", "owner-uid", "owner-uid", "owner-uid")
    assert (message.source, message.clusterid, message.sequence, message.causationid) == ("kubernetes/east", "east", 0, "")
    assert (message.time, message.recordedtime) == (at(5, 7), NOW)
    assert message.id == observation_id("11111111-2222-3333-4444-555555555555", "4711", deleted=False)


def test_a_deletion_is_another_fact_than_the_state_it_shows() -> None:
    shown, gone = taken(pod("Running", running()))[0], taken(pod("Running", running()), "DELETED")[0]
    assert shown.id != gone.id
    assert gone.data.last.reason == "DeletedByApi"
    assert gone.data.inferred is False


def test_without_a_version_the_id_is_of_what_was_read() -> None:
    """What the projection does not look at makes no other fact."""
    bare = {"resourceVersion": None}
    first = taken(pod("Running", running(), metadata=bare))[0]
    assert first.data.version is None
    assert taken(pod("Running", running(), metadata={**bare, "managedFields": [1]}))[0].id == first.id
    assert taken(pod("Running", running(restartCount=1), metadata=bare))[0].id != first.id
    assert taken(pod("Running", running(), metadata=bare), "DELETED")[0].id != first.id


def test_a_pod_without_a_uid_is_refused_with_its_bytes() -> None:
    content = pod(metadata={"uid": None})
    found = outcome(content)
    assert isinstance(found, Refused)
    assert found.reason == "line 3, items[1]: metadata.uid: missing: only an API server sets it, so this is not an observed pod"
    assert json.loads(found.message.data) == content
    with pytest.raises(UndecodableError):
        decode(found.message)


def test_text_that_is_no_unicode_is_refused() -> None:
    assert isinstance(outcome(pod(metadata={"name": "\ud800"})), Refused)


def test_garbage_is_refused_with_its_bytes() -> None:
    found = to_inputs(Unreadable(1, "", b"\xff{", "not JSON"), "east", NOW)
    assert isinstance(found, Refused)
    assert (found.message.data, found.reason, found.topic) == (b"\xff{", "not JSON", "pods")
    with pytest.raises(UndecodableError):
        decode(found.message)


def test_an_observed_job() -> None:
    done = {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": "2026-03-01T10:09:00Z"}]}
    labels = {"lahar/tenant": "t", "lahar/user": "u", "kueue.x-k8s.io/queue-name": "q"}
    content = job({"labels": labels, "creationTimestamp": "2026-03-01T10:00:00Z"}, spec={"completions": 4}, status=done)
    [event] = taken(content)
    assert event.data == JobObserved(
        "train",
        "Job",
        "research",
        version="12",
        phase="Completed",
        created=at(0),
        ended=at(9),
        queue="q",
        tenant="t",
        user="u",
        labels=labels,
        tasks={"main": 4},
    )
    assert (event.subject, event.time, event.id) == ("j-1", at(9), observation_id("j-1", "12", deleted=False))


def test_an_observed_vcjob() -> None:
    spec = {"minAvailable": 3, "queue": "q", "tasks": [{"name": "w", "replicas": 4}, {"replicas": 1}]}
    [event] = taken(job(api_version="batch.volcano.sh/v1alpha1", spec=spec, status={"state": {"phase": "Aborted", "reason": "r"}}))
    assert (event.data.kind, event.data.phase, event.data.reason, event.data.queue) == ("VCJob", "Aborted", "r", "q")
    assert (event.data.min_available, event.data.tasks) == (3, {"w": 4, "default1": 1})


def test_tasks_of_training_jobs_are_named_as_their_pods_are() -> None:
    content = {**job(spec={"pytorchReplicaSpecs": {"Master": {}, "Worker": {"replicas": 2}}}), "kind": "PyTorchJob"}
    assert taken(content)[0].data.tasks == {"master": 1, "worker": 2}


def test_a_deleted_job_shows_its_last_state() -> None:
    last, gone = taken(job(), "DELETED")
    assert (gone.data, gone.subject) == (JobDeleted("12", "research"), "j-1")
    assert last == taken(job())[0]


def test_a_job_that_names_lahar_is_submitted_once_updated_by_generation() -> None:
    spec = {"managedBy": "lahar", "parallelism": 2}
    [first] = taken(job({"generation": 1, "managedFields": []}, spec=spec, status={"active": 1}))
    assert isinstance(first.data, JobSubmitted)
    assert first.data.manifest == job({"generation": 1}, spec=spec)
    again, updated = taken(job({"generation": 2, "resourceVersion": "13"}, spec=spec))
    assert again.id == first.id
    assert isinstance(updated.data, JobUpdated)
    assert updated.id == taken(job({"generation": 2, "resourceVersion": "14"}, spec=spec))[1].id


def test_a_manifest_is_no_observation() -> None:
    found = outcome(job({"uid": None}))
    assert isinstance(found, Ignored)
    assert "lahar apply" in found.reason


def test_a_node() -> None:
    content = node(
        spec={"unschedulable": True, "taints": [{"key": "node.kubernetes.io/unreachable"}]},
        status={
            "capacity": {"cpu": "64"},
            "allocatable": {"cpu": "31500m", "memory": "1Gi", "pods": "110", "nvidia.com/gpu": "8", "hugepages-1Gi": "x"},
            "conditions": [{"type": "Ready", "status": "Unknown"}],
        },
    )
    content["metadata"]["labels"] = {"node.kubernetes.io/instance-type": "p4", "nvidia.com/gpu.product": "A100"}
    found = outcome(content)
    [message] = found.messages
    assert (found.topic, message.key, message.subject, message.correlationid) == ("cluster", "east", "east", "")
    assert decode(message).data == NodeObserved(
        "n1",
        "8",
        "Unknown",
        True,
        True,
        31500,
        2**30,
        8,
        110,
        "p4",
        "A100",
        content["metadata"]["labels"],
        "n-uid",
        {"nvidia.com/gpu": 8000},
        [Taint("node.kubernetes.io/unreachable")],
    )


def test_a_node_that_says_nothing_and_one_that_is_gone() -> None:
    assert taken(node(spec=None, status=[]))[0].data == NodeObserved("n1", "8", labels={"a": "b"}, uid="n-uid")
    assert taken(node(), "DELETED")[0].data == NodeDeleted("n1", "8", "n-uid")
    assert isinstance(outcome(node(None)), Refused)


def test_what_a_node_offers_and_what_its_pods_must_tolerate() -> None:
    size = {"cpu": "4", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "2", "ephemeral-storage": "1500m", "hugepages-2Mi": "0"}
    taints = [{"key": "gpu", "value": "yes", "effect": "NoExecute"}, {"key": "a"}, {"effect": "NoSchedule"}, "b"]
    data = taken(node(status={"allocatable": size}, spec={"taints": taints}))[0].data
    assert isinstance(data, NodeObserved)
    assert data.resources == {"nvidia.com/gpu": 2000, "ephemeral-storage": 1500}
    assert data.taints == [Taint("gpu", "yes", "NoExecute"), Taint("a")]


@pytest.mark.parametrize(
    "fields",
    [
        {"status": {"allocatable": {f"example.com/r{number}": "1" for number in range(101)}}},
        {"spec": {"taints": [{"key": f"k{number}"} for number in range(101)]}},
    ],
)
def test_a_node_of_more_resources_or_taints_than_it_may_have_is_refused(fields: dict[str, Any]) -> None:
    message = outcome(node(**fields)).messages[0]
    with pytest.raises(UndecodableError, match="100"):
        decode(message)


def test_what_an_observed_pod_takes_of_its_node_beside_cpu_memory_and_gpus() -> None:
    asked = {"cpu": "1", "nvidia.com/gpu": "1", "rdma/hca": "2", "amd.com/gpu": "1"}
    ports = [{"containerPort": 53, "hostPort": 53, "protocol": "UDP"}, {"hostPort": 80, "hostIP": "10.0.0.1"}]
    data = taken(pod(spec={"containers": [{"name": "c", "resources": {"requests": asked}, "ports": ports}]}))[0].data
    assert data.requests.gpu == 2
    assert data.resources == {"rdma/hca": 2000, "amd.com/gpu": 1000, "nvidia.com/gpu": 1000}
    assert data.host_ports == ["53/UDP", "80/TCP/10.0.0.1"]
    plain = outcome(pod(spec={"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}}]}))
    assert b"resources" not in plain.messages[0].data
    assert b"host_ports" not in plain.messages[0].data


def test_the_state_of_a_queue_is_that_of_its_status() -> None:
    content = {"kind": "Queue", "metadata": {"name": "q"}, "spec": {"state": "Closed"}}
    assert taken(content)[0].data.spec["state"] == "Closed"
    assert taken({**content, "status": {"state": "Closing", "running": 2}})[0].data.spec["state"] == "Closing"
    assert "state" not in taken({"kind": "Queue", "metadata": {"name": "q"}})[0].data.spec


def test_a_queues_hierarchy_begins_with_the_root() -> None:
    annotations = {"volcano.sh/hierarchy": "sci/dev", "volcano.sh/hierarchy-weights": "2/0.5"}
    spec = taken({"kind": "Queue", "metadata": {"name": "q", "annotations": annotations}})[0].data.spec
    assert (spec["hierarchy"], spec["hierarchyWeights"]) == ("root/sci/dev", "1/2/0.5")


def test_quotas_and_budgets_are_projected_to_what_scheduling_reads() -> None:
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "ml", "uid": "u", "resourceVersion": "7"},
        "spec": {"hard": {"requests.cpu": 4, "volcano.sh/namespace.weight": "3"}},
        "status": {"hard": {"requests.cpu": "8", "volcano.sh/namespace.weight": "3"}, "used": {"requests.cpu": "2500m"}},
    }
    data = taken(quota)[0].data
    assert (data.kind, data.name, data.version) == ("ResourceQuota", "ml/q", "7")
    assert data.spec == {"hard": {"requests.cpu": "8"}, "used": {"requests.cpu": "2500m"}, "weight": 3}
    assert taken(quota, "DELETED")[0].data == ObjectDeleted("ResourceQuota", "ml/q", "7", "u")
    scopes: list[dict[str, object]] = [{"scopes": ["Terminating"]}, {"scopeSelector": {"matchExpressions": []}}]
    for scope in scopes:
        scoped = {"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": 1}, **scope}}
        assert taken(scoped)[0].data.spec == {"hard": {"pods": "1"}, "used": {}, "scoped": True}
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "x"}}},
        "status": {"disruptionsAllowed": 1, "conditions": []},
    }
    data = taken(budget)[0].data
    assert data.name == "default/b"
    assert data.spec == {"selector": {"matchLabels": {"app": "x"}, "matchExpressions": []}, "disruptionsAllowed": 1}
    assert taken({"kind": "PodDisruptionBudget", "metadata": {"name": "b"}})[0].data.spec == {"disruptionsAllowed": 0}


def test_quotas_of_one_name_in_two_namespaces_are_two() -> None:
    first, second = ({"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": name}} for name in ("a", "b"))
    assert outcome(first).messages[0].id != outcome(second).messages[0].id


def test_a_queue_with_its_defaults() -> None:
    content = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}, "spec": {"weight": 3}}
    data = taken(content)[0].data
    assert isinstance(data, ObjectApplied)
    assert (data.kind, data.name) == ("Queue", "q")
    assert data.spec == {
        "weight": 3,
        "reclaimable": True,
        "priority": 0,
        "preemption": "immediate",
        "preemptionDelaySeconds": 300,
        "reservationSeconds": 60,
    }
    assert taken(content, "DELETED")[0].data == ObjectDeleted("Queue", "q")


def test_tenants_and_priority_classes() -> None:
    tenant = {"kind": "Tenant", "metadata": {"name": "t"}, "spec": {"priority": 5, "mayPreempt": True}}
    assert taken(tenant)[0].data.spec == {"priority": 5, "mayPreempt": True}
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    assert taken(high)[0].data.spec == {"value": 1000, "globalDefault": False, "preemptionPolicy": "PreemptLowerPriority"}


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ({"kind": "Queue", "metadata": {"name": "q"}, "spec": {"weight": 0}}, "spec.weight: should be greater than or equal to 1"),
        ({"kind": "Queue", "metadata": {"name": "q"}, "spec": {"capability": {"cpu": "x"}}}, "spec.capability.cpu"),
        ({"kind": "Queue", "metadata": {"name": "q"}, "spec": {"capability": {"cpu": "-1"}}}, "must not be negative"),
        ({"kind": "Queue", "metadata": {}}, "metadata.name: missing"),
        (
            {"kind": "Queue", "metadata": {"name": "q"}, "spec": {"deserved": {"cpu": 5}, "capability": {"cpu": "4"}}},
            r"deserved of cpu \(5\) exceeds capability \(4\)",
        ),
        (
            {"kind": "Queue", "metadata": {"name": "q"}, "spec": {"guarantee": {"resource": {"cpu": 5}}}},
            "deserved must name cpu",
        ),
        (
            {
                "kind": "Queue",
                "metadata": {"name": "q"},
                "spec": {"guarantee": {"resource": {"cpu": 5}}, "deserved": {"cpu": 4}},
            },
            r"guarantee of cpu \(5\) exceeds deserved \(4\)",
        ),
        (
            {"kind": "Queue", "metadata": {"name": "q"}, "spec": {"state": "Closing"}},
            "spec.state: should be '', 'Open' or 'Closed'",
        ),
        ({"kind": "Queue", "metadata": {"name": "q"}, "spec": {"state": "open"}}, r"did you mean Open\?$"),
        ({"kind": "Queue", "metadata": {"name": "q"}, "spec": {"preemption": "Notise"}}, r"did you mean notice\?$"),
        (
            {"kind": "PriorityClass", "metadata": {"name": "p"}, "value": 1, "preemptionPolicy": "never"},
            r"preemptionPolicy: .*; did you mean Never\?$",
        ),
        (
            {"kind": "Queue", "metadata": {"name": "q", "annotations": {"volcano.sh/hierarchy": "root/a"}}},
            "metadata.annotations: volcano.sh/hierarchy must have the same length with volcano.sh/hierarchy-weights",
        ),
        (
            {"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"cpu": "-1"}}},
            "spec.hard.cpu.*must not be negative",
        ),
        ({"kind": "PriorityClass", "metadata": {"name": "p"}}, "value: Field required"),
        ({"kind": "Tenant", "metadata": {"name": "t"}, "spec": []}, "spec: "),
    ],
)
def test_faults_of_objects_name_their_path(content: dict[str, Any], fault: str) -> None:
    found = outcome(content)
    assert isinstance(found, Refused)
    assert found.topic == "cluster"
    assert re.search(fault, found.reason), found.reason


def test_what_has_no_name_is_refused() -> None:
    assert isinstance(outcome(job({"name": None})), Refused)
    assert isinstance(outcome({"kind": "Tenant", "metadata": {}}, "DELETED"), Refused)


def test_objects_of_other_kinds_are_errors_where_a_kind_is_asked_for() -> None:
    with pytest.raises(ObjectError, match="kind: must be one of Queue, Tenant, PriorityClass"):
        apply_object({"kind": "ConfigMap"})
    with pytest.raises(ProjectionError, match="kind: none is not a kind of job"):
        observe_job({})


def test_an_unknown_field_of_a_queue_is_a_warning() -> None:
    found = outcome({"kind": "Queue", "metadata": {"name": "q"}, "spec": {"wieght": 3}, "status": {}})
    assert found.warnings == ("spec.wieght: unknown field, left out; did you mean weight?",)
    data = decode(found.messages[0]).data
    assert isinstance(data, ObjectApplied)
    assert "wieght" not in data.spec


@pytest.mark.parametrize(
    ("content", "change", "reason"),
    [
        ({"kind": "Event", "metadata": {}}, None, "no state is driven from them"),
        ({"kind": "Deployment"}, None, "Deployment is no kind that Lahar reads"),
        ({"kind": "Queue", "apiVersion": "scheduling.run.ai/v2", "metadata": {"name": "q"}}, None, "another scheduler"),
        ({"metadata": {}}, None, "it has no kind"),
        ({"involvedObject": {}, "metadata": {}}, None, "an Event without its kind"),
        ({"kind": "Pod"}, "BOOKMARK", "a bookmark of the watch"),
        ({"kind": "Status", "message": "too old"}, "ERROR", "the watch reports an error: too old"),
    ],
)
def test_what_is_ignored_and_why(content: dict[str, Any], change: Any, reason: str) -> None:
    found = outcome(content, change)
    assert isinstance(found, Ignored)
    assert reason in found.reason


def test_a_job_of_a_job_set_is_no_job_beside_it() -> None:
    labels = {"jobset.sigs.k8s.io/jobset-uid": "set-uid", "jobset.sigs.k8s.io/jobset-name": "set"}
    owners = [{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set", "uid": "set-uid", "controller": True}]
    part = {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "part", "uid": "u", "labels": labels}}
    assert isinstance(outcome(part), Taken), "a label alone says nothing"
    part["metadata"]["ownerReferences"] = owners  # type: ignore[index]  # it is a mapping
    for change in (None, "DELETED"):
        assert outcome(part, change) == Ignored("its pods belong to the JobSet that it is a part of", kind="Job")


INPUTS = [example(name) for name, data in EXAMPLES.items() if data.TOPIC in INPUT_TOPICS]


@pytest.mark.parametrize("event", INPUTS, ids=[event.type for event in INPUTS])
def test_every_input_passes_through_as_a_cloudevent(event: Any) -> None:
    message = encode(event)
    [document] = read_documents(to_cloudevent(message))
    found = to_inputs(document, "other", NOW)
    assert isinstance(found, Taken)
    assert found.topic == event.data.TOPIC
    [passed] = found.messages
    assert decode(passed).data == event.data
    assert (passed.id, passed.source, passed.clusterid, passed.time) == (event.id, event.source, event.clusterid, event.time)
    assert passed.key == (event.clusterid if found.topic == "cluster" else event.subject)


def cloudevent(**fields: Any) -> dict[str, Any]:
    given = {"specversion": "1.0", "id": "1", "source": "s", "type": "lahar.job.deleted.v1", "subject": "j", "data": {}}
    return {**given, **fields}


def test_a_cloudevent_without_times_and_cluster_takes_those_of_its_arrival() -> None:
    [message] = outcome(cloudevent()).messages
    assert (message.time, message.recordedtime, message.clusterid, message.key) == (NOW, NOW, "east", "j")


def test_cloudevents_that_are_no_inputs() -> None:
    assert isinstance(outcome(cloudevent(type="lahar.job.forgotten.v1", data={"finished": 1})), Ignored)
    assert isinstance(outcome(cloudevent(subject="")), Ignored)
    assert isinstance(outcome(cloudevent(type="com.example.other")), Refused)
    assert isinstance(outcome(cloudevent(data={"version": 5})), Refused)
    assert isinstance(outcome(cloudevent(specversion="0.3")), Refused)


@pytest.mark.parametrize(("requests", "path"), [({"gpu": 2**63}, "gpu"), ({"cpu_milli": -1}, "cpu_milli")])
def test_a_cloudevent_of_a_pod_with_an_impossible_request_is_refused(requests: Any, path: str) -> None:
    """What it says would stand in every later sum."""
    pod = {"uid": "u", "job": "j", "name": "p", "phase": "Pending", "created": 1, "requests": requests}
    for name, data in (("observed", pod), ("deleted", {"last": pod})):
        refused = outcome(cloudevent(type=f"lahar.pod.{name}.v1", data=data))
        assert isinstance(refused, Refused)
        assert f"requests.{path}: Input should be" in refused.reason


def test_lines_of_a_watch() -> None:
    content = pod("Running", running())
    plain = line_to_inputs(json.dumps(content).encode(), "east", NOW)
    assert plain == outcome(content)
    gone = line_to_inputs(json.dumps({"type": "DELETED", "object": content}).encode(), "east", NOW)
    assert gone == outcome(content, "DELETED")
    for line in (b"", b"{", b"3", b'{"type": "ADDED", "object": 3}'):
        assert isinstance(line_to_inputs(line, "east", NOW), Refused)


@pytest.mark.parametrize(
    ("api", "kind", "above", "ignored"),
    [
        ("ray.io/v1", "RayCluster", "RayJob", True),
        ("ray.io/v1", "RayCluster", "AppWrapper", False),
        ("ray.io/v1", "RayCluster", None, False),
        ("kueue.x-k8s.io/v1beta1", "Workload", "Job", True),
        ("kueue.x-k8s.io/v1beta1", "Workload", None, False),
    ],
)
def test_a_part_of_another_job_is_no_job_beside_it(api, kind, above, ignored):
    owners = [{"kind": above, "name": "a", "uid": "u-a", "controller": True}] if above else []
    content = {"apiVersion": api, "kind": kind, "metadata": {"name": "x", "uid": "u-x", "ownerReferences": owners}}
    found = to_inputs(Document(1, "", content, "MODIFIED"), "c", 1)
    if ignored:
        assert found == Ignored(f"it is a part of the {above} that controls it", kind)
    else:
        assert isinstance(found, Taken)
