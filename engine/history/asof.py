"""The state of a job, a queue or the cluster at a moment of the past."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal, cast

from engine.events import Data, Event
from engine.events.inputs import NodeDeleted, NodeObserved, ObjectApplied, ObjectDeleted
from engine.events.jobs import JobOpened
from engine.events.times import format_time
from engine.history.fold import Clock, begun, fold
from engine.history.summary import OTHER
from engine.history.view import AttemptView, JobView

__all__ = ["By", "ClusterAsOf", "job_as_of"]

By = Literal["time", "recordedtime"]
"""`time`: what was so at the moment, by all that is known today. `recordedtime`: what was known at the moment."""

_HOLDS_NODE = frozenset({"Bound", "Running", "Terminating"})


def job_as_of(events: Iterable[Event[Data]], moment: int, by: By = "time") -> JobView | None:
    """Return a job as it was at a moment (microseconds); `None` if it was not yet open.

    Args:
        events: all events of the job, in order.
        moment: the moment; an event at that very microsecond has happened.
        by: which of an event's two times counts.
    """
    return fold(events, at=moment) if by == "time" else fold(events, known=moment)


class ClusterAsOf:
    """Queues and nodes at a moment: a fold over all job events and cluster facts, in the order of the log."""

    def __init__(self, moment: int, by: By = "time") -> None:
        """Begin the fold.

        Args:
            moment: microseconds; what happens at that very microsecond has happened.
            by: which of an event's two times counts.
        """
        self._moment = moment
        self._by = by
        self._jobs: dict[str, JobView] = {}
        self._opened: dict[str, JobView] = {}
        """Jobs that were opened, but not yet at the moment."""
        self._clocks: dict[str, Clock] = {}
        self._nodes: dict[str, NodeObserved] = {}
        self._queues: dict[str, ObjectApplied] = {}

    def add(self, event: Event[Data]) -> None:
        """Take one job event or cluster fact."""
        data = event.data
        match data:
            case NodeObserved() | NodeDeleted() | ObjectApplied() | ObjectDeleted():
                if (event.time if self._by == "time" else event.recordedtime) <= self._moment:
                    self._fact(data)
            case _:
                self._job(event)

    def _fact(self, data: NodeObserved | NodeDeleted | ObjectApplied | ObjectDeleted) -> None:
        match data:
            case NodeObserved():
                self._nodes[data.name] = data
            case NodeDeleted():
                self._nodes.pop(data.name, None)
            case ObjectApplied() if data.kind == "Queue":
                self._queues[data.name] = data
            case ObjectDeleted() if data.kind == "Queue":
                self._queues.pop(data.name, None)

    def _job(self, event: Event[Data]) -> None:
        job = event.subject
        time = self._clocks.setdefault(job, Clock()).effective(event)
        if isinstance(event.data, JobOpened):
            self._opened[job] = JobView.begin(cast("Event[JobOpened]", event))
        if (time if self._by == "time" else event.recordedtime) > self._moment:
            return
        if job not in self._jobs:
            view = begun(self._opened.get(job), event, time)
            if view is None:
                return
            self._jobs[job] = self._opened.pop(job)
        self._jobs[job].apply(event, time)

    def queues(self) -> dict[str, dict[str, Any]]:
        """Return every queue that is known or has jobs, by name: what runs and what waits in it.

        `allocated` are the requests of attempts that hold a node, `requested` those of attempts that wait for one. Jobs of kind
        `Other` count in what is allocated, not among the jobs.
        """
        found: dict[str, list[JobView]] = {name: [] for name in self._queues}
        for job in self._jobs.values():
            found.setdefault(job.queue, []).append(job)
        return {
            name: {
                "spec": self._queues[name].spec if name in self._queues else None,
                "jobs_by_phase": _by_phase(job for job in found[name] if job.kind != OTHER),
                "allocated": _requests(_attempts(found[name], _HOLDS_NODE)),
                "requested": _requests(_attempts(found[name], {"Pending"})),
            }
            for name in sorted(found)
        }

    def document(self) -> dict[str, Any]:
        """Return the whole cluster as JSON: jobs, queues and nodes, each node with what it holds."""
        held: dict[str, list[AttemptView]] = {name: [] for name in self._nodes}
        for attempt in _attempts(self._jobs.values(), _HOLDS_NODE):
            if attempt.node is not None:
                held.setdefault(attempt.node, []).append(attempt)
        return {
            "as_of": format_time(self._moment),
            "by": self._by,
            "jobs_by_phase": _by_phase(job for job in self._jobs.values() if job.kind != OTHER),
            "queues": self.queues(),
            "nodes": {name: self._node(name, held[name]) for name in sorted(held)},
        }

    def _node(self, name: str, attempts: list[AttemptView]) -> dict[str, Any]:
        node = self._nodes.get(name)
        return {
            "ready": None if node is None else node.ready,
            "unschedulable": None if node is None else node.unschedulable,
            "capacity": None if node is None else {"cpu_milli": node.cpu_milli, "memory_bytes": node.memory_bytes, "gpu": node.gpu},
            "allocated": _requests(attempts),
            "attempts": len(attempts),
        }


def _attempts(jobs: Iterable[JobView], phases: Iterable[str]) -> Iterable[AttemptView]:
    wanted = frozenset(phases)
    return (attempt for job in jobs for attempt in job.attempts.values() if attempt.phase in wanted)


def _requests(attempts: Iterable[AttemptView]) -> dict[str, int]:
    total = Counter({"cpu_milli": 0, "memory_bytes": 0, "gpu": 0})
    for attempt in attempts:
        asked = attempt.requests
        total.update({"cpu_milli": asked.cpu_milli, "memory_bytes": asked.memory_bytes, "gpu": asked.gpu})
    return dict(total)


def _by_phase(jobs: Iterable[JobView]) -> dict[str, int]:
    return dict(sorted(Counter(job.phase for job in jobs).items()))
