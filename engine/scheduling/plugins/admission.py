"""What a job asks for when it asks to be let in."""

from __future__ import annotations

from typing import TypeAlias

from engine.scheduling.cluster.entities import Job

__all__ = ["Asked", "asked"]

Asked: TypeAlias = tuple[tuple[str, float], ...]


def asked(job: Job) -> Asked | None:
    """Return what a job asks for at least, to be compared and kept."""
    return None if job.min_resources is None else tuple(job.min_resources.items())
