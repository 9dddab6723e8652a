"""A recorded job as it is submitted again: by its manifest, with the recorded lives of its pods and the commands of its users.

What was decided is left out: which node a pod got and when, and that it was preempted. What is kept of an attempt is how long it
took to start, how long it ran and how it ended.
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

__all__ = ["Held", "RecordedJob", "Said", "again", "is_leaving", "is_own_end"]

_INTERFERED: Final = LOST_REASONS | {
    *("PreemptedByScheduler", "PreemptedByNotice", "PreemptedByKubelet", "RejectedByNode", "NodeShutdown"),
    *("EvictedByApi", "EvictedByTaint", "DeletedByApi", "KilledByAction", "StoppedByUser", "NeverStarted"),
}
"""Reasons of ends that others brought about: the scheduler, nodes, users, policies. They act in a simulation as well."""

_STOPPING: Final = frozenset(
    {"RestartJob", "RestartTask", "RestartPartition", "RestartPod", "AbortJob", "TerminateJob", "CompleteJob"}
)
"""Actions that stop pods."""

Slot = tuple[str, int]
"""Task and index."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a user said about a job."""

    time: Micros
    """When; or after how long a run of the pod that ran then."""
    data: Data
    ident: str
    """Id of the input."""


@dataclass(frozen=True, slots=True)
class Held:
    """Where a pod was when the window began."""

    node: str
    """Empty: not known."""
    bound: Micros
    running: Micros | None
    """`None`: it did not run yet."""
    ended: Micros | None = None
    """When it had succeeded; `None`: it had not."""


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """A job of a history."""

    id: str
    name: str
    submit: Micros
    submission: JobSubmitted
    ident: str
    """Id of the submission."""
    is_foreign: bool
    """Another controller had the job."""
    is_over: bool
    """It had ended by the end of the history; else it is not known how long its last pods run."""
    shapes: dict[str, Requests]
    """Task → requests of a pod."""
    lives: Mapping[Slot, Sequence[Life]]
    said: Sequence[Said]
    """What its users said while none of its pods ran."""
    during: Mapping[tuple[str, int, int], Sequence[Said]]
    """Task, index, pods of the slot that had ended by themselves → what its users said while such a pod ran."""
    held: Mapping[Slot, Held] = field(default_factory=dict)
    lived: Mapping[Slot, int] = field(default_factory=dict)
    """Slot → pods that had ended by themselves when the window began."""

    def requests(self) -> dict[str, Requests]:
        """Return task → requests of a pod."""
        return self.shapes

    def life(self, task: str, index: int, lived: int) -> Life:
        """Return what becomes of a pod. One more than were recorded does what the last one did."""
        known = self.lives.get((task, index))
        return known[min(lived, len(known) - 1)] if known else Life(None, "Succeeded")


def is_own_end(attempt: AttemptView) -> bool:
    """Tell whether an attempt ended by itself, with a node."""
    ended = attempt.phase in TERMINAL_ATTEMPT_PHASES and attempt.reason not in _INTERFERED
    return ended and (attempt.bound is not None or attempt.running is not None)


def is_leaving(attempt: AttemptView, moment: Micros) -> bool:
    """Tell whether a pod was being stopped at a moment."""
    stopped = attempt.terminating
    return stopped is not None and stopped < moment and (attempt.ended is None or attempt.ended > moment)


def again(view: JobView, begin: Micros, inputs: Sequence[Event[Data]], submission: Event[JobSubmitted] | None) -> RecordedJob | str:
    """Return a job as it is submitted again, or why it cannot be.

    Args:
        view: the job at the end of the history.
        begin: begin of the window (microseconds).
        inputs: what its users said later, in order, as far as it was heeded.
        submission: its submission; `None`: another controller had the job. It becomes a Volcano job of the pods that were seen.
    """
    attempts = sorted(view.attempts.values(), key=lambda attempt: (attempt.task, attempt.index, attempt.number))
    unfinished = _unfinished(attempts, inputs, begin)
    said = [Said(begin, event.data, event.id) for event in unfinished]
    said += [Said(event.time, _of_any_notice(event.data), event.id) for event in inputs if event.time >= begin]
    if submission is not None:
        shapes = {task.name: task.requests for task in view.spec.tasks}
        earlier = [event.data for event in inputs if event.time < begin and isinstance(event.data, JobUpdated)]
        manifest = earlier[-1].manifest if earlier else submission.data.manifest
        data, ident = replace(submission.data, manifest=_ours(manifest)), submission.id
        said = [replace(one, data=_updated(one.data)) for one in said]
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
        said = _stop(view, attempts, begin)
    by_slot: defaultdict[Slot, list[AttemptView]] = defaultdict(list)
    for attempt in attempts:
        by_slot[attempt.task, attempt.index].append(attempt)
    alone, during = _attached(said, attempts, by_slot)
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
    """Return the commands of which pods were leaving at a moment, in order: they are given again then."""
    leaving = [attempt for attempt in attempts if is_leaving(attempt, moment)]
    return [event for event in inputs if event.time < moment and any(_has_stopped(event, attempt) for attempt in leaving)]


def _has_stopped(event: Event[Data], attempt: AttemptView) -> bool:
    """Tell whether an input stopped a pod: each of these commands stops all pods that it is about."""
    data = event.data
    if not isinstance(data, CommandIssued) or data.action not in _STOPPING:
        return False
    about = data.task in {None, attempt.task} and data.index in {None, attempt.index}
    return about and attempt.created <= event.time and (attempt.terminating or 0) >= event.time


def _of_any_notice(data: Data) -> Data:
    """Return what a user said; an answer is to the notice that the job is part of in the simulation, whatever its number."""
    return replace(data, notice="") if isinstance(data, CommandIssued) else data


def _ours(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest that names our scheduler, whoever scheduled the job."""
    spec = dict(manifest["spec"])
    if "template" in spec:  # batch/v1
        spec["template"] = {**spec["template"], "spec": {**spec["template"]["spec"], "schedulerName": SCHEDULER}}
    else:
        spec["schedulerName"] = SCHEDULER
    return {**manifest, "spec": spec}


def _updated(data: Data) -> Data:
    return replace(data, manifest=_ours(data.manifest)) if isinstance(data, JobUpdated) else data


def _lives(attempts: Sequence[AttemptView]) -> list[Life]:
    """Return the lives of a slot: of pods that ended by themselves, and of one that has not."""
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
    said: Iterable[Said], attempts: Sequence[AttemptView], by_slot: Mapping[Slot, Sequence[AttemptView]]
) -> tuple[list[Said], dict[tuple[str, int, int], list[Said]]]:
    """Divide what users said into what counts by the clock, and what counts from the start of a pod that ran then.

    New specifications count by the clock: they are about the job, not about its progress.
    """
    alone: list[Said] = []
    during: defaultdict[tuple[str, int, int], list[Said]] = defaultdict(list)
    for one in said:
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


def _held(attempts: Sequence[AttemptView], moment: Micros) -> Held | None:
    """Return where the pod of a slot was at a moment; `None`: nowhere, or it had gone."""
    known = [attempt for attempt in attempts if attempt.created < moment]
    if not known:
        return None
    last = known[-1]
    begun = last.running if last.running is not None and last.running < moment else None
    if last.bound is None or last.bound >= moment:
        return None
    if last.ended is not None and last.ended <= moment:
        return Held("", last.bound, begun, last.ended) if last.phase == "Succeeded" else None
    return Held(last.node or "", last.bound, begun)


# --- jobs of other controllers ----------------------------------------------------------------------------------------------


def _regrouped(attempts: Sequence[AttemptView]) -> tuple[list[AttemptView], dict[str, Requests], dict[str, int]]:
    """Give pods of a task that ask for different things tasks of their own; return attempts, requests and sizes of the tasks."""
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
    """Return how many failed pods were followed by another one in their slot."""
    last = {(attempt.task, attempt.index): attempt.number for attempt in attempts}
    return sum(is_own_end(one) and one.phase == "Failed" and one.number < last[one.task, one.index] for one in attempts)


def _manifest(view: JobView, shapes: Mapping[str, Requests], counts: Mapping[str, int], retries: int) -> dict[str, Any]:
    """Return the Volcano job of the pods of a job that another controller had."""
    pods = sum(counts.values())
    given = 1 if view.kind == "Job" else view.min_available  # pods of a batch/v1 Job do not wait for each other
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


def _stop(view: JobView, attempts: Sequence[AttemptView], begin: Micros) -> list[Said]:
    """Return the command that stops a job when its pods were stopped, if they were."""
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
    return [Said(time, data, import_id(view.cluster, "history", view.id, "stopped"))] if time >= begin else []
