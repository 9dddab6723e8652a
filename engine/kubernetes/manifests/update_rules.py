"""Rules for updates of a vcjob (Volcano: its validating webhook on update).

They serve `lahar conform` and `lahar apply`, which have both manifests, and the stage, which has a digest of the old one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from json import dumps
from typing import Any, Final

from engine.events.outcomes import Fault
from engine.kubernetes.manifests.job_shapes import VolcanoJobSpec
from engine.kubernetes.manifests.pod_resources import readable_quantity
from engine.kubernetes.manifests.vcjob_rules import size_faults, topology_faults
from engine.kubernetes.reading.shapes import child

CANNOT_CHANGE: Final = (
    "cannot change: an update may change minAvailable, tasks[*].replicas, tasks[*].minAvailable and priorityClassName"
)
_QUANTITIES: Final = frozenset({"requests", "limits", "overhead"})
"""Fields with quantities, which are compared by value."""
_MAPS: Final = _QUANTITIES | {"annotations", "labels", "metadata", "nodeSelector", "plugins", "resources"}
"""Fields for which empty and absent are equal; elsewhere an empty mapping has a meaning (`emptyDir: {}`)."""


def update_faults(spec: VolcanoJobSpec, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Fault]:
    """Validate an update of a vcjob, like Volcano's webhook.

    Only `minAvailable`, `priorityClassName`, the tasks' `replicas` and `minAvailable`, and the names of claims that the controller
    sets may change. The new numbers are validated as on creation.

    Args:
        spec: shape of the new manifest.
        old: `spec` of the current manifest.
        new: `spec` of the new manifest.
    """
    tasks = spec.tasks or []
    for index, task in enumerate(tasks):
        path = child("spec", "tasks", index)
        if (task.replicas or 0) < 0:
            yield Fault(child(path, "replicas"), "'replicas' must be >= 0")
        if (task.min_available or 0) < 0:
            yield Fault(child(path, "minAvailable"), "'minAvailable' must be >= 0")
        yield from size_faults(task, path)
        yield from topology_faults(task, path)
    if (spec.min_available or 0) > sum(task.replicas or 0 for task in tasks):
        yield Fault("spec.minAvailable", "job 'minAvailable' must not be greater than total replicas")
    if (spec.min_available or 0) < 0:
        yield Fault("spec.minAvailable", "job 'minAvailable' must be >= 0")
    if len(old.get("tasks") or []) != len(new.get("tasks") or []):
        yield Fault("spec.tasks", "job updates may not add or remove tasks")
    else:
        yield from _differing(_plain(_fixed(old)), _plain(_fixed(new)), "spec")


def fixed_digest(spec: Mapping[str, Any]) -> str:
    """Return a digest of the immutable fields of a manifest's `spec`."""
    content = dumps(_plain(_fixed(spec)), sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return sha256(content.encode(errors="surrogatepass")).hexdigest()[:32]


def _fixed(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the immutable part of a job's `spec`."""
    fixed = {name: value for name, value in spec.items() if name not in {"minAvailable", "priorityClassName"}}
    fixed["tasks"] = [
        {name: value for name, value in task.items() if name not in {"replicas", "minAvailable"}}
        for task in spec.get("tasks") or []
    ]
    fixed["volumes"] = [
        {name: value for name, value in volume.items() if name != "volumeClaimName" or volume.get("volumeClaim") is None}
        for volume in spec.get("volumes") or []
    ]
    return fixed


def _plain(value: object, *, of: str = "") -> object:
    """Return a value for comparison (Kubernetes: semantic equality): without empty fields, quantities as numbers.

    Args:
        value: the value.
        of: name of its field; entries of `plugins` count as present even without arguments.
    """
    if isinstance(value, dict):
        plain = {
            str(key): (readable_quantity(one) or one) if of in _QUANTITIES else _plain(one, of=key) for key, one in value.items()
        }
        return {
            key: one for key, one in plain.items() if of == "plugins" or not (one in (None, "", []) or (one == {} and key in _MAPS))
        }
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _differing(old: object, new: object, path: str) -> Iterator[Fault]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from _differing(old.get(key), new.get(key), child(path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differing(one, other, child(path, index))
    elif old != new:
        yield Fault(path, CANNOT_CHANGE)
