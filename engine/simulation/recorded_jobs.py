"""Recorded jobs for resubmission: manifest, recorded lives of the pods, and inputs of the users.

Scheduling decisions are left out: nodes, binding times and preemptions. An attempt keeps its start delay, run time and outcome.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from engine.events import Data, Event
from engine.events.decisions import SCHEDULER
from engine.events.ids import import_id
from engine.events.inputs import CommandIssued, JobSubmitted, JobUpdated
from engine.events.times import Micros
from engine.history.view import AttemptView, JobView
from engine.simulation.workload import Life, gang
from statemachines.spec import Requests
from statemachines.vocabulary import FINISHED_JOB_PHASES, LOST_REASONS, TERMINAL_ATTEMPT_PHASES

_INTERFERED: Final = LOST_REASONS | {
    *("PreemptedByScheduler", "PreemptedByNotice", "PreemptedByKubelet", "RejectedByNode", "NodeShutdown"),
    *("EvictedByApi", "EvictedByTaint", "DeletedByApi", "KilledByAction", "StoppedByUser", "NeverStarted"),
}
"""Reasons of ends caused from outside the pod: by the scheduler, nodes, users or policies. A simulation produces its own."""

_STOPPING: Final = frozenset(
    {"RestartJob", "RestartTask", "RestartPartition", "RestartPod", "AbortJob", "TerminateJob", "CompleteJob"}
)
"""Actions that stop pods."""

Slot = tuple[str, int]
"""Task and index."""


@dataclass(frozen=True, slots=True)
class UserInput:
    """Input of a user about a job."""

    time: Micros
    """Time of the input, or run time of the pod that ran then (microseconds)."""
    data: Data
    ident: str
    """Id of the input."""


@dataclass(frozen=True, slots=True)
class HeldPod:
    """State of a pod at the begin of the window."""

    node: str
    """Node; empty if unknown."""
    bound: Micros
    running: Micros | None
    """Start of the run; `None` if it had not started."""
    ended: Micros | None = None
    """Time of its success; `None` if it had not succeeded."""


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """Job of a history."""

    id: str
    name: str
    submit: Micros
    submission: JobSubmitted
    ident: str
    """Id of the submission."""
    is_foreign: bool
    """True if another controller owned the job."""
    is_over: bool
    """True if it had ended by the end of the history; otherwise the run time of its last pods is unknown."""
    shapes: dict[str, Requests]
    """Requests of one pod, by task."""
    lives: Mapping[Slot, Sequence[Life]]
    user_inputs: Sequence[UserInput]
    """User inputs at a fixed time: those made while none of its pods ran, and new specifications."""
    during: Mapping[tuple[str, int, int], Sequence[UserInput]]
    """User inputs relative to a pod's start, by task, index and number of pods of the slot that had ended by themselves."""
    held: Mapping[Slot, HeldPod] = field(default_factory=dict)
    lived: Mapping[Slot, int] = field(default_factory=dict)
    """Number of pods per slot that had ended by themselves before the window."""

    def requests(self) -> dict[str, Requests]:
        """Return the requests of one pod, by task."""
        return self.shapes

    def life(self, task: str, index: int, lived: int) -> Life:
        """Return the recorded life of a pod; pods beyond the recorded ones repeat the last life."""
        known = self.lives.get((task, index))
        return known[min(lived, len(known) - 1)] if known else Life(None, "Succeeded")


def is_own_end(attempt: AttemptView) -> bool:
    """Return true if an attempt had a node and ended by itself."""
    ended = attempt.phase in TERMINAL_ATTEMPT_PHASES and attempt.reason not in _INTERFERED
    return ended and (attempt.bound is not None or attempt.running is not None)


def is_leaving(attempt: AttemptView, moment: Micros) -> bool:
    """Return true if a pod was terminating at a time."""
    stopped = attempt.terminating
    return stopped is not None and stopped < moment and (attempt.ended is None or attempt.ended > moment)


def resubmit(
    view: JobView, begin: Micros, inputs: Sequence[Event[Data]], submission: Event[JobSubmitted] | None
) -> RecordedJob | str:
    """Return a job for resubmission, or the reason why it cannot be simulated.

    Args:
        view: job at the end of the history.
        begin: begin of the window (microseconds).
        inputs: accepted later inputs of its users, in order.
        submission: submission of the job; `None` if another controller owned it. It is then rebuilt as a Volcano job from its pods.
    """
    attempts = sorted(view.attempts.values(), key=lambda attempt: (attempt.task, attempt.index, attempt.number))
    unfinished = _unfinished(attempts, inputs, begin)
    user_inputs = [UserInput(begin, event.data, event.id) for event in unfinished]
    user_inputs += [UserInput(event.time, _of_any_notice(event.data), event.id) for event in inputs if event.time >= begin]
    if submission is not None:
        shapes = {task.name: task.requests for task in view.spec.tasks}
        earlier = [event.data for event in inputs if event.time < begin and isinstance(event.data, JobUpdated)]
        manifest = earlier[-1].manifest if earlier else submission.data.manifest
        data, ident = replace(submission.data, manifest=_ours(manifest)), submission.id
        user_inputs = [replace(one, data=_updated(one.data)) for one in user_inputs]
    else:
        if view.without_end:
            return "its run time is not known"
        if not attempts:
            return "none of its pods was seen"
        attempts, shapes, counts = _regrouped(attempts)
        data, ident = (
            JobSubmitted(_manifest(view, shapes, counts, _retries(attempts))),
            import_id(view.cluster, "history", view.id, ""),
        )
        user_inputs = _stop(view, attempts, begin)
    by_slot: defaultdict[Slot, list[AttemptView]] = defaultdict(list)
    for attempt in attempts:
        by_slot[attempt.task, attempt.index].append(attempt)
    alone, during = _attached(user_inputs, attempts, by_slot)
    return RecordedJob(
        view.id,
        view.name,
        view.submitted,
        data,
        ident,
        submission is None,
        view.phase in FINISHED_JOB_PHASES,
        shapes,
        {slot: _lives(known) for slot, known in by_slot.items()},
        alone,
        during,
        {slot: held for slot, known in by_slot.items() if (held := _held(known, begin)) is not None},
        {slot: sum(is_own_end(one) and one.since <= begin for one in known) for slot, known in by_slot.items()},
    )


def _unfinished(attempts: Iterable[AttemptView], inputs: Iterable[Event[Data]], moment: Micros) -> list[Event[Data]]:
    """Return the commands whose pods were still terminating at a time, in order; they are repeated then."""
    leaving = [attempt for attempt in attempts if is_leaving(attempt, moment)]
    return [event for event in inputs if event.time < moment and any(_has_stopped(event, attempt) for attempt in leaving)]


def _has_stopped(event: Event[Data], attempt: AttemptView) -> bool:
    """Return true if an input stopped a pod; such a command stops all pods of its target."""
    data = event.data
    if not isinstance(data, CommandIssued) or data.action not in _STOPPING:
        return False
    about = data.task in {None, attempt.task} and data.index in {None, attempt.index}
    return about and attempt.created <= event.time and (attempt.terminating or 0) >= event.time


def _of_any_notice(data: Data) -> Data:
    """Return a user's input; an acknowledgement drops its notice id, because the simulation numbers notices differently."""
    return replace(data, notice="") if isinstance(data, CommandIssued) else data


def _ours(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest that names Lahar's scheduler in place of the recorded one."""
    spec = dict(manifest["spec"])
    if "template" in spec:  # a batch/v1 Job
        spec["template"] = {**spec["template"], "spec": {**spec["template"]["spec"], "schedulerName": SCHEDULER}}
    else:
        spec["schedulerName"] = SCHEDULER
    return {**manifest, "spec": spec}


def _updated(data: Data) -> Data:
    return replace(data, manifest=_ours(data.manifest)) if isinstance(data, JobUpdated) else data


def _lives(attempts: Sequence[AttemptView]) -> list[Life]:
    """Return the lives of a slot: of the pods that ended by themselves, and of the last one if it did not."""
    found = [_life(attempt) for attempt in attempts if is_own_end(attempt)]
    last = attempts[-1]
    return found if is_own_end(last) else [*found, replace(_life(last), work=None, runs=True)]


def _life(attempt: AttemptView) -> Life:
    running, bound = attempt.running, attempt.bound
    begun = attempt.ended if running is None else running
    return Life(
        0 if running is None else max(attempt.since - running, 0),
        attempt.phase if attempt.phase in TERMINAL_ATTEMPT_PHASES else "Succeeded",  # type: ignore[arg-type]  # narrowed by the set
        attempt.reason,
        attempt.exit_code,
        None if bound is None or begun is None else max(begun - bound, 0),
        running is not None,
    )


def _attached(
    user_inputs: Iterable[UserInput], attempts: Sequence[AttemptView], by_slot: Mapping[Slot, Sequence[AttemptView]]
) -> tuple[list[UserInput], dict[tuple[str, int, int], list[UserInput]]]:
    """Split user inputs into those at a fixed time and those relative to the start of a pod that ran at the time.

    New specifications have a fixed time, because they do not depend on the job's progress.
    """
    alone: list[UserInput] = []
    during: defaultdict[tuple[str, int, int], list[UserInput]] = defaultdict(list)
    for one in user_inputs:
        ran = [(attempt.running, attempt) for attempt in attempts if attempt.running is not None and _runs_at(attempt, one.time)]
        if isinstance(one.data, JobUpdated) or not ran:
            alone.append(one)
            continue
        running, first = min(ran, key=lambda pair: (pair[0], pair[1].task, pair[1].index))
        before = sum(is_own_end(known) for known in by_slot[first.task, first.index] if known.number < first.number)
        during[first.task, first.index, before].append(replace(one, time=one.time - running))
    return alone, dict(during)


def _runs_at(attempt: AttemptView, moment: Micros) -> bool:
    stopped = attempt.terminating if attempt.terminating is not None else attempt.ended
    return attempt.running is not None and attempt.running <= moment and (stopped is None or moment <= stopped)


def _held(attempts: Sequence[AttemptView], moment: Micros) -> HeldPod | None:
    """Return the state of a slot's pod at a time; `None` if it had none."""
    known = [attempt for attempt in attempts if attempt.created < moment]
    if not known:
        return None
    last = known[-1]
    begun = last.running if last.running is not None and last.running < moment else None
    if last.bound is None or last.bound >= moment:
        return None
    if last.ended is not None and last.ended <= moment:
        return HeldPod("", last.bound, begun, last.ended) if last.phase == "Succeeded" else None
    return HeldPod(last.node or "", last.bound, begun)


# --- jobs of other controllers --------------------------------------------------------------------------------------------


def _regrouped(attempts: Sequence[AttemptView]) -> tuple[list[AttemptView], dict[str, Requests], dict[str, int]]:
    """Split tasks whose pods have different requests; return the attempts, requests and sizes of the new tasks."""
    latest = {(attempt.task, attempt.index): attempt.requests for attempt in attempts}
    slots: dict[Slot, Slot] = {}
    shapes: dict[str, Requests] = {}
    counts: dict[str, int] = {}
    names: dict[tuple[str, tuple[int, int, int]], str] = {}
    for (task, index), requests in latest.items():
        key = (task, (requests.gpu, requests.cpu_milli, requests.memory_bytes))
        if key not in names:
            alike = sum(known == task for known, _ in names)
            names[key] = task if not alike else f"{task}-{alike + 1}"
        name = names[key]
        shapes.setdefault(name, requests)
        slots[task, index] = (name, counts.get(name, 0))
        counts[name] = counts.get(name, 0) + 1
    moved = []
    for attempt in attempts:
        task, index = slots[attempt.task, attempt.index]
        moved.append(replace(attempt, task=task, index=index))
    return moved, shapes, counts


def _retries(attempts: Sequence[AttemptView]) -> int:
    """Return the number of failed pods that were followed by another pod in their slot."""
    last = {(attempt.task, attempt.index): attempt.number for attempt in attempts}
    return sum(is_own_end(one) and one.phase == "Failed" and one.number < last[one.task, one.index] for one in attempts)


def _manifest(view: JobView, shapes: Mapping[str, Requests], counts: Mapping[str, int], retries: int) -> dict[str, Any]:
    """Return a Volcano job for the pods of a job that another controller owned."""
    pods = sum(counts.values())
    given = 1 if view.kind == "Job" else view.min_available  # a batch/v1 Job does not need its pods to start together
    manifest = gang(
        view.name,
        [(name, shapes[name], counts[name]) for name in shapes],
        queue=view.queue,
        user=view.user,
        tenant=view.tenant,
        namespace=view.namespace,
        minimum=min(given or pods, pods),
    )
    spec = manifest["spec"]
    if view.spec.priority_class:
        spec["priorityClassName"] = view.spec.priority_class
    if retries:
        spec["policies"] = [*spec.get("policies", ()), {"event": "PodFailed", "action": "RestartPod"}]
        spec["maxRetry"] = retries + 1
    return manifest


def _stop(view: JobView, attempts: Sequence[AttemptView], begin: Micros) -> list[UserInput]:
    """Return the command that terminates a job at the time when its pods were stopped, if they were."""
    last = {(attempt.task, attempt.index): attempt for attempt in attempts}
    times = [
        attempt.since if attempt.terminating is None else attempt.terminating
        for attempt in last.values()
        if not is_own_end(attempt) and attempt.ended is not None
    ]
    if view.phase not in FINISHED_JOB_PHASES or not (times or view.phase == "Terminated"):
        return []
    time = min(times, default=view.since)
    if any(is_leaving(attempt, begin) for attempt in last.values()):
        time = max(time, begin)
    data = CommandIssued("TerminateJob", "user", view.reason or "")
    return [UserInput(time, data, import_id(view.cluster, "history", view.id, "stopped"))] if time >= begin else []
