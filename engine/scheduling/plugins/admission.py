"""What jobs that have been let in have claimed and not taken yet, and what others hold beyond their minimum."""

from __future__ import annotations

from typing import TypeAlias

from engine.scheduling.model.amounts import Amounts
from engine.scheduling.model.entities import Job

__all__ = ["Asked", "asked", "claimed", "elastic"]

Asked: TypeAlias = tuple[tuple[str, float], ...]


def asked(job: Job) -> Asked | None:
    """Return what a job asks for at least, to be compared and kept."""
    return None if job.min_resources is None else tuple(job.min_resources.items())


def claimed(job: Job) -> Amounts:
    """Return what a job has been let in for and does not hold yet.

    Volcano: of a job that is Inqueue its minimum resources less what it holds; of one that is Running the same, once it has as
    many tasks placed as it needs (a job whose driver has ended claims nothing any more).
    """
    if job.min_resources is None:
        return {}
    if job.phase not in {"Inqueue", "Running"}:
        return {}
    lacking = _beyond(job.min_resources, job.allocated)
    if lacking and job.phase == "Running" and job.count("Bound", "Binding", "Running", "Allocated") < job.min_member:
        return {}
    return lacking


def elastic(job: Job) -> Amounts:
    """Return what a job holds beyond its minimum resources (Volcano `GetElasticResources`)."""
    return _beyond(job.allocated, job.min_resources or {})


def _beyond(one: Amounts, other: Amounts) -> Amounts:
    found: Amounts = {}
    for name, amount in one.items():
        least = other.get(name, 0)
        if amount > least:
            found[name] = amount - least
    return found
