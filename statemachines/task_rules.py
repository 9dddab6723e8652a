"""Rules by which a task counts as completed or failed."""

from __future__ import annotations

from statemachines.spec import TaskSpec

DEFAULT_TASK_MAX_RETRY = 3
"""Meaning of a task's `maxRetry` of 0 (Volcano)."""


def task_completed(task: TaskSpec, succeeded: int) -> bool:
    """Return whether a task is completed: all its replicas succeeded (Volcano), or `minSucceeded` of them if that is set.

    Args:
        task: the task; one without replicas is never completed.
        succeeded: its replicas whose current attempt succeeded.
    """
    if task.replicas <= 0:
        return False
    return succeeded >= (task.replicas if task.min_succeeded is None else task.min_succeeded)


def task_failed(task: TaskSpec, restarts: int, failed: int) -> bool:
    """Return whether a task has failed: its containers were restarted `maxRetry` times, or more than `maxFailed` replicas failed.

    Args:
        task: the task. `max_retry` 0 means 3, -1 never (Volcano); `max_failed` `None` means any number.
        restarts: container and init container restarts, summed over its running and pending pods.
        failed: its replicas whose current attempt failed.
    """
    if too_many_failed(task, failed):
        return True
    limit = task.max_retry or DEFAULT_TASK_MAX_RETRY
    return limit != -1 and restarts >= limit


def too_many_failed(task: TaskSpec, failed: int) -> bool:
    """Return whether more replicas failed than `maxFailed` allows; unset is no limit."""
    return task.max_failed is not None and failed > task.max_failed


def success_out_of_reach(task: TaskSpec, failed: int) -> bool:
    """Return whether so many replicas failed that the task cannot complete unless some are restarted.

    Args:
        task: the task; one without replicas cannot fail in this way.
        failed: its replicas whose current attempt failed.
    """
    return task.replicas > 0 and not task_completed(task, task.replicas - failed)
