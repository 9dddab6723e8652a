"""Mutable fields of a job's specification (Volcano: its webhook on update)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from pydantic.alias_generators import to_camel

from engine.events.outcomes import Fault
from engine.kubernetes.manifests.update_rules import CANNOT_CHANGE
from engine.kubernetes.reading.shapes import child
from statemachines.spec import JobSpec, TaskSpec

_NAMES: Final = {"priority_class": "priorityClassName", "raise_rules": "raise", "partition": "partitionPolicy"}
_OWN: Final = frozenset(
    {
        "preempt",
        "on_preempted",
        "min_run_seconds",
        "permanent_exit_codes",
        "custom_events",
        "raise_rules",
        "active_deadline_seconds",
    }
)
_OWN_OF_TASK: Final = frozenset({"main", "min_succeeded", "max_failed"})


def change_faults(old: JobSpec, new: JobSpec) -> Iterator[Fault]:
    """Yield a fault for each changed immutable field; one fault for all fields that are known only by digest.

    Args:
        old: current specification, perhaps without templates.
        new: new specification.
    """
    if [task.name for task in old.tasks] != [task.name for task in new.tasks]:
        yield Fault("spec.tasks", "job updates may not add, remove, rename or reorder tasks")
        return
    faults = list(_changed_fields(old, new))
    if not faults and old.fixed not in {"", new.fixed}:
        faults.append(Fault("spec", f"a pod template, a volume, an argument of a plugin or the like {CANNOT_CHANGE}"))
    yield from faults


def _changed_fields(old: JobSpec, new: JobSpec) -> Iterator[Fault]:
    for name in _differing(old, new, {"min_available", "priority_class", "tasks", "fixed"}):
        yield Fault(child("lahar" if name in _OWN else "spec", _NAMES.get(name) or to_camel(name)), CANNOT_CHANGE)
    for index, (before, after) in enumerate(zip(old.tasks, new.tasks, strict=True)):
        for name in _differing(before, after, {"replicas", "min_available", "template"}):
            parent = child("lahar.tasks", after.name) if name in _OWN_OF_TASK else child("spec.tasks", index)
            yield Fault(child(parent, _NAMES.get(name) or to_camel(name)), CANNOT_CHANGE)


def _differing(old: JobSpec | TaskSpec, new: JobSpec | TaskSpec, free: set[str]) -> Iterator[str]:
    for field in fields(old):
        if field.name not in free and getattr(old, field.name) != getattr(new, field.name):
            yield field.name
