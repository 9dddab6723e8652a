"""Time limits of a job: active deadline, and time to live after its end."""

from __future__ import annotations

from typing import Final

from statemachines.spec import JobSpec
from statemachines.vocabulary import FINISHED_JOB_PHASES, JobPhase

_SECOND: Final = 1_000_000


def active_deadline_due(spec: JobSpec, opened: int) -> int | None:
    """Return when the job exceeds its active deadline (microseconds); `None`: it has none.

    Args:
        spec: the job's specification.
        opened: when the job was opened (Kubernetes: startTime, so waiting counts).
    """
    if spec.active_deadline_seconds is None:
        return None
    return opened + spec.active_deadline_seconds * _SECOND


def ttl_due(spec: JobSpec, phase: JobPhase, since: int) -> int | None:
    """Return when a finished job is to be deleted (microseconds); `None`: never, or it is not finished.

    Aborted is not finished, since the job can be resumed (Volcano).

    Args:
        spec: the job's specification.
        phase: its phase.
        since: when it entered the phase (Volcano: lastTransitionTime).
    """
    if spec.ttl_seconds_after_finished is None or phase not in FINISHED_JOB_PHASES:
        return None
    return since + spec.ttl_seconds_after_finished * _SECOND
