"""Description of each event as a clause, for operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from engine.events import Data, Event
from engine.events.actions import (
    ActionDeferred,
    ActionTaken,
    DelaysCancelled,
    EffectRequested,
    EffectSettled,
    EventRaised,
    TimerCancelled,
    TimerFired,
    TimerSet,
)
from engine.events.attempts import (
    AttemptBound,
    AttemptChanged,
    AttemptEnded,
    AttemptLateFact,
    AttemptMoved,
    AttemptObjectChanged,
    AttemptRunning,
    AttemptStarted,
    AttemptTerminating,
)
from engine.events.budgets import BudgetCrossed
from engine.events.decisions import (
    DecidedBound,
    DecidedEnqueued,
    DecidedEvicted,
    DecidedNoticed,
    DecidedNoticeEnded,
    DecidedPipelined,
    DecidedUnschedulable,
    DecisionAccepted,
    DecisionRefused,
)
from engine.events.inputs import (
    CommandIssued,
    CustomEventRaised,
    EffectReported,
    JobDeleted,
    JobObserved,
    JobSubmitted,
    JobUpdated,
    NodeDeleted,
    NodeObserved,
    PodDeleted,
    PodObserved,
    RowUnreadable,
)
from engine.events.jobs import (
    JobForgotten,
    JobNoticeAnswered,
    JobObjectDeleted,
    JobOpened,
    JobPhaseChanged,
    JobRevised,
    TaskPhaseChanged,
)
from engine.events.outcomes import (
    Accounted,
    Anomaly,
    CommandRefused,
    InputOrphaned,
    InputParked,
    InputReleased,
    JobParked,
    JobRejected,
    JobUnparked,
    LetterDiscarded,
    RowRejected,
)
from engine.formatting import length, listed, moment, plural
from engine.history.phrases import attempt_of, exit_words, fate, limit, moved, quoted
from statemachines.policies import MAIN_EVENT, MAIN_FAILED_EVENT

_OF_MAIN_TASK: Final = frozenset({MAIN_EVENT, MAIN_FAILED_EVENT})
_ON_PARTS: Final = frozenset({"RestartTask", "RestartPod", "RestartPartition"})
"""Actions on a part of a job."""


def describe(event: Event[Data]) -> str:
    """Return a clause, without a full stop, that describes an event and its time."""
    clause = _CLAUSES.get(type(event.data))
    return clause(event.data, f"at {moment(event.time)}") if clause is not None else f"{event.type} at {moment(event.time)}"


def _budget_crossed(data: BudgetCrossed, at: str) -> str:
    return f"{data.threshold} % of the budget of {data.period} was crossed {at}: {data.amount} of {data.budget} {data.currency}"


def _accounted(data: Accounted, at: str) -> str:
    counts = {"unchanged": data.unchanged, "duplicate": data.duplicate, "late": data.late}
    told = listed([f"{count} {outcome}" for outcome, count in counts.items() if count])
    return f"inputs left no event of their own {at}: {told}"


def _because(reason: str | None) -> str:
    return f" ({reason})" if reason else ""


def _by(name: str, otherwise: str = "somebody") -> str:
    return name or otherwise


def _opened(data: JobOpened, at: str) -> str:
    size = sum(task.replicas for task in data.spec.tasks)
    shape = f" with {plural(size, 'replica')}" if size else ""
    submitted = data.managed or data.kind == "Trace"
    who = f" {'by' if submitted else 'of'} {data.user}" if data.user else ""
    said = f"was submitted{who} to" if submitted else f"{who.lstrip()} was first seen in".lstrip()
    return f"the job {data.namespace}/{data.name}{shape} {said} queue {data.spec.queue} {at}"


def _revised(data: JobRevised, at: str) -> str:
    if data.reason is not None or data.message is not None:
        return f"the job's object gave {data.reason or 'no reason'} for its phase {at}{quoted(data.message or '')}"
    if data.retry_count is not None:
        return f"the job's retry count became {data.retry_count} {at}"
    return f"the specification of the job changed {at}" if data.spec is not None else f"more about the job was observed {at}"


def _phase(data: JobPhaseChanged, at: str) -> str:
    guess = ", as its attempts show" if data.inferred else ""
    reason = data.reason if data.reason != data.phase else None
    until = f", until {moment(data.deadline)}" if data.deadline is not None else ""
    return f"the job went from {data.previous} to {data.phase}{_because(reason)} {at}{until}{guess}{quoted(data.message)}"


def _task_phase(data: TaskPhaseChanged, at: str) -> str:
    return f"task {data.task} went from {data.previous} to {data.phase}{_because(data.reason)} {at}"


def _started(data: AttemptStarted, at: str) -> str:
    came = f", which job {data.moved_from.job} had before," if data.moved_from else ""
    return f"{attempt_of(data)} started{f' as pod {data.pod}' if data.pod else ''}{came} {at}{quoted(data.message)}"


def _bound(data: AttemptBound, at: str) -> str:
    where = f"node {data.node}" if data.node else "a node"
    return f"{attempt_of(data)} got {where}{_because(data.reason)} {at}{quoted(data.message)}"


def _running(data: AttemptRunning, at: str) -> str:
    return f"{attempt_of(data)} began to run {at}{quoted(data.message)}"


def _terminating(data: AttemptTerminating, at: str) -> str:
    return f"the deletion of {attempt_of(data)} was requested{_because(data.reason)} {at}{quoted(data.message)}"


def _ended(data: AttemptEnded, at: str) -> str:
    node = f" on {data.node}" if data.node else ""
    ran = f" after running {length(data.ran)}" if data.started is not None and data.ran else ""
    guess = " (the latest that is known of it)" if data.inferred else ""
    what = f"{fate(data.phase, data.reason)}{exit_words(data.reason, data.exit_code)}"
    return f"{attempt_of(data)} {what} {at}{guess}{node}{ran}{quoted(data.message)}"


def _changed(data: AttemptChanged, at: str) -> str:
    news = []
    if data.uid is not None:
        news.append("its pod was first seen")
    if data.reason_changed:
        news.append(f"it is now {data.reason}" if data.reason else "it is well again")
    if data.restarts is not None:
        news.append(f"its containers have restarted {plural(data.restarts, 'time')}")
    if data.requests is not None:
        news.append("its requests changed")
    if data.disruption is not None:
        news.append(f"a disruption was announced ({data.disruption})" if data.disruption else "the disruption was withdrawn")
    if data.started is not None:
        news.append(f"it had begun to run at {moment(data.started)}")
    if data.owner is not None:
        news.append(f"its pod now belongs to {data.owner}" if data.owner else "its pod has no owner any more")
    if not news and data.message:
        news.append("it has a new message")
    return f"{attempt_of(data)}: {', '.join(news) or 'something changed'} {at}{quoted(data.message)}"


def _late(data: AttemptLateFact, at: str) -> str:
    return f"a late fact says that the closed {attempt_of(data)} {fate(data.phase, data.reason)} {at}{quoted(data.message)}"


def _object_changed(data: AttemptObjectChanged, at: str) -> str:
    what = "was being deleted" if data.object == "deleting" else "was gone" if not data.why else "was given up"
    return f"the pod object of the closed {attempt_of(data)} {what} {at}{_because(data.why)}"


def _raised(data: EventRaised, _at: str) -> str:
    if data.rule is not None and data.event in _OF_MAIN_TASK and data.task is not None:
        source = f"the end of the main task {data.task} raised {data.event}"
    elif data.rule is not None:
        source = f"rule spec.raise[{data.rule}] raised {data.event}"
    elif data.by:
        source = f"{data.by} raised {data.event}"
    elif data.task is not None and data.index is not None:
        source = f"{data.task}[{data.index}] attempt {data.attempt} raised {data.event}"
    else:
        source = f"{data.event} was raised" + (f" for task {data.task}" if data.task else "")
    return source + (f" (exit {data.exit_code})" if data.exit_code else "")


def _target(data: ActionTaken | CommandIssued) -> str:
    # An action on the whole job has a task only if the event that caused it had one.
    if data.task is None or data.action not in _ON_PARTS:
        return ""
    if data.action == "RestartPartition":
        return f" on partition {data.partition} of {data.task}"
    return f" on {data.task}" + (f"[{data.index}]" if data.index is not None and data.action == "RestartPod" else "")


def _acted(data: ActionTaken, at: str) -> str:
    waited = ", which had waited for the restart," if data.deferred else ""
    if data.policy is not None:
        return f"policy {data.policy} answers {data.event or 'the exit code'} with {data.action}{_target(data)}{waited} {at}"
    who = f" by {data.by}" if data.by else ""
    return f"{data.action}{_target(data)}{who}{waited} was carried out {at}{_because(data.reason)}"


def _deferred(data: ActionDeferred, at: str) -> str:
    who = f" by {data.by}" if data.by else ""
    if data.policy is not None:
        return f"policy {data.policy} answers {data.event or 'the exit code'} with {data.action}, to wait for the restart, {at}"
    return f"{data.action}{who} has to wait for the restart, {at}{_because(data.reason)}"


def _timer_set(data: TimerSet, at: str) -> str:
    if data.held:
        return f"a timer was stopped {at}: it resumes when the job is unparked and has no held input"
    if data.timer == "policy":
        return f"policy {data.policy} answers {data.event} with {data.action}, delayed until {moment(data.due)}"
    return f"{limit(data.timer, data.node)} was set {at} to end at {moment(data.due)}"


def _delays_cancelled(data: DelaysCancelled, at: str) -> str:
    part = "" if data.part == "job" else f" of task {data.task}" if data.part == "task" else f" of partition {data.partition}"
    return f"every delayed {' or '.join(data.actions)}{part} was cancelled {at}{_because(data.why)}"


def _timer_cancelled(data: TimerCancelled, at: str) -> str:
    return f"a timer was cancelled {at}{_because(data.why)}"


def _timer_fired(_data: TimerFired, at: str) -> str:
    return f"a timer fired {at}"


def _requested(data: EffectRequested, at: str) -> str:
    name = data.pod or "?"
    what = {
        "create_pod": f"pod {name} was requested",
        "bind_pod": f"the binding of pod {name} to node {data.node} was requested",
        "delete_pod": f"the deletion of pod {name} was requested",
        "delete_job": "the deletion of the job was requested",
    }
    return f"{what[data.effect]} {at}{_because(data.cause)}"


def _accepted(data: DecisionAccepted, at: str) -> str:
    nodes = plural(len({placement.node for placement in data.placements}), "node")
    if data.kind == "enqueued":
        return f"the scheduler let the job have its pods {at}"
    if data.kind == "bound":
        return f"the scheduler gave {plural(len(data.placements), 'pod')} {nodes} {at}"
    if data.kind == "pipelined":
        return f"the scheduler let {plural(len(data.placements), 'pod')} wait for room on {nodes} {at}"
    if data.kind == "unschedulable":
        return f"the scheduler could not place the job {at}{_because(data.reason)}{quoted(data.message)}"
    if data.kind == "noticed":
        return f"the job became part of a notice of preemption {at}"
    if data.kind == "notice_ended":
        stopped = f", and the job is stopped for job {data.preemptor}" if data.preemptor else ""
        return f"the notice of preemption was {data.reason} {at}{stopped}"
    what = plural(len(data.attempts), "pod") if data.attempts else "the job"
    return f"the scheduler evicted {what} {at}{_because(data.reason)}{f' for job {data.preemptor}' if data.preemptor else ''}"


def _not_accepted(data: DecisionRefused, at: str) -> str:
    return f"the decision {data.kind} was refused {at}: {data.message or data.reason}"


def _notice_answered(data: JobNoticeAnswered, at: str) -> str:
    what = "let the job go before the deadline of" if data.answer == "acknowledged" else "asked for the withdrawal of"
    return f"{_by(data.by)} {what} notice {data.notice} {at}{_because(data.reason)}"


def _settled(data: EffectSettled, at: str) -> str:
    return f"{data.name or 'a requested effect'} was reported {data.outcome} {at}{_because(data.message)}"


def _rejected(data: JobRejected, at: str) -> str:
    faults = "; ".join(f"{fault.path}: {fault.message}" for fault in data.faults)
    return f"the {'update' if data.update else 'submission'} of {data.name} was rejected {at}: {faults}"


def _refused(data: CommandRefused, at: str) -> str:
    return f"{data.command}{f' by {data.by}' if data.by else ''} was refused {at}: {data.reason}"


def _discarded(data: LetterDiscarded, at: str) -> str:
    return f"{_by(data.by or data.principal)} discarded the dead letter {at}{_because(data.reason)}"


def _pod(data: PodObserved, at: str) -> str:
    return f"pod {data.name} was seen {data.phase}{_because(data.reason)} {at}"


def _pod_deleted(data: PodDeleted, at: str) -> str:
    if data.inferred:
        return f"pod {data.last.name} was missing from a full list"
    # Without a deletionTimestamp, the end of its attempt is the only known time.
    return f"pod {data.last.name} was deleted{'' if data.last.deadline is None else f' {at}'}"


def _job_seen(data: JobObserved, at: str) -> str:
    who = "the trace" if data.kind == "Trace" else f"its {data.kind} object"
    if data.phase is None:
        return f"{who} showed the job {at}"
    word = f" (“{data.reason}”)" if data.reason and data.reason != data.phase else ""
    return f"{who} reported {data.phase}{word} {at}"


def _commanded(data: CommandIssued, at: str) -> str:
    return f"{_by(data.by)} commanded {data.action}{_target(data)} {at}{_because(data.reason)}"


def _custom(data: CustomEventRaised, at: str) -> str:
    return f"{_by(data.by)} raised {data.event} from outside {at}"


def _node(data: NodeObserved, at: str) -> str:
    return f"node {data.name} was seen with Ready={data.ready} {at}"


Teller = Callable[[Any, str], str]

_CLAUSES: Final[dict[type[Data], Teller]] = {
    BudgetCrossed: _budget_crossed,
    Accounted: _accounted,
    JobOpened: _opened,
    JobRevised: _revised,
    JobPhaseChanged: _phase,
    TaskPhaseChanged: _task_phase,
    AttemptStarted: _started,
    AttemptBound: _bound,
    AttemptRunning: _running,
    AttemptTerminating: _terminating,
    AttemptEnded: _ended,
    AttemptChanged: _changed,
    AttemptLateFact: _late,
    AttemptMoved: lambda data, _: moved(data),
    AttemptObjectChanged: _object_changed,
    EventRaised: _raised,
    ActionTaken: _acted,
    ActionDeferred: _deferred,
    TimerSet: _timer_set,
    TimerCancelled: _timer_cancelled,
    DelaysCancelled: _delays_cancelled,
    TimerFired: _timer_fired,
    DecisionAccepted: _accepted,
    DecisionRefused: _not_accepted,
    DecidedEnqueued: lambda _, at: f"the scheduler decided to let the job have its pods {at}",
    DecidedBound: lambda data, at: f"the scheduler decided on nodes for {plural(len(data.placements), 'pod')} {at}",
    DecidedPipelined: lambda data, at: f"the scheduler let {plural(len(data.placements), 'pod')} wait for room {at}",
    DecidedEvicted: lambda data, at: f"the scheduler decided on an eviction {at}{_because(data.reason)}",
    DecidedNoticed: lambda data, at: f"the scheduler gave notice {at}: the job is a {data.role} of notice {data.notice}",
    DecidedNoticeEnded: lambda data, at: f"the scheduler ended notice {data.notice} for the job {at}: {data.outcome}",
    JobNoticeAnswered: _notice_answered,
    DecidedUnschedulable: lambda data, at: f"the scheduler found no place {at}{_because(data.reason)}",
    EffectRequested: _requested,
    EffectSettled: _settled,
    JobRejected: _rejected,
    CommandRefused: _refused,
    JobObjectDeleted: lambda _, at: f"the job's object was deleted {at}",
    JobForgotten: lambda _, at: f"the job left the engine's state {at}; its history stays",
    JobParked: lambda data, at: f"the job was parked {at}: {data.error}",
    JobUnparked: lambda data, at: f"{_by(data.by)} unparked the job {at}",
    InputParked: lambda _, at: f"an input of the parked job was held {at}",
    InputOrphaned: lambda _, at: f"a pod that came before its job was held {at}",
    InputReleased: lambda data, at: f"a {data.kept} input was decided again {at}: {data.outcome}",
    Anomaly: lambda data, at: f"an anomaly was recorded {at}: {data.what}",
    LetterDiscarded: _discarded,
    RowRejected: lambda data, at: f"line {data.line} of the {data.format} trace was rejected {at}: {data.reason}",
    PodObserved: _pod,
    PodDeleted: _pod_deleted,
    JobObserved: _job_seen,
    JobSubmitted: lambda _, at: f"it was submitted {at}",
    JobUpdated: lambda _, at: f"its manifest was updated {at}",
    JobDeleted: lambda _data, _at: "its deletion was seen",  # the next event has the time of the deletion
    CommandIssued: _commanded,
    CustomEventRaised: _custom,
    EffectReported: lambda data, at: f"{data.name or 'a requested effect'} was reported {data.outcome} {at}",
    RowUnreadable: lambda data, at: f"line {data.line} could not be read {at}",
    NodeObserved: _node,
    NodeDeleted: lambda data, at: f"node {data.name} was deleted {at}",
}
