"""Pods of managed jobs: ask for those that are missing, request the deletion of those that a rule names."""

from __future__ import annotations

from collections.abc import Iterator

from engine.events.jobs import (
    AttemptEnded,
    AttemptStarted,
    EffectRequested,
)
from engine.lifecycle.orders import Order
from engine.lifecycle.state import Attempt, Job, category
from engine.lifecycle.tasks import may_start
from engine.lifecycle.turn import Events, Turn
from statemachines.counters import Pod
from statemachines.kill import KillPlan, Target, kill_job, kill_target, retained
from statemachines.sync import creates_pods, pod_name, surplus_indexes

__all__ = ["delete", "delete_surplus", "plan_of", "start_missing", "update_surplus"]


def start_missing(turn: Turn, job: Job) -> Events:
    """Ask for the pods that are missing; a task waits for those that it depends on."""
    # Without a scheduling stage the job's group counts as Inqueue as soon as it stands.
    if not creates_pods("Inqueue" if job.grouped else None):
        return
    for task in job.tasks.values():
        if not task.open or not may_start(job, task):
            continue
        for index in list(task.open):
            current = task.slots.get(index)
            started = turn.event(
                job,
                AttemptStarted(
                    task.spec.name,
                    index,
                    current.number + 1 if current else 1,
                    pod=pod_name(job.name, task.spec.name, index),
                    requests=task.spec.requests,
                    job_version=job.version,
                ),
            )
            yield started
            attempt = task.slots[index]
            yield turn.event(job, _effect("create_pod", attempt), cause=started.id)


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


def plan_of(job: Job, effect: str, order: Order) -> KillPlan | None:
    """Return what a kill deletes; `None`: its partition does not exist."""
    if effect in {"sync", "none"}:
        return KillPlan()
    if effect == "kill_target":
        return kill_target(_pods(job, order.target), order.target)
    retain = retained(effect, job.retry_count, job.spec.max_retry, action=order.action, cause=order.cause)
    return kill_job(_pods(job), retain)


def _pods(job: Job, target: Target | None = None) -> Iterator[Pod]:
    """Yield the pods that stand, as the rules see them; a pod is named by its index here.

    Args:
        job: the job.
        target: nothing that lies outside of it is looked at; `None`: everything is.
    """
    for task in job.tasks.values():
        if target is not None and target.task != task.spec.name:
            continue
        partition = task.spec.partition
        slots = task.slots
        if target is not None and target.type == "pod":
            slots = {index: slots[index] for index in (int(target.pod or -1),) if index in slots}
        for index, attempt in slots.items():
            counted = category(attempt)
            if counted is not None:
                yield Pod(
                    attempt.task,
                    str(index),
                    counted.capitalize(),
                    index,
                    deleting=counted == "terminating",
                    partition=None if partition is None else str(index // partition.size),
                )


def delete(turn: Turn, job: Job, plan: KillPlan, cause: str) -> Events:
    """Request the deletions of a plan; an attempt whose pod was never seen ends at once."""
    for pod in plan.delete:
        attempt = job.tasks[pod.task].slots[pod.index or 0]
        yield from _delete_one(turn, job, attempt, cause)


def _delete_one(turn: Turn, job: Job, attempt: Attempt, cause: str) -> Events:
    requested = turn.event(job, _effect("delete_pod", attempt, cause))
    yield requested
    if attempt.live and attempt.uid is None:
        yield turn.event(
            job,
            AttemptEnded(
                attempt.task,
                attempt.index,
                attempt.number,
                phase="Failed",
                previous=attempt.phase,
                reason="NeverStarted",
                rank="scheduler",
                replaceable=True,
                requests=attempt.requests,
            ),
            max(attempt.since, turn.now),
            cause=requested.id,
        )


def update_surplus(turn: Turn, job: Job) -> Events:
    """Delete the pods beyond the replicas after a task was scaled down."""
    for task in job.tasks.values():
        for index in surplus_indexes(task.spec.replicas, task.slots):
            yield from delete_surplus(turn, job, task.slots[index])


def delete_surplus(turn: Turn, job: Job, attempt: Attempt) -> Events:
    """Delete a pod that is beyond the replicas of its task, unless that is under way."""
    beyond = attempt.index >= job.tasks[attempt.task].spec.replicas
    if beyond and category(attempt) not in {None, "terminating"}:
        yield from _delete_one(turn, job, attempt, "KilledByAction")
