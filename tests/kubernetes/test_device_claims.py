"""Devices of pods by the ResourceClaims that they use."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from claim_builders import GPU, claim, exactly, pod, results
from hypothesis import given
from hypothesis import strategies as st

from engine.events import Message, decode
from engine.events.inputs import PodDeleted, PodObserved
from engine.kubernetes.device_claims import DeviceClaims
from engine.kubernetes.edge import Taken, to_inputs
from engine.kubernetes.reading.accelerators import Accelerators
from engine.kubernetes.reading.documents import Change, Document
from statemachines.spec import Requests

UNREAD = {"resourceclaims": 1000}


def read(*objects: dict[str, Any], rows: dict[str, str | float] | None = None, kept: int = 1000) -> list[PodObserved]:
    """Return the pods among some objects, read as one stream."""
    table = Accelerators(rows)
    claims = DeviceClaims(table, kept)
    return [observed(message) for message in resolved(claims, table, *objects)]


def resolved(claims: DeviceClaims, table: Accelerators, *objects: dict[str, Any], change: Change | None = None) -> list[Message]:
    inputs = []
    for content in objects:
        item = Document(1, "", content, change)
        outcome = to_inputs(item, "c", 0, table)
        claims.note(item, outcome)
        if isinstance(outcome, Taken):
            inputs += [(outcome.topic, message) for message in outcome.messages]
    return [message for _, message in claims.resolve(inputs)]


def observed(message: Message) -> PodObserved:
    data = decode(message).data
    assert isinstance(data, PodObserved)
    return data


def devices(request: Requests) -> tuple[int | Decimal, dict[str, int]]:
    return request.gpus, request.unmetered


def of_one(*objects: dict[str, Any], rows: dict[str, str | float] | None = None) -> tuple[int | Decimal, dict[str, int]]:
    """Return GPUs and other devices of the one pod among some objects."""
    (found,) = read(*objects, rows=rows)
    return devices(found.requests)


# --- which devices ------------------------------------------------------------------------------------------------------------


def test_a_pod_has_the_devices_of_its_claim_whichever_comes_first() -> None:
    given = claim(exactly(count=2), allocated=results("gpu", 2), pods=("p",))
    assert of_one(given, pod("p", "one")) == (2, {})
    assert of_one(pod("p", "one"), given) == (2, {})


def test_without_its_claim_a_pod_has_a_claim() -> None:
    assert of_one(pod("p", "one")) == (0, UNREAD)
    assert of_one(pod("p", "one"), claim(name="other", allocated=results("gpu"), pods=("p",))) == (0, UNREAD)
    assert of_one(pod("p", "one", "two"), claim(allocated=results("gpu"), pods=("p",))) == (1, UNREAD)


@pytest.mark.parametrize("api", ["v1", "v1beta2"])
def test_the_class_of_an_alternative_is_that_which_was_allocated(api: str) -> None:
    alternatives = {
        "name": "any",
        "firstAvailable": [{"name": "big", "deviceClassName": GPU}, {"name": "nic", "deviceClassName": "n"}],
    }
    made = claim(alternatives, allocated=results("any/nic", 2), pods=("p",), api=api)
    assert of_one(made, pod("p", "one")) == (0, {"n": 2000})


def test_the_first_version_of_the_api_has_the_class_in_the_request_itself() -> None:
    request = {"name": "gpu", "deviceClassName": GPU, "allocationMode": "ExactCount", "count": 2}
    assert of_one(claim(request, api="v1beta1", allocated=results("gpu", 2), pods=("p",)), pod("p", "one")) == (2, {})
    assert of_one(claim(request, api="v1beta1", owner="p", name="made"), pod("p", "made")) == (2, {})


def test_a_claim_made_for_a_pod_counts_as_it_asks_until_it_is_allocated() -> None:
    made = claim(exactly(count=3), exactly("nic.example.com", "nic"), owner="p", name="made")
    assert of_one(made, pod("p", "made", phase="Pending")) == (3, {"nic.example.com": 1000})


@pytest.mark.parametrize(
    "request_",
    [
        exactly(allocationMode="All"),
        {"name": "any", "firstAvailable": [{"name": "a", "deviceClassName": GPU}]},
        {"name": "none"},
        exactly("x" * 254),
    ],
)
def test_what_is_decided_by_the_allocation_is_not_known_before(request_: dict[str, Any]) -> None:
    assert of_one(claim(request_, owner="p", name="made"), pod("p", "made")) == (0, UNREAD)


def test_access_for_administration_takes_no_device() -> None:
    asked = exactly(), exactly(name="watch", adminAccess=True)
    allocated = results("gpu") + results("watch", adminAccess=True) + results("watch")
    assert of_one(claim(*asked, allocated=allocated, pods=("p",)), pod("p", "one")) == (1, {})
    assert of_one(claim(*asked, owner="p", name="made"), pod("p", "made")) == (1, {})


def test_a_share_of_a_device_is_no_gpu() -> None:
    """Its size is in no field of the claim: `consumedCapacity` is of a capacity that the claim does not state."""
    shared = claim(allocated=results("gpu", shareID="1f3c"), pods=("p",))
    assert of_one(shared, pod("p", "one")) == (0, {GPU: 1000})


@pytest.mark.parametrize(
    ("device_class", "found"),
    [
        ("gpu.nvidia.com", (2, {})),
        ("vfio.gpu.nvidia.com", (2, {})),
        ("gpu.amd.com", (2, {})),
        ("gpu.intel.com", (2, {})),
        ("mig.nvidia.com", (0, {"mig.nvidia.com": 2000})),
        ("compute-domain-default-channel.nvidia.com", (0, {"compute-domain-default-channel.nvidia.com": 2000})),
        ("cpu", (0, {"cpu": 2000})),
    ],
)
def test_a_device_counts_by_its_class(device_class: str, found: tuple[int, dict[str, int]]) -> None:
    given = claim(exactly(device_class), allocated=results("gpu", 2), pods=("p",))
    assert of_one(given, pod("p", "one")) == found


@pytest.mark.parametrize("row", ["mig-1g.lab", "mig-*", "deviceclass.resource.kubernetes.io/mig-1g.lab"])
def test_rows_of_operators_name_classes(row: str) -> None:
    """A class has one row for its claims and for the extended resource that Kubernetes derives from its name."""
    given = claim(exactly("mig-1g.lab"), allocated=results("gpu", 2), pods=("p",))
    rows: dict[str, str | float] = {row: "1/4"}
    assert of_one(given, pod("p", "one"), rows=rows) == (Decimal("0.5"), {})
    extended = pod("q", asked={"deviceclass.resource.kubernetes.io/mig-1g.lab": "2"})
    assert of_one(extended, rows=rows) == (Decimal("0.5"), {})


def test_gpus_of_claims_and_resources_add_up_only_the_latter_use_the_nodes() -> None:
    asked = {"nvidia.com/gpu": "1", "cpu": "2"}
    (found,) = read(claim(allocated=results("gpu", 2), pods=("p",)), pod("p", "one", asked=asked))
    assert found.requests == Requests(2000, gpu=3)
    assert found.resources == {"nvidia.com/gpu": 1000}


def test_the_claim_of_an_extended_resource_does_not_count_again() -> None:
    used = pod("p", asked={"nvidia.com/gpu": "1"})
    used["status"]["extendedResourceClaimStatus"] = {
        "resourceClaimName": "one",
        "requestMappings": [{"containerName": "c", "resourceName": "nvidia.com/gpu", "requestName": "gpu"}],
    }
    assert of_one(claim(allocated=results("gpu"), pods=("p",), owner="p"), used) == (1, {})


def test_a_claim_that_need_not_be_made_is_none() -> None:
    needless = pod("p", "made")
    needless["status"]["resourceClaimStatuses"] = [{"name": "c0"}]
    assert of_one(needless) == (0, {})
    needless["status"]["resourceClaimStatuses"] = []
    assert of_one(needless) == (0, UNREAD)


def test_a_claim_that_a_pod_names_twice_counts_once() -> None:
    assert of_one(claim(allocated=results("gpu"), pods=("p",)), pod("p", "one", "one")) == (1, {})


def test_the_last_state_of_a_deleted_pod_has_its_devices() -> None:
    claims, table = DeviceClaims(), Accelerators()
    resolved(claims, table, claim(allocated=results("gpu"), pods=("p",)))
    (message,) = resolved(claims, table, pod("p", "one", phase="Succeeded"), change="DELETED")
    data = decode(message).data
    assert isinstance(data, PodDeleted)
    assert data.last.requests.gpus == 1


# --- which version of a claim -------------------------------------------------------------------------------------------------


def test_what_was_allocated_counts_on_when_the_claim_is_released() -> None:
    taken = claim(exactly(count=2), allocated=results("gpu", 2), pods=("p",), version="2")
    assert of_one(taken, claim(exactly(count=2), version="3"), pod("p", "one", phase="Succeeded")) == (2, {})


def test_an_older_version_of_a_claim_changes_nothing() -> None:
    taken = claim(exactly(count=2), allocated=results("gpu", 2), owner="p", name="made", version="10")
    older = claim(exactly(), owner="p", name="made", version="9", allocated=results("gpu"))
    assert of_one(taken, older, pod("p", "made")) == (2, {})


def test_a_name_may_be_used_again() -> None:
    first = claim(allocated=results("gpu"), pods=("p",), version="9")
    again = claim(exactly(count=2), allocated=results("gpu", 2), pods=("q",), version="5", uid="again")
    assert of_one(first, again, pod("q", "one")) == (2, {})
    assert of_one(first, again, pod("p", "one")) == (0, UNREAD)


def test_claims_of_other_groups_and_namespaces_are_others() -> None:
    foreign = claim(allocated=results("gpu"), pods=("p",)) | {"apiVersion": "example.com/v1"}
    elsewhere = claim(allocated=results("gpu"), pods=("p",))
    elsewhere["metadata"]["namespace"] = "other"
    assert of_one(foreign, elsewhere, pod("p", "one")) == (0, UNREAD)


# --- pods that share a claim --------------------------------------------------------------------------------------------------


def test_of_pods_that_share_a_claim_the_first_is_metered() -> None:
    shared = claim(allocated=results("gpu"), pods=("a", "b", "c"))
    found = read(shared, *(pod(uid, "one") for uid in "cba"))
    assert [devices(one.requests) for one in found] == [(0, {GPU: 1000}), (0, {GPU: 1000}), (1, {})]


def test_the_next_pod_of_a_claim_is_metered_when_the_first_has_left_it() -> None:
    versions = [("a",), ("a", "b"), ("b",), ("b", "c"), ("b", "c", "d"), ("d",), ()]
    claims = [claim(allocated=results("gpu"), pods=pods, version=f"{number}") for number, pods in enumerate(versions, 1)]
    found = read(*claims, *(pod(uid, "one") for uid in "abcd"))
    assert [one.requests.gpus for one in found] == [1, 0, 1, 0]


def test_a_claim_reserved_for_and_made_for_no_pod_is_unknown() -> None:
    assert of_one(claim(allocated=results("gpu")), pod("p", "one")) == (0, UNREAD)
    by_group = claim(allocated=results("gpu"))
    by_group["status"]["reservedFor"] = [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "p"}]
    assert of_one(by_group, pod("p", "one")) == (0, UNREAD)


reservations = st.lists(st.lists(st.sampled_from("abcdef"), unique=True, max_size=4), min_size=1, max_size=8)


@given(reservations, st.integers(1, 8))
def test_of_the_pods_of_a_claim_at_most_one_is_metered_at_any_time(reserved: list[list[str]], count: int) -> None:
    """Pods do not come back once they have left a claim: their uids are new."""
    gone: set[str] = set()
    versions: list[list[str]] = []
    for pods in reserved:
        kept = [uid for uid in pods if uid not in gone]
        gone |= {uid for uid in (versions[-1] if versions else []) if uid not in kept}
        versions.append([uid for uid in kept if uid not in gone])
    claims = [
        claim(allocated=results("gpu", count), pods=tuple(pods), version=f"{number}") for number, pods in enumerate(versions, 1)
    ]
    found = {one.uid: one.requests.gpus for one in read(*claims, *(pod(uid, "one") for uid in "abcdef"))}
    for pods in versions:
        assert sum(found[uid] for uid in pods) <= count
    assert not versions[0] or found[versions[0][0]] == count


# --- inputs -------------------------------------------------------------------------------------------------------------------


def test_an_observation_with_devices_is_another_input_and_stable_on_reread() -> None:
    """It equals itself when it is read again."""
    claims, table = DeviceClaims(), Accelerators()
    (unread,) = resolved(claims, table, pod("p", "one"))
    (known,) = resolved(claims, table, claim(allocated=results("gpu"), pods=("p",)), pod("p", "one"))
    (again,) = resolved(claims, table, pod("p", "one"))
    assert unread.id != known.id
    assert again == known


def test_pods_wait_for_claims_that_were_not_read() -> None:
    claims, table = DeviceClaims(), Accelerators()
    items = [pod("p", "one"), pod("q", "two")]
    outcomes = [to_inputs(Document(1, "", content), "c", 0, table) for content in items]
    for content, outcome in zip(items, outcomes, strict=True):
        claims.note(Document(1, "", content), outcome)
    assert claims.incomplete
    resolved(claims, table, claim())
    assert claims.incomplete
    resolved(claims, table, claim(name="two"))
    assert not claims.incomplete


def test_claims_used_longest_ago_are_forgotten_first() -> None:
    first = claim(allocated=results("gpu"), pods=("p",))
    many = [claim(name=f"c{number}", allocated=results("gpu"), pods=("p",)) for number in range(10)]
    assert devices(read(first, *many, pod("p", "one"), kept=44)[0].requests) == (1, {})
    assert devices(read(first, *many, pod("p", "one"), kept=43)[0].requests) == (0, UNREAD)


# --- hostile objects ----------------------------------------------------------------------------------------------------------

FIELDS = [
    *("devices", "requests", "exactly", "firstAvailable", "name", "deviceClassName", "count", "allocationMode", "adminAccess"),
    *("allocation", "results", "request", "reservedFor", "uid", "resource", "shareID", "resourceClaimName", "resourceClaims"),
]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(["gpu", "p", "pods", "gpu/a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)


@given(json_values, json_values, json_values)
def test_no_claim_and_no_pod_stops_the_stream(spec: Any, status: Any, claims: Any) -> None:
    given = claim() | {"spec": spec, "status": status}
    odd = pod("p", "one")
    odd["spec"]["resourceClaims"] = claims
    assert [one.uid for one in read(given, odd, pod("q", "one"))] == ["p", "q"]


def test_a_claim_beyond_every_bound_is_not_read() -> None:
    assert of_one(claim(allocated=results("gpu"), pods=("p",), name="x" * 1020), pod("p", "x" * 1020)) == (0, UNREAD)
    assert of_one(claim(allocated=results("gpu"), pods=("p",)), pod("p", *["one"] * 65)) == (0, {"resourceclaims": 65_000})
    many = claim(*(exactly(name=f"r{number}") for number in range(129)), owner="p", name="made")
    assert of_one(many, pod("p", "made")) == (0, UNREAD)
    assert of_one(claim(allocated=results("gpu", 129), owner="p", name="made"), pod("p", "made")) == (0, UNREAD)
    crowd = claim(allocated=results("gpu"), pods=tuple(f"p{number}" for number in range(300)))
    assert [devices(one.requests) for one in read(crowd, pod("p255", "one"), pod("p256", "one"))] == [(0, {GPU: 1000}), (0, UNREAD)]
    classes = [exactly(f"class-{number}", f"r{number}") for number in range(101)]
    assert of_one(claim(*classes, owner="p", name="made"), pod("p", "made")) == (0, UNREAD)
    assert of_one(claim(exactly(count=2**31 - 1), owner="p", name="made"), pod("p", "made")) == (2**31 - 1, {})
