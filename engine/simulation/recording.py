"""Window of a recorded history as inputs of a simulation: external inputs, without decisions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from statistics import median_low
from typing import Any, Final, TypeAlias, cast

from engine.events import Data, Event, Topic, decode
from engine.events.errors import EventError
from engine.events.inputs import (
    OTHER,
    CommandIssued,
    CustomEventRaised,
    JobDeleted,
    JobSubmitted,
    JobUpdated,
    NodeDeleted,
    NodeObserved,
    ObjectApplied,
    ObjectDeleted,
    PodObserved,
)
from engine.events.jobs import JobOpened
from engine.events.outcomes import CommandRefused, JobRejected
from engine.events.scheduling import RoundEnded
from engine.events.times import Micros, format_time
from engine.history.dead_letters import dead_lettered
from engine.history.reading import cluster_facts, job_events
from engine.history.view import JobView
from engine.lifecycle.observed_jobs import MOVED
from engine.log.port import Searchable
from engine.simulation.cluster import Conduct
from engine.simulation.errors import SimulationError
from engine.simulation.recorded_jobs import RecordedJob, is_leaving, resubmit
from engine.simulation.results_fold import ResultsFold
from statemachines.vocabulary import FINISHED_JOB_PHASES

ClusterFact: TypeAlias = NodeObserved | NodeDeleted | ObjectApplied | ObjectDeleted
"""Fact about a node or another cluster object."""
_READ: Final = (*ResultsFold.types, CommandRefused.TYPE)
_SAID: Final = frozenset(cls.TYPE for cls in (JobSubmitted, JobUpdated, CommandIssued, CustomEventRaised, JobDeleted))
_ENDED: Final = FINISHED_JOB_PHASES | {"Aborted"}


class WindowError(SimulationError):
    """Raised when a window has no history or no job to simulate."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Inputs of a recorded window, and the recorded results."""

    cluster: str
    begin: Micros
    until: Micros | None
    """End of the window; `None`: the simulation runs until its jobs have ended."""
    last: Micros
    """Latest recorded time of the history."""
    facts: Sequence[tuple[Micros, ClusterFact]]
    """Times and facts of nodes, queues and other objects, in order."""
    jobs: Sequence[RecordedJob]
    """Jobs in order of submission."""
    pods: Sequence[tuple[Micros, PodObserved]]
    """Observations of pods of services at their begin and end, in order."""
    evictions: Sequence[tuple[Micros, str]]
    """Times and names of drained nodes, in order."""
    left_out: Mapping[str, str]
    """Reason by id of each job that cannot be simulated."""
    results: ResultsFold
    """Recorded results, to the end of the history."""
    conduct: Conduct
    """Recorded delays of nodes."""


def configurations_of(log: Searchable, cluster: str, begin: Micros, until: Micros | None) -> list[dict[str, Any]]:
    """Return the scheduler configurations that a history records for a window, beginning with the one valid at its begin."""
    found: list[dict[str, Any]] = []
    for record in log.scan(("scheduling",), {RoundEnded.TYPE}):
        if until is not None and record.message.recordedtime > until:
            continue
        event: Event[Any] = decode(record.message)
        if event.clusterid == cluster and event.data.configuration:
            found = [*(found if event.recordedtime > begin else []), event.data.configuration]
    return found


def read_recording(log: Searchable, begin: Micros | None, until: Micros | None, cluster: str | None = None) -> Recording:
    """Read a window of a history.

    Args:
        log: log of the history.
        begin: begin of the window (microseconds); `None`: the first submission.
        until: end of the window (microseconds); `None`: the end of the history, and simulations run until their jobs have ended.
        cluster: cluster to read; `None`: the only one with jobs.

    Raises:
        WindowError: the window is outside the history, ends before its begin, or has no job that can be simulated.
        SimulationError: several clusters have jobs and none is given.
        EventError: a job event cannot be decoded.
        LogError: the log cannot be read.
    """
    history = _History(log, cluster)
    if not history.views:
        raise WindowError(f"the history has no job{'' if cluster is None else f' of cluster {cluster}'}")
    first = min(view.submitted for view in history.views.values())
    begin = first if begin is None else begin
    stop = history.last if until is None else until
    for moment in (begin, stop):
        if not first <= moment <= history.last:
            raise WindowError(
                f"{format_time(moment)} lies outside the history: it goes from {format_time(first)} to {format_time(history.last)}"
            )
    if stop <= begin:
        raise WindowError(f"the window ends at {format_time(stop)}, not after its begin at {format_time(begin)}")
    window = {
        ident: view
        for ident, view in history.views.items()
        if view.kind != OTHER
        and view.submitted <= stop
        and not (view.phase in _ENDED and view.since <= begin)
        and (view.attempts or view.reason != MOVED)
    }
    jobs, left_out = _jobs(window, begin, history, _user_inputs(log, history))
    if not jobs:
        why = f": {next(iter(left_out.values()))}" if left_out else ""
        raise WindowError(f"no job can be simulated between {format_time(begin)} and {format_time(stop)}{why}")
    facts = _facts(log, history)
    return Recording(
        history.cluster,
        begin,
        until,
        history.last,
        facts,
        jobs,
        _pods(history.views.values(), begin),
        _evictions(window.values(), facts, begin),
        left_out,
        history.results,
        _conduct(history.views.values()),
    )


class _History:
    """Jobs of a cluster, folded from their events."""

    def __init__(self, log: Searchable, cluster: str | None) -> None:
        self.views: dict[str, JobView] = {}
        self.opened_by: dict[str, str] = {}
        """Id of the input that opened each job."""
        self.unheeded: set[str] = set()
        """Ids of refused or rejected inputs."""
        self.results = ResultsFold()
        self.last: Micros = 0
        clusters: set[str] = set()
        for event in job_events(log, _READ):
            if cluster not in {None, event.clusterid}:
                continue
            self.last = max(self.last, event.recordedtime)
            if isinstance(event.data, CommandRefused | JobRejected):
                self.unheeded.add(event.causationid)
                continue
            if isinstance(event.data, JobOpened):
                clusters.add(event.clusterid)
                self.opened_by.setdefault(event.subject, event.causationid)
                self.views.setdefault(event.subject, JobView.begin(cast("Event[JobOpened]", event)))
            if (view := self.views.get(event.subject)) is not None:
                view.apply(event)
                self.results.add(event)
        if len(clusters) > 1:
            raise SimulationError(
                f"the history has jobs of {len(clusters)} clusters: give --cluster {' or '.join(sorted(clusters))}"
            )
        self.cluster = next(iter(clusters), cluster or "")


def _user_inputs(log: Searchable, history: _History) -> dict[str, list[Event[Data]]]:
    """Return the inputs of users by job, in order, without refused ones."""
    found: defaultdict[str, list[Event[Data]]] = defaultdict(list)
    for event in _inputs(log, "jobs", _SAID):
        if event.subject in history.views and event.id not in history.unheeded:
            found[event.subject].append(event)
    return found


def _inputs(log: Searchable, topic: Topic, types: Collection[str]) -> Iterator[Event[Data]]:
    """Yield the inputs of a topic in order, without unreadable and dead-lettered ones."""
    dead = dead_lettered(log, topic)
    for record in log.scan((topic,), types):
        if (record.partition.number, record.offset) not in dead:
            try:
                yield decode(record.message, bounded=False)
            except EventError:
                continue


def _jobs(
    window: Mapping[str, JobView], begin: Micros, history: _History, user_inputs: Mapping[str, Sequence[Event[Data]]]
) -> tuple[list[RecordedJob], dict[str, str]]:
    """Return the jobs that can be simulated, in order of submission, and the reasons for the others."""
    jobs, left_out = [], {}
    order = [*(ident for ident in user_inputs if ident in window), *(ident for ident in window if ident not in user_inputs)]
    for ident in order:
        accepted = user_inputs.get(ident, ())
        submissions = [cast("Event[JobSubmitted]", event) for event in accepted if isinstance(event.data, JobSubmitted)]
        named = [event for event in submissions if event.id == history.opened_by[ident]] or submissions[-1:]
        if window[ident].managed and not named:
            left_out[ident] = "its submission is no longer in the log"
            continue
        others = [event for event in accepted if not isinstance(event.data, JobSubmitted)]
        made = resubmit(window[ident], begin, others, named[0] if window[ident].managed else None)
        if isinstance(made, str):
            left_out[ident] = made
        else:
            jobs.append(made)
    return sorted(jobs, key=lambda job: job.submit), left_out


def _facts(log: Searchable, history: _History) -> list[tuple[Micros, ClusterFact]]:
    """Return the facts of the cluster with their recorded times; a node that ran pods earlier exists from the start.

    Grants are left out, because the simulated scheduler admits jobs itself.
    """
    used: dict[str, Micros] = {}
    for view in history.views.values():
        for attempt in view.attempts.values():
            if attempt.node is not None and attempt.bound is not None:
                used[attempt.node] = min(attempt.bound, used.get(attempt.node, attempt.bound))
    found: list[tuple[Micros, ClusterFact]] = []
    for event in cluster_facts(log):
        data, time = event.data, event.recordedtime
        if not isinstance(data, NodeObserved | NodeDeleted | ObjectApplied | ObjectDeleted):
            continue
        kind = data.kind if isinstance(data, ObjectApplied | ObjectDeleted) else "Node"
        if kind == "Grant" or (event.clusterid != history.cluster and kind != "PriceBook"):  # price books are global
            continue
        if isinstance(data, NodeObserved):
            time = 0 if used.pop(data.name, time) < time else time
        found.append((time, data))
    return sorted(found, key=itemgetter(0))


def _pods(views: Iterable[JobView], begin: Micros) -> list[tuple[Micros, PodObserved]]:
    """Return the observations of pods of services at their begin and end."""
    found: list[tuple[Micros, PodObserved]] = []
    for view in views:
        for one in view.attempts.values():
            if view.kind != OTHER or one.node is None or one.bound is None or (one.ended is not None and one.ended <= begin):
                continue
            came = PodObserved(
                one.uid or f"{view.id}/{one.name}",
                view.id,
                one.pod,
                "Running",
                one.created,
                namespace=view.namespace,
                version="1",
                requests=one.requests,
                node=one.node,
                bound=one.bound,
                running=one.bound if one.running is None else one.running,
                queue=view.queue,
            )
            found.append((one.bound, came))
            if one.ended is not None:
                gone = replace(came, version="2", phase=one.phase, reason=one.reason, exit_code=one.exit_code, ended=one.ended)
                found.append((one.ended, gone))
    return sorted(found, key=itemgetter(0))


def _evictions(views: Iterable[JobView], facts: Sequence[tuple[Micros, ClusterFact]], begin: Micros) -> list[tuple[Micros, str]]:
    """Return times and names of drained nodes: pods were evicted while the node was unschedulable."""
    closed: defaultdict[str, list[tuple[Micros, bool]]] = defaultdict(list)
    for time, fact in facts:
        if isinstance(fact, NodeObserved):
            closed[fact.name].append((time, fact.unschedulable))
    found = set()
    for view in views:
        for attempt in view.attempts.values():
            if attempt.reason == "EvictedByApi" and attempt.node is not None and attempt.terminating is not None:
                states = [is_closed for time, is_closed in closed[attempt.node] if time <= attempt.terminating]
                if states and states[-1] and (attempt.terminating >= begin or is_leaving(attempt, begin)):
                    found.add((max(attempt.terminating, begin), attempt.node))
    return sorted(found)


def _conduct(views: Iterable[JobView]) -> Conduct:
    """Return the median of the recorded delays of nodes."""
    starts, stops = [], []
    for view in views:
        for attempt in view.attempts.values():
            if attempt.bound is not None and attempt.running is not None:
                starts.append(attempt.running - attempt.bound)
            if attempt.terminating is not None and attempt.ended is not None:
                stops.append(attempt.ended - attempt.terminating)
    known = {name: max(median_low(times), 0) for name, times in (("start", starts), ("stop", stops)) if times}
    return replace(Conduct(), **known)
