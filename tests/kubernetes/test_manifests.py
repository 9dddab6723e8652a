"""Reading a vcjob: defaults, warnings, faults, changes."""

from __future__ import annotations

import os
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from manifest_builders import container, paths, task, template, vcjob

from engine.kubernetes.manifests.identity import read_identity
from engine.kubernetes.manifests.manifest import read_manifest, update_spec
from engine.kubernetes.reading.accelerators import Accelerators
from statemachines.spec import DependsOn, JobSpec, Partition, Policy, Requests


def spec_of(manifest: dict[str, Any]) -> JobSpec:
    read = read_manifest(manifest)
    assert read.faults == []
    return read.spec


class TestDefaults:
    def test_what_is_left_out_is_filled_in_as_volcano_does(self) -> None:
        bare = {**vcjob(), "spec": {"tasks": [{"replicas": 2, "template": template()}, {"replicas": 3, "template": template()}]}}
        spec = spec_of(bare)
        assert (spec.queue, spec.scheduler_name, spec.max_retry, spec.min_available) == ("default", "volcano", 3, 5)
        assert [(one.name, one.replicas, one.min_available, one.max_retry) for one in spec.tasks] == [
            ("default0", 2, 2, 3),
            ("default1", 3, 3, 3),
        ]
        assert spec.min_success is None
        assert spec.plugins == ()

    def test_zero_counts_as_left_out_where_volcano_counts_it_so(self) -> None:
        spec = spec_of(vcjob(task(replicas=2, maxRetry=0), minAvailable=0, maxRetry=0, queue="", schedulerName=""))
        assert (spec.min_available, spec.max_retry, spec.queue, spec.tasks[0].max_retry) == (2, 3, "default", 3)

    def test_what_is_given_stays(self) -> None:
        spec = spec_of(vcjob(task(replicas=4, minAvailable=0, maxRetry=-1), minAvailable=3, maxRetry=9, schedulerName="mine"))
        assert (spec.min_available, spec.max_retry, spec.scheduler_name) == (3, 9, "mine")
        assert (spec.tasks[0].min_available, spec.tasks[0].max_retry) == (0, -1)

    def test_the_jobs_minimum_is_the_sum_of_the_tasks(self) -> None:
        assert (
            spec_of(vcjob(task(name="a", replicas=4, minAvailable=2), task(name="b", replicas=3), minAvailable=0)).min_available
            == 5
        )

    def test_the_minimum_of_a_divided_task_is_that_of_its_partitions(self) -> None:
        policy = {"totalPartitions": 4, "partitionSize": 2, "minPartitions": 3}
        found = spec_of(vcjob(task(replicas=8, partitionPolicy=policy))).tasks[0]
        assert (found.min_available, found.partition) == (6, Partition(4, 2, 3))
        assert spec_of(vcjob(task(replicas=8, partitionPolicy={**policy, "minPartitions": 0}))).tasks[0].min_available == 8

    @pytest.mark.parametrize(
        ("plugins", "expected"),
        [
            ({"tensorflow": []}, ["tensorflow", "svc"]),
            ({"pytorch": []}, ["pytorch", "svc"]),
            ({"ray": []}, ["ray", "svc"]),
            ({"svc": [], "mpi": []}, ["svc", "mpi", "ssh"]),
            ({"env": None}, ["env"]),
        ],
    )
    def test_plugins_bring_others_along(self, plugins: dict[str, Any], expected: list[str]) -> None:
        assert spec_of(vcjob(task(name="master"), plugins=plugins)).plugins == tuple(expected)

    def test_the_host_network_brings_its_dns_policy(self) -> None:
        first, second = (
            spec_of(vcjob(task(template=template(hostNetwork=True, **fields)))).tasks[0].template
            for fields in ({}, {"dnsPolicy": "Default"})
        )
        assert first is not None
        assert second is not None
        assert first["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
        assert second["spec"]["dnsPolicy"] == "Default"


def test_the_manifest_itself_is_left_alone() -> None:
    manifest, same = (vcjob(task(name="", template=template(hostNetwork=True)), queue="") for _ in range(2))
    read_manifest(manifest)
    assert manifest == same


def test_everything_that_the_rules_read_arrives() -> None:
    asks = {"resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": 2}}}
    spec = spec_of(
        vcjob(
            task(name="ps", template=template(container(**asks))),
            task(
                name="worker",
                replicas=2,
                dependsOn={"name": ["ps"], "iteration": "any"},
                policies=[{"exitCode": 3, "action": "RestartPod"}],
            ),
            minSuccess=2,
            ttlSecondsAfterFinished=60,
            priorityClassName="high",
            policies=[{"event": "PodFailed", "events": ["PodEvicted"], "action": "RestartJob", "timeout": "1m30s"}],
        )
    )
    assert spec.tasks[0].requests == Requests(1500, 2**30, 2)
    assert spec.tasks[1].depends_on == DependsOn(("ps",), any=True)
    assert spec.tasks[1].policies == (Policy("RestartPod", exit_code=3),)
    assert spec.policies == (Policy("RestartJob", ("PodEvicted", "PodFailed"), timeout=90_000_000),)
    assert (spec.min_success, spec.ttl_seconds_after_finished, spec.priority_class) == (2, 60, "high")


class TestHead:
    def test_labels_say_whose_the_job_is(self) -> None:
        labels = {"lahar/tenant": "t", "lahar/project": "p", "lahar/user": "u"}
        read = read_manifest(vcjob(metadata={"labels": labels, "uid": "x", "resourceVersion": "7"}))
        assert (read.kind, read.name, read.namespace, read.uid, read.version) == ("VCJob", "job-1", "test", "x", "7")
        assert (read.tenant, read.project, read.user, read.labels) == ("t", "p", "u", labels)

    def test_without_labels_the_namespace_is_the_tenant(self) -> None:
        read = read_manifest(vcjob(metadata={"namespace": None}))
        assert (read.namespace, read.tenant, read.project, read.user) == ("default", "default", "", "")

    def test_a_generated_name_depends_on_the_seed_alone(self) -> None:
        manifest = vcjob(metadata={"name": None, "generateName": "sample-"})
        names = [read_manifest(manifest, seed=seed).name for seed in ("a", "b", "a")]
        assert names[0] == names[2] != names[1]
        assert all(name.startswith("sample-") and len(name) == 12 for name in names)

    @pytest.mark.parametrize("name", [{"name": "a"}, {"name": "a", "generateName": "b-"}, {"name": "", "generateName": "b-"}])
    @pytest.mark.parametrize("labels", [None, {}, {"lahar/tenant": ""}, {"lahar/tenant": "t"}])
    @pytest.mark.parametrize("namespace", [None, "", "test"])
    def test_whose_a_job_is_can_be_read_without_judging_it(self, name: dict[str, str], labels: Any, namespace: Any) -> None:
        manifest = vcjob(metadata={"namespace": namespace, "labels": labels, **name})
        read = read_manifest(manifest, seed="s")
        assert read.faults == []
        assert read_identity(manifest, "s") == (read.namespace, read.name, read.tenant)

    @pytest.mark.parametrize(("managed_by", "managed"), [(None, False), ("lahar", True), ("lahar/engine", True), ("kueue", False)])
    def test_who_manages_the_job(self, managed_by: str | None, *, managed: bool) -> None:
        assert read_manifest(vcjob(managedBy=managed_by)).managed is managed

    def test_a_name_that_only_kubernetes_would_refuse_is_a_warning(self) -> None:
        manifest = vcjob(metadata={"name": "Upper"})
        read = read_manifest(manifest)
        assert read.faults == []
        assert [warning.split(":")[0] for warning in read.warnings] == ["metadata.name"]
        strict = read_manifest(manifest, strict=True)
        assert (paths(strict.faults), strict.warnings) == (["metadata.name"], [])

    @pytest.mark.parametrize("name", [None, "", "a b", "a/b", "-a"])
    def test_a_name_that_nobody_takes_is_a_fault(self, name: str | None) -> None:
        assert "metadata.name" in paths(read_manifest(vcjob(metadata={"name": name})).faults)

    def test_namespace_and_labels_are_judged(self) -> None:
        read = read_manifest(vcjob(metadata={"namespace": "A", "labels": {"k": "a b"}}))
        assert paths(read.faults) == ["metadata.namespace", "metadata.labels.k"]


class TestWarnings:
    def test_unknown_fields_are_named_with_their_path(self) -> None:
        manifest = vcjob(
            task(replicass=3, template={**template(container(imge="x")), "kind": "Pod"}),
            policies=[{"event": "*", "action": "AbortJob", "delay": "1s"}],
            prioritty=1,
            metadata={"nam": "x"},
        )
        read = read_manifest({**manifest, "extra": 1})
        assert read.faults == []
        assert sorted(read.warnings) == [
            "extra: unknown field",
            "metadata.nam: unknown field; did you mean name?",
            "spec.policies[0].delay: unknown field",
            "spec.prioritty: unknown field; did you mean priorityClassName?",
            "spec.tasks[0].replicass: unknown field; did you mean replicas?",
            "spec.tasks[0].template.kind: unknown field",
            "spec.tasks[0].template.spec.containers[0].imge: unknown field; did you mean image?",
        ]

    def test_arguments_of_plugins_are_ignored_and_said_to_be(self) -> None:
        read = read_manifest(vcjob(plugins={"svc": ["--publish-not-ready-addresses=true"], "env": []}))
        assert read.warnings == ["spec.plugins.svc: arguments of job plugins are ignored"]

    def test_fields_that_kubernetes_knows_are_no_warning(self) -> None:
        pod = template(container(livenessProbe={}, tty=True), tolerations=[], affinity={}, resources={})
        assert read_manifest({**vcjob(task(template=pod)), "status": {"state": {}}}).warnings == []

    def test_strict_makes_them_faults(self) -> None:
        read = read_manifest(vcjob(task(replicass=3)), strict=True)
        (fault,) = read.faults
        assert (fault.path, fault.message) == ("spec.tasks[0].replicass", "unknown field; did you mean replicas?")
        assert read.spec == JobSpec()


class TestFaults:
    @pytest.mark.parametrize(
        ("manifest", "path"),
        [
            (vcjob(minAvailable=-1), "spec.minAvailable"),
            (vcjob(maxRetry=-1), "spec.maxRetry"),
            (vcjob(ttlSecondsAfterFinished=-1), "spec.ttlSecondsAfterFinished"),
            (vcjob(minSuccess=0), "spec.minSuccess"),
            (vcjob(runningEstimate="long"), "spec.runningEstimate"),
            (vcjob(networkTopology={"mode": "soggy"}), "spec.networkTopology.mode"),
            (vcjob(policies=[{"exitCode": 1, "action": "Cry"}]), "spec.policies[0].action"),
            (vcjob(task(), task(name="b", replicas=-1)), "spec.tasks[1].replicas"),
            (vcjob(task(minAvailable=-1)), "spec.tasks[0].minAvailable"),
            (vcjob(task(maxRetry=-2)), "spec.tasks[0].maxRetry"),
            (vcjob(task(name="a.b")), "spec.tasks[0].name"),
            (vcjob(task(topologyPolicy="best")), "spec.tasks[0].topologyPolicy"),
            (
                vcjob(task(), task(name="b", dependsOn={"name": ["task-1"], "iteration": "some"})),
                "spec.tasks[1].dependsOn.iteration",
            ),
            (
                vcjob(task(partitionPolicy={"totalPartitions": 1, "partitionSize": 1, "minPartitions": -1})),
                "spec.tasks[0].partitionPolicy.minPartitions",
            ),
        ],
    )
    def test_what_volcanos_schema_refuses(self, manifest: dict[str, Any], path: str) -> None:
        assert path in paths(read_manifest(manifest).faults)

    def test_each_field_is_named_once(self) -> None:
        found = paths(read_manifest(vcjob(task(name="Bad_Name", minAvailable=5))).faults)
        assert len(found) == len(set(found))

    @pytest.mark.parametrize(
        "manifest",
        [None, [], "x", 3, {}, {"kind": "Job"}, {"apiVersion": "batch/v1", "kind": "CronJob"}, {"apiVersion": [], "kind": {}}],
    )
    def test_what_is_no_job_says_so(self, manifest: Any) -> None:
        read = read_manifest(manifest)
        assert len(read.faults) == 1
        assert (read.kind, read.spec) == ("", JobSpec())

    def test_a_manifest_may_not_be_endlessly_deep(self) -> None:
        deep: list[Any] = []
        for _ in range(5000):
            deep = [deep]
        assert "deep" in read_manifest({**vcjob(), "extra": deep}).faults[0].message


class TestQueues:
    def test_without_any_queue_there_is_the_default_one(self) -> None:
        assert read_manifest(vcjob()).faults == []
        assert paths(read_manifest(vcjob(queue="other")).faults) == ["spec.queue"]
        assert paths(read_manifest(vcjob(queue="root")).faults) == ["spec.queue"]

    def test_the_default_queue_stays_beside_others(self) -> None:
        queues = [{"name": "other", "parent": "root", "state": "Open"}]
        assert read_manifest(vcjob(), queues=queues).faults == []
        assert read_manifest(vcjob(queue="other"), queues=queues).faults == []

    def test_the_default_queue_can_be_closed(self) -> None:
        assert paths(read_manifest(vcjob(), queues=[{"name": "default", "state": "Closed"}]).faults) == ["spec.queue"]


class TestUpdate:
    OLD = vcjob(task(name="a", replicas=2), task(name="b", replicas=2), minAvailable=2)

    def change(self, *tasks: dict[str, Any], **fields: Any) -> tuple[JobSpec, list[str]]:
        new = vcjob(*(tasks or self.OLD["spec"]["tasks"]), **{"minAvailable": 2, **fields})
        spec, faults = update_spec(spec_of(self.OLD), new)
        return spec, paths(faults)

    def test_sizes_and_priority_change(self) -> None:
        spec, faults = self.change(
            task(name="a", replicas=5, minAvailable=3), task(name="b", replicas=2), minAvailable=4, priorityClassName="high"
        )
        assert faults == []
        assert (spec.tasks[0].replicas, spec.tasks[0].min_available, spec.min_available, spec.priority_class) == (5, 3, 4, "high")

    def test_the_same_manifest_changes_nothing(self) -> None:
        assert self.change() == (spec_of(self.OLD), [])

    @pytest.mark.parametrize(
        ("fields", "path"),
        [
            ({"maxRetry": 9}, "spec.maxRetry"),
            ({"queue": "other"}, "spec.queue"),
            ({"plugins": {"svc": []}}, "spec.plugins"),
            ({"policies": [{"event": "*", "action": "AbortJob"}]}, "spec.policies"),
            ({"lahar": {"preempt": True}}, "lahar.preempt"),
            ({"lahar": {"raise": [{"raise": "E", "when": {"phase": "Running"}}]}}, "lahar.raise"),
            ({"lahar": {"tasks": {"b": {"main": True}}}}, "lahar.tasks.b.main"),
            ({"minAvailable": 5}, "spec.minAvailable"),
        ],
    )
    def test_nothing_else_changes(self, fields: dict[str, Any], path: str) -> None:
        spec, faults = self.change(**fields)
        assert faults == [path]
        assert spec == spec_of(self.OLD)

    def test_tasks_stay_what_they_are(self) -> None:
        a, b = self.OLD["spec"]["tasks"]
        assert self.change(b, a)[1] == ["spec.tasks"]
        assert self.change(a)[1] == ["spec.tasks"]
        assert self.change(a, {**b, "maxRetry": 8})[1] == ["spec.tasks[1].maxRetry"]
        assert self.change(a, {**b, "template": template(container(image="new"))})[1] == ["spec"]

    def test_what_no_specification_holds_cannot_change_either(self) -> None:
        old = spec_of(vcjob(task(), plugins={"ssh": ["--no-root"]}, volumes=[{"mountPath": "/a", "volumeClaimName": "x"}]))
        assert paths(update_spec(old, vcjob(task(), plugins={"ssh": []}))[1]) == ["spec"]
        assert paths(update_spec(old, vcjob(task(), plugins={"ssh": ["--no-root"]}))[1]) == ["spec"]
        old = replace(old, fixed="")
        assert update_spec(old, vcjob(task(), plugins={"ssh": []}))[1] == [], "an earlier release did not keep its digest"

    def test_a_job_keeps_the_gpus_that_it_was_opened_with(self) -> None:
        shared = task(template=template(container(resources={"limits": {"nvidia.com/gpu.shared": "2"}})))
        opened = read_manifest(vcjob(shared), accelerators=Accelerators({"nvidia.com/gpu.shared": "1/4"})).spec
        assert opened.tasks[0].requests.gpus == Decimal("0.5")
        spec, faults = update_spec(opened, vcjob({**shared, "replicas": 3}, minAvailable=1))
        assert faults == []
        assert (spec.tasks[0].replicas, spec.tasks[0].requests) == (3, opened.tasks[0].requests)

    def test_what_is_stated_and_what_is_the_default_are_the_same(self) -> None:
        cpu = template(container(resources={"requests": {"cpu": "1000m"}}))
        old = spec_of(vcjob(task(template=cpu), maxRetry=3, queue="default", volumes=[]))
        assert update_spec(old, vcjob(task(template=template(container(resources={"requests": {"cpu": 1}})))))[1] == []

    def test_templates_that_were_dropped_are_compared_and_not_brought_back(self) -> None:
        old = spec_of(self.OLD)
        old = replace(old, tasks=tuple(replace(one, template=None) for one in old.tasks))
        a, b = self.OLD["spec"]["tasks"]
        assert paths(update_spec(old, vcjob(a, {**b, "template": template(container(image="new"))}, minAvailable=3))[1]) == ["spec"]
        spec, faults = update_spec(old, vcjob(a, b, minAvailable=3))
        assert faults == []
        assert [one.template for one in spec.tasks] == [None, None]
        more = template(container(resources={"requests": {"cpu": 1}}))
        assert paths(update_spec(old, vcjob(a, {**b, "template": more}, minAvailable=3))[1]) == ["spec.tasks[1].requests"]

    def test_a_job_in_a_queue_that_was_closed_can_still_change(self) -> None:
        queues = [{"name": "q", "state": "Open"}]
        old = read_manifest(vcjob(queue="q"), queues=queues).spec
        assert update_spec(old, vcjob(task(replicas=2), queue="q"))[1] == []


SHARED = os.environ.get("LAHAR_SHARED")


@pytest.mark.skipif(SHARED is None, reason="LAHAR_SHARED does not say where the real manifests are")
@pytest.mark.parametrize(
    ("file", "name", "tasks", "gpus"),
    [
        ("volcano-job-gang.yaml", "test-job", {"default-nginx": 6}, 0),
        ("volcano-job-mpi-gpu.yaml", "mindspore-gpu", {"mpimaster": 1, "mpiworker": 2}, 1),
        ("kueue-job.yaml", None, {"main": 3}, 0),
    ],
)
def test_real_manifests(file: str, name: str | None, tasks: dict[str, int], gpus: int) -> None:
    documents = yaml.safe_load_all((Path(SHARED or "") / "pods" / file).read_text(encoding="utf-8"))
    read = read_manifest(next(document for document in documents if document))
    assert (read.faults, read.warnings) == ([], [])
    assert name is None or read.name == name
    assert {one.name: one.replicas for one in read.spec.tasks} == tasks
    assert read.spec.tasks[-1].requests.gpu == gpus
