"""Which controllers a source of objects keeps, and which of them it forgets first."""

from __future__ import annotations

from typing import Any

import pytest

from engine.events import Message, decode
from engine.kubernetes.edge import Taken, to_inputs
from engine.kubernetes.owner_chains import OwnerChains
from engine.kubernetes.reading.documents import Document

FLINK = ("stream", "FlinkDeployment", "flink.apache.org/v1beta1")
SPARK = ("agg", "SparkApplication", "sparkoperator.k8s.io/v1beta2")


def thing(kind: str, name: str, owner: tuple[str, str, str] | None = None, change: str | None = None) -> Document:
    metadata: dict[str, Any] = {"name": name, "uid": f"u-{name}", "creationTimestamp": "2026-04-01T08:00:00Z"}
    if owner is not None:
        above, above_kind, api = owner
        metadata["ownerReferences"] = [
            {"apiVersion": api, "kind": above_kind, "name": above, "uid": f"u-{above}", "controller": True}
        ]
    return Document(1, "", {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": {"restartPolicy": "Never"}}, change)


def web(number: int) -> Document:
    """A pod of a service."""
    return thing("Pod", f"web-{number}", ("web", "ReplicaSet", "apps/v1"))


def job_of(chains: OwnerChains, pod: Document) -> str:
    """The job of a pod by the chains."""
    chains.note(pod)
    taken = to_inputs(pod, "c", 0)
    assert isinstance(taken, Taken)
    ((_, message),) = chains.resolve([(taken.topic, one) for one in taken.messages])
    return _subject(message)


def _subject(message: Message) -> str:
    event = decode(message)
    assert event.subject == message.key
    return event.subject


def test_pods_that_control_no_pods_take_no_place_of_what_does() -> None:
    chains = OwnerChains(objects=3, pods=2, gone=2)
    chains.note(thing("ReplicaSet", "rs", FLINK))
    for number in range(100):
        chains.note(web(number))
    assert job_of(chains, thing("Pod", "p", ("rs", "ReplicaSet", "apps/v1"))) == "u-stream"


def test_an_object_whose_pods_are_seen_is_not_forgotten() -> None:
    chains = OwnerChains(objects=3)
    chains.note(thing("ReplicaSet", "rs", FLINK))
    for number in range(100):
        chains.note(thing("ReplicaSet", f"other-{number}", FLINK))
        assert job_of(chains, thing("Pod", "p", ("rs", "ReplicaSet", "apps/v1"))) == "u-stream"


def test_an_object_that_is_seen_again_is_not_forgotten() -> None:
    chains = OwnerChains(objects=3)
    for number in range(100):
        chains.note(thing("ReplicaSet", "rs", FLINK))
        chains.note(thing("ReplicaSet", f"other-{number}", FLINK))
    assert job_of(chains, thing("Pod", "p", ("rs", "ReplicaSet", "apps/v1"))) == "u-stream"


def test_a_pod_that_controls_pods_is_kept_as_an_object() -> None:
    chains = OwnerChains(objects=3, pods=2)
    chains.note(thing("Pod", "driver", SPARK))
    assert job_of(chains, thing("Pod", "x", ("driver", "Pod", "v1"))) == "u-agg"
    for number in range(100):
        chains.note(web(number))
    assert job_of(chains, thing("Pod", "y", ("driver", "Pod", "v1"))) == "u-agg"


@pytest.mark.parametrize("controller", [thing("ReplicaSet", "top", FLINK), thing("Pod", "top", FLINK)])
def test_the_pods_of_a_deleted_object_go_after_it(controller: Document) -> None:
    kind = controller.content["kind"]
    chains = OwnerChains(objects=3, gone=2)
    chains.note(controller)
    first, second = (thing("Pod", name, ("top", kind, "apps/v1")) for name in "xy")
    assert job_of(chains, first) == "u-stream"
    chains.note(controller._replace(change="DELETED"))
    for number in range(100):
        chains.note(thing("ReplicaSet", f"other-{number}", FLINK))
        chains.note(web(number)._replace(change="DELETED"))
    assert job_of(chains, second) == "u-stream"


def test_deleted_objects_take_no_place_of_others() -> None:
    chains = OwnerChains(objects=3, gone=2)
    chains.note(thing("ReplicaSet", "rs", FLINK))
    for number in range(100):
        for change in ("ADDED", "DELETED"):
            chains.note(thing("ReplicaSet", f"other-{number}", FLINK, change))
    assert job_of(chains, thing("Pod", "p", ("rs", "ReplicaSet", "apps/v1"))) == "u-stream"


def test_the_top_is_the_job_known_or_not() -> None:
    chains = OwnerChains()
    chains.note(thing("Trial", "trial", ("tj", "TrainJob", "trainer.kubeflow.org/v1alpha1")))
    chains.note(thing("TrainJob", "tj", ("wrapper", "AppWrapper", "workload.codeflare.dev/v1beta2")))
    assert job_of(chains, thing("Pod", "p", ("trial", "Trial", "kubeflow.org/v1beta1"))) == "u-wrapper"
