"""The phase of an observed job: its owner's status, else its attempts.

Lahar requests nothing for such a job, so it has neither effects nor policies. An end derived from attempts alone is inferred, and a
new attempt revokes it; an end that the owner states is final.
"""

from __future__ import annotations

from typing import NamedTuple

from statemachines.counters import Counters
from statemachines.vocabulary import FINISHED_JOB_PHASES, JobPhase

__all__ = ["ObservedPhase", "attempts_show", "owner_shows"]


class ObservedPhase(NamedTuple):
    """Phase of an observed job."""

    phase: JobPhase
    inferred: bool = False
    """It is an end that no owner stated."""


def owner_shows(phase: JobPhase, shown: JobPhase, *, inferred: bool) -> ObservedPhase | None:
    """Return the phase after an observation of the owner's status.

    Args:
        phase: the job's phase.
        shown: the phase in the status.
        inferred: the present phase is an end inferred from attempts.

    Returns:
        The owner's phase; `None` if it contradicts an end that the owner itself has stated: an anomaly.
    """
    if phase in FINISHED_JOB_PHASES and not inferred and shown != phase:
        return None
    return ObservedPhase(shown)


def attempts_show(
    phase: JobPhase, counters: Counters, *, inferred: bool = False, owner_known: bool = False, expected: int = 0
) -> ObservedPhase:
    """Return the phase after the attempts of a job changed.

    Args:
        phase: the job's phase.
        counters: current attempts, ended ones included; a Lost one counts as failed.
        inferred: the present phase is an end inferred from attempts.
        owner_known: the job object is known, so its status decides the end.
        expected: known number of replicas; with fewer attempts there is no end.

    Returns:
        Pending or Running by whether any attempt runs; Completed or Failed, inferred, when all have ended and no owner is known.
        The phase stays where the owner stated an end, and where a stop that it announced (Aborting, …) is under way.
    """
    if phase in FINISHED_JOB_PHASES and not inferred:
        return ObservedPhase(phase)
    if owner_known and phase not in ("Pending", "Running"):
        return ObservedPhase(phase, inferred)
    alive = counters.pending + counters.running + counters.terminating + counters.unknown
    ended = counters.succeeded + counters.failed
    if counters.running or (counters.terminating and phase == "Running"):
        return ObservedPhase("Running")
    if alive or ended < max(expected, 1):
        return ObservedPhase("Running" if ended and phase == "Running" else "Pending")
    if owner_known:
        return ObservedPhase(phase, inferred)
    return ObservedPhase("Failed" if counters.failed else "Completed", inferred=True)
