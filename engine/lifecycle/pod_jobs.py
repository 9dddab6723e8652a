"""Index of jobs by the pods of their attempts: one pod is one attempt of one job.

Objects between a job and its pods are indexed too: all pods that such an object controls belong to the job of its first pod, even
if a later command read less of their chain of controllers.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.events.ids import routing_key
from engine.events.inputs import POD, PodObserved
from engine.lifecycle.job import Attempt, Job
from engine.lifecycle.state import ShardState


def note_pod(state: ShardState, job: Job, attempt: Attempt, uid: str) -> None:
    """Index an attempt by the uid of its pod."""
    job.by_uid[uid] = attempt
    note_pods(state, (job.cluster, job.namespace), job.id, (uid,))


def note_pods(state: ShardState, where: tuple[str, str], job: str, uids: Iterable[str]) -> None:
    """Index a job by its pods, and by the objects that control them below it, in a cluster and namespace.

    In logs of earlier releases a pod may be an attempt of several jobs; the one with the least id is indexed, and the next one when
    that is forgotten.
    """
    for uid in uids:
        known = state.pod_jobs.setdefault(where, {})
        first = known.setdefault(uid, job)
        if first != job:
            known[uid] = min(first, job)
            state.further_jobs.setdefault((*where, uid), set()).add(max(first, job))


def uids_of(job: Job) -> set[str]:
    """Return the uids of a job's pods, and of the objects that control them below it."""
    return {*job.by_uid, *(attempt.controller for attempt in job.attempts if attempt.controller is not None)}


def forget_pods(state: ShardState, where: tuple[str, str], job: str, uids: Iterable[str]) -> None:
    """Remove the pods of a forgotten job; a pod of several jobs is then indexed for the next one."""
    known = state.pod_jobs.get(where, {})
    for uid in uids:
        further = state.further_jobs.pop((*where, uid), set()) - {job}
        if known.get(uid) == job:
            del known[uid]
        for other in further:
            note_pods(state, where, other, (uid,))
    if not known:
        state.pod_jobs.pop(where, None)


def names_another(state: ShardState, job: Job, pod: PodObserved) -> bool:
    """Return true if a pod of a job names another job: its owner changed, or more of its chain of controllers was read."""
    return not _is_of(state, job, pod, pod.job)


def direct_owner(pod: PodObserved) -> str:
    """Return the uid of a pod's controller; without one, that of the job that it claims, or its own."""
    return pod.controller or pod.job


def owner_below(job: Job, pod: PodObserved) -> str | None:
    """Return the uid of the controller of a pod of a job; `None`: the job itself controls it."""
    direct = direct_owner(pod)
    return None if direct in {job.id, routing_key(job.id)} else direct


def controller_changed(state: ShardState, job: Job, attempt: Attempt, pod: PodObserved) -> bool:
    """Return true if the controller of a pod is no longer the one recorded for its attempt.

    How much of the chain above that controller was read does not matter. Logs of earlier releases lack the controller: there a pod
    that names its job has not changed.
    """
    last = attempt.adopter or attempt.controller
    if last is not None:
        return direct_owner(pod) != last
    if pod.job == job.id:  # most pods
        return False
    return names_another(state, job, pod) and not _is_of(state, job, pod, direct_owner(pod))


def _is_of(state: ShardState, job: Job, pod: PodObserved, owner: str) -> bool:
    """Return true if an owner of a pod is its job, or an object that controls pods of that job."""
    if owner == job.id or owner == routing_key(job.id):
        return True
    return owner != pod.uid and state.pod_jobs.get((job.cluster, job.namespace), {}).get(owner) == job.id


def awaits_controller(state: ShardState, cluster: str, pod: PodObserved) -> bool:
    """Return true if the pod that controls a pod, and so determines its job, was not observed yet."""
    return pod.kind == POD and pod.owner is not None and pod.job not in state.pod_jobs.get((cluster, pod.namespace), {})


def controller_known(state: ShardState, job: Job) -> bool:
    """Return true if the controller of waiting pods, a pod with the job's id as uid, is an attempt of a job by now."""
    return any(job.id in state.pod_jobs.get(where, {}) for where in job.waiters)
