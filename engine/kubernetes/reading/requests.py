"""Effective request of a pod, as in the scheduler.

Kubernetes: the larger of (containers + sidecars) and the peak of the init containers, which start one after another beside the
sidecars started before them; plus the pod's overhead. A container without a request requests its limit.

Resources of the whole pod (`spec.resources`: cpu, memory, huge pages) replace that sum, each separately. A limit without a request
counts if no container requests the resource, and for huge pages (Kubernetes: `defaultPodRequests`).

During an in-place resize of a container or a pod, its request is the largest of the specified, the allocated and the actual
resources. If the node rejects the resize permanently (`Infeasible`), cpu and memory of the specification do not count
(kube-scheduler: `PodRequests` of k8s.io/component-helpers).
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

N = TypeVar("N", int, Fraction)

_Amounts = dict[str, int]
"""Billionths of a core, byte or device by resource, the finest unit of quantities, so that integer sums are exact."""

_COUNTED: Final = frozenset({"cpu", "memory"})
_USUAL: Final = _COUNTED | {NVIDIA}
_GPU_FRACTION: Final = "gpu-fraction"
_GPU_MEMORY: Final = "gpu-memory"
_CLAIMS: Final = "resourceclaims"
"""Counter of unread device claims."""
_NANO: Final = 10**9
_RESIZABLE: Final = frozenset({"cpu", "memory"})
"""Resources that can be resized in place. Some kubelets omit all others from their status."""
_HUGE_PAGES: Final = "hugepages-"
_INFEASIBLE: Final = "Infeasible"
_NOTHING: Final[_Amounts] = {}  # shared: must not be changed


def effective_requests(
    pod_spec: object,
    status: dict[str, object] | None = None,
    annotations: object = None,
    accelerators: Accelerators = BUILT_IN,
) -> Requests:
    """Return the effective request of a pod.

    Args:
        pod_spec: `spec` of a pod or of a pod template, as decoded JSON. Unreadable parts count as absent; validation reports them.
        status: `status` of the pod; `None` for a template.
        annotations: `metadata.annotations` of the pod or template; the KAI scheduler reads shares of a GPU there.
        accelerators: table of the resources that are GPUs.

    Returns:
        Milli-CPU and bytes, each rounded up, and GPUs, rounded to a billionth. Each resource is compared separately, as in the
            scheduler, before GPUs are summed.
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
    """Return the effective request of a pod, and its resources besides cpu, memory and `nvidia.com/gpu`, in thousandths.

    `nvidia.com/gpu` is included if its amount differs from the number of GPUs, or may differ once device claims are read.
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
        return Requests(cpu, memory, _up(cards))  # fast path for most pods: adding fractions takes as long as all the rest
    parts = accelerators.gpus(total, _NANO)
    if accelerators.qualified(total):  # each container separately

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
    """Return a pod's request with the devices of its claims.

    Args:
        requests: request that counts these claims as `resourceclaims`.
        claims: number of its claims that were read.
        gpus: GPUs of these claims.
        unmetered: their other devices by name, in thousandths.
    """
    nanos = requests.gpu_billionths + round(gpus * _NANO)
    others = requests.unmetered | {_CLAIMS: max(0, unread_claims(requests) - claims * 1000)}
    for name, amount in unmetered.items():
        others[name] = min(others.get(name, 0) + amount, LARGEST)
    others = {name: amount for name, amount in others.items() if amount}
    return replace(requests, gpu=_up(nanos), gpu_nano=_fraction(nanos), unmetered=others)


def unread_claims(requests: Requests) -> int:
    """Return the number of unread device claims (thousandths)."""
    return requests.unmetered.get(_CLAIMS, 0)


def _fraction(nanos: int) -> int | None:
    return nanos if nanos % _NANO and nanos <= LARGEST else None


def _annotated_share(annotations: dict[str, object]) -> Fraction:
    """Return the GPUs that a pod requests by annotations: a fraction of each of some devices (KAI)."""
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
    """Return, by resource, the larger of containers with sidecars and the peak of the init containers."""
    running: dict[str, N] = {}
    sidecars: dict[str, N] = {}
    peak: dict[str, N] = {}
    for container in mappings(pod_spec.get("containers")):
        _add(running, of_running(container))
    for container in mappings(pod_spec.get("initContainers")):
        if container.get("restartPolicy") == "Always":
            _add(sidecars, of_running(container))
            continue
        for name, amount in of_init(container).items():  # for other resources the sidecars' sum is not larger
            beside = amount + sidecars[name] if name in sidecars else amount
            peak[name] = max(peak.get(name, beside), beside)
    _add(running, sidecars)
    return _largest(running, peak)


def _of_whole_pod(pod_spec: dict[str, object], status: dict[str, object], together: _Amounts) -> _Amounts:
    """Return the request of the pod itself, for the resources that it names.

    Args:
        pod_spec: specification of the pod.
        status: status of the pod, with its `resources` and `allocatedResources` since Kubernetes 1.35.
        together: request of its containers.
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
    """Reported resources of a pod's containers."""

    reported: dict[str, dict[str, object]]
    """Status by container name, for containers whose status has `resources`."""
    infeasible: bool
    """True if the node rejects the specified resources permanently."""


def _resizes(status: dict[str, object]) -> _Resizes | None:
    """Return the reported resources; `None` if the cluster does not support in-place resize."""
    statuses = [*mappings(status.get("containerStatuses")), *mappings(status.get("initContainerStatuses"))]
    reported = {name: one for one in statuses if isinstance(one.get("resources"), dict) and (name := text(one.get("name")))}
    return _Resizes(reported, _is_infeasible(status)) if reported else None


def _is_infeasible(status: dict[str, object]) -> bool:
    """Return true if a resize is rejected permanently; before Kubernetes 1.33 by `status.resize`."""
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
    """Add to a sum in place, so that the cost is linear in the number of resources of the containers."""
    for name, amount in amounts.items():
        total[name] = total[name] + amount if name in total else amount


def _largest(one: dict[str, N], other: dict[str, N]) -> dict[str, N]:
    if not one or not other:
        return one or other
    return {name: max(one.get(name, amount), amount) for name, amount in (one | other).items()}


def _up(nanos: int) -> int:
    return min(-(-nanos // _NANO), LARGEST)
