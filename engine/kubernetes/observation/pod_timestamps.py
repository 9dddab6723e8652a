"""Times at which a pod entered its phases, from its object."""

from __future__ import annotations

from typing import NamedTuple

from engine.kubernetes.errors import ProjectionError
from engine.kubernetes.observation.view import PodView
from engine.kubernetes.reading.fields import moment
from statemachines.vocabulary import TERMINAL_ATTEMPT_PHASES, AttemptPhase


class Moments(NamedTuple):
    """Times of a pod's phases (microseconds), in ascending order; `None`: not entered, or unknown."""

    created: int
    bound: int | None
    running: int | None
    terminating: int | None
    ended: int | None
    """Latest `finishedAt`; `None` if the pod has not ended, or ended without one."""
    proof: int
    """Latest time in the object."""


def pod_moments(pod: PodView, phase: AttemptPhase) -> Moments:
    """Return the times at which a pod entered its phases.

    Args:
        pod: the pod.
        phase: phase by the pod table.

    Raises:
        ProjectionError: the object has no time.
    """
    started, finished, seen = _containers(pod)
    start_time = moment(pod.status.get("startTime"))
    if start_time is not None:
        seen.append(start_time)
    for condition in pod.conditions.values():
        for field in ("lastTransitionTime", "lastProbeTime"):
            if (time := moment(condition.get(field))) is not None:
                seen.append(time)
    created = moment(pod.metadata.get("creationTimestamp"))
    if created is None:
        # A kubelet's own list has static pods without a creation time.
        if not seen:
            raise ProjectionError("metadata.creationTimestamp", "missing, and the pod holds no other time")
        created = min(seen)
    latest = created
    bound = running = terminating = ended = None
    if phase != "Pending":
        bound = moment(pod.true("PodScheduled").get("lastTransitionTime"))
        bound = start_time if bound is None else bound
        if bound is not None:
            bound = latest = max(latest, bound)
    if phase not in {"Pending", "Bound"} and (started or pod.phase in {"Running", "Succeeded"} or pod.has_started):
        running = min(started) if started else moment(pod.true("Initialized").get("lastTransitionTime"))
        running = bound if running is None else running
        if running is not None:
            running = latest = max(latest, running)
    if pod.phase == "Failed" and not finished:
        finished = [one.finished for one in pod.deciding if one.finished is not None]
    if phase in TERMINAL_ATTEMPT_PHASES and finished and not any(one.running for one in pod.containers):
        ended = max(latest, *finished)
    asked = pod.deletion_asked
    if asked is not None:
        seen.append(asked)
        # A pod that was deleted long after its end was never Terminating.
        if ended is None or asked <= ended:
            terminating = max(latest, asked)
    seen.append(created)
    return Moments(created, bound, running, terminating, ended, max(seen))


def _containers(pod: PodView) -> tuple[list[int], list[int], list[int]]:
    """Return the starts of regular containers, the ends of those in their current state, and all times of all containers."""
    started, finished, seen = [], [], []
    for one in pod.containers:
        if one.started is not None:
            started.append(one.started)
        if one.last_started is not None:
            started.append(one.last_started)
        if one.finished is not None:
            finished.append(one.finished)
    for one in (*pod.containers, *pod.inits):
        seen += [time for time in (one.started, one.finished, one.last_started, one.last_finished) if time is not None]
    return started, finished, seen
