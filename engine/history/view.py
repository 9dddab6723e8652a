"""What is known of a job at one moment, at all three levels: the fold of its events.

This is the reader's view. It keeps what an operator asks for, closed attempts with all their times included; the engine's own
state (`engine.lifecycle`) keeps what decisions need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Final

from engine.events import Data, Event
from engine.events.jobs import (
    ActionDeferred,
    ActionTaken,
    AttemptBound,
    AttemptChanged,
    AttemptEnded,
    AttemptLateFact,
    AttemptObjectChanged,
    AttemptRunning,
    AttemptStarted,
    AttemptTerminating,
    DelaysCancelled,
    EffectRequested,
    InputParked,
    InputReleased,
    JobObjectDeleted,
    JobOpened,
    JobParked,
    JobPhaseChanged,
    JobRevised,
    JobUnparked,
    TaskPhaseChanged,
    TimerCancelled,
    TimerFired,
    TimerKind,
    TimerSet,
)
from engine.events.times import format_time
from statemachines.spec import JobSpec, Requests
from statemachines.vocabulary import Action, AttemptPhase, JobPhase, ObjectState, Rank, TaskPhase

__all__ = ["AttemptView", "JobView", "LateFact", "TaskView", "TimerView", "attempt_name"]

AttemptKey = tuple[str, int, int]
"""Task, index, number of the attempt."""


def attempt_name(task: str, index: int, number: int) -> str:
    """Return how an attempt is written: `worker[2]#1`."""
    return f"{task}[{index}]#{number}"


@dataclass(slots=True)
class LateFact:
    """Something learnt about an attempt that was already closed."""

    known: int
    phase: AttemptPhase
    reason: str | None
    exit_code: int | None
    rank: Rank
    ended: int | None
    message: str = ""


@dataclass(slots=True)
class AttemptView:
    """One attempt. Times are microseconds; `None`: not (yet) so."""

    task: str
    index: int
    number: int
    phase: AttemptPhase
    since: int
    created: int
    reason: str | None = None
    message: str = ""
    """What scheduler, kubelet and containers said of its present phase and reason when an event last told it."""
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
    """What is known of its pod object; the replica of a managed job is taken until it is gone."""
    requests: Requests = field(default_factory=Requests)
    late: list[LateFact] = field(default_factory=list)

    @property
    def name(self) -> str:
        """How it is written: `worker[2]#1`."""
        return attempt_name(self.task, self.index, self.number)


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
    """A timer that runs."""

    kind: TimerKind
    due: int
    action: Action | None = None
    policy: str | None = None
    task: str | None = None
    partition: int | None = None
    node: str | None = None
    held: bool = False
    """It stands still until the job is unparked and no input of it is held."""


@dataclass(slots=True)
class JobView:
    """One job with its tasks, attempts and open timers."""

    id: str
    cluster: str
    kind: str
    namespace: str
    name: str
    managed: bool
    submitted: int
    """Of a job that is first seen as one of its pods: when the oldest of them was created."""
    phase: JobPhase = "Pending"
    since: int = 0
    reason: str | None = None
    message: str = ""
    """What its object said of that."""
    inferred: bool = False
    without_end: bool = False
    retry_count: int = 0
    restarts: int = 0
    version: int = 0
    tenant: str = ""
    project: str = ""
    user: str = ""
    queue: str = "default"
    min_available: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    parked: str | None = None
    """Why its inputs wait, if they do."""
    held: int = 0
    """Inputs that are held of it, also while they are released after an unparking."""
    object_deleted: bool = False
    deferred: Action | None = None
    """Action that waits for a restart to resolve."""
    sequence: int = 0
    tasks: dict[str, TaskView] = field(default_factory=dict)
    attempts: dict[AttemptKey, AttemptView] = field(default_factory=dict)
    timers: dict[str, TimerView] = field(default_factory=dict)

    @classmethod
    def begin(cls, event: Event[JobOpened]) -> JobView:
        """Return the job that an event opens."""
        data = event.data
        view = cls(
            event.subject,
            event.clusterid,
            data.kind,
            data.namespace,
            data.name,
            data.managed,
            submitted=event.time,
            since=event.time,
            tenant=data.tenant,
            project=data.project,
            user=data.user,
            labels=data.labels,
            sequence=event.sequence,
        )
        _specify(view, data.spec, event.time)
        return view

    def apply(self, event: Event[Data], time: int | None = None) -> None:
        """Take in one more event of the job; one that changes nothing here is passed over.

        Args:
            event: the event.
            time: when it took effect, if that is not the event's own `time` (microseconds).
        """
        self.sequence = max(self.sequence, event.sequence)
        handler = _HANDLERS.get(type(event.data))
        if handler is not None:
            handler(self, event.data, event.time if time is None else time, event)

    def current(self) -> list[AttemptView]:
        """Return the last attempt of each replica, by task and index."""
        last: dict[tuple[str, int], AttemptView] = {}
        for attempt in self.attempts.values():
            last[attempt.task, attempt.index] = attempt
        return [last[slot] for slot in sorted(last)]

    def document(self) -> dict[str, Any]:
        """Return the view as JSON: times in RFC 3339, attempts by their written name."""
        own = _plain(self, ("tasks", "attempts", "timers"))
        own["tasks"] = {name: _plain(task, ("name",)) for name, task in self.tasks.items()}
        own["attempts"] = {
            attempt.name: _plain(attempt, ("task", "index", "number"))
            for _, attempt in sorted(self.attempts.items(), key=lambda item: item[0])
        }
        own["timers"] = {name: _plain(timer, ()) for name, timer in self.timers.items()}
        return own


_TIMES: Final = frozenset(
    {"submitted", "since", "created", "bound", "running", "terminating", "ended", "due", "known"},
)


def _plain(part: Any, without: tuple[str, ...]) -> dict[str, Any]:  # noqa: ANN401 - any dataclass of this module
    return {item.name: _value(item.name, getattr(part, item.name)) for item in fields(part) if item.name not in without}


def _value(name: str, value: Any) -> Any:  # noqa: ANN401 - any field of a view
    if name in _TIMES and value is not None:
        return format_time(value)
    if isinstance(value, Requests | LateFact):
        return _plain(value, ())
    if isinstance(value, list):
        return [_value("", item) for item in value]
    return value


def _specify(view: JobView, spec: JobSpec, time: int) -> None:
    view.queue, view.min_available = spec.queue, spec.min_available
    for wanted in spec.tasks:
        task = view.tasks.get(wanted.name)
        if task is None:
            waits = view.managed and wanted.depends_on is not None
            task = view.tasks[wanted.name] = TaskView(wanted.name, "Waiting" if waits else "Pending", time)
        task.replicas, task.min_available = wanted.replicas, wanted.min_available


def _revised(view: JobView, data: JobRevised, time: int, _event: Event[Any]) -> None:
    for name in ("kind", "name", "namespace", "tenant", "project", "user", "labels"):
        value = getattr(data, name)
        if value is not None:
            setattr(view, name, value)
    if data.created is not None:
        view.submitted = min(view.submitted, data.created)
    if data.spec is not None:
        _specify(view, data.spec, time)
    if data.reason is not None:
        view.reason = data.reason or None
    if data.message is not None:
        view.message = data.message


def _phase(view: JobView, data: JobPhaseChanged, time: int, _event: Event[Any]) -> None:
    view.phase, view.reason, view.message, view.since = data.phase, data.reason, data.message, time
    view.retry_count, view.restarts, view.version = data.retry_count, data.restarts, data.version
    view.inferred, view.without_end = data.inferred, data.without_end


def _task_phase(view: JobView, data: TaskPhaseChanged, time: int, _event: Event[Any]) -> None:
    task = view.tasks.setdefault(data.task, TaskView(data.task, data.previous, time))
    task.phase, task.reason, task.since = data.phase, data.reason, time


def _started(view: JobView, data: AttemptStarted, time: int, _event: Event[Any]) -> None:
    if data.task not in view.tasks:
        view.tasks[data.task] = TaskView(data.task, "Pending", time)
    task = view.tasks[data.task]
    view.submitted = min(view.submitted, time)
    if not view.managed:
        task.replicas = max(task.replicas, data.index + 1)
    key = (data.task, data.index, data.attempt)
    view.attempts[key] = AttemptView(
        *key,
        "Pending",
        time,
        time,
        reason=data.reason,
        message=data.message,
        uid=data.uid,
        pod=data.pod,
        requests=data.requests,
    )
    if data.uid is not None:
        view.attempts[key].object = "exists"


AttemptHandler = Callable[[AttemptView, Any, int, Event[Any]], None]


def _about(handler: AttemptHandler) -> Callable[[JobView, Any, int, Event[Any]], None]:
    def find(view: JobView, data: Any, time: int, event: Event[Any]) -> None:  # noqa: ANN401 - any attempt event
        attempt = view.attempts.get((data.task, data.index, data.attempt))
        if attempt is not None:
            handler(attempt, data, time, event)

    return find


def _bound(attempt: AttemptView, data: AttemptBound, time: int, _event: Event[Any]) -> None:
    attempt.message = data.message
    attempt.phase, attempt.reason, attempt.since, attempt.bound = "Bound", data.reason, time, time
    attempt.node = data.node or None


def _running(attempt: AttemptView, data: AttemptRunning, time: int, _event: Event[Any]) -> None:
    attempt.message = data.message
    attempt.phase, attempt.reason, attempt.since, attempt.running = "Running", data.reason, time, time


def _terminating(attempt: AttemptView, data: AttemptTerminating, time: int, _event: Event[Any]) -> None:
    attempt.message = data.message
    attempt.phase, attempt.reason, attempt.since, attempt.terminating = "Terminating", data.reason, time, time
    attempt.object = "deleting"


def _ended(attempt: AttemptView, data: AttemptEnded, time: int, _event: Event[Any]) -> None:
    attempt.message = data.message
    attempt.phase, attempt.reason, attempt.since, attempt.ended = data.phase, data.reason, time, time
    attempt.running = data.started
    attempt.exit_code, attempt.rank, attempt.inferred_end = data.exit_code, data.rank, data.inferred
    if data.object != "exists" or attempt.object == "asked":
        attempt.object = data.object
    attempt.disruption = None


def _changed(attempt: AttemptView, data: AttemptChanged, _time: int, _event: Event[Any]) -> None:
    if data.uid is not None:
        attempt.uid, attempt.object = data.uid, "exists"
    if data.reason_changed:
        attempt.reason = data.reason
    if data.reason_changed or data.message:
        attempt.message = data.message
    if data.restarts is not None:
        attempt.restarts = data.restarts
    if data.requests is not None:
        attempt.requests = data.requests
    if data.disruption is not None:
        attempt.disruption = data.disruption or None
    if data.started is not None:
        attempt.running = data.started


def _late(attempt: AttemptView, data: AttemptLateFact, _time: int, event: Event[Any]) -> None:
    if data.uid is not None:
        attempt.uid, attempt.object = data.uid, "exists"
    attempt.late.append(LateFact(event.recordedtime, data.phase, data.reason, data.exit_code, data.rank, data.ended, data.message))


def _object_changed(attempt: AttemptView, data: AttemptObjectChanged, _time: int, _event: Event[Any]) -> None:
    attempt.object = data.object


def _requested(attempt: AttemptView, data: EffectRequested, _time: int, _event: Event[Any]) -> None:
    if data.effect == "create_pod":
        attempt.object = "asked"
    elif attempt.uid is not None and attempt.object != "gone":
        attempt.object = "deleting"


def _parked(view: JobView, data: JobParked, _time: int, _event: Event[Any]) -> None:
    view.parked = data.error


def _unparked(view: JobView, data: JobUnparked, _time: int, _event: Event[Any]) -> None:
    view.parked, view.held = None, data.inputs
    _set_going(view)


def _held(view: JobView, _data: InputParked, _time: int, _event: Event[Any]) -> None:
    view.held += 1


def _released(view: JobView, data: InputReleased, _time: int, _event: Event[Any]) -> None:
    if data.kept == "parked":
        view.held = max(view.held - 1, 0)  # those of before it was opened are not known
        _set_going(view)


def _set_going(view: JobView) -> None:
    for timer in view.timers.values():
        timer.held = timer.held and view.held > 0 and timer.kind != "step"


def _object_deleted(view: JobView, _data: JobObjectDeleted, _time: int, _event: Event[Any]) -> None:
    view.object_deleted = True


def _deferred(view: JobView, data: ActionDeferred, _time: int, _event: Event[Any]) -> None:
    view.deferred = data.action


def _acted(view: JobView, data: ActionTaken, _time: int, _event: Event[Any]) -> None:
    if data.deferred:
        view.deferred = None


def _timer_set(view: JobView, data: TimerSet, _time: int, event: Event[Any]) -> None:
    view.timers[event.id] = TimerView(
        data.timer, data.due, data.action, data.policy, data.task, data.partition, data.node, data.held
    )


def _timer_gone(view: JobView, data: TimerCancelled | TimerFired, _time: int, _event: Event[Any]) -> None:
    view.timers.pop(data.id, None)


def _delays_cancelled(view: JobView, data: DelaysCancelled, _time: int, _event: Event[Any]) -> None:
    view.timers = {
        ident: timer
        for ident, timer in view.timers.items()
        if timer.kind != "policy" or not data.include(timer.action, timer.task, timer.partition)
    }


_HANDLERS: Final[dict[type[Data], Callable[[JobView, Any, int, Event[Any]], None]]] = {
    JobRevised: _revised,
    JobPhaseChanged: _phase,
    TaskPhaseChanged: _task_phase,
    AttemptStarted: _started,
    AttemptBound: _about(_bound),
    AttemptRunning: _about(_running),
    AttemptTerminating: _about(_terminating),
    AttemptEnded: _about(_ended),
    AttemptChanged: _about(_changed),
    AttemptLateFact: _about(_late),
    AttemptObjectChanged: _about(_object_changed),
    EffectRequested: _about(_requested),
    JobParked: _parked,
    JobUnparked: _unparked,
    InputParked: _held,
    InputReleased: _released,
    JobObjectDeleted: _object_deleted,
    ActionDeferred: _deferred,
    ActionTaken: _acted,
    TimerSet: _timer_set,
    TimerCancelled: _timer_gone,
    DelaysCancelled: _delays_cancelled,
    TimerFired: _timer_gone,
}
