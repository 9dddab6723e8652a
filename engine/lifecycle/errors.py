"""Errors of the lifecycle stage.

LifecycleError
└── InvariantError    a decision would break what every job must satisfy
"""

from __future__ import annotations

__all__ = ["InvariantError", "LifecycleError"]


class LifecycleError(Exception):
    """Base of all errors of this package."""


class InvariantError(LifecycleError):
    """Raised when deciding on an input would break an invariant of its job; the processor then parks the job."""

    def __init__(self, job: str, what: str) -> None:
        super().__init__(f"job {job}: {what}")
        self.job = job
