"""Pods of managed jobs: requests to create missing pods, to bind placed ones, and to delete the pods that a rule selects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from engine.events.actions import EffectRequested
from engine.events.attempts import AttemptObjectChanged, AttemptStarted
from engine.events.decisions import SCHEDULER
from engine.events.inputs import PodObserved
from engine.lifecycle.action_request import ActionRequest
from engine.lifecycle.closing import give_up
from engine.lifecycle.event_factory import EventFactory, Events
from engine.lifecycle.job import Attempt, Job, Task, Timer, category
from engine.lifecycle.lost_pods import wait_for_node, wait_for_sight
from engine.lifecycle.steps import PODS, go_on, go_on_killing, room
from statemachines.counters import Counters, Pod
from statemachines.kill import RETAIN_NONE, RETAIN_SOFT, KillPlan, KillScope, Target, kill_job, kill_target, retained
from statemachines.sync import creates_pods, pod_name, surplus_indexes, sync_job

EVICTED: Final = "PreemptedByScheduler"
"""End reason of attempts that a decision evicts."""

_SYNC: Final = ActionRequest("SyncJob")


def group_phase(job: Job) -> str | None:
    """Return the phase of the job's PodGroup, which controls the creation of pods; `None`: there is no group.

    If another scheduler has the job, its group counts as Inqueue from its creation.
    """
    if not job.grouped:
        return None
    return "Inqueue" if job.enqueued or job.spec.scheduler_name != SCHEDULER else "Pending"


def start_missing(factory: EventFactory, job: Job) -> Events:
    """Request missing pods, and the deletion of the pods that they replace.

    A replica is occupied until the object of its last attempt is gone. A task waits for its dependencies.
    """
    if not creates_pods(group_phase(job)):
        return
    if job.steps:  # the pending step continues
        return
    more = room(job, PODS)
    for task, what, indexes in sync_job(job.tasks):
        few = indexes[:more]
        more -= len(few)
        for index in few:
            if what == "delete":
                yield from _delete_one(factory, job, task.slots[index], "KilledByAction")
            else:
                yield from _make_one(factory, job, task, index)
        if not more:
            yield from go_on(factory, job)
            return


def _make_one(factory: EventFactory, job: Job, task: Task, index: int) -> Events:
    started = factory.event(
        job,
        AttemptStarted(
            task.spec.name,
            index,
            task.next_number(index),
            pod=pod_name(job.name, task.spec.name, index),
            requests=task.spec.requests,
            job_version=job.version,
        ),
    )
    yield started
    yield factory.event(job, _effect("create_pod", task.slots[index]), cause=started.id)


def _effect(effect: str, attempt: Attempt, cause: str | None = None) -> EffectRequested:
    return EffectRequested(
        effect,  # type: ignore[arg-type]  # create_pod or delete_pod
        pod=attempt.pod,
        uid=attempt.uid,
        task=attempt.task,
        index=attempt.index,
        attempt=attempt.number,
        cause=cause,
    )


def scope_of(job: Job, effect: str, request: ActionRequest) -> KillScope | None:
    """Return the scope of the deletions of an effect; `None`: it deletes no pod."""
    if effect in {"sync", "none"}:
        return None
    if effect == "kill_target":
        return "target"
    retain = retained(effect, job.retry_count, job.spec.max_retry, action=request.action, cause=request.cause)
    return "unfinished" if retain else "all"


def plan_of(job: Job, scope: KillScope | None, request: ActionRequest) -> KillPlan | None:
    """Return the remaining deletions of a kill; `None`: its partition does not exist."""
    if scope is None:
        return KillPlan()
    if scope == "target":
        return kill_target(_pods(job, request.target), request.target)
    if scope == "surplus":
        tasks = job.tasks.values()
        beyond = (pod for task in tasks for pod in _pods_at(job, task, surplus_indexes(task.spec.replicas, task.slots)))
        return kill_job(beyond, RETAIN_NONE)
    return kill_job(_pods(job), RETAIN_SOFT if scope == "unfinished" else RETAIN_NONE)


def breadth(job: Job, target: Target | None) -> int:
    """Return the number of pods that the plan of a kill examines."""
    if target is None:
        return sum(len(task.slots) for task in job.tasks.values())
    if target.type == "pod":
        return 1
    spec = job.tasks[target.task].spec
    return spec.replicas if target.type == "task" or spec.partition is None else spec.partition.size


def left_to_kill(job: Job) -> int:
    """Return the number of pods that `when_killed` examines."""
    return sum(breadth(job, _order_of(timer).target) for timer in job.kills.values())


def kill(factory: EventFactory, job: Job, plan: KillPlan, scope: KillScope | None, request: ActionRequest, reason: str) -> Events:
    """Request the deletions of a plan, up to one step's limit; the rest follows in steps, unless one is pending."""
    if any(timer.kill == scope and _order_of(timer).target == request.target for timer in job.kills.values()):
        return
    most = room(job, PODS)
    yield from _delete(factory, job, plan.delete[:most], reason)
    if len(plan.delete) > most and scope is not None:
        yield from go_on_killing(factory, job, scope, request, reason)


def rest_of_kill(job: Job, timer: Timer) -> tuple[KillPlan, ActionRequest]:
    """Return the kill that a step continues, and its action request."""
    request = _order_of(timer)
    return plan_of(job, timer.kill, request) or KillPlan(), request


def _order_of(timer: Timer) -> ActionRequest:
    return ActionRequest(timer.action or "SyncJob", task=timer.task, index=timer.index, partition=timer.partition)


def is_doomed(job: Job, attempt: Attempt) -> bool:
    """Return true if a pod's deletion was requested, or will be (or would have been) by a kill in steps.

    Volcano marks all pods of a kill before it deletes the first. It does not mark pods that its scheduler evicts: their policies
    are evaluated, unless the whole job was evicted.
    """
    killed = attempt.kill is not None and not (attempt.kill == EVICTED and attempt.job_version == job.version)
    return killed or any(_reaches(job, timer, attempt) for timer in job.kills.values())


def _reaches(job: Job, timer: Timer, attempt: Attempt) -> bool:
    if timer.kill == "surplus":
        return attempt.index >= job.tasks[attempt.task].spec.replicas
    if timer.kill != "target":
        return True
    plan = kill_target([_pod(job, attempt, "")], _order_of(timer).target)
    return plan is not None and bool(plan.delete)


def when_killed(job: Job) -> tuple[Counters, dict[str, Counters]]:
    """Return the counters of a job and of its tasks as if every pending kill were complete.

    The phase rule treats a kill as a whole, because Volcano executes it in one pass.
    """
    if not job.kills:
        return job.counts, {name: task.counts for name, task in job.tasks.items()}
    rest = {(pod.task, pod.index): pod for timer in job.kills.values() for pod in rest_of_kill(job, timer)[0].delete}
    counts = replace(job.counts)
    tasks = {name: replace(task.counts) for name, task in job.tasks.items()}
    for pod in rest.values():
        for counters in (counts, tasks[pod.task]):
            name = pod.phase.lower()
            setattr(counters, name, getattr(counters, name) - 1)
            counters.terminating += 1
    return counts, tasks


def _pods(job: Job, target: Target | None = None) -> Iterator[Pod]:
    """Yield the existing pods in the form of the rules, named by their index.

    Args:
        job: the job.
        target: part of the job whose pods are examined; `None`: all.
    """
    for task in job.tasks.values():
        if target is not None and target.task != task.spec.name:
            continue
        indexes: Iterable[int] = task.slots
        if target is not None and target.type == "pod":
            indexes = (int(target.pod or -1),)
        elif target is not None and target.type == "partition" and task.spec.partition is not None:
            size = task.spec.partition.size
            indexes = range(int(target.partition or 0) * size, (int(target.partition or 0) + 1) * size)
        yield from _pods_at(job, task, indexes)


def _pods_at(job: Job, task: Task, indexes: Iterable[int]) -> Iterator[Pod]:
    for index in indexes:
        attempt = task.slots.get(index)
        counted = category(attempt) if attempt is not None else None
        if attempt is not None and counted is not None:
            yield _pod(job, attempt, counted)


def _pod(job: Job, attempt: Attempt, counted: str) -> Pod:
    partition = job.tasks[attempt.task].spec.partition
    return Pod(
        attempt.task,
        str(attempt.index),
        counted.capitalize(),
        attempt.index,
        deleting=counted == "terminating",
        partition=None if partition is None else str(attempt.index // partition.size),
    )


def _delete(factory: EventFactory, job: Job, pods: Iterable[Pod], cause: str) -> Events:
    """Request deletions. An attempt whose pod was never observed is given up at once, or after a wait if one was requested."""
    unseen = False
    for pod in pods:
        attempt = job.tasks[pod.task].slots[pod.index or 0]
        yield from _delete_one(factory, job, attempt, cause)
        unseen = unseen or (attempt.live and attempt.uid is None)
    if unseen:
        yield from wait_for_sight(factory, job)


def _delete_one(factory: EventFactory, job: Job, attempt: Attempt, cause: str) -> Events:
    if attempt.live and attempt.object == "absent":
        yield give_up(factory, job, attempt, "Failed", "NeverStarted")
        return
    if attempt.object == "gone":  # without an object to delete, its replica is open at once
        key = (attempt.task, attempt.index, attempt.number)
        yield factory.event(job, AttemptObjectChanged(*key, object="gone", replaceable=True, version=attempt.version))
        return
    yield factory.event(job, _effect("delete_pod", attempt, cause))
    yield from wait_for_node(factory, job, attempt)


def update_surplus(factory: EventFactory, job: Job) -> Events:
    """Delete the pods beyond the replicas after a task was scaled down."""
    plan = plan_of(job, "surplus", _SYNC) or KillPlan()
    yield from kill(factory, job, plan, "surplus", _SYNC, "KilledByAction")


def _exists(attempt: Attempt) -> bool:
    """Return true if an attempt's pod exists and is not being deleted."""
    return category(attempt) not in {None, "terminating"}


def bind_decided(factory: EventFactory, job: Job) -> Events:
    """Request the binding of existing pods with a decided node, up to one step's limit."""
    waiting = [one for task in job.tasks.values() for one in task.slots.values() if _is_to_be_bound(one)]
    most = room(job, PODS)
    for attempt in waiting[:most]:
        yield factory.event(job, _bind(attempt))
    if len(waiting) > most:
        yield from go_on(factory, job)


def _is_to_be_bound(attempt: Attempt) -> bool:
    if attempt.decided is None or attempt.binding or attempt.kill is not None:
        return False
    return attempt.phase == "Pending" and attempt.object == "exists"


def _bind(attempt: Attempt) -> EffectRequested:
    return replace(_effect("bind_pod", attempt), node=attempt.decided)


def evict(factory: EventFactory, job: Job, attempts: Iterable[Attempt]) -> Events:
    """Request the deletion of pods that a decision evicts."""
    yield from _delete(factory, job, [_pod(job, attempt, "") for attempt in attempts], EVICTED)


def meet(factory: EventFactory, job: Job, attempt: Attempt) -> Events:
    """Process the first observation of a pod: delete it if it is no longer wanted, bind it if its node is decided."""
    if _is_to_be_bound(attempt):
        yield factory.event(job, _bind(attempt))
    if attempt.object == "exists" and (attempt.kill is not None or attempt.reason == "NeverStarted"):
        yield factory.event(job, _effect("delete_pod", attempt, attempt.kill or "KilledByAction"))
    if attempt.index >= job.tasks[attempt.task].spec.replicas and _exists(attempt):
        yield from _delete_one(factory, job, attempt, "KilledByAction")


def stray(factory: EventFactory, job: Job, pod: PodObserved) -> Events:
    """Request the deletion of an attempt's duplicate pod, whose name the next pod needs.

    A pod without an attempt number and with another name was not created by Lahar.
    """
    if pod.attempt is None and pod.index is not None and pod.name != pod_name(job.name, pod.task or "", pod.index):
        return
    asked = EffectRequested("delete_pod", pod=pod.name, uid=pod.uid, task=pod.task, index=pod.index, cause="KilledByAction")
    yield factory.event(job, asked)


def ask_again(factory: EventFactory, job: Job, attempt: Attempt) -> Events:
    """Request a failed effect again, if it is still wanted."""
    if attempt.object in {"absent", "asked", "made"} and attempt.live and attempt.kill is None:
        yield factory.event(job, _effect("create_pod", attempt))
    elif attempt.live and attempt.phase == "Terminating" and attempt.kill is None:  # a deletion requested elsewhere keeps its cause
        yield factory.event(job, _effect("delete_pod", attempt))
    elif attempt.object != "gone" and (attempt.kill is not None or attempt.replaceable):
        yield factory.event(job, _effect("delete_pod", attempt, attempt.kill or "KilledByAction"))
