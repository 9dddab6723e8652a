"""Volcano's list of conditions of a job."""

from __future__ import annotations

from collections.abc import Sequence

from statemachines.vocabulary import JobPhase


def condition_append(conditions: Sequence[JobPhase], new: JobPhase) -> list[JobPhase]:
    """Return the phases of the conditions after a change of status.

    Volcano de-duplicates by phase: the new condition replaces the one of its phase and moves to the end. So a job that was Running
    twice has the condition once; Lahar's history keeps both.
    """
    return [*(condition for condition in conditions if condition != new), new]
