"""Submitted job manifests, converted to the specification that the state machines use.

    manifest ─► shape (types) ─► defaults ─► rules ─► statemachines.spec.JobSpec

No manifest raises an exception: an error is a fault with its path, a doubtful value a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Any, Final

from engine.events.bounds import FAULTS, REPLICAS
from engine.events.outcomes import Fault
from engine.kubernetes.manifests.batch_job import (
    BATCH_JOB,
    COMPARED,
    TASK,
    batch_faults,
    batch_queue,
    batch_replicas,
    batch_spec,
    batch_unused_fields,
)
from engine.kubernetes.manifests.identity import generated_name
from engine.kubernetes.manifests.job_bounds import first_faults, job_faults, manifest_faults, own_faults
from engine.kubernetes.manifests.job_shapes import BatchJob, BatchJobSpec, VolcanoJob, VolcanoJobSpec
from engine.kubernetes.manifests.lahar_rules import lahar_faults
from engine.kubernetes.manifests.lahar_spec import LaharSpec, read_lahar_spec, with_lahar_spec
from engine.kubernetes.manifests.names import label_fault, qualified_name_fault, subdomain_fault
from engine.kubernetes.manifests.pod_template import label_faults
from engine.kubernetes.manifests.read_job import ReadJob
from engine.kubernetes.manifests.spec_changes import change_faults
from engine.kubernetes.manifests.update_rules import fixed_digest, update_faults
from engine.kubernetes.manifests.vcjob_rules import create_faults, queue_faults, schema_faults
from engine.kubernetes.manifests.volcano_defaults import DEFAULT_QUEUE, fill_defaults, unused_fields, volcano_spec
from engine.kubernetes.reading.accelerators import BUILT_IN, Accelerators
from engine.kubernetes.reading.shapes import Metadata, Shape, read_shape, unknown_fields
from statemachines.spec import JobSpec

__all__ = ["ReadJob", "read_manifest", "replacement_faults", "update_spec"]

_VOLCANO: Final = "batch.volcano.sh/"
_ACCEPTED: Final = "write apiVersion batch.volcano.sh/v1alpha1 or batch/v1, kind Job"
_ALWAYS_THERE: Final = ({"name": "root", "state": "Open"}, {"name": DEFAULT_QUEUE, "state": "Open"})
"""Queues that Volcano creates itself."""


def read_manifest(
    manifest: object,
    *,
    strict: bool = False,
    queues: list[dict[str, Any]] | None = None,
    seed: str = "",
    most_replicas: int = REPLICAS,
    accelerators: Accelerators = BUILT_IN,
) -> ReadJob:
    """Parse and validate a submitted job.

    Args:
        manifest: decoded manifest: a vcjob (`batch.volcano.sh/*`) or a `batch/v1` Job; anything else is a fault.
        strict: report warnings as faults.
        queues: existing queues besides Volcano's own (`default` and `root`): `name`, `parent`, `state` of each.
        seed: distinguishes submissions with the same `generateName`, such as the command's id.
        most_replicas: maximum number of replicas of all tasks.
        accelerators: table of the resources that are GPUs.
    """
    job, warnings = _read(manifest, list(_known(queues)), seed, most_replicas, accelerators)
    if strict:
        # Warnings come first, because an unknown field may be the cause of another fault.
        job.faults = first_faults([*(Fault(path, message) for path, message in warnings), *job.faults])
        job.spec = job.spec if not job.faults else JobSpec()
    else:
        job.warnings = [f"{path}: {message}" for path, message in warnings]
    return job


def update_spec(
    old: JobSpec, manifest: object, most_replicas: int = REPLICAS, accelerators: Accelerators = BUILT_IN
) -> tuple[JobSpec, list[Fault]]:
    """Parse a manifest that replaces the one with which a job was submitted.

    Only `minAvailable`, the tasks' `replicas` and `minAvailable`, and `priorityClassName` may differ (Volcano). Defaults are
    derived anew from the new manifest, so that a default minimum grows with its task.

    Args:
        old: current specification, perhaps without templates.
        manifest: complete new manifest.
        most_replicas: maximum number of replicas of all tasks.
        accelerators: table of the resources that are GPUs. A job with unchanged templates keeps the requests with which it was
            opened.

    Returns:
        The new specification, without templates if the old one has none, and no faults; or the old one and the faults.
    """
    # A running job stays in its queue, even if the queue was closed or deleted.
    job, _ = _read(manifest, [{"name": old.queue, "state": "Open"}], "", most_replicas, accelerators)
    found = job.spec
    if old.fixed and found.fixed == old.fixed:
        found = _keeping(found, old, "requests")
    if job.kind == BATCH_JOB and not job.faults:  # these rules are not in a manifest; a job keeps its own
        found = replace(_keeping(found, old, "max_retry"), policies=old.policies)
    faults = job.faults or first_faults(change_faults(old, found))
    if faults:
        return old, faults
    pairs = zip(found.tasks, old.tasks, strict=True)
    tasks = tuple(replace(task, template=None) if before.template is None else task for task, before in pairs)
    return replace(found, tasks=tasks), []


def _keeping(spec: JobSpec, old: JobSpec, name: str) -> JobSpec:
    """Return a specification whose tasks keep a field's old value."""
    former = tuple(replace(task, **{name: getattr(before, name)}) for task, before in zip(spec.tasks, old.tasks, strict=False))
    return replace(spec, tasks=former + spec.tasks[len(former) :])


def replacement_faults(old: object, new: object) -> list[Fault]:
    """Return the faults of a vcjob's manifest that replaces another, by field; none if one of them is not a vcjob.

    `update_spec`, which has only a digest of the old manifest, rejects the same changes and also those below `lahar`.
    """
    before, after = (_filled(manifest) for manifest in (old, new))
    return [] if before is None or after is None else first_faults(update_faults(after, before.written(), after.written()))


def _filled(manifest: object) -> VolcanoJobSpec | None:
    """Return the shape of a vcjob's `spec` with its defaults; `None` if it is not a vcjob."""
    if any(manifest_faults(manifest)):
        return None
    shape, _ = read_shape(VolcanoJob, manifest)
    if shape is None or not (shape.api_version or "").startswith(_VOLCANO):
        return None
    spec = shape.spec or VolcanoJobSpec()
    fill_defaults(spec)
    return spec


def _read(
    manifest: object, queues: list[dict[str, Any]], seed: str, most_replicas: int, accelerators: Accelerators
) -> tuple[ReadJob, list[tuple[str, str]]]:
    too_large = list(manifest_faults(manifest))
    if too_large:
        return ReadJob(faults=too_large), []
    head = manifest if isinstance(manifest, dict) else {}
    version, kind = head.get("apiVersion"), head.get("kind")
    if kind == "Job" and isinstance(version, str) and version.startswith(_VOLCANO):
        return _read_volcano(manifest, queues, seed, most_replicas, accelerators)
    if kind == "Job" and version == "batch/v1":
        return _read_batch(manifest, queues, seed, most_replicas, accelerators)
    if not isinstance(manifest, dict):
        return ReadJob(faults=[Fault("", "a manifest is a mapping with apiVersion, kind, metadata and spec")]), []
    return ReadJob(faults=[Fault("kind", f"{_shown(version)} {_shown(kind)} is no job that can be submitted: {_ACCEPTED}")]), []


def _read_volcano(
    manifest: Any,  # noqa: ANN401 - undecoded
    queues: list[dict[str, Any]],
    seed: str,
    most_replicas: int,
    accelerators: Accelerators,
) -> tuple[ReadJob, list[tuple[str, str]]]:
    shape, faults = read_shape(VolcanoJob, manifest)
    if shape is None:
        return ReadJob(kind="VCJob", faults=first_faults(faults)), []
    spec = shape.spec = shape.spec or VolcanoJobSpec()
    fill_defaults(spec)
    metadata, job, warnings = _head("VCJob", shape.metadata, seed)
    shape.metadata, job.managed_by = metadata, spec.managed_by
    replicas = {task.name or "": task.replicas or 0 for task in spec.tasks or []}
    own, path, faults = read_lahar_spec(metadata.annotations, manifest.get("lahar"))
    total = sum(task.replicas or 0 for task in spec.tasks or [])
    job.faults = first_faults(chain(job_faults(spec, metadata, total, most_replicas), own_faults(own, path)))
    if job.faults:
        return job, []
    job.faults = first_faults(
        chain(
            faults,
            lahar_faults(own, replicas, path),
            _metadata_faults(metadata),
            create_faults(shape, queues, declared=own.declared),
            schema_faults(shape),
        )
    )
    warnings += _first_warnings(chain(_unknown(shape, own, path), unused_fields(spec)))
    if not job.faults:
        found = volcano_spec(spec, manifest.get("spec") or {}, accelerators)
        job.spec = replace(with_lahar_spec(own, found), fixed=fixed_digest(spec.written()))
    return job, warnings


def _read_batch(
    manifest: Any,  # noqa: ANN401 - undecoded
    queues: list[dict[str, Any]],
    seed: str,
    most_replicas: int,
    accelerators: Accelerators,
) -> tuple[ReadJob, list[tuple[str, str]]]:
    shape, faults = read_shape(BatchJob, manifest)
    if shape is None:
        return ReadJob(kind=BATCH_JOB, faults=first_faults(faults)), []
    spec = shape.spec or BatchJobSpec()
    metadata, job, warnings = _head(BATCH_JOB, shape.metadata, seed)
    job.managed_by, job.suspended = spec.managed_by, bool(spec.suspend)
    queue = batch_queue(metadata.annotations)
    replicas = batch_replicas(spec)
    own, path, faults = read_lahar_spec(metadata.annotations, manifest.get("lahar"))
    job.faults = first_faults(chain(job_faults(spec, metadata, replicas, most_replicas), own_faults(own, path)))
    if job.faults:
        return job, []
    job.faults = first_faults(
        chain(
            faults,
            lahar_faults(own, {TASK: replicas}, path),
            _metadata_faults(metadata),
            batch_faults(spec),
            queue_faults(queue, queues),
        )
    )
    warnings += _first_warnings(chain(_unknown(shape, own, path), batch_unused_fields(spec)))
    if not job.faults:
        found = batch_spec(spec, manifest.get("spec") or {}, queue, accelerators)
        fixed = fixed_digest({name: value for name, value in spec.written().items() if name not in COMPARED})
        job.spec = replace(with_lahar_spec(own, found), fixed=fixed)
    return job, warnings


def _head(kind: str, given: Metadata | None, seed: str) -> tuple[Metadata, ReadJob, list[tuple[str, str]]]:
    """Return the metadata with name and namespace, a job with only these, and warnings about the name."""
    metadata = given or Metadata()
    metadata.namespace = metadata.namespace or "default"
    if not metadata.name and metadata.generate_name:
        metadata.name = generated_name(metadata.generate_name, seed)
    name, labels = metadata.name or "", dict(metadata.labels or {})
    job = ReadJob(
        kind=kind,
        name=name,
        namespace=metadata.namespace,
        uid=metadata.uid or None,
        version=metadata.resource_version or None,
        labels=labels,
        tenant=labels.get("lahar/tenant") or metadata.namespace,
        project=labels.get("lahar/project", ""),
        user=labels.get("lahar/user", ""),
    )
    message = None if qualified_name_fault(name) else subdomain_fault(name)
    return metadata, job, [("metadata.name", f"{message} (Kubernetes would refuse {name})")] if message else []


def _metadata_faults(metadata: Metadata) -> Iterator[Fault]:
    if message := qualified_name_fault(metadata.name or ""):
        yield Fault("metadata.name", message if metadata.name else "is required")
    elif "/" in (metadata.name or ""):
        yield Fault("metadata.name", "must not have a '/'")
    if message := label_fault(metadata.namespace or ""):
        yield Fault("metadata.namespace", message)
    yield from label_faults(metadata.labels, "metadata.labels")


def _unknown(shape: Shape, own: LaharSpec, path: str) -> Iterator[tuple[str, str]]:
    return ((where, f"unknown field{near}") for where, near in chain(unknown_fields(shape), unknown_fields(own, path)))


def _first_warnings(warnings: Iterator[tuple[str, str]]) -> list[tuple[str, str]]:
    found = list(islice(warnings, FAULTS + 1))
    return found if len(found) <= FAULTS else [*found[:FAULTS], ("…", f"more than {FAULTS} warnings: the rest is not named")]


def _known(queues: list[dict[str, Any]] | None) -> Iterator[dict[str, Any]]:
    given = queues or []
    names = {queue.get("name") for queue in given}
    yield from given
    yield from (queue for queue in _ALWAYS_THERE if queue["name"] not in names)


def _shown(value: object) -> str:
    return repr(value)[:60] if isinstance(value, str | None) else f"({type(value).__name__})"
