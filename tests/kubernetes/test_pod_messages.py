"""What a pod's own words become: the scheduler's, the kubelet's and the containers' messages of the state that it is in."""

from __future__ import annotations

import pytest
from pod_builders import condition, disrupted, pod, running, status, terminated, waiting

from engine.events import decode
from engine.events.excerpts import LONGEST
from engine.events.inputs import PodDeleted, PodObserved
from engine.kubernetes.edge import Taken, to_inputs
from engine.kubernetes.observation.jobs import observe_job
from engine.kubernetes.observation.pods import observe_pod
from engine.kubernetes.reading.documents import Document

FULL = "0/12 nodes are available: 12 Insufficient nvidia.com/gpu."
PULL = 'Back-off pulling image "registry.example/none:1"'


def ended(code, reason, message=None, **fields):
    return status({"terminated": {"exitCode": code, "reason": reason, "message": message}}, **fields)


def scheduled(value, message=FULL):
    return condition("PodScheduled", value, reason="Unschedulable", message=message)


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        (pod("Pending", conditions=(scheduled("False"),), node=None), FULL),
        (pod("Running", running(), conditions=(scheduled("True"),)), ""),
        (pod("Pending", status({"waiting": {"reason": "ImagePullBackOff", "message": PULL}})), PULL),
        (pod("Failed", reason="Evicted", message="The node was low on memory."), "The node was low on memory."),
        (pod("Failed", ended(1, "Error", "no such file: /data\n")), "no such file: /data"),
        (pod("Succeeded", ended(0, "Completed", "loss 0.12")), "loss 0.12"),
        (
            pod("Failed", terminated(1), conditions=({**disrupted("PreemptionByScheduler"), "message": "preempting for a/b"},)),
            "preempting for a/b",
        ),
        (
            pod(
                "Running",
                status(
                    {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
                    lastState=ended(137, "OOMKilled")["state"],
                ),
            ),
            "back-off 5m0s; its last run ended with exit 137 (OOMKilled)",
        ),
        (
            pod("Running", running(restartCount=1, lastState=ended(2, "Error", "out of disk")["state"])),
            "its last run ended with exit 2 (Error): out of disk",
        ),
        (
            pod(
                "Failed",
                waiting("PodInitializing"),
                initContainerStatuses=[ended(1, "Error", name="fetch"), ended(0, "Completed", name="ok")],
            ),
            "fetch: ended with exit 1 (Error)",
        ),
        (
            pod("Failed", ended(1, "Error", "a is down", name="a"), ended(2, "Error", "b is down", name="b")),
            "a: a is down; b: b is down",
        ),
        (pod("Pending", status({"waiting": {"reason": "X", "message": {"no": "text"}}})), ""),
        (pod("Running", running(lastState=[1]), message=7), ""),
    ],
)
def test_the_message_of_a_pod(shown, message):
    assert observe_pod(shown).message == message


def test_a_long_message_is_cut_at_the_edge():
    seen = observe_pod(pod("Failed", ended(1, "Error", "é" * 4_000)))
    assert len(seen.message.encode()) <= LONGEST
    assert "bytes" in seen.message


def take(content, change=None):
    taken = to_inputs(Document(1, "", content, change), "seren", 1)
    assert isinstance(taken, Taken)
    return taken.messages[0]


def test_a_deleted_pod_keeps_its_message():
    data = decode(take(pod("Pending", conditions=(scheduled("False"),), node=None), "DELETED")).data
    assert isinstance(data, PodDeleted)
    assert data.last.message == FULL


def test_a_message_that_is_no_unicode_loses_no_pod():
    data = decode(take(pod("Failed", ended(1, "Error", "bad \ud800 byte")))).data
    assert isinstance(data, PodObserved)
    assert data.message == "bad ? byte"


def test_the_id_of_an_object_is_its_own():
    """By resourceVersion whatever it says; without one by all that it says, so a new message is a new fact."""
    first, second = (pod("Pending", conditions=(scheduled("False", said),), node=None) for said in (FULL, "0/1 nodes."))
    assert take(first).id == take(second).id
    for one in (first, second):
        del one["metadata"]["resourceVersion"]
    assert take(first).id == take(first).id != take(second).id


JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "etl", "uid": "u"}, "spec": {}}


@pytest.mark.parametrize(
    ("kind", "state", "phase", "reason", "message"),
    [
        (
            "Job",
            {"conditions": [condition("Failed", reason="BackoffLimitExceeded", message="Job has reached the limit")]},
            "Failed",
            "BackoffLimitExceeded",
            "Job has reached the limit",
        ),
        ("Job", {"conditions": [condition("Suspended", message="Job suspended")]}, "Pending", "JobSuspended", "Job suspended"),
        ("JobSet", {"conditions": [condition("Suspended", message="held")]}, "Pending", "JobSuspended", "held"),
        ("RayJob", {"jobStatus": "FAILED", "reason": "AppFailed", "message": "exit 1"}, "Failed", "AppFailed", "exit 1"),
        ("Job", {"active": 1}, "Running", None, ""),
    ],
)
def test_the_message_of_a_job_object(kind, state, phase, reason, message):
    api = {"Job": "batch/v1", "JobSet": "jobset.x-k8s.io/v1alpha2", "RayJob": "ray.io/v1"}[kind]
    seen = observe_job({**JOB, "apiVersion": api, "kind": kind, "status": state})
    assert (seen.phase, seen.reason, seen.message) == (phase, reason, message)


def test_volcanos_own_words_are_kept():
    state = {"state": {"phase": "Aborted", "message": "aborted by ann", "reason": "AbortJob"}}
    seen = observe_job({**JOB, "apiVersion": "batch.volcano.sh/v1alpha1", "status": state})
    assert (seen.phase, seen.message) == ("Aborted", "aborted by ann")
