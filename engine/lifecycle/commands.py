"""Commands on managed jobs and declared custom events: objections, and execution."""

from __future__ import annotations

from engine.events.actions import EventRaised
from engine.events.inputs import CommandIssued, CustomEventRaised
from engine.kubernetes.manifests.event_schemas import data_fault
from engine.lifecycle import notices
from engine.lifecycle.action_request import ActionRequest
from engine.lifecycle.actions import execute, raise_event, settle
from engine.lifecycle.event_factory import EventFactory, Events
from engine.lifecycle.job import Job
from engine.lifecycle.pods import plan_of
from statemachines.vocabulary import FINISHED_JOB_PHASES, USER_ACTIONS


def objection(job: Job, command: CommandIssued) -> str | None:
    """Return the reason why a command cannot be executed in the job's current state; `None`: it can."""
    if not job.managed:
        return "the job is only observed: somebody else controls it"
    if command.action in notices.ANSWERS:
        return notices.objection_to_answer(job, command)
    if command.action not in USER_ACTIONS:
        return f"{command.action} is internal; use one of {', '.join(sorted(USER_ACTIONS))}"
    if job.phase in FINISHED_JOB_PHASES:
        return f"the job is {job.phase}, which is final"
    if (command.action == "ResumeJob") != (job.phase in {"Aborting", "Aborted"}):
        if command.action == "ResumeJob":
            return f"the job is {job.phase}; only an aborted job can be resumed"
        return f"the job is {job.phase}; only ResumeJob has an effect there"
    if job.phase in {"Completing", "Terminating"}:
        return f"the job is {job.phase}; nothing has an effect there any more"
    if command.action in {"RestartTask", "RestartPod", "RestartPartition"}:
        return _objection_to_target(job, command)
    return None


def _objection_to_target(job: Job, command: CommandIssued) -> str | None:
    task = job.tasks.get(command.task or "")
    if command.task is None:
        return f"{command.action} of which task? The job has {', '.join(job.tasks)}"
    if task is None:
        return f"there is no task {command.task!r}; the job has {', '.join(job.tasks)}"
    if command.action == "RestartPod" and command.index not in task.slots:
        return _no_part(command, "replica", command.index)
    if command.action == "RestartPartition":
        partition = task.spec.partition
        if partition is None or command.partition is None or not 0 <= command.partition < partition.total:
            return _no_part(command, "partition", command.partition)
        if plan_of(job, "target", ActionRequest("RestartPartition", task=command.task, partition=command.partition)) is None:
            return f"partition {command.partition} of task {command.task} has no pods"
    return None


def _no_part(command: CommandIssued, part: str, number: int | None) -> str:
    """Return the reason why a command has no replica or partition as its target."""
    if number is None:
        return f"{command.action} of which {part} of task {command.task}? Give its number"
    return f"task {command.task} has no {part} {number}"


def commanded(factory: EventFactory, job: Job, command: CommandIssued) -> Events:
    """Execute a command without an objection."""
    if command.action in notices.ANSWERS:
        yield from notices.answer(factory, job, command)
        return
    request = ActionRequest(
        command.action,  # type: ignore[arg-type]  # `objection` allows user actions only
        task=command.task,
        index=command.index,
        partition=command.partition,
        by=command.by,
        reason=command.reason,
        commanded=True,
    )
    yield from execute(factory, job, request)


def objection_to_event(job: Job, raised: CustomEventRaised) -> str | None:
    """Return the reason why a custom event cannot be raised; `None`: it can."""
    if not job.opened:
        return "no job has this id"
    if raised.event not in job.spec.custom_events:
        declared = ", ".join(job.spec.custom_events) or "none"
        return f"the job does not declare the event {raised.event!r} (declared: {declared})"
    if job.phase in FINISHED_JOB_PHASES:
        return f"the job is {job.phase}, which is final"
    if raised.task is not None and raised.task not in job.tasks:
        return f"there is no task {raised.task!r}; the job has {', '.join(job.tasks)}"
    fault = data_fault(job.spec.custom_events[raised.event], raised.data)
    return None if fault is None else f"the data break the event's schema: {fault}"


def custom_raised(factory: EventFactory, job: Job, raised: CustomEventRaised) -> Events:
    """Raise a declared event received from outside."""
    event = EventRaised(raised.event, task=raised.task, version=job.version, data=raised.data, by=raised.by)
    yield from raise_event(factory, job, event)
    yield from settle(factory, job)
