"""Errors of the lifecycle stage.

LifecycleError
└── InvariantError    a decision would violate an invariant of its job
"""

from __future__ import annotations


class LifecycleError(Exception):
    """Base of all errors of this package."""


class InvariantError(LifecycleError):
    """Raised when a decision would violate an invariant of its job; the processor then parks the job."""

    def __init__(self, job: str, what: str) -> None:
        super().__init__(f"job {job}: {what}")
        self.job = job
