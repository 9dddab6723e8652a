"""Comparison of two simulations of a recorded history: with other rules, and with its own (what-if)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import count as count_from
from itertools import islice
from operator import itemgetter
from pathlib import Path

from engine.application.simulation import nodes_of, objects_of, play
from engine.events.inputs import NodeDeleted, NodeObserved, ObjectApplied
from engine.events.times import Micros
from engine.formatting import listed
from engine.history.billing import costs
from engine.history.reading import cluster_facts
from engine.kubernetes.manifests.queue_rules import ROOT
from engine.kubernetes.manifests.volcano_defaults import DEFAULT_QUEUE
from engine.log.memory import MemoryLog
from engine.log.port import Searchable
from engine.runtime.gc_control import freeze_live_objects
from engine.runtime.scheduler_config import load_configuration
from engine.runtime.settings import Settings
from engine.runtime.stages import lifecycle, scheduling_by
from engine.scheduling.configuration import Configuration, read_configuration
from engine.simulation import SimulationError
from engine.simulation.comparison import Comparison, compared_by
from engine.simulation.event_queue import EventQueue
from engine.simulation.figures import machines_of
from engine.simulation.measures import Happened
from engine.simulation.recording import ClusterFact, Recording, configurations_of, read_recording
from engine.simulation.replay import ReplayedCluster, arrange_replay
from engine.simulation.results_fold import ResultsFold

Facts = Sequence[tuple[Micros, ClusterFact]]


@dataclass(frozen=True, slots=True)
class Window:
    """Stretch of a history to simulate. Times are microseconds."""

    begin: Micros | None = None
    """`None`: when the first job was submitted."""
    until: Micros | None = None
    """`None`: the end of the history; simulations go on until their jobs are over."""
    cluster: str | None = None
    """`None`: the only one that has jobs."""
    jobs: Mapping[str, str] = field(default_factory=dict)
    """Jobs with separate results: name → id."""


@dataclass(frozen=True, slots=True)
class OtherRules:
    """Changed rules; `None`: as recorded."""

    scheduler: Path | None = None
    """File with actions and plugins."""
    queues: Path | None = None
    """File with Queue, Tenant and PriorityClass objects, which replace those of the same names."""
    nodes: Path | None = None
    """File with nodes, which replace all others."""
    more: int = 0
    """Number of additional nodes, present all the time."""
    like: str = ""
    """Node that they copy, as last observed."""


def what_if(
    log: Searchable,
    settings: Settings,
    window: Window,
    rules: OtherRules,
    *,
    recorded: Path | None = None,
    on_start: Callable[[int], object] = lambda _: None,
    on_progress: Callable[[int], object] = lambda _: None,
) -> Comparison:
    """Simulate a stretch of a recorded history with other rules, and with those that it had; the log is only read.

    Args:
        log: the log with the history.
        settings: configure the stages; their configuration of scheduling is taken for a history that records none.
        window: the stretch.
        rules: what is different.
        recorded: file with the actions and plugins that the history had; `None`: those that it records.
        on_start: called with the number of jobs to simulate, before both simulations.
        on_progress: called after each simulated moment with the number of jobs that are over, of both simulations together.

    Raises:
        SimulationError: nothing is different, the stretch has no jobs or lies outside the history, several clusters have jobs and
            none is named, the history has no nodes and none are given, or a queue is none of the history's.
        ConfigurationError: a configuration of scheduling cannot be used.
        ValueError: a file of queues or nodes cannot be read.
        OSError: as before.
        EventError: a job event cannot be read.
        LogError: the log cannot be read.
    """
    if rules == OtherRules():
        raise SimulationError("nothing is to be different: give --scheduler, --queues, --nodes or --add-nodes")
    if rules.more < 0 or bool(rules.more) != bool(rules.like):
        raise SimulationError("the number of nodes more and the node that they are like go together")
    nodes = nodes_of(rules.nodes, settings.accelerators) if rules.nodes is not None else None
    objects = objects_of(rules.queues) if rules.queues is not None else []
    given = [None if path is None else _usable(load_configuration(path), str(path)) for path in (recorded, rules.scheduler)]
    recording = read_recording(log, window.begin, window.until, window.cluster)
    known = configurations_of(log, recording.cluster, recording.begin, recording.until)
    was = given[0] or (
        _usable(read_configuration(known[0]), "the history")
        if known
        else _usable(load_configuration(settings.scheduler_config), str(settings.scheduler_config))
    )
    other = given[1] or was
    ids = {job.id for job in recording.jobs}
    for name, job in window.jobs.items():
        if job not in ids:
            raise SimulationError(f"job {name} is not simulated: {recording.left_out.get(job, 'it has no part in the window')}")
    queues = {job.id: recording.results.jobs[job.id].queue for job in recording.jobs}
    facts = _complete(recording, nodes)
    changed = _with_more(_with_nodes(facts, nodes, recording.begin), rules.more, rules.like, recording.begin)
    changed = _with_objects(changed, objects, recording.begin, {*queues.values()}, rules.queues)
    on_start(len(ids))
    happened = _happened(recording, recording.results, recording.facts, log)
    as_it_was = _simulated(replace(recording, facts=facts), settings, was, on_progress)
    over = len(ids)
    changed_to = _simulated(replace(recording, facts=changed), settings, other, lambda count: on_progress(over + count))
    histories = [happened[0], as_it_was[0], changed_to[0]]
    total, by_queue, by_job = compared_by(histories, queues, window.jobs)
    return Comparison(
        recording.cluster,
        recording.begin,
        recording.until,
        happened[1],
        total,
        by_queue,
        by_job,
        recording.left_out,
        {**as_it_was[0].results.rejections, **changed_to[0].results.rejections},
        sorted(job.id for job in recording.jobs if not job.is_over),
        sorted({*as_it_was[1], *changed_to[1]}),
        "given" if given[0] else "recorded" if known else "assumed",
        len(known),
    )


def _usable(configuration: Configuration, source: str) -> Configuration:
    scheduling_by(configuration, source)
    return configuration


def _simulated(
    recording: Recording, settings: Settings, configuration: Configuration, on_progress: Callable[[int], object]
) -> tuple[Happened, Collection[str]]:
    """Simulate a recording; return what happened, and the jobs that only stopped each other."""
    event_queue = EventQueue()
    with closing(MemoryLog(clock=event_queue.clock)) as log, freeze_live_objects() as collector:

        def after(over: int) -> None:
            collector.tick()
            on_progress(over)

        cluster = ReplayedCluster(recording.cluster, event_queue, recording.conduct, recording.begin)
        arrange_replay(recording, event_queue, cluster)
        results, _ = play(
            log,
            [lifecycle(settings), scheduling_by(configuration, "")],
            cluster,
            event_queue,
            until=recording.until,
            on_progress=after,
        )
        facts = [(event.recordedtime, event.data) for event in cluster_facts(log)]
        happened, _ = _happened(recording, results, facts, log)  # type: ignore[arg-type]  # of the cluster only
        return happened, cluster.livelock


def _happened(recording: Recording, results: ResultsFold, facts: Facts, log: Searchable) -> tuple[Happened, str | None]:
    begin, end = recording.begin, recording.until
    if end is None:
        end = _end(recording, results)
    found = costs(log, begin, end)
    amounts, currency = (None, None) if found is None else found
    submitted = {job.id: job.submit for job in recording.jobs}
    firsts = {job: recording.results.jobs[job].first_running for job in submitted}
    begun = {job for job, first in firsts.items() if first is not None and first < begin}
    return Happened(results, list(machines_of(facts, end)), submitted, begun, amounts, begin, end), currency


def _end(recording: Recording, results: ResultsFold) -> Micros:
    """Return when the last job was over; jobs that are not over last at least as long as the history."""
    jobs = [results.jobs[job.id] for job in recording.jobs if job.id in results.jobs]
    times = [time for job in jobs for time in (job.ended, job.last_end) if time is not None]
    if any(job.ended is None for job in jobs):
        times.append(recording.last)
    return max(times, default=recording.last)


# --- what is different --------------------------------------------------------------------------------------------------------


def _complete(recording: Recording, nodes: Sequence[NodeObserved] | None) -> Facts:
    """Return the facts of a history; nodes and queues that it does not tell are those given, and weigh 1.

    Raises:
        SimulationError: it has no nodes, and none are given.
    """
    facts, begin = recording.facts, recording.begin
    queues = {fact.name for _, fact in facts if isinstance(fact, ObjectApplied) and fact.kind == "Queue"}
    missing = sorted(
        {job.submission.manifest["spec"].get("queue", DEFAULT_QUEUE) for job in recording.jobs if job.is_foreign} - queues
    )
    given = ((begin, ObjectApplied("Queue", name, {"weight": 1})) for name in missing)
    facts = sorted([*given, *facts], key=itemgetter(0))
    if any(isinstance(fact, NodeObserved) for _, fact in facts):
        return facts
    if nodes is None:
        raise SimulationError("the history has no nodes; give --nodes FILE, for both simulations")
    return _with_nodes(facts, nodes, begin)


def _with_nodes(facts: Facts, nodes: Sequence[NodeObserved] | None, begin: Micros) -> Facts:
    """Return facts with other nodes, which are there all the time; `None`: as they are."""
    if nodes is None:
        return facts
    kept = [(time, fact) for time, fact in facts if not isinstance(fact, NodeObserved | NodeDeleted)]
    return sorted([*kept, *((begin, node) for node in nodes)], key=itemgetter(0))


def _with_more(facts: Facts, count: int, like: str, begin: Micros) -> Facts:
    """Return facts with so many nodes more, which are like one of them and there all the time.

    Raises:
        SimulationError: there is no such node.
    """
    known = {fact.name: fact for _, fact in facts if isinstance(fact, NodeObserved)}
    if count and like not in known:
        raise SimulationError(f"there is no node {like!r}; there are {listed(sorted(known))}")
    names = (name for number in count_from(1) if (name := f"{like}-more-{number}") not in known)
    more = [
        replace(known[like], name=name, uid=None, labels={**known[like].labels, "kubernetes.io/hostname": name})
        for name in islice(names, count)
    ]
    return sorted([*facts, *((begin, node) for node in more)], key=itemgetter(0))


def _with_objects(facts: Facts, objects: Sequence[ObjectApplied], begin: Micros, used: set[str], path: Path | None) -> Facts:
    """Return facts with other queues, tenants and priority classes, which hold all the time.

    Raises:
        SimulationError: a queue has no jobs and is not the history's, nor above one that is.
    """
    names = {(fact.kind, fact.name) for fact in objects}
    known = used | {fact.name for _, fact in facts if isinstance(fact, ObjectApplied) and fact.kind == "Queue"}
    above = {fact.spec.get("parent") for fact in objects if fact.kind == "Queue"}
    for kind, name in sorted(names):
        if kind == "Queue" and name not in known | above | {ROOT, DEFAULT_QUEUE}:
            raise SimulationError(f"{path}: queue {name!r} is none of the history; it has {', '.join(sorted(known))}")
    kept = [
        (time, fact) for time, fact in facts if isinstance(fact, NodeObserved | NodeDeleted) or (fact.kind, fact.name) not in names
    ]
    return sorted([*((begin, fact) for fact in objects), *kept], key=itemgetter(0))
