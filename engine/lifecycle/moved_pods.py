"""Moves of pods to the job above theirs, which became known after they were recorded: each at most once, while the attempt is open.

A Spark executor may be read before its driver's pod, or a pod before the objects of its chain of controllers. Its attempt then
belongs to the job that it named first. Once an observation shows a job above that one, the attempt moves there as a whole.
"""

from __future__ import annotations

from engine.events.attempts import AttemptMoved
from engine.events.inputs import POD, PodObserved
from engine.events.jobs import TaskPhaseChanged
from engine.lifecycle import lost_pods, observed_jobs, pod_identity
from engine.lifecycle.event_factory import EventFactory, Events
from engine.lifecycle.evolve import peek
from engine.lifecycle.job import Attempt, Job, Task
from engine.lifecycle.observed_jobs import MOVED
from engine.lifecycle.pod_inputs import follow
from engine.lifecycle.pod_jobs import awaits_controller, direct_owner
from engine.lifecycle.state import ShardState
from statemachines.counters import Counters


def job_above(state: ShardState, job: Job, above: str, pod: PodObserved, *, deleted: bool) -> Job | None:
    """Return the job to which an observed pod of a job moves; `None`: it stays.

    The job itself must be the pod's controller. After the move it is a controller below the other job, so no pod moves twice.
    Labels move no pod: anyone who may edit them could have its past usage billed to another job.

    Args:
        state: the shard.
        job: job of the pod.
        above: id of the job in the observation.
        pod: the pod as observed.
        deleted: its object is gone, and this is its last state.
    """
    if pod.kind == POD:  # its controller is a pod, which may be an attempt of another job
        above = state.pod_jobs.get((job.cluster, job.namespace), {}).get(above, above)
    if above == job.id or job.managed or pod.managed or pod.owner is None or direct_owner(pod) != job.id:
        return None
    if pod.job != job.id and not pod.chained:
        return None
    attempt, root = job.by_uid.get(pod.uid), peek(state, above)
    if attempt is None or not attempt.live or attempt.controller is not None or not _may_take(state, root, job, pod):
        return None
    if pod_identity.is_old(attempt, pod, deleted=deleted):
        return None
    bound = state.max_replicas
    faults = pod_identity.contradiction(job, attempt, pod, bound), pod_identity.contradiction(root, None, pod, bound)
    return root if faults == (None, None) else None


def _may_take(state: ShardState, root: Job, job: Job, pod: PodObserved) -> bool:
    """Return true if a job may receive the pods of another one: observed, in the same namespace, not holding inputs."""
    if root.managed or root.parked or root.held:
        return False
    if not root.opened:
        return root.id not in state.forgotten and not awaits_controller(state, job.cluster, pod)
    return (root.cluster, root.namespace) == (job.cluster, job.namespace)


def leave(factory: EventFactory, job: Job, root: Job, pod: PodObserved) -> Events:
    """Record that a pod moves from its job to the one above it, and change the phases of the job that it leaves."""
    attempt = job.by_uid[pod.uid]
    yield factory.event(job, _moved(job, attempt, root, pod), attempt.created)
    if job.counts != Counters() or not job.live:  # else an earlier pod of its replica still lives, and the phases stay
        yield from _change_phases(factory, job, job.tasks[attempt.task], attempt)
    if job.lost:
        yield from lost_pods.stop_waiting(factory, job, attempt)


def _change_phases(factory: EventFactory, job: Job, task: Task, attempt: Attempt) -> Events:
    time = attempt.since
    if task.counts == Counters() and task.phase != "Pending":
        yield factory.event(job, TaskPhaseChanged(attempt.task, "Pending", task.phase, reason=MOVED), max(task.since, time))
    if job.counts == Counters():
        yield from observed_jobs.follow_attempts(factory, job, time)
        return
    if not job.live:  # all remaining attempts have ended
        time = max([one.since for one in job.attempts if one.uid is not None])
    yield from follow(factory, job, {attempt.task: time})


def _moved(job: Job, attempt: Attempt, root: Job, pod: PodObserved) -> AttemptMoved:
    return AttemptMoved(
        attempt.task,
        attempt.index,
        attempt.number,
        uid=pod.uid,
        pod=pod.name,
        to=root.id,
        owner=f"{root.kind}/{root.name}" if root.opened else f"{pod.kind}/{pod.owner}",
        reason="pod" if pod.job == job.id else "chain",
        version=pod.version,
    )
