"""State of a job at one time, at all three levels, as a fold of its events.

This view is for readers. It has what operators need, such as closed attempts with all their times; the engine's own state
(`engine.lifecycle`) has what decisions need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, Self

from engine.events import Data, Event
from engine.events.actions import (
    ActionDeferred,
    ActionTaken,
    DelaysCancelled,
    EffectRequested,
    TimerCancelled,
    TimerFired,
    TimerKind,
    TimerSet,
)
from engine.events.attempts import (
    AttemptBound,
    AttemptChanged,
    AttemptEnded,
    AttemptEvent,
    AttemptLateFact,
    AttemptMoved,
    AttemptObjectChanged,
    AttemptRunning,
    AttemptStarted,
    AttemptTerminating,
)
from engine.events.job_state import ENTERED, AttemptState, LabelledJob, Slot
from engine.events.jobs import JobObjectDeleted, JobOpened, JobPhaseChanged, JobRevised, TaskPhaseChanged
from engine.events.outcomes import InputParked, InputReleased, JobParked, JobUnparked
from engine.events.times import format_time
from statemachines.spec import JobSpec, Requests
from statemachines.vocabulary import Action, AttemptPhase, ObjectState, Rank, TaskPhase


def attempt_name(task: str, index: int, number: int) -> str:
    """Return the name of an attempt: `worker[2]#1`."""
    return f"{task}[{index}]#{number}"


@dataclass(slots=True)
class LateFact:
    """A fact about an attempt that was already closed."""

    known: int
    phase: AttemptPhase
    reason: str | None
    exit_code: int | None
    rank: Rank
    ended: int | None
    message: str = ""


@dataclass(slots=True)
class AttemptView(AttemptState):
    """One attempt. Times are microseconds; `None`: has not happened or is unknown."""

    task: str = ""
    index: int = 0
    number: int = 0
    since: int = 0
    created: int = 0
    message: str = ""
    """Latest message of scheduler, kubelet or containers about its phase and reason."""
    uid: str | None = None
    pod: str = ""
    node: str | None = None
    bound: int | None = None
    running: int | None = None
    terminating: int | None = None
    ended: int | None = None
    exit_code: int | None = None
    restarts: int = 0
    disruption: str | None = None
    rank: Rank | None = None
    inferred_end: bool = False
    object: ObjectState = "absent"
    """State of its pod object; the replica of a managed job is occupied until it is gone."""
    late: list[LateFact] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name: `worker[2]#1`."""
        return attempt_name(self.task, self.index, self.number)

    def apply(self, data: AttemptEvent, time: int, known: int) -> None:
        """Apply one more event of the attempt.

        Args:
            data: data of the event.
            time: effective time of the event (microseconds).
            known: recorded time of the event (microseconds).
        """
        self.change(data)
        if type(data) in ENTERED or isinstance(data, AttemptEnded):
            self.since, self.message = time, data.message
        match data:
            case AttemptStarted():
                self.created, self.pod = time, data.pod
                self._see(data.uid)
            case AttemptBound():
                self.bound, self.node = time, data.node or None
            case AttemptRunning():
                self.running = time
            case AttemptTerminating():
                self.terminating, self.object = time, "deleting"
            case AttemptEnded():
                self.ended, self.running, self.disruption = time, data.started, None
                self.exit_code, self.rank, self.inferred_end = data.exit_code, data.rank, data.inferred
                if data.object != "exists" or self.object == "asked":
                    self.object = data.object
            case AttemptChanged():
                self._see(data.uid)
                if data.reason_changed or data.message:
                    self.message = data.message
                if data.restarts is not None:
                    self.restarts = data.restarts
                if data.disruption is not None:
                    self.disruption = data.disruption or None
                if data.started is not None:
                    self.running = data.started
            case AttemptLateFact():
                self._see(data.uid)
                self.late.append(LateFact(known, data.phase, data.reason, data.exit_code, data.rank, data.ended, data.message))
            case AttemptObjectChanged():
                self.object = data.object

    def _see(self, uid: str | None) -> None:
        if uid is not None:
            self.uid, self.object = uid, "exists"


@dataclass(slots=True)
class TaskView:
    """One task."""

    name: str
    phase: TaskPhase
    since: int
    reason: str | None = None
    replicas: int = 0
    min_available: int | None = None


@dataclass(slots=True)
class TimerView:
    """A running timer."""

    kind: TimerKind
    due: int
    action: Action | None = None
    policy: str | None = None
    task: str | None = None
    partition: int | None = None
    node: str | None = None
    held: bool = False
    """True while paused, until the job is unparked and has no held inputs."""


@dataclass(slots=True)
class JobView(LabelledJob):
    """One job with its tasks, attempts and open timers."""

    message: str = ""
    """Message of the job's object about its phase."""
    inferred: bool = False
    without_end: bool = False
    retry_count: int = 0
    restarts: int = 0
    version: int = 0
    min_available: int = 0
    parked: str | None = None
    """Reason why the job is parked; `None`: it is not."""
    held: int = 0
    """Held inputs, including those being released after an unparking."""
    object_deleted: bool = False
    deferred: Action | None = None
    """Action that waits for the end of a restart."""
    sequence: int = 0
    spec: JobSpec = field(default_factory=JobSpec)
    """Latest known specification; not part of the document."""
    tasks: dict[str, TaskView] = field(default_factory=dict)
    attempts: dict[Slot, AttemptView] = field(default_factory=dict)
    timers: dict[str, TimerView] = field(default_factory=dict)

    @classmethod
    def begin(cls, event: Event[JobOpened]) -> Self:
        """Return the job of an `opened` event."""
        view = super(JobView, cls).begin(event)
        view.sequence = event.sequence
        _specify(view, event.data.spec, event.time)
        return view

    def apply(self, event: Event[Data], time: int | None = None) -> None:
        """Apply one more event of the job; ignores events that change nothing here.

        Args:
            event: the event.
            time: effective time, if it differs from the event's `time` (microseconds).
        """
        data, time = event.data, event.time if time is None else time
        self.sequence = max(self.sequence, event.sequence)
        if isinstance(data, AttemptEvent):
            if isinstance(data, AttemptStarted):
                self.change(data, time)
                _started(self, data, time)
            slot = (data.task, data.index, data.attempt)
            attempt = self.attempts.get(slot)
            if isinstance(data, AttemptMoved):
                self.attempts.pop(slot, None)
            elif attempt is not None:
                attempt.apply(data, time, event.recordedtime)
            return
        self.change(data, time)
        if isinstance(data, TimerSet):
            self.timers[event.id] = TimerView(
                data.timer, data.due, data.action, data.policy, data.task, data.partition, data.node, data.held
            )
        elif (handler := _HANDLERS.get(type(data))) is not None:
            handler(self, data, time)

    def current(self) -> list[AttemptView]:
        """Return the last attempt of each replica, by task and index."""
        last: dict[tuple[str, int], AttemptView] = {}
        for attempt in self.attempts.values():
            last[attempt.task, attempt.index] = attempt
        return [last[slot] for slot in sorted(last)]

    def replaced(self) -> list[AttemptView]:
        """Return the attempts that did not succeed and were followed by another one."""
        return [
            attempt
            for (task, index, number), attempt in self.attempts.items()
            if attempt.phase != "Succeeded" and (task, index, number + 1) in self.attempts
        ]

    @property
    def restarted(self) -> int:
        """Return the number of restarts of the job: the count of Lahar or its owner, otherwise the number of its replaced pods."""
        return self.restarts if self.managed or self.restarts else len(self.replaced())

    def document(self) -> dict[str, Any]:
        """Return the view as JSON: times in RFC 3339, attempts by name."""
        own = _plain(self)
        own["restarts"] = self.restarted
        own["tasks"] = {name: _plain(task) for name, task in self.tasks.items()}
        own["attempts"] = {attempt.name: _plain(attempt) for _, attempt in sorted(self.attempts.items(), key=itemgetter(0))}
        own["timers"] = {name: _plain(timer) for name, timer in self.timers.items()}
        return own


_NAMES: Final[dict[type[Any], str]] = {
    JobView: "id cluster kind namespace name managed submitted phase since reason message inferred without_end retry_count restarts"
    " version tenant project user queue min_available labels parked held object_deleted deferred sequence",
    TaskView: "phase since reason replicas min_available",
    AttemptView: "phase since created reason message uid pod node bound running terminating ended exit_code restarts disruption"
    " rank inferred_end object requests late",
    TimerView: "kind due action policy task partition node held",
    LateFact: "known phase reason exit_code rank ended message",
}
"""Fields of each class in documents, in their order."""

_TIMES: Final = frozenset(
    {"submitted", "since", "created", "bound", "running", "terminating", "ended", "due", "known"},
)


def _plain(part: Any) -> dict[str, Any]:  # noqa: ANN401 - any of `_NAMES`
    return {name: _value(name, getattr(part, name)) for name in _NAMES[type(part)].split()}


def _value(name: str, value: Any) -> Any:  # noqa: ANN401 - any field of a view
    if name in _TIMES and value is not None:
        return format_time(value)
    if isinstance(value, Requests):
        return {**value.document(), "gpu_share_milli": value.gpu_share_milli}
    if isinstance(value, LateFact):
        return _plain(value)
    if isinstance(value, list):
        return [_value("", item) for item in value]
    return value


def _specify(view: JobView, spec: JobSpec, time: int) -> None:
    view.spec, view.min_available = spec, spec.min_available
    for wanted in spec.tasks:
        task = view.tasks.get(wanted.name)
        if task is None:
            waits = view.managed and wanted.depends_on is not None
            task = view.tasks[wanted.name] = TaskView(wanted.name, "Waiting" if waits else "Pending", time)
        task.replicas, task.min_available = wanted.replicas, wanted.min_available


def _revised(view: JobView, data: JobRevised, time: int) -> None:
    if data.spec is not None:
        _specify(view, data.spec, time)
    if data.message is not None:
        view.message = data.message
    if data.retry_count is not None:
        view.retry_count = data.retry_count
    if data.job_version is not None:
        view.version = data.job_version


def _phase(view: JobView, data: JobPhaseChanged, _time: int) -> None:
    view.message, view.inferred, view.without_end = data.message, data.inferred, data.without_end
    view.retry_count, view.restarts, view.version = data.retry_count, data.restarts, data.version


def _task_phase(view: JobView, data: TaskPhaseChanged, time: int) -> None:
    task = view.tasks.setdefault(data.task, TaskView(data.task, data.previous, time))
    task.phase, task.reason, task.since = data.phase, data.reason, time


def _started(view: JobView, data: AttemptStarted, time: int) -> None:
    task = view.tasks.setdefault(data.task, TaskView(data.task, "Pending", time))
    if not view.managed:
        task.replicas = max(task.replicas, data.index + 1)
    slot = (data.task, data.index, data.attempt)
    view.attempts[slot] = AttemptView(task=data.task, index=data.index, number=data.attempt)


def _requested(view: JobView, data: EffectRequested, _time: int) -> None:
    attempt = view.attempts.get((data.task or "", data.index or 0, data.attempt or 0))
    if attempt is None:
        return
    if data.effect == "create_pod":
        attempt.object = "asked"
    elif data.effect == "delete_pod" and attempt.uid is not None and attempt.object != "gone":
        attempt.object = "deleting"


def _parked(view: JobView, data: JobParked, _time: int) -> None:
    view.parked = data.error


def _unparked(view: JobView, data: JobUnparked, _time: int) -> None:
    view.parked, view.held = None, data.inputs
    _set_going(view)


def _held(view: JobView, _data: InputParked, _time: int) -> None:
    view.held += 1


def _released(view: JobView, data: InputReleased, _time: int) -> None:
    if data.kept == "parked":
        view.held = max(view.held - 1, 0)  # inputs held before the job was opened are not counted
        _set_going(view)


def _set_going(view: JobView) -> None:
    for timer in view.timers.values():
        timer.held = timer.held and view.held > 0 and timer.kind != "step"


def _object_deleted(view: JobView, _data: JobObjectDeleted, _time: int) -> None:
    view.object_deleted = True


def _deferred(view: JobView, data: ActionDeferred, _time: int) -> None:
    view.deferred = data.action


def _acted(view: JobView, data: ActionTaken, _time: int) -> None:
    if data.deferred:
        view.deferred = None


def _timer_gone(view: JobView, data: TimerCancelled | TimerFired, _time: int) -> None:
    view.timers.pop(data.id, None)


def _delays_cancelled(view: JobView, data: DelaysCancelled, _time: int) -> None:
    view.timers = {
        ident: timer
        for ident, timer in view.timers.items()
        if timer.kind != "policy" or not data.include(timer.action, timer.task, timer.partition)
    }


_HANDLERS: Final[dict[type[Data], Callable[[JobView, Any, int], None]]] = {
    JobRevised: _revised,
    JobPhaseChanged: _phase,
    TaskPhaseChanged: _task_phase,
    EffectRequested: _requested,
    JobParked: _parked,
    JobUnparked: _unparked,
    InputParked: _held,
    InputReleased: _released,
    JobObjectDeleted: _object_deleted,
    ActionDeferred: _deferred,
    ActionTaken: _acted,
    TimerCancelled: _timer_gone,
    DelaysCancelled: _delays_cancelled,
    TimerFired: _timer_gone,
}
