"""From pods with ResourceClaims to bills, sums and answers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest
from claim_builders import GPU, claim, exactly, pod, results

import lahar
from engine.events.inputs import PodObserved

HOUR = 3600
MOMENT = datetime(2026, 4, 1, 8, 30, tzinfo=UTC)
BOOK = {
    "apiVersion": "lahar.dev/v1",
    "kind": "PriceBook",
    "metadata": {"name": "b"},
    "spec": {
        "currency": "EUR",
        "versions": [{"version": "1", "from": "2026-01-01T00:00:00Z", "prices": {"gpu_seconds": {"*": "1"}}}],
    },
}
TWO = claim(exactly(count=2), exactly("nic.example.com", "nic"), allocated=results("gpu", 2) + results("nic"), pods=("train",))


def billed(log: lahar.Lahar) -> Decimal:
    """Return the GPU seconds of all records, corrections included."""
    return sum((record.quantity for record in log.bills.records() if record.charge.meter == "gpu_seconds"), Decimal(0))


def listed(*items: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


@pytest.mark.parametrize("as_list", [False, True])
def test_a_pod_is_billed_for_the_devices_of_its_claims_in_any_order(as_list: bool) -> None:
    objects = [BOOK, TWO, pod("train", "one", phase="Succeeded")]
    for given in permutations(objects):
        with lahar.open("memory:", billing=True) as log:
            log.ingest([listed(*given)] if as_list else list(given))
            assert billed(log) == 2 * HOUR
            assert log.summary()["gpu_seconds"] == 2 * HOUR
            assert list(log.summary()["not_billed"]) == ["nic.example.com"]


def test_claims_that_were_not_read_are_listed_as_used_and_not_billed() -> None:
    with lahar.open("memory:", billing=True) as log:
        log.ingest([BOOK, pod("train", "one", phase="Succeeded")])
        assert billed(log) == 0
        assert list(log.summary()["not_billed"]) == ["resourceclaims"]


def test_pods_that_share_a_claim_are_billed_for_it_once() -> None:
    shared = claim(allocated=results("gpu"), pods=("a", "b", "c"))
    with lahar.open("memory:", billing=True) as log:
        log.ingest([BOOK, shared, *(pod(uid, "one", phase="Succeeded") for uid in "abc")])
        assert billed(log) == HOUR
        assert log.summary()["not_billed"][GPU]["unit_seconds"] == 2 * HOUR


def test_claims_read_after_their_pods_correct_the_bill_from_the_start() -> None:
    """The same version of the pod shows its devices once its claims are read."""
    with lahar.open("memory:", billing=True) as log:
        log.ingest([BOOK, pod("train", "one")])
        log.ingest([pod("train", "one"), TWO])
        log.ingest([pod("train", "one", phase="Succeeded", version=2)])
        assert billed(log) == 2 * HOUR
        assert log.summary()["gpu_seconds"] == 2 * HOUR


def test_a_pod_that_ends_before_its_claims_are_read_is_billed_with_its_end() -> None:
    with lahar.open("memory:", billing=True) as log:
        log.ingest([BOOK, pod("train", "one")])
        log.ingest([TWO, pod("train", "one", phase="Succeeded", version=2)])
        assert billed(log) == 2 * HOUR


def test_a_program_that_yields_pods_as_they_come_does_not_wait_for_claims() -> None:
    with lahar.open("memory:") as log:

        def watch() -> Iterator[dict[str, Any]]:
            yield pod("train", "one")
            assert len(list(log.log.scan(("pods",), {PodObserved.TYPE}))) == 1
            yield TWO

        log.ingest(watch())


def test_devices_of_claims_are_none_of_those_that_a_node_offers_by_name() -> None:
    node = {"kind": "Node", "metadata": {"name": "n1", "uid": "n1"}, "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "8"}}}
    with lahar.open("memory:") as log:
        log.ingest([node, TWO, pod("train", "one", asked={"nvidia.com/gpu": "1"})])
        (attempt,) = log.as_of(MOMENT, "lab/train").document()["attempts"].values()
        idle = log.scheduling.node("n1").document()["idle"]["nvidia.com/gpu"]
    assert (attempt["requests"]["gpu"], attempt["requests"]["unmetered"]) == (3, {"nic.example.com": 1000})
    assert idle == 7000
