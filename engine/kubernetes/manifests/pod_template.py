"""Rules for a pod template (Kubernetes: the API server's validation of pods)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from engine.events.outcomes import Fault
from engine.kubernetes.manifests.checks import at_least, one_of
from engine.kubernetes.manifests.names import label_fault, label_value_fault, qualified_name_fault
from engine.kubernetes.manifests.pod_resources import pod_level_faults, resource_faults
from engine.kubernetes.manifests.pod_shapes import Container, PodSpec, PodTemplate, Port, Volume
from engine.kubernetes.reading.shapes import child

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")


def template_faults(template: PodTemplate | None, path: str, *, pod_level: bool = True) -> Iterator[Fault]:
    """Validate a pod template.

    Args:
        template: shape of the template; `None` is a template without containers.
        path: path of the template.
        pod_level: true if the cluster supports resources of whole pods; otherwise `spec.resources` is ignored.
    """
    if template is not None and template.metadata is not None:
        yield from label_faults(template.metadata.labels, child(path, "metadata", "labels"))
    spec = template.spec if template is not None and template.spec is not None else PodSpec()
    path = child(path, "spec")
    if not spec.containers:
        yield Fault(child(path, "containers"), "at least one container is required")
    yield from _container_name_faults(spec, path)
    yield from _volume_faults(spec.volumes or [], child(path, "volumes"))
    volumes = {volume.name for volume in spec.volumes or []}
    for index, container in enumerate(spec.containers or []):
        yield from _container_faults(container, child(path, "containers", index), volumes)
    for index, container in enumerate(spec.init_containers or []):
        where = child(path, "initContainers", index)
        yield from _container_faults(container, where, volumes)
        yield from one_of(container.restart_policy, ("Always",), child(where, "restartPolicy"))
    yield from one_of(spec.restart_policy, _RESTART_POLICIES, child(path, "restartPolicy"))
    yield from one_of(spec.dns_policy, _DNS_POLICIES, child(path, "dnsPolicy"))
    if spec.active_deadline_seconds is not None and not 0 < spec.active_deadline_seconds < 2**31:
        yield Fault(child(path, "activeDeadlineSeconds"), "must be between 1 and 2147483647")
    yield from at_least(spec.termination_grace_period_seconds, 0, child(path, "terminationGracePeriodSeconds"))
    if pod_level:
        yield from pod_level_faults(spec, child(path, "resources"))


def label_faults(labels: dict[str, str] | None, path: str) -> Iterator[Fault]:
    """Validate the keys and values of labels."""
    for key, value in (labels or {}).items():
        if message := qualified_name_fault(key):
            yield Fault(child(path, key), f"the key {message}")
        if message := label_value_fault(value):
            yield Fault(child(path, key), message)


def _container_name_faults(spec: PodSpec, path: str) -> Iterator[Fault]:
    seen: set[str] = set()
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers or []):
            where = child(path, field, index, "name")
            if not container.name:
                yield Fault(where, "is required")
            elif message := label_fault(container.name):
                yield Fault(where, message)
            elif container.name in seen:
                yield Fault(where, f"another container is called {container.name} too")
            else:
                seen.add(container.name)


def _container_faults(container: Container, path: str, volumes: set[str | None]) -> Iterator[Fault]:
    if not container.image:
        yield Fault(child(path, "image"), "is required")
    elif container.image != container.image.strip():
        yield Fault(child(path, "image"), "must not begin or end with white space")
    yield from one_of(container.image_pull_policy, _PULL_POLICIES, child(path, "imagePullPolicy"))
    yield from resource_faults(container.resources, child(path, "resources"))
    for index, port in enumerate(container.ports or []):
        yield from _port_faults(port, child(path, "ports", index))
    for index, variable in enumerate(container.env or []):
        if not variable.name:
            yield Fault(child(path, "env", index, "name"), "is required")
    paths = Counter(mount.mount_path for mount in container.volume_mounts or [])
    for index, mount in enumerate(container.volume_mounts or []):
        where = child(path, "volumeMounts", index)
        if not mount.name:
            yield Fault(child(where, "name"), "is required")
        elif mount.name not in volumes:
            yield Fault(child(where, "name"), f"the pod has no volume {mount.name}")
        if not mount.mount_path:
            yield Fault(child(where, "mountPath"), "is required")
        elif paths[mount.mount_path] > 1:
            yield Fault(child(where, "mountPath"), f"{mount.mount_path} is mounted more than once")


def _port_faults(port: Port, path: str) -> Iterator[Fault]:
    if port.container_port is None or not 0 < port.container_port <= 65535:
        yield Fault(child(path, "containerPort"), "must be between 1 and 65535")
    # Go writes an absent port as 0.
    if not 0 <= (port.host_port or 0) <= 65535:
        yield Fault(child(path, "hostPort"), "must be between 1 and 65535")
    yield from one_of(port.protocol, _PROTOCOLS, child(path, "protocol"))


def _volume_faults(volumes: list[Volume], path: str) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        where = child(path, index, "name")
        if not volume.name:
            yield Fault(where, "is required")
        elif message := label_fault(volume.name):
            yield Fault(where, message)
        elif volume.name in seen:
            yield Fault(where, f"another volume is called {volume.name} too")
        else:
            seen.add(volume.name)
        sources = [name for name, source in (volume.model_extra or {}).items() if name in Volume.PASSED and source is not None]
        if len(sources) > 1:
            yield Fault(child(path, index), f"comes from more than one source: {', '.join(sorted(sources))}")
