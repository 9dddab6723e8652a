"""State of a job, a queue or the cluster at a past time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, cast

from engine.events import Data, Event
from engine.events.inputs import OTHER, NodeDeleted, NodeObserved, ObjectApplied, ObjectDeleted
from engine.events.jobs import JobOpened
from engine.events.times import format_time
from engine.history.fold import Clock, begun, fold
from engine.history.listing import in_order
from engine.history.moment_argument import By
from engine.history.view import AttemptView, JobView
from engine.kubernetes.observation.cluster_facts import ClusterFacts
from statemachines.spec import gpus_of
from statemachines.vocabulary import LIVE_ATTEMPT_PHASES

_Key = tuple[str, str]
"""Cluster and name."""

_HOLDS_NODE = frozenset({"Bound", "Running", "Terminating"})


def job_as_of(events: Iterable[Event[Data]], moment: int, by: By = "time") -> JobView | None:
    """Return the state of a job at a time (microseconds); `None` if it was not opened yet.

    Args:
        events: all events of the job, in order.
        moment: the time, inclusive.
        by: time attribute of the events to compare.
    """
    return fold(events, at=moment) if by == "time" else fold(events, known=moment)


class ClusterAsOf:
    """Queues and nodes at a time: a fold over all job events and cluster facts, in log order."""

    def __init__(self, moment: int, by: By = "time") -> None:
        """Start the fold.

        Args:
            moment: the time (microseconds), inclusive.
            by: time attribute of the events to compare.
        """
        self._moment = moment
        self._by = by
        self._jobs: dict[str, JobView] = {}
        self._opened: dict[str, JobView] = {}
        """Jobs whose `opened` event was read but took effect after that time."""
        self._clocks: dict[str, Clock] = {}
        self._facts = ClusterFacts()
        self._clusters: set[str] = set()

    def add(self, event: Event[Data]) -> None:
        """Apply one job event or cluster fact."""
        data = event.data
        if event.clusterid:  # empty in a shard's events about itself
            self._clusters.add(event.clusterid)
        match data:
            case NodeObserved() | NodeDeleted() | ObjectApplied() | ObjectDeleted():
                if (event.time if self._by == "time" else event.recordedtime) <= self._moment:
                    self._facts.absorb(event)
            case _:
                self._job(event)

    def _shown(self, key: _Key) -> str:
        """Return the display name of a node or queue, with its cluster if the log has several."""
        cluster, name = key
        return f"{cluster}/{name}" if len(self._clusters) > 1 else name

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
        """Return every queue that is known or has jobs, with its usage, by name (`CLUSTER/NAME` if the log has several clusters).

        `allocated` sums the requests of attempts with a node, `requested` those of attempts without one. Jobs of kind `Other` count
        in `allocated`, not in `jobs_by_phase`.
        """
        queues = {(cluster, name): applied for (cluster, kind, name), applied in self._facts.objects.items() if kind == "Queue"}
        found: dict[_Key, list[JobView]] = {key: [] for key in queues}
        for job in self._jobs.values():
            found.setdefault((job.cluster, job.queue), []).append(job)
        return {
            self._shown(key): {
                "spec": queues[key].spec if key in queues else None,
                "jobs_by_phase": _by_phase(job for job in found[key] if job.kind != OTHER),
                "allocated": _requests(_attempts(found[key], _HOLDS_NODE)),
                "requested": _requests(_attempts(found[key], {"Pending"})),
            }
            for key in sorted(found)
        }

    def document(self) -> dict[str, Any]:
        """Return the whole cluster as JSON: jobs, queues and nodes, each node with its allocated resources."""
        held: dict[_Key, list[AttemptView]] = {key: [] for key in self._facts.nodes}
        for job in self._jobs.values():
            for attempt in _attempts((job,), _HOLDS_NODE):
                if attempt.node is not None:
                    held.setdefault((job.cluster, attempt.node), []).append(attempt)
        return {
            "as_of": format_time(self._moment),
            "by": self._by,
            "jobs_by_phase": _by_phase(job for job in self._jobs.values() if job.kind != OTHER),
            "queues": self.queues(),
            "nodes": {self._shown(key): self._node(key, held[key]) for key in sorted(held)},
            "jobs": [_line(job) for job in sorted(self._jobs.values(), key=in_order) if job.kind != OTHER],
        }

    def compared(self) -> dict[str, Any]:
        """Return the parts of the document to compare with another moment's; jobs are keyed by `namespace/name@id`."""
        document = self.document()
        jobs = {
            f"{job['namespace']}/{job['name']}@{job['id']}": {field: job[field] for field in ("phase", "reason", "queue", "live")}
            for job in document["jobs"]
        }
        return {name: document[name] for name in ("jobs_by_phase", "queues", "nodes")} | {"jobs": jobs}

    def _node(self, key: _Key, attempts: list[AttemptView]) -> dict[str, Any]:
        node = self._facts.nodes.get(key)
        return {
            "ready": None if node is None else node.ready,
            "unschedulable": None if node is None else node.unschedulable,
            "capacity": None if node is None else {"cpu_milli": node.cpu_milli, "memory_bytes": node.memory_bytes, "gpu": node.gpu},
            "allocated": _requests(attempts),
            "attempts": len(attempts),
        }


def _line(job: JobView) -> dict[str, Any]:
    return {
        "id": job.id,
        "cluster": job.cluster,
        "namespace": job.namespace,
        "name": job.name,
        "kind": job.kind,
        "phase": job.phase,
        "reason": job.reason,
        "since": format_time(job.since),
        "queue": job.queue,
        "live": sum(1 for _ in _attempts((job,), LIVE_ATTEMPT_PHASES)),
    }


def _attempts(jobs: Iterable[JobView], phases: Iterable[str]) -> Iterable[AttemptView]:
    wanted = frozenset(phases)
    return (attempt for job in jobs for attempt in job.attempts.values() if attempt.phase in wanted)


def _requests(attempts: Iterable[AttemptView]) -> dict[str, Any]:
    total = Counter({"cpu_milli": 0, "memory_bytes": 0, "gpu": 0})
    for attempt in attempts:
        asked = attempt.requests
        total.update({"cpu_milli": asked.cpu_milli, "memory_bytes": asked.memory_bytes, "gpu": asked.gpu_billionths})
    return {**total, "gpu": gpus_of(total["gpu"])}


def _by_phase(jobs: Iterable[JobView]) -> dict[str, int]:
    return dict(sorted(Counter(job.phase for job in jobs).items()))
