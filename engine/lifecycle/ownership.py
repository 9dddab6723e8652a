"""Job of an input. A named job is a claim, accepted only from the job's own cluster and namespace.

A pod that names a job of another cluster or namespace only by annotation is an observed job of its own. So is a job object with the
id of a job of another cluster or namespace, together with its pods: a cluster restored from the backup of another one has the same
uids. The id of such a job is a hash of cluster, namespace and uid, followed by `~` and the claimed id. Only the claimed id
determines the partition (`engine.events.ids.routing_key`), so the shard of the job decides every claim to its id.

A pod is one attempt of one job: the first one, or the one to which it has moved from there (`moved_pods`). A pod that is orphaned
or adopted later stays with that job, and its new owner is recorded.

A pod's labels may claim that its job is the owner of its controller; such a pod never joins a managed job.
"""

from __future__ import annotations

from engine.events import Data, Event
from engine.events.ids import routing_key, separate_job_id
from engine.events.inputs import POD, PodDeleted, PodObserved
from engine.lifecycle.claims import LOCATED, namespace_of
from engine.lifecycle.evolve import peek
from engine.lifecycle.job import Job
from engine.lifecycle.observed_jobs import has_moved
from engine.lifecycle.pod_jobs import direct_owner
from engine.lifecycle.state import ShardState
from statemachines.vocabulary import TERMINAL_ATTEMPT_PHASES


def job_of(state: ShardState, event: Event[Data], *, alone: bool = False) -> Job:
    """Return the job of an input: the named one, or an observed job of its own.

    Args:
        state: the shard.
        event: the input.
        alone: the wait for a job that the pod names only by annotation has expired.
    """
    data, job = event.data, state.jobs.get(event.subject)
    if job is None:
        job = peek(state, event.subject)
    if data.TOPIC == "decisions":
        return job  # a decision is based on the events of this job
    if isinstance(data, PodDeleted):
        data = data.last
    if (
        isinstance(data, PodObserved)
        and data.uid in job.by_uid
        and job.cluster == event.clusterid
        and job.namespace == data.namespace
    ):
        return job  # the common case: a known pod
    if isinstance(data, PodObserved) and (first := _first_job(state, event.clusterid, data)) is not None:
        return first
    if not isinstance(data, LOCATED):
        return _commanded(state, job, event.clusterid)  # a command names its job by id alone
    namespace = namespace_of(data)
    while _is_separate(state, job, event, data, namespace, alone=alone):
        identity = data.uid if isinstance(data, PodObserved) and _only_claims(data) else event.subject
        job = peek(state, separate_job_id(job.id, event.clusterid, namespace or "", identity))
        alone = False
    return job


def _first_job(state: ShardState, cluster: str, pod: PodObserved) -> Job | None:
    """Return the job that has a pod's attempt, regardless of the job that the pod names now, or else the job of its controller.

    That is the job of the controlling pod; or the job of other pods with the same controller, unless the job that the pod names is
    known. `None`: neither exists. Pods controlled by a replica of a managed job are not replicas of that job.
    """
    known = state.pod_jobs.get((cluster, pod.namespace), {})
    if pod.uid in known:
        job = peek(state, known[pod.uid])
        return job if pod.uid in job.by_uid else None
    controller = direct_owner(pod)
    if pod.owner is None or pod.managed or controller not in known or (pod.kind != POD and _is_whole(peek(state, pod.job))):
        return None
    above = peek(state, known[controller])
    return None if above.managed else above


def _is_whole(job: Job) -> bool:
    """Return true if a job is known, and not a part of the job to which its pods have moved."""
    return job.opened > 0 and not has_moved(job)


def _commanded(state: ShardState, job: Job, cluster: str) -> Job:
    """Resolve an id to a job: a submitted job wins over one that only pods claim to belong to."""
    if job.managed or job.owner_known:
        return job
    submitted = [one for ident in state.submitted.get(job.id, ()) if (one := peek(state, ident)).cluster == cluster]
    return submitted[0] if len(submitted) == 1 else job


def _is_separate(state: ShardState, job: Job, event: Event[Data], data: Data, namespace: str | None, *, alone: bool) -> bool:
    # An empty cluster is a cluster of its own; otherwise omitting the name would give access to all.
    if job.opened and (job.cluster != event.clusterid or (namespace is not None and namespace != job.namespace)):
        return True
    if isinstance(data, PodObserved) and data.through is not None and job.managed:
        return True
    if not isinstance(data, PodObserved) or not _only_claims(data) or job.id != event.subject or data.uid in job.by_uid:
        return False
    if alone:
        return True
    own = separate_job_id(job.id, event.clusterid, data.namespace, data.uid)
    if own in state.jobs or own in state.closed:
        return True  # became a job of its own before the named job was known
    # A job is forgotten long after its last pod, so a live pod with its id belongs to another job.
    return not job.opened and data.phase not in TERMINAL_ATTEMPT_PHASES and job.id in state.forgotten


def false_claim(job: Job, pod: PodObserved) -> str | None:
    """Return a description of a pod's claim to a job that is not its own; `None`: it has none."""
    if pod.claimed is not None:
        return f"pod {pod.name} names job {pod.claimed} by annotation, but its controller is {pod.owner}"
    if pod.job != routing_key(job.id):
        return None  # its controller is of this job
    if pod.job != job.id and pod.through is not None:
        return f"pod {pod.name} names job {pod.job} by its labels, but its controller is {pod.through}"
    if pod.job != job.id:
        return f"pod {pod.name} names job {pod.job}, which is no job of its namespace {pod.namespace} in cluster {job.cluster}"
    return None


def _only_claims(pod: PodObserved) -> bool:
    """Return true if a pod names its job only by annotation."""
    return pod.managed and pod.owner is None
