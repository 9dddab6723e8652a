"""What the stage knows of a job that is part of a notice: its phase, and whether the lifecycle stage has confirmed it."""

from __future__ import annotations

from collections.abc import Iterator

from engine.events import Event
from engine.events.decisions import DecisionAccepted
from engine.events.jobs import JobPhaseChanged
from engine.scheduling.job_records import Attempt, Head
from engine.scheduling.state import KnownJob

__all__ = ["confirm", "note_phase"]


def note_phase(head: Head, event: Event[JobPhaseChanged]) -> None:
    """Note a job's phase. A job that is given notice runs on, and so it does when the notice is withdrawn."""
    before, head.job_phase, head.moved = head.job_phase, event.data.phase, event.id
    if not {before, head.job_phase} <= {"Running", "WillEvicted"}:
        head.phase_since = event.time


def confirm(known: KnownJob, event: Event[DecisionAccepted]) -> Iterator[Attempt]:
    """Note that a decision about a notice was accepted; yield the attempts whose deletion follows, changed.

    The job's change of phase follows in the same commit, but perhaps not in the same batch.
    """
    head, data = known.head, event.data
    if data.kind == "noticed":
        if head.noticing == data.decision:
            head.noticing = ""
            head.job_phase = "WillEvicted" if head.job_phase == "Running" else "Privileged"
        return
    for attempt in known.attempts.values():
        if attempt.claim is not None and attempt.claim.decision == data.decision:
            attempt.leaving, attempt.claim = True, None
            yield attempt
