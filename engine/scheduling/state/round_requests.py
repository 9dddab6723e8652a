"""Requests for the next round, made by changes of jobs."""

from __future__ import annotations

from engine.events import Data, Event
from engine.scheduling.cluster.notices import PLACED
from engine.scheduling.plugins.gang import is_whole
from engine.scheduling.state.model_sync import sync_job
from engine.scheduling.state.record_names import cluster_record, head_record
from engine.scheduling.state.shard import State, TrackedJob


def request_round(state: State, known: TrackedJob, event: Event[Data], *, runs: bool = False) -> None:
    """Request a round for a change of a job; pods that start in a complete gang count separately (`ran`)."""
    _note_run(state, known)
    cluster = state.cluster(known.head.cluster)
    only_runs = runs and known.model is not None and is_whole(known.model)
    cluster.changed(event.recordedtime, event.id, "other" if known.group is None else "ran" if only_runs else "own")
    state.touched[cluster_record(cluster.id)] = None


def _note_run(state: State, known: TrackedJob) -> None:
    """Record the end of a job's run if all its placed pods are releasing their nodes."""
    head, model = known.head, known.model
    if head.runs_since and model is not None and not model.count(*PLACED):
        head.runs_since = head.told_deadline = 0
        state.touched[head_record(known.id)] = None
        sync_job(state, known)
