"""Bounds on the size of a job: Lahar's own, beside the rules of Kubernetes and Volcano.

A manifest beyond a bound is validated no further, because the cost of the other rules grows with its size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from itertools import islice

from engine.events.bounds import (
    CUSTOM_EVENTS,
    FAULT_CHARACTERS,
    FAULTS,
    LABELS,
    MANIFEST_VALUES,
    NAME_CHARACTERS,
    NESTING,
    POLICIES,
    RAISE_RULES,
    TASKS,
)
from engine.events.outcomes import Fault
from engine.kubernetes.manifests.job_shapes import BatchJobSpec, VolcanoJobSpec
from engine.kubernetes.manifests.lahar_spec import LaharSpec
from engine.kubernetes.reading.bounded_values import deeper_than, longest_key, more_than
from engine.kubernetes.reading.shapes import Metadata, child


def manifest_faults(manifest: object) -> Iterator[Fault]:
    """Check the size of a manifest before any other rule."""
    if deeper_than(NESTING, manifest):
        yield Fault("", f"is nested more than {NESTING} deep")
    elif more_than(MANIFEST_VALUES, manifest):
        yield Fault("", f"has more than {MANIFEST_VALUES:,} values")
    elif longest_key(manifest) > NAME_CHARACTERS:
        yield Fault("", f"has a key of more than {NAME_CHARACTERS} characters")


def job_faults(spec: VolcanoJobSpec | BatchJobSpec, metadata: Metadata, replicas: int, most_replicas: int) -> Iterator[Fault]:
    """Check the size of a job.

    Args:
        spec: shape of the job.
        metadata: metadata of the job.
        replicas: replicas of all its tasks.
        most_replicas: maximum number of replicas.
    """
    for name, labels in (("labels", metadata.labels), ("annotations", metadata.annotations)):
        yield from _count(labels, LABELS, name, child("metadata", name))
    if isinstance(spec, VolcanoJobSpec):
        tasks = spec.tasks or []
        yield from _count(tasks, TASKS, "tasks", "spec.tasks")
        yield from _count(spec.policies, POLICIES, "policies", "spec.policies")
        for index, task in enumerate(tasks[:TASKS]):
            yield from _count(task.policies, POLICIES, "policies", child("spec.tasks", index, "policies"))
        yield from replica_faults(replicas, most_replicas, "spec.tasks")
    else:
        yield from replica_faults(replicas, most_replicas, "spec.completions" if spec.completions else "spec.parallelism")


def replica_faults(replicas: int, most: int, path: str) -> Iterator[Fault]:
    """Check the number of replicas of a job.

    Args:
        replicas: replicas of all its tasks.
        most: maximum number of replicas.
        path: path of the field that defines them.
    """
    if replicas > most:
        yield Fault(path, f"the job has {replicas:,} replicas, more than {most:,} (max_replicas)")


def own_faults(own: LaharSpec, path: str) -> Iterator[Fault]:
    """Check the size of Lahar's own fields at `path`."""
    yield from _count(own.rules, RAISE_RULES, "rules", child(path, "raise"))
    yield from _count(own.custom_events, CUSTOM_EVENTS, "custom events", child(path, "customEvents"))
    yield from _count(own.tasks, TASKS, "tasks", child(path, "tasks"))


def first_faults(faults: Iterable[Fault]) -> list[Fault]:
    """Return the faults to report: the first of each path, because two rules that a field violates need one correction."""
    found = list(islice(faults, FAULTS + 1))
    if len(found) > FAULTS:
        found[FAULTS] = Fault("…", f"more than {FAULTS} faults: the rest is not named")
    short = [Fault(_cut(fault.path), _cut(fault.message)) for fault in found]
    return list({fault.path: fault for fault in reversed(short)}.values())[::-1]


def _count(given: Sized | None, most: int, what: str, path: str) -> Iterator[Fault]:
    if given is not None and len(given) > most:
        yield Fault(path, f"has {len(given):,} {what}, more than {most:,}")


def _cut(text: str) -> str:
    return text if len(text) <= FAULT_CHARACTERS else f"{text[: FAULT_CHARACTERS - 1]}…"
