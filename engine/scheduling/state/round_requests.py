"""Requests for the next round, made by changes of jobs."""

from __future__ import annotations

from engine.events import Data, Event
from engine.scheduling.cluster.notices import PLACED
from engine.scheduling.plugins.gang import is_whole
from engine.scheduling.state.model_sync import sync_job
from engine.scheduling.state.record_names import cluster_record, head_record
from engine.scheduling.state.shard import State, TrackedJob


def request_round(state: State, job: TrackedJob, event: Event[Data], *, runs: bool = False) -> None:
    """Request a round for a change of a job; pods that start in a complete gang count separately (`ran`)."""
    _note_run(state, job)
    cluster = state.cluster(job.head.cluster)
    only_runs = runs and job.group is not None and is_whole(job)
    cluster.changed(event.recordedtime, event.id, "other" if job.group is None else "ran" if only_runs else "own")
    state.touched[cluster_record(cluster.id)] = None


def _note_run(state: State, job: TrackedJob) -> None:
    """Record the end of a job's run if all its placed pods are releasing their nodes."""
    head = job.head
    if head.runs_since and job.group is not None and not job.count(*PLACED):
        head.runs_since = head.told_deadline = 0
        state.touched[head_record(job.key)] = None
        sync_job(state, job)
