"""Notices of preemption: the two phases for them, users' answers, and the stop of a victim.

The scheduling stage owns notices. A job is Privileged or WillEvicted from an accepted decision until the notice ends for it, or
until it leaves the phase for another reason; then a later decision about the notice is refused.
"""

from __future__ import annotations

from typing import Final

from engine.events.decisions import SCHEDULER, DecidedNoticed, DecidedNoticeEnded, Refusal
from engine.events.inputs import CommandIssued
from engine.events.jobs import JobNoticeAnswered, NoticeAnswer
from engine.events.times import Micros
from engine.lifecycle.action_request import ActionRequest
from engine.lifecycle.actions import change_phase, execute, settle
from engine.lifecycle.event_factory import EventFactory, Events
from engine.lifecycle.job import Job
from statemachines.job import NoticeTrigger
from statemachines.phase_rule import notice_phase, preempted_action

ANSWERS: Final[dict[str, NoticeAnswer]] = {"AcknowledgeNotice": "acknowledged", "WithdrawNotice": "withdraw"}
"""Commands that answer a notice."""
_STOPPED: Final = "PreemptedByNotice"
"""End reason of a victim's attempts."""
_ENTERED_BY: Final[dict[str, NoticeTrigger]] = {"preemptor": "NoticeOpened", "victim": "NoticeReceived"}
_MAY_ENTER: Final = {"preemptor": "Pending", "victim": "Running, or Pending with pods that run"}


def objection_to_decision(job: Job, data: DecidedNoticed | DecidedNoticeEnded) -> tuple[Refusal, str] | None:
    """Return the reason to refuse a decision about a notice; `None`: it is accepted."""
    if isinstance(data, DecidedNoticeEnded):
        return None if job.notice == data.notice else ("NoNotice", f"the job is {job.phase}, and not part of notice {data.notice}")
    if notice_phase(job.phase, _ENTERED_BY[data.role], job.spec, job.counts) is not None:
        return None
    return "OtherPhase", f"the job is {job.phase}; a {data.role} must be {_MAY_ENTER[data.role]}"


def open_notice(factory: EventFactory, job: Job, data: DecidedNoticed) -> Events:
    """Enter Privileged or WillEvicted."""
    yield from _enter(factory, job, _ENTERED_BY[data.role], data)


def take_end(factory: EventFactory, job: Job, data: DecidedNoticeEnded) -> Events:
    """Leave the phase; stop a victim of an executed notice as a job."""
    if data.outcome == "executed" and job.phase == "WillEvicted":
        yield from execute(factory, job, ActionRequest(preempted_action(job.spec), by=SCHEDULER, reason=_STOPPED, ends=_STOPPED))
    else:
        yield from _enter(
            factory, job, "NoticeExecuted" if data.outcome == "executed" else "NoticeWithdrawn", reserved=data.reserved
        )


def _enter(
    factory: EventFactory, job: Job, trigger: NoticeTrigger, opened: DecidedNoticed | None = None, reserved: Micros | None = None
) -> Events:
    phase = notice_phase(job.phase, trigger, job.spec, job.counts)
    if phase is not None:  # the objections exclude other phases
        yield from change_phase(factory, job, phase, reason=trigger, opened=opened, reserved=reserved)
        yield from settle(factory, job)


def objection_to_answer(job: Job, command: CommandIssued) -> str | None:
    """Return the reason why a notice cannot be answered; `None`: it can."""
    wanted = "WillEvicted" if command.action == "AcknowledgeNotice" else "Privileged"
    if job.phase != wanted:
        return f"the job is {job.phase}; only a job that is {wanted} can be the subject of {command.action}"
    if command.notice not in {"", job.notice}:
        return f"the job is part of notice {job.notice}; the answer is to {command.notice}"
    return None


def answer(factory: EventFactory, job: Job, command: CommandIssued) -> Events:
    """Record an answer, which the scheduling stage processes."""
    yield factory.event(job, JobNoticeAnswered(job.notice, ANSWERS[command.action], command.by, command.reason))
