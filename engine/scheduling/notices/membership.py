"""What the stage knows of a job that is part of a notice: its phase, and whether the lifecycle stage has confirmed it."""

from __future__ import annotations

from collections.abc import Iterator

from engine.events import Event
from engine.events.decisions import DecisionAccepted
from engine.events.jobs import JobPhaseChanged
from engine.scheduling.cluster.job_records import Attempt, JobRecord
from engine.scheduling.cluster.notices import PLACED
from engine.scheduling.state.model_sync import sync_job
from engine.scheduling.state.record_names import head_record
from engine.scheduling.state.shard import State, TrackedJob

__all__ = ["confirm", "note_phase", "note_run"]


def note_phase(head: JobRecord, event: Event[JobPhaseChanged]) -> None:
    """Note a job's phase, and that a run begins with Running."""
    head.job_phase, head.moved = event.data.phase, event.id
    if head.job_phase == "Running" and not head.runs_since:
        head.runs_since = event.time


def note_run(state: State, known: TrackedJob) -> None:
    """Note that a job's run has ended if none of its pods has a place that it is not leaving."""
    head, model = known.head, known.model
    if head.runs_since and model is not None and not model.count(*PLACED):
        head.runs_since = head.told_deadline = 0
        state.touched[head_record(known.id)] = None
        sync_job(state, known)


def confirm(state: State, known: TrackedJob, event: Event[DecisionAccepted]) -> Iterator[Attempt]:
    """Note that a decision about a notice was accepted; yield the attempts whose deletion follows, changed.

    The job's change of phase follows in the same commit, but perhaps not in the same batch.
    """
    head, data = known.head, event.data
    if data.kind == "noticed":
        if head.noticing == data.decision:
            head.noticing = ""
            notice = state.cluster(head.cluster).model.notices.get(head.notice)
            preemptor = notice is not None and notice.preemptor == known.id
            head.job_phase = "Privileged" if preemptor else "WillEvicted"
        return
    for attempt in known.attempts.values():
        if attempt.claim is not None and attempt.claim.decision == data.decision:
            attempt.leaving, attempt.claim = True, None
            yield attempt
