"""Volcano's admission of a new vcjob: each rule accepted and refused, with the path of the fault."""

from __future__ import annotations

from typing import Any

import pytest
from manifest_builders import OPEN, container, paths, task, template, vcjob

from engine.conformance.admission import validate_create

TREE = [
    {"name": "root", "parent": "", "state": "Open"},
    {"name": "dept", "parent": "root", "state": "Open"},
    {"name": "team", "parent": "dept", "state": "Open"},
    {"name": "shut", "parent": "root", "state": "Closed"},
]


def faults_of(job: Any, queues: list[dict[str, Any]] = OPEN) -> list[str]:
    return paths(validate_create(job, queues))


def test_a_plain_job_is_accepted_with_or_without_type() -> None:
    job = vcjob()
    assert faults_of(job) == []
    assert faults_of({"metadata": job["metadata"], "spec": job["spec"]}) == []


def test_a_job_without_tasks_is_refused_and_nothing_else_is_looked_at() -> None:
    assert faults_of(vcjob(tasks=[], queue="nowhere")) == ["spec.tasks"]
    assert faults_of({}) == ["spec.tasks"]


class TestSizes:
    def test_a_tasks_minimum_may_equal_its_replicas_and_not_exceed_them(self) -> None:
        assert faults_of(vcjob(task(replicas=2, minAvailable=2))) == []
        assert faults_of(vcjob(task(replicas=2, minAvailable=3))) == ["spec.tasks[0].minAvailable"]

    def test_the_jobs_minimum_may_not_exceed_the_sum_of_replicas(self) -> None:
        two = (task(name="a", replicas=2), task(name="b", replicas=1))
        assert faults_of(vcjob(*two, minAvailable=3)) == []
        assert faults_of(vcjob(*two, minAvailable=4)) == ["spec.minAvailable"]

    def test_negative_numbers_are_left_to_the_schema(self) -> None:
        """Volcano: the webhook does not look at them, the CRD does."""
        assert faults_of(vcjob(maxRetry=-1, ttlSecondsAfterFinished=-1)) == []
        assert faults_of(vcjob(task(replicas=-1), minAvailable=0)) == ["spec.minAvailable"]


class TestPartitions:
    @pytest.mark.parametrize(
        ("policy", "fields", "expected"),
        [
            ({"totalPartitions": 2, "partitionSize": 4}, {}, []),
            ({"totalPartitions": 2, "partitionSize": 4, "minPartitions": 1}, {"minAvailable": 4}, []),
            ({"totalPartitions": 2, "partitionSize": 4, "minPartitions": 1}, {}, []),
            ({"totalPartitions": 2, "partitionSize": 4, "minPartitions": 0}, {"minAvailable": 3}, []),
            ({"totalPartitions": 2, "partitionSize": 4, "minPartitions": 2}, {"minAvailable": 4}, ["spec.tasks[0].minAvailable"]),
            ({"totalPartitions": 3, "partitionSize": 4}, {}, ["spec.tasks[0].replicas"]),
            ({"totalPartitions": 0, "partitionSize": 4}, {}, ["spec.tasks[0].partitionPolicy.totalPartitions"]),
            ({"totalPartitions": 2, "partitionSize": -4}, {}, ["spec.tasks[0].partitionPolicy.partitionSize"]),
        ],
    )
    def test_the_numbers_must_fit(self, policy: dict[str, Any], fields: dict[str, Any], expected: list[str]) -> None:
        assert faults_of(vcjob(task(replicas=8, partitionPolicy=policy, **fields))) == expected

    def test_only_one_way_to_name_the_highest_tier(self) -> None:
        both = {"mode": "hard", "highestTierAllowed": 1, "highestTierName": "rack"}
        policy = {"totalPartitions": 1, "partitionSize": 1, "networkTopology": both}
        assert faults_of(vcjob(task(partitionPolicy=policy))) == ["spec.tasks[0].partitionPolicy.networkTopology"]
        assert faults_of(vcjob(networkTopology=both)) == ["spec.networkTopology"]
        assert faults_of(vcjob(networkTopology={"mode": "hard", "highestTierAllowed": 1})) == []
        assert faults_of(vcjob(networkTopology={"mode": "soft", "highestTierName": "rack"})) == []


class TestNames:
    def test_two_tasks_may_not_share_a_name(self) -> None:
        assert faults_of(vcjob(task(), task())) == ["spec.tasks[1].name"]

    def test_a_task_needs_a_name_that_objects_may_have(self) -> None:
        assert faults_of(vcjob(task(name="Task_1"))) == ["spec.tasks[0].name"]
        assert faults_of(vcjob(task(name=None))) == ["spec.tasks[0].name"]

    def test_the_names_of_pods_must_not_be_too_long(self) -> None:
        assert faults_of(vcjob(task(name="t" * 50), metadata={"name": "j" * 10})) == []
        assert faults_of(vcjob(task(name="t" * 51), metadata={"name": "j" * 10})) == ["spec.tasks[0].name"]

    def test_the_jobs_name_must_be_a_qualified_name(self) -> None:
        assert faults_of(vcjob(metadata={"name": "Upper_case.1"})) == []
        assert faults_of(vcjob(metadata={"name": "-job"})) == ["spec.tasks[0].name", "metadata.name"]
        assert faults_of(vcjob(metadata={"name": ""})) == ["spec.tasks[0].name", "metadata.name"]

    def test_a_namespace_is_required(self) -> None:
        assert faults_of(vcjob(metadata={"namespace": ""})) == ["metadata.namespace"]


class TestPlugins:
    def test_only_known_plugins_are_accepted(self) -> None:
        known = ["env", "svc", "ssh", "tensorflow", "pytorch", "ray", "hcclrank"]
        assert faults_of(vcjob(plugins={name: [] for name in known})) == []
        assert faults_of(vcjob(plugins={"svc": None, "big_plugin": []})) == ["spec.plugins.big_plugin"]

    @pytest.mark.parametrize(
        ("arguments", "found"),
        [
            ([], False),
            (["--master=task-1"], True),
            (["-master", "task-1"], True),
            (["--port=22", "--worker", "w", "--master=task-1"], True),
            (["--unknown", "--master=task-1"], False),
            (["master=task-1"], False),
            (["--master"], False),
        ],
    )
    def test_mpi_needs_its_master_task(self, arguments: list[str], *, found: bool) -> None:
        assert faults_of(vcjob(plugins={"mpi": arguments}, queue="nowhere")) == (["spec.queue"] if found else ["spec.plugins.mpi"])

    def test_the_default_master_is_called_master(self) -> None:
        assert faults_of(vcjob(task(name="master"), plugins={"mpi": []})) == []


class TestVolumes:
    @pytest.mark.parametrize(
        ("volumes", "expected"),
        [
            ([{"mountPath": "/a", "volumeClaimName": "pvc1"}, {"mountPath": "/b", "volumeClaim": {}}], []),
            ([{"volumeClaimName": "pvc1"}], ["spec.volumes[0].mountPath"]),
            ([{"mountPath": "/a", "volumeClaimName": "x"}] * 2, ["spec.volumes[1].mountPath"]),
            ([{"mountPath": "/a"}], ["spec.volumes[0]"]),
            ([{"mountPath": "/a", "volumeClaimName": "x", "volumeClaim": {"accessModes": []}}], ["spec.volumes[0]"]),
            ([{"mountPath": "/a", "volumeClaimName": "A_b"}], ["spec.volumes[0].volumeClaimName"]),
        ],
    )
    def test_a_volume_has_a_path_of_its_own_and_one_claim(self, volumes: list[dict[str, Any]], expected: list[str]) -> None:
        assert faults_of(vcjob(volumes=volumes)) == expected


class TestQueues:
    @pytest.mark.parametrize(
        ("queue", "words"),
        [
            ("team", None),
            ("nowhere", "unable to find job queue"),
            ("", "unable to find job queue"),
            ("shut", "with state `Open`"),
            ("root", "root queue"),
            ("dept", "leaf queue"),
        ],
    )
    def test_a_job_goes_to_an_open_leaf(self, queue: str, words: str | None) -> None:
        found = validate_create(vcjob(queue=queue), TREE)
        assert paths(found) == ([] if words is None else ["spec.queue"])
        assert words is None or words in found[0].message

    def test_a_queue_without_a_state_is_open(self) -> None:
        assert faults_of(vcjob(queue="q"), [{"name": "q"}]) == []

    def test_a_queue_that_is_not_given_does_not_exist(self) -> None:
        assert faults_of(vcjob(), []) == ["spec.queue"]


class TestDependencies:
    @pytest.mark.parametrize(
        ("needs", "accepted"),
        [
            ({"a": [], "b": ["a"]}, True),
            ({"a": ["b"], "b": ["a"]}, False),
            ({"a": ["a"], "b": []}, False),
            ({"a": [], "b": ["a", "a"]}, False),
        ],
    )
    def test_tasks_must_not_wait_in_a_circle(self, needs: dict[str, list[str]], *, accepted: bool) -> None:
        tasks = [task(name=name, dependsOn={"name": others}) for name, others in needs.items()]
        assert faults_of(vcjob(*tasks)) == ([] if accepted else ["spec.tasks"])

    def test_tasks_must_not_wait_for_one_that_there_is_not(self) -> None:
        tasks = [task(name="a"), task(name="b", dependsOn={"name": ["a", "c"]})]
        assert faults_of(vcjob(*tasks)) == ["spec.tasks[1].dependsOn.name[1]"]


class TestTopologyPolicy:
    def test_every_container_must_ask_for_whole_cores(self) -> None:
        whole, part = ({"resources": {"requests": {"cpu": cpu}}} for cpu in ("2", "1500m"))
        good = task(topologyPolicy="restricted", template=template(container(**whole)))
        bad = task(topologyPolicy="restricted", template=template(container(**whole), container(name="d", **part)))
        assert faults_of(vcjob(good)) == []
        assert faults_of(vcjob(bad)) == ["spec.tasks[0].template.spec.containers[1].resources.requests.cpu"]

    def test_a_bad_template_is_told_first(self) -> None:
        assert faults_of(vcjob(task(topologyPolicy="restricted", template=template(container(image=""))))) == [
            "spec.tasks[0].template.spec.containers[0].image"
        ]


def test_policies_of_job_and_tasks_are_judged() -> None:
    bad = [{"event": "PodRunning", "action": "AbortJob"}]
    assert faults_of(vcjob(task(policies=bad), policies=bad)) == ["spec.tasks[0].policies[0].event", "spec.policies[0].event"]


def test_fields_of_the_wrong_type_are_named() -> None:
    job = vcjob(task(replicas="3", dependsOn={"name": "a"}), plugins={"svc": [1]}, minAvailable=True)
    assert faults_of(job) == [
        "spec.minAvailable",
        "spec.tasks[0].replicas",
        "spec.tasks[0].dependsOn.name",
        "spec.plugins.svc[0]",
    ]


def test_a_number_must_fit_into_32_bits() -> None:
    assert faults_of(vcjob(task(replicas=2**31))) == ["spec.tasks[0].replicas"]


def test_all_faults_are_told_at_once() -> None:
    job = vcjob(task(minAvailable=2, template=template(container(image=""))), plugins={"no": []}, queue="nowhere", minAvailable=9)
    assert faults_of(job) == [
        "spec.tasks[0].minAvailable",
        "spec.tasks[0].template.spec.containers[0].image",
        "spec.minAvailable",
        "spec.plugins.no",
        "spec.queue",
    ]
