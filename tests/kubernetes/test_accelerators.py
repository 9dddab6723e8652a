"""Accelerators: how many GPUs a pod or a node has, by the names of its resources."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kubernetes.observation.inspection import inspect_pod
from engine.kubernetes.observation.nodes import observe_node
from engine.kubernetes.reading.accelerators import Accelerators, read_share
from engine.kubernetes.reading.documents import Document
from engine.kubernetes.reading.requests import effective_requests, observed_requests
from engine.scheduling.cluster.objects import node_of
from statemachines.spec import GPU, Requests, gpus_of


def asking(*containers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"containers": [{"resources": {"limits": asked}} for asked in containers], **fields}


def gpus(*containers: dict[str, Any], **fields: Any) -> int | Decimal:
    return effective_requests(asking(*containers, **fields)).gpus


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"nvidia.com/gpu": "2"}, 2),
        ({"amd.com/gpu": "2"}, 2),
        ({"gpu.intel.com/i915": "1"}, 1),
        ({"gpu.intel.com/xe": "1"}, 1),
        ({"gpu.intel.com/i915": "1", "gpu.intel.com/millicores": "250", "gpu.intel.com/memory.max": "1G"}, Decimal("0.25")),
        ({"huawei.com/Ascend910": "8"}, 8),
        ({"huawei.com/Ascend310P": "1"}, 1),
        ({"cambricon.com/mlu370": "4"}, 4),
        ({"cambricon.com/mlu": "4"}, 4),
        ({"hygon.com/dcunum": "2"}, 2),
        ({"hygon.com/dcunum": "2", "hygon.com/dcucores": "60", "hygon.com/dcumem": "2000"}, Decimal("1.2")),
        ({"metax-tech.com/gpu": "1"}, 1),
        ({"iluvatar.ai/gpu": "1"}, 1),
        ({"alibabacloud.com/gpu": "1"}, 1),
        ({"koordinator.sh/gpu": "50"}, Decimal("0.5")),
        ({"koordinator.sh/gpu": "200"}, 2),
        ({"koordinator.sh/gpu-core": "30", "koordinator.sh/gpu-memory-ratio": "60"}, Decimal("0.3")),
        ({"koordinator.sh/gpu": "50", "koordinator.sh/gpu-core": "50"}, Decimal("0.5")),
        ({"kubernetes.io/gpu-core": "25"}, Decimal("0.25")),
        ({"k8s.amazonaws.com/vgpu": "3"}, Decimal("0.3")),
        ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}, 1),
        ({"nvidia.com/gpu": "2", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}, Decimal("0.6")),
        ({"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "3000"}, 1),
        ({"volcano.sh/vgpu-number": "2", "volcano.sh/vgpu-cores": "50"}, 1),
        ({"nvidia.com/mig-3g.20gb": "1"}, Decimal("0.428571429")),
        ({"nvidia.com/mig-1g.10gb.me": "7"}, 1),
        ({"nvidia.com/mig-1c.3g.20gb": "1"}, Decimal("0.142857143")),
        ({"nvidia.com/mig-7g.80gb": "1"}, 1),
        ({"nvidia.com/mig-1g.6gb": "1"}, Decimal("0.25")),
        ({"nvidia.com/mig-2g.12gb.me": "1"}, Decimal("0.5")),
        ({"nvidia.com/mig-4g.24gb": "1"}, 1),
        ({"nvidia.com/mig-1c.2g.12gb": "1"}, Decimal("0.25")),
        ({"nvidia.com/mig-2c.4g.24gb": "1"}, Decimal("0.5")),
        ({"nvidia.com/mig-2g.48gb": "1"}, Decimal("0.5")),
        ({"nvidia.com/mig-4g.96gb": "1"}, 1),
        ({"nvidia.com/mig-4g.96gb.gfx": "1"}, 1),
        ({"nvidia.com/mig-4g.48gb": "1"}, Decimal("0.571428571")),
        ({"nvidia.com/mig-1g.24gb": "1"}, Decimal("0.142857143")),
        ({"cambricon.com/mlu370-x8": "1"}, 1),
        ({"cambricon.com/mlunum": "1", "cambricon.com/mlumem": "10240"}, 1),
        ({"cambricon.com/vmlu": "1", "cambricon.com/mlu370.smlu.vcore": "10"}, Decimal("0.1")),
        ({"cambricon.com/vmlu": "2", "cambricon.com/mlu.smlu.vcore": "50"}, 1),
        ({"cambricon.com/mlu": "1", "cambricon.com/mlu.smlu.vcore": "30", "cambricon.com/mlu.smlu.vmemory": "8"}, Decimal("0.3")),
    ],
)  # fmt: skip
def test_a_unit_is_its_share_of_a_gpu(asked: dict[str, str], expected: int | Decimal) -> None:
    assert gpus(asked) == expected
    assert effective_requests(asking(asked)).unmetered == {}


@pytest.mark.parametrize(
    "name",
    [
        "google.com/tpu",
        "aws.amazon.com/neuron",
        "aws.amazon.com/neuroncore",
        "habana.ai/gaudi",
        "rdma/hca_shared",
        "smarter-devices/fuse",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.5gb.shared",
        "nvidia.com/mig-1g.6gb.shared",
        "nvidia.com/mig-4g.96gb.shared",
        "cambricon.com/mlumem",
        "cambricon.com/mlu370.smlu.vcore",
        "cambricon.com/mlu370.mim-2m.8gb",
        "cambricon.com/mlu370.share",
        "huawei.com/Ascend910.shared",
        "aliyun.com/gpu-mem",
        "huawei.com/Ascend310P-2c",
        "example.com/vgpu",
    ],
)  # fmt: skip
def test_any_other_extended_resource_is_no_gpu_and_stays_by_its_name(name: str) -> None:
    requests = effective_requests(asking({name: "4", "cpu": "1"}))
    assert requests == Requests(1000, unmetered={name: 4000})
    pod = {"kind": "Pod", "metadata": {}, "spec": asking({name: "4"}), "status": {}}
    assert inspect_pod(Document(1, "", pod, None))["requests"]["unmetered"] == {name: 4000}


def test_resources_of_kubernetes_itself_are_no_devices() -> None:
    requests = effective_requests(asking({"cpu": "1", "ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi"}))
    assert requests.unmetered == {}


def test_what_qualifies_another_resource_is_one_of_its_own_without_it() -> None:
    assert effective_requests(asking({"nvidia.com/gpumem": "3000"})).unmetered == {"nvidia.com/gpumem": 3_000_000}


def test_each_container_has_the_cores_that_it_asks_for() -> None:
    whole, part = {"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "30"}
    assert gpus(whole, part) == Decimal("1.3")
    assert gpus({"koordinator.sh/gpu": "50"}, {"koordinator.sh/gpu-core": "50"}) == 1
    init = [{"resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "80"}}}]
    assert gpus(part, initContainers=init) == Decimal("0.8")


def test_a_pod_may_ask_for_a_fraction_of_devices_by_annotations() -> None:
    plain = asking({"cpu": "1"})
    assert effective_requests(plain, annotations={"gpu-fraction": "0.5"}).gpus == Decimal("0.5")
    assert effective_requests(plain, annotations={"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}).gpus == Decimal("0.5")
    assert effective_requests(plain, annotations={"gpu-memory": "2000"}).unmetered == {"gpu-memory": 1000}
    assert effective_requests(plain, annotations={"gpu-fraction": "much"}).gpus == 0


def test_a_claim_of_devices_is_used_and_no_gpu() -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}, {"name": "nic", "resourceClaimName": "nic"}]
    assert effective_requests(asking({"cpu": "1"}, resourceClaims=claims)).unmetered == {"resourceclaims": 2000}


slices = st.lists(st.integers(1, 7), min_size=1, max_size=12)


@given(slices)
def test_a_request_split_over_containers_is_the_same_number_of_gpus(sizes: list[int]) -> None:
    """Slices are added up exactly and rounded once, to a billionth of a GPU."""
    one = gpus({"nvidia.com/mig-1g.5gb": sum(sizes)})
    assert gpus(*[{"nvidia.com/mig-1g.5gb": size} for size in sizes]) == one
    assert one == gpus_of(round(Fraction(sum(sizes), 7) * GPU))


@given(slices)
def test_resources_of_several_names_add_up(sizes: list[int]) -> None:
    asked = {f"nvidia.com/mig-{size}g.5gb": 1 for size in sizes}
    assert gpus(asked) == gpus_of(round(sum((Fraction(size, 7) for size in set(sizes)), Fraction(0)) * GPU))


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        ({"nvidia.com/gpu": "8"}, 8),
        ({"nvidia.com/gpu": "8", "koordinator.sh/gpu": "800", "koordinator.sh/gpu-core": "800"}, 8),
        ({"nvidia.com/gpu": "6", "nvidia.com/mig-1g.5gb": "14"}, 8),
        ({"amd.com/gpu": "2"}, 2),
        ({"k8s.amazonaws.com/vgpu": "40"}, 4),
        ({"nvidia.com/gpu": "4", "volcano.sh/vgpu-number": "4", "volcano.sh/vgpu-cores": "400"}, 4),
        ({"google.com/tpu": "4"}, 0),
    ],
)  # fmt: skip
def test_a_node_has_each_card_once(offered: dict[str, str], expected: int) -> None:
    assert node(offered).gpu == expected


def node(offered: dict[str, str], **labels: str) -> Any:
    return observe_node({"kind": "Node", "metadata": {"name": "n", "labels": labels}, "status": {"allocatable": offered}})


@pytest.mark.parametrize("offered", [{"amd.com/gpu": "2"}, {"nvidia.com/gpu": "8", "koordinator.sh/gpu": "800"}])
def test_a_node_offers_devices_by_their_own_names(offered: dict[str, str]) -> None:
    allocatable = node_of(node(offered)).allocatable
    assert {name: amount for name, amount in allocatable.items() if "/" in name and amount} == {
        name: int(amount) * 1000 for name, amount in offered.items()
    }


def test_a_pod_takes_devices_by_their_own_names() -> None:
    """An AMD pod takes no NVIDIA device; a share of a card by HAMi takes one unit of the device."""
    assert observed_requests(asking({"amd.com/gpu": "2"}), {})[1] == {"amd.com/gpu": 2000, "nvidia.com/gpu": 0}
    half = {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "50"}
    requests, taken = observed_requests(asking(half), {})
    assert (requests.gpus, requests.gpu) == (Decimal("0.5"), 1)
    assert taken == {"nvidia.com/gpucores": 50_000}


def test_the_model_of_a_node_is_that_of_its_makers_label() -> None:
    assert node({}, **{"nvidia.com/gpu.product": "A100"}).gpu_model == "A100"
    assert node({}, **{"amd.com/gpu.product-name": "MI300X"}).gpu_model == "MI300X"


def test_rows_of_an_operator_win() -> None:
    table = Accelerators({"nvidia.com/gpu.shared": "1/4", "nvidia.com/mig-*": 0.5, "google.com/tpu": 1, "amd.com/gpu": "device"})
    asked = {"nvidia.com/gpu.shared": "2", "nvidia.com/mig-1g.5gb": "2", "google.com/tpu": "4", "amd.com/gpu": "1"}
    requests = effective_requests(asking(asked), accelerators=table)
    assert requests.gpus == Decimal("5.5")
    assert requests.unmetered == {"amd.com/gpu": 1000}


@pytest.mark.parametrize("share", ["0", "-1", "1/0", "many", "", "1e9", 0, 2_000_000, "9" * 40, float("nan"), float("inf")])
def test_a_share_is_a_number_above_0_or_a_device(share: str | float) -> None:
    with pytest.raises(ValueError, match="no share of a GPU"):
        read_share(share)


@pytest.mark.parametrize("model", ["", "370"])
def test_what_qualifies_cambricons_cards_is_not_listed_beside_them(model: str) -> None:
    parts = {f"cambricon.com/mlu{model}.smlu.vcore": "10", f"cambricon.com/mlu{model}.smlu.vmemory": "20"}
    assert not effective_requests(asking({"cambricon.com/vmlu": "1", **parts})).unmetered
    assert not effective_requests(asking({"cambricon.com/mlunum": "1", "cambricon.com/mlumem": "10240"})).unmetered
