"""The phase of an observed job: its owner's status, else its attempts.

Lahar requests nothing for such a job, so it has neither effects nor policies. An end derived from attempts alone is inferred, and a
new attempt revokes it; an end that the owner states is final, unless its controller can run the job again. Some owners (batch/v1
Job, JobSet) only count pods: then Running begins with the first attempt that runs, and lasts until the owner states a suspension or
an end, because counts lag behind pods.
"""

from __future__ import annotations

from typing import NamedTuple

from statemachines.counters import Counters
from statemachines.vocabulary import FINISHED_JOB_PHASES, JobPhase


class ObservedPhase(NamedTuple):
    """Phase of an observed job."""

    phase: JobPhase
    inferred: bool = False
    """It is an end that no owner stated."""


def owner_shows(
    phase: JobPhase,
    shown: JobPhase,
    *,
    inferred: bool,
    owner_decides: bool = True,
    runs_again: bool = False,
    counters: Counters | None = None,
) -> ObservedPhase | None:
    """Return the phase after an observation of the owner's status.

    Args:
        phase: the job's phase.
        shown: the phase in the status.
        inferred: the present phase is an end inferred from attempts.
        owner_decides: the owner states the phase; otherwise Pending and Running are derived from its counts of pods.
        runs_again: the owner can run the job again after an end.
        counters: current attempts.

    Returns:
        The owner's phase; `None` if it contradicts an end that the owner itself has stated: an anomaly.
    """
    if phase in FINISHED_JOB_PHASES and not inferred and not runs_again and shown != phase:
        return None
    if not owner_decides and shown in ("Pending", "Running"):
        seen = counters or Counters()
        if phase == "Running" or inferred or seen.running:
            return ObservedPhase("Running")
        if seen.pending:
            return ObservedPhase("Pending")
    return ObservedPhase(shown)


def attempts_show(
    phase: JobPhase,
    counters: Counters,
    *,
    inferred: bool = False,
    owner_known: bool = False,
    owner_decides: bool = False,
    expected: int = 0,
    moved: bool = False,
) -> ObservedPhase:
    """Return the phase after the attempts of a job changed.

    Args:
        phase: the job's phase.
        counters: current attempts, ended ones included; a Lost one counts as failed.
        inferred: the present phase is an end inferred from attempts.
        owner_known: the job object is known, so its status decides everything but the beginning.
        owner_decides: its status decides the beginning as well.
        expected: known number of replicas; with fewer attempts there is no end.
        moved: it had attempts, and all have moved to another job.

    Returns:
        Of a job whose attempts have all moved: Terminated, inferred. Of one whose object is known: Running once an attempt runs,
        unless the status decides that. Of any other job: Pending or Running by whether any attempt runs; Completed or Failed,
        inferred, when all have ended.
    """
    if phase in FINISHED_JOB_PHASES and not inferred:
        return ObservedPhase(phase)
    if moved:
        return ObservedPhase("Terminated", inferred=True)
    if owner_known:
        begins = counters.running and not owner_decides and (phase == "Pending" or inferred)
        return ObservedPhase("Running") if begins else ObservedPhase(phase, inferred)
    alive = counters.pending + counters.running + counters.terminating + counters.unknown
    ended = counters.succeeded + counters.failed
    if counters.running or (counters.terminating and phase == "Running"):
        return ObservedPhase("Running")
    if alive or ended < max(expected, 1):
        return ObservedPhase("Running" if ended and phase == "Running" else "Pending")
    return ObservedPhase("Failed" if counters.failed else "Completed", inferred=True)
