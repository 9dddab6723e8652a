"""Reservations of the nodes that evictions free, for the claimant's pods: until these are bound or gone, or time is over.

The evictions of one round for a job are one promise. It ends before its time only if all of them are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from engine.events.decisions import DecidedEvicted, Placement
from engine.events.times import Micros
from engine.scheduling.cluster.job_records import PlaceClaim
from engine.scheduling.state.model_sync import sync_job
from engine.scheduling.state.record_names import head_record
from engine.scheduling.state.shard import ClusterState, Pod, State, TrackedJob

_MOST: Final = 256
"""Greatest number of decisions of a job's promises that are kept by name; of more, not all are refused."""
_OTHERS: Final = ""
"""Name of all further decisions."""


def keep_places(state: State, decision: str, data: DecidedEvicted) -> None:
    """Reserve the nodes that an eviction frees for the claimant's pods."""
    claimant = state.jobs.get(data.preemptor)
    if claimant is None or data.kept_until is None:
        return
    head, until = claimant.head, data.kept_until
    own = data.reason == "Preempted"
    claims = [PlaceClaim((one.task, one.index, one.attempt), one.node, until, own) for one in data.claims]
    again = {claim.slot for claim in claims}
    head.claims = [claim for claim in head.claims if claim.slot not in again] + claims
    head.evicting[decision if len(head.evicting) < _MOST else _OTHERS] = until
    state.touched[head_record(claimant.key)] = None
    sync_job(state, claimant)


def move_places(state: State, job: TrackedJob, placements: Iterable[Placement]) -> None:
    """Move reservations to the nodes of a new decision, until the pods are bound: a binding may fail."""
    if job.head.claims:
        nodes = {(one.task, one.index, one.attempt): one.node for one in placements}
        _leave(state, job, [replace(claim, node=nodes.get(claim.slot, claim.node)) for claim in job.head.claims])


def place_taken(state: State, pod: Pod) -> None:
    """End the reservation for a pod that is bound or has ended."""
    if pod.key in pod.job.claims:
        _leave(state, pod.job, [claim for claim in pod.job.head.claims if claim.slot != pod.attempt.slot])


def release(state: State, cluster: ClusterState, now: Micros) -> None:
    """End reservations whose time is over."""
    for job in _claimants(state, cluster):
        left = [claim for claim in job.head.claims if claim.until > now]
        if len(left) < len(job.head.claims):
            _leave(state, job, left)


def withdraw(state: State, cluster: ClusterState, decision: str) -> None:
    """End the reservations of a promise if its last eviction was refused."""
    for job in _claimants(state, cluster):
        head = job.head
        until = head.evicting.pop(decision, None)
        if until is not None:
            stands = until in head.evicting.values()
            _leave(state, job, [claim for claim in head.claims if stands or claim.until != until])


def _claimants(state: State, cluster: ClusterState) -> list[TrackedJob]:
    return [state.jobs[key] for key in sorted(cluster.model.claimants)]


def _leave(state: State, job: TrackedJob, claims: list[PlaceClaim]) -> None:
    """Set the reservations of a job."""
    head = job.head
    head.claims, untils = claims, {claim.until for claim in claims}
    head.evicting = {decision: until for decision, until in head.evicting.items() if until in untils}
    state.touched[head_record(job.key)] = None
    sync_job(state, job)
