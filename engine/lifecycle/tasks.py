"""Phases of tasks, by the counters of their replicas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.events.jobs import TaskPhaseChanged
from engine.lifecycle.event_factory import EventFactory, Events
from engine.lifecycle.job import Job, Task
from statemachines.sync import may_start
from statemachines.task import TaskFacts, TaskTrigger, next_task_phase
from statemachines.task_rules import success_out_of_reach
from statemachines.vocabulary import FINISHED_JOB_PHASES

_RESTARTS: Final = frozenset({"RestartJob", "RestartTask", "RestartPod", "RestartPartition"})


def follow_tasks(factory: EventFactory, job: Job, changed: Mapping[str, int]) -> Events:
    """Change the phases of tasks by their counters until all are stable.

    Args:
        factory: creates the events.
        job: job of the tasks.
        changed: tasks that may have changed, with the time of the change (microseconds); their dependents are checked too.
    """
    finished = job.phase in FINISHED_JOB_PHASES
    last = max(changed.values(), default=0)
    for name, task in job.tasks.items():
        if name not in changed and task.phase != "Waiting" and not finished:
            continue
        time = changed.get(name, last)
        for trigger in _triggers(job, task, finished=finished):
            phase = next_task_phase(task.phase, trigger, _facts(job, task))
            while phase != task.phase:
                yield factory.event(job, TaskPhaseChanged(name, phase, task.phase), max(task.since, time))
                phase = next_task_phase(task.phase, "Counted", _facts(job, task))


def _triggers(job: Job, task: Task, *, finished: bool) -> tuple[TaskTrigger, ...]:
    if finished and not task.counts.pending + task.counts.running + task.counts.terminating:
        return ("JobFinished",)
    if _restarts(job, task) and task.phase != "Restarting":
        return ("Restarted", "Counted")
    return ("Counted",)


def _facts(job: Job, task: Task) -> TaskFacts:
    waits = task.phase == "Waiting"
    return TaskFacts(
        task.spec,
        task.counts,
        retrying=task.spec.main and success_out_of_reach(task.spec, task.counts.failed) and _may_be_restarted(job, task),
        dependencies_met=not waits or may_start(job.tasks, task.spec),
        replacing=_restarts(job, task) and bool(task.counts.terminating or task.open or job.kills),
        owner_completed=not job.managed and job.phase == "Completed",
        stopped=_is_stopped(job, task),
    )


def _is_stopped(job: Job, task: Task) -> bool:
    """Return true if a job is aborted, or observed to be suspended, and a task has no live attempts."""
    counts = task.counts
    waits = job.phase == "Aborted" or (job.phase == "Pending" and not job.managed)
    return waits and not counts.pending + counts.running + counts.terminating + counts.unknown


def _restarts(job: Job, task: Task) -> bool:
    """Return true if attempts of a task are being replaced; an abort suspends that until the job is resumed."""
    return task.restarting and job.phase not in {"Aborting", "Aborted"}


def _may_be_restarted(job: Job, task: Task) -> bool:
    """Return true if a delayed action will restart replicas of a task."""
    return any(
        timer.action in _RESTARTS and (timer.action == "RestartJob" or timer.task == task.spec.name)
        for timer in job.timers.values()
    )
