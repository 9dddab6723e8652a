"""Pod templates as scheduling sees them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events import Event, decode, encode
from engine.events.jobs import JobOpened
from engine.events.pod_shape import (
    HostPort,
    LabelSelector,
    NodeTerm,
    PodShape,
    PodTerm,
    PreferredNodes,
    PreferredPods,
    Requirement,
    SpreadConstraint,
    Toleration,
)
from engine.kubernetes.reading.pod_shape import plugin_annotations, pod_shape
from statemachines.spec import JobSpec

REQUIRED, PREFERRED = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
ZONE = {"key": "zone", "operator": "In", "values": ["a", "b"]}
NEAR = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "x"}}, "namespaces": ["n2", "n1"]}


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c"}], **fields}}


def test_what_it_asks_for_by_resource_name() -> None:
    """Memory in bytes, everything else in thousandths (Volcano)."""
    asked = {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "2", "rdma/hca": 1, "hugepages-2Mi": "4Mi"}
    containers = [{"resources": {"requests": asked}}, {"resources": {"limits": {"cpu": 1}}}]
    first = [{"resources": {"requests": {"memory": "2Gi", "ephemeral-storage": "1"}}}]
    assert pod_shape(spec(containers=containers, initContainers=first)).requests == (
        ("cpu", 2500),
        ("ephemeral-storage", 1000),
        ("hugepages-2Mi", 4 * 2**20 * 1000),
        ("memory", 2 * 2**30),
        ("nvidia.com/gpu", 2000),
        ("rdma/hca", 1000),
    )


@pytest.mark.parametrize(
    ("fields", "shape"),
    [
        ({}, PodShape()),
        ({"nodeSelector": {"b": "2", "a": "1"}}, PodShape(node_selector=(("a", "1"), ("b", "2")))),
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ZONE]}]}}}},
            PodShape(required_nodes=(NodeTerm((Requirement("zone", "In", ("a", "b")),)),)),
        ),
        ({"affinity": {"nodeAffinity": {REQUIRED: {}}}}, PodShape(required_nodes=())),
        (
            {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 3, "preference": {"matchFields": [ZONE]}}]}}},
            PodShape(preferred_nodes=(PreferredNodes(3, NodeTerm((), (Requirement("zone", "In", ("a", "b")),))),)),
        ),
        (
            {
                "affinity": {
                    "podAffinity": {REQUIRED: [NEAR]},
                    "podAntiAffinity": {PREFERRED: [{"weight": 7, "podAffinityTerm": NEAR}]},
                }
            },
            PodShape(
                pod_affinity=(PodTerm("rack", LabelSelector((("app", "x"),)), ("n1", "n2")),),
                preferred_pods=(PreferredPods(-7, PodTerm("rack", LabelSelector((("app", "x"),)), ("n1", "n2"))),),
            ),
        ),
        (
            {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "rack", "namespaceSelector": {}}]}}},
            PodShape(pod_anti_affinity=(PodTerm("rack", None, (), True),)),
        ),
        (
            {"tolerations": [{"operator": "Exists"}, {"key": "gpu", "value": "x", "effect": "NoExecute"}]},
            PodShape(tolerations=(Toleration("", "Exists"), Toleration("gpu", "Equal", "x", "NoExecute"))),
        ),
        (
            {"containers": [{"ports": [{"containerPort": 80}, {"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]}]},
            PodShape(host_ports=(HostPort(53, "UDP", "10.0.0.1"),)),
        ),
        ({"hostNetwork": True, "containers": [{"ports": [{"containerPort": 80}]}]}, PodShape(host_ports=(HostPort(80),))),
        (
            {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"}]},
            PodShape(topology_spread=(SpreadConstraint("zone", 2, False),)),
        ),
        (
            {"priority": 5, "priorityClassName": "high", "preemptionPolicy": "Never", "schedulingGates": [{"name": "g"}]},
            PodShape(priority=5, priority_class="high", preemption_policy="Never", scheduling_gates=("g",)),
        ),
    ],
)
def test_where_it_may_run(fields: dict[str, Any], shape: PodShape) -> None:
    assert pod_shape(spec(**fields)) == shape


def test_annotations_that_plugins_read_and_those_that_the_job_gives() -> None:
    mine = {"metadata": {"labels": {"b": "2", "a": "1"}, "annotations": {"volcano.sh/preemptable": "false", "other": "x"}}}
    job = {"volcano.sh/preemptable": "true", "volcano.sh/revocable-zone": "*", "volcano.sh/task-topology-affinity": "ps,worker"}
    shape = pod_shape(mine, job)
    assert shape.labels == (("a", "1"), ("b", "2"))
    assert shape.annotations == (("volcano.sh/preemptable", "false"), ("volcano.sh/revocable-zone", "*"))
    assert (shape.preemptable, shape.revocable_zone) == (False, "*")
    assert plugin_annotations({**job, "sla-waiting-time": "1h", "other": "x", "volcano.sh/n": 1}) == {
        **job,
        "sla-waiting-time": "1h",
    }


KEYS = [
    "metadata",
    "spec",
    "containers",
    "resources",
    "requests",
    "affinity",
    "nodeAffinity",
    "podAffinity",
    "nodeSelectorTerms",
    "tolerations",
    "ports",
    "key",
    "operator",
    "values",
    "hostPort",
    "labels",
    "annotations",
    "matchExpressions",
    "labelSelector",
    "weight",
    "cpu",
    "x/gpu",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "1", "a", "Exists", "In", "x/gpu", "-1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*KEYS, REQUIRED, PREFERRED]), inner, max_size=4),
    max_leaves=30,
)


@given(JSON)
def test_no_template_breaks_the_reading_and_what_is_read_survives_the_log(template: Any) -> None:
    opened = JobOpened(
        "VCJob", "j", managed=True, spec=JobSpec(), shapes={"t": pod_shape({"spec": template, "metadata": template})}
    )
    event = Event("e", "s", opened.TYPE, "j", 0, 0, 1, "j", "c", "c1", opened)
    read = decode(encode(event)).data
    assert isinstance(read, JobOpened)
    assert read == opened
    assert hash(read.shapes["t"]) == hash(opened.shapes["t"])
