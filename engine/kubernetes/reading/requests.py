"""What one pod asks of a node: the scheduler's effective request.

Kubernetes: the larger of (containers + sidecars) and the running maximum over the init containers, which start one after the
other beside the sidecars started before them; plus the pod's overhead. A request that a container leaves out is its limit.

Resources of the whole pod (`spec.resources`: cpu, memory, huge pages) replace that sum, each for itself. A limit without a
request counts where no container asks for the resource, and for huge pages (Kubernetes: `defaultPodRequests`).

While a container or a whole pod is resized in place, its request is the largest of what its specification asks for, what its node
has allocated and what it runs with. If the node refuses the resize for good (`Infeasible`), cpu and memory of the specification do
not count (kube-scheduler: `PodRequests` of k8s.io/component-helpers).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from engine.kubernetes.errors import QuantityError
from engine.kubernetes.reading.accelerators import BUILT_IN, NVIDIA, Accelerators
from engine.kubernetes.reading.fields import mapping, mappings, text
from engine.kubernetes.reading.quantity import LARGEST, parse_quantity
from statemachines.spec import Requests

__all__ = ["effective_requests", "observed_requests", "requests_by_name", "template_requests", "unread_claims", "with_devices"]

N = TypeVar("N", int, Fraction)

_Amounts = dict[str, int]
"""Billionths of a core, of a byte, of a device, by resource: as fine as quantities get, so sums of integers are exact."""

_COUNTED: Final = frozenset({"cpu", "memory"})
_USUAL: Final = _COUNTED | {NVIDIA}
_GPU_FRACTION: Final = "gpu-fraction"
_GPU_MEMORY: Final = "gpu-memory"
_CLAIMS: Final = "resourceclaims"
"""Counts claims of devices that were not read."""
_NANO: Final = 10**9
_RESIZABLE: Final = frozenset({"cpu", "memory"})
"""Resources that can change in place. Some kubelets leave all others out of what they report."""
_HUGE_PAGES: Final = "hugepages-"
_INFEASIBLE: Final = "Infeasible"
_NOTHING: Final[_Amounts] = {}  # shared: not to be changed


def effective_requests(
    pod_spec: object,
    status: dict[str, object] | None = None,
    annotations: object = None,
    accelerators: Accelerators = BUILT_IN,
) -> Requests:
    """Return the effective request of a pod.

    Args:
        pod_spec: `spec` of a pod or of a pod template, as decoded JSON. What cannot be read counts as nothing: it is for
            validation to name it.
        status: `status` of the pod; `None`: it has none (a template).
        annotations: `metadata.annotations` of the pod or template: the KAI scheduler reads shares of a GPU there.
        accelerators: the table that says which resources are GPUs.

    Returns:
        Milli-CPU and bytes, each rounded up, and GPUs, rounded to a billionth of one. GPUs are summed over resources after each
        has been compared by itself, as the scheduler does.
    """
    if not isinstance(pod_spec, dict):
        return Requests()
    return _requests(pod_spec, mapping(annotations), accelerators, _effective(pod_spec, status))


def template_requests(template: object, accelerators: Accelerators = BUILT_IN) -> Requests:
    """Return the effective request of the pods of a template."""
    pod = mapping(template)
    annotations = mapping(pod.get("metadata")).get("annotations")
    return effective_requests(pod.get("spec"), annotations=annotations, accelerators=accelerators)


def observed_requests(
    pod_spec: dict[str, object], status: dict[str, object], annotations: object = None, accelerators: Accelerators = BUILT_IN
) -> tuple[Requests, dict[str, int]]:
    """Return the effective request of a pod, and its resources beside cpu, memory and `nvidia.com/gpu`, in thousandths.

    `nvidia.com/gpu` is among them if its number is not that of the GPUs, or need not be when claims of devices are read.
    """
    total = _effective(pod_spec, status)
    requests = _requests(pod_spec, mapping(annotations), accelerators, total)
    others = {name: _up(amount * 1000) for name, amount in total.items() if name not in _COUNTED and amount}
    if others.get(NVIDIA, 0) == requests.gpu * 1000 and not unread_claims(requests):
        others.pop(NVIDIA, None)
    else:
        others.setdefault(NVIDIA, 0)
    return requests, others


def _requests(
    pod_spec: dict[str, object],
    annotations: dict[str, object],
    accelerators: Accelerators,
    total: _Amounts,
) -> Requests:
    cpu, memory = _up(total.get("cpu", 0) * 1000), _up(total.get("memory", 0))
    annotated = _GPU_FRACTION in annotations or _GPU_MEMORY in annotations
    cards = total.get(NVIDIA, 0)
    whole = not cards or (not cards % _NANO and accelerators.share(NVIDIA) == 1)
    if total.keys() <= _USUAL and whole and not annotated and not pod_spec.get("resourceClaims"):
        return Requests(cpu, memory, _up(cards))  # most pods: to add up fractions takes as long as all the rest
    parts = accelerators.gpus(total, _NANO)
    if accelerators.qualified(total):  # each container's by itself

        def gpus_of(container: dict[str, object]) -> dict[str, Fraction]:
            return accelerators.gpus(_of_container(container), _NANO)

        parts = _together(pod_spec, gpus_of, gpus_of)
    share = sum(parts.values(), Fraction(0)) or _annotated_share(annotations)
    unmetered = {name: _up(amount * 1000) for name, amount in accelerators.unmetered(total).items()}
    if not share and _GPU_MEMORY in annotations:
        unmetered[_GPU_MEMORY] = 1000
    if claims := mappings(pod_spec.get("resourceClaims")):
        unmetered[_CLAIMS] = len(claims) * 1000
    nanos = round(share * _NANO)
    return Requests(cpu, memory, _up(nanos), gpu_nano=_fraction(nanos), unmetered=unmetered)


def with_devices(requests: Requests, claims: int, gpus: Fraction, unmetered: Mapping[str, int]) -> Requests:
    """Return a pod's request with the devices of claims that were read.

    Args:
        requests: its request, which counts those claims as `resourceclaims`.
        claims: how many of its claims were read.
        gpus: GPUs of these claims.
        unmetered: their other devices: name → thousandths.
    """
    nanos = requests.gpu_billionths + round(gpus * _NANO)
    others = requests.unmetered | {_CLAIMS: max(0, unread_claims(requests) - claims * 1000)}
    for name, amount in unmetered.items():
        others[name] = min(others.get(name, 0) + amount, LARGEST)
    others = {name: amount for name, amount in others.items() if amount}
    return replace(requests, gpu=_up(nanos), gpu_nano=_fraction(nanos), unmetered=others)


def unread_claims(requests: Requests) -> int:
    """Return how many claims of devices were not read (thousandths)."""
    return requests.unmetered.get(_CLAIMS, 0)


def _fraction(nanos: int) -> int | None:
    return nanos if nanos % _NANO and nanos <= LARGEST else None


def _annotated_share(annotations: dict[str, object]) -> Fraction:
    """Return the GPUs of a pod that asks for them by annotations: a fraction of each of some devices (KAI)."""
    fraction, devices = (_nanos(annotations.get(name)) for name in (_GPU_FRACTION, f"{_GPU_FRACTION}-num-devices"))
    return min(Fraction(fraction, _NANO), Fraction(1)) * Fraction(devices or _NANO, _NANO)


def requests_by_name(pod_spec: dict[str, object]) -> dict[str, int]:
    """Return the effective request of a pod for every resource: memory in bytes, everything else in thousandths (Volcano)."""
    total = _effective(pod_spec, None)
    return {name: _up(amount if name == "memory" else amount * 1000) for name, amount in total.items()}


def _effective(pod_spec: dict[str, object], status: dict[str, object] | None) -> _Amounts:
    """Return the effective request of a pod, by resource."""
    resizes = None if status is None else _resizes(status)
    total = _together(pod_spec, lambda container: _of_running(container, resizes), _of_container)
    if isinstance(pod_spec.get("resources"), dict):
        total = total | _of_whole_pod(pod_spec, status or {}, total)
    overhead = pod_spec.get("overhead")
    if isinstance(overhead, dict):
        _add(total, _of_resources(overhead))
    return total


def _together(
    pod_spec: dict[str, object],
    of_running: Callable[[dict[str, object]], dict[str, N]],
    of_init: Callable[[dict[str, object]], dict[str, N]],
) -> dict[str, N]:
    """Return the larger of containers with sidecars and of the running maximum over the init containers, by resource."""
    running: dict[str, N] = {}
    sidecars: dict[str, N] = {}
    peak: dict[str, N] = {}
    for container in mappings(pod_spec.get("containers")):
        _add(running, of_running(container))
    for container in mappings(pod_spec.get("initContainers")):
        if container.get("restartPolicy") == "Always":
            _add(sidecars, of_running(container))
            continue
        for name, amount in of_init(container).items():  # of other resources, what sidecars use at the end is as much
            beside = amount + sidecars[name] if name in sidecars else amount
            peak[name] = max(peak.get(name, beside), beside)
    _add(running, sidecars)
    return _largest(running, peak)


def _of_whole_pod(pod_spec: dict[str, object], status: dict[str, object], together: _Amounts) -> _Amounts:
    """Return the request of the pod itself, for the resources that it names.

    Args:
        pod_spec: its specification.
        status: its status, which has `resources` and `allocatedResources` of the pod since Kubernetes 1.35.
        together: the request of its containers.
    """
    resources = mapping(pod_spec.get("resources"))
    limits = {
        name: amount
        for name, amount in _of_resources(mapping(resources.get("limits"))).items()
        if name.startswith(_HUGE_PAGES) or name not in together
    }
    asked = {
        name: amount
        for name, amount in (limits | _of_resources(mapping(resources.get("requests")))).items()
        if name in _RESIZABLE or name.startswith(_HUGE_PAGES)
    }
    running = mapping(mapping(status.get("resources")).get("requests"))
    held = _largest(_of_resources(running), _of_resources(mapping(status.get("allocatedResources"))))
    resized = {name: held[name] for name in asked if name in _RESIZABLE and name in held}
    return asked | resized if _is_infeasible(status) else _largest(asked, resized)


class _Resizes(NamedTuple):
    """What a node reports of the resources of a pod's containers."""

    reported: dict[str, dict[str, object]]
    """Name of a container → its status, if that has `resources`."""
    infeasible: bool
    """The node refuses what the specification asks for."""


def _resizes(status: dict[str, object]) -> _Resizes | None:
    """Return what a node reports; `None`: nothing, because the cluster does not resize in place."""
    statuses = [*mappings(status.get("containerStatuses")), *mappings(status.get("initContainerStatuses"))]
    reported = {name: one for one in statuses if isinstance(one.get("resources"), dict) and (name := text(one.get("name")))}
    return _Resizes(reported, _is_infeasible(status)) if reported else None


def _is_infeasible(status: dict[str, object]) -> bool:
    """Return whether a resize is refused for good. Before Kubernetes 1.33 `status.resize` says so."""
    if status.get("resize") == _INFEASIBLE:
        return True
    pending = [one for one in mappings(status.get("conditions")) if one.get("type") == "PodResizePending"]
    return any(one.get("status") == "True" and one.get("reason") == _INFEASIBLE for one in pending)


def _of_running(container: dict[str, object], resizes: _Resizes | None) -> _Amounts:
    """Return the request of a container that may be resized in place."""
    asked = _of_container(container)
    status = None if resizes is None else resizes.reported.get(text(container.get("name")) or "")
    if resizes is None or status is None:
        return asked
    counted = mapping(container.get("resources")).get("requests")
    if resizes.infeasible:
        asked, counted = {name: amount for name, amount in asked.items() if name not in _RESIZABLE}, None
    for given in (mapping(status.get("resources")).get("requests"), status.get("allocatedResources")):
        if given != counted:  # mostly they are the same
            asked = _largest(asked, _of_resources(mapping(given)))
    return asked


def _of_container(container: dict[str, object]) -> _Amounts:
    resources = container.get("resources")
    if not isinstance(resources, dict):
        return _NOTHING
    requests, limits = resources.get("requests"), resources.get("limits")
    asked = requests if isinstance(requests, dict) else {}
    return _of_resources({**limits, **asked} if isinstance(limits, dict) else asked)


def _of_resources(resources: dict[str, object]) -> _Amounts:
    return {name: _nanos(quantity) for name, quantity in resources.items() if isinstance(name, str)}


def _nanos(quantity: object) -> int:
    return _nanos_of_text(quantity) if isinstance(quantity, str) else _exactly(quantity)


@lru_cache(maxsize=8192)
def _nanos_of_text(quantity: str) -> int:
    return _exactly(quantity)


def _exactly(quantity: object) -> int:
    try:
        return max(0, int(parse_quantity(quantity) * _NANO))
    except QuantityError:
        return 0


def _add(total: dict[str, N], amounts: dict[str, N]) -> None:
    """Add to a sum in place, so that a pod costs as much as its containers name resources, not their square."""
    for name, amount in amounts.items():
        total[name] = total[name] + amount if name in total else amount


def _largest(one: dict[str, N], other: dict[str, N]) -> dict[str, N]:
    if not one or not other:
        return one or other
    return {name: max(one.get(name, amount), amount) for name, amount in (one | other).items()}


def _up(nanos: int) -> int:
    return min(-(-nanos // _NANO), LARGEST)
