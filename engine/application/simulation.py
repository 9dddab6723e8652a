"""A simulation from its parts: a trace, nodes, queues, a configuration of scheduling, and the log that keeps the history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from engine.application.errors import RequestError
from engine.application.files import read_given
from engine.events import Data, decode
from engine.events.inputs import DEFAULT_NAMESPACE, NodeObserved, ObjectApplied
from engine.events.times import SECOND, Micros
from engine.events.vocabulary import INPUT_TOPICS
from engine.kubernetes.edge import Ignored, Refused, to_inputs
from engine.kubernetes.manifests.manifest import read_manifest
from engine.kubernetes.reading.accelerators import BUILT_IN, Accelerators
from engine.lifecycle.managed_jobs import queues_of
from engine.log.port import Partition, SearchableLog
from engine.log.url import open_log
from engine.processor.partitions import shard_count, takes_inputs
from engine.processor.processor import SNAPSHOT_EVERY, Processor
from engine.processor.stage import Stage
from engine.runtime.engine import run_lock
from engine.runtime.gc_control import freeze_live_objects
from engine.runtime.opening import is_shared
from engine.runtime.scheduler_config import load_configuration
from engine.runtime.settings import Settings
from engine.runtime.stages import stages_of
from engine.scheduling.cluster.objects import queue_of
from engine.scheduling.configuration import Configuration
from engine.scheduling.stage import SchedulingStage
from engine.simulation import SimulationError
from engine.simulation.cluster import Conduct, SimulatedCluster
from engine.simulation.event_queue import EventQueue
from engine.simulation.fitting import misfits
from engine.simulation.incidents import Incident, arrange
from engine.simulation.machines import read_nodes
from engine.simulation.results import Results, results_of
from engine.simulation.results_fold import ResultsFold
from engine.simulation.simulation import Simulation
from engine.simulation.workload import PlannedJob, Workload

_IN_MEMORY: Final = "memory:"
_LATEST_ANSWER: Final = 10 * 366 * 24 * 3600
"""Most seconds from a notice to its acknowledgement."""
_COLLECTED: Final = 1_000
"""Simulated moments between two collections of garbage: in each only a few inputs are taken."""
_NEVER: Final = 1 << 60
"""Inputs after which a log that ends with the process has a snapshot."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Input of a simulation."""

    cluster: str
    workload: Workload
    nodes: Sequence[NodeObserved]
    objects: Sequence[ObjectApplied] = ()
    """Queues, tenants, priority classes, …; queues of the trace that are not among them get weight 1."""
    incidents: Sequence[Incident] = ()
    conduct: Conduct = field(default_factory=Conduct)
    until: Micros | None = None
    """When it is cut off; `None`: it goes on until nothing happens any more."""


def conduct_of(acknowledge: float | None) -> Conduct:
    """Return the conduct of jobs that acknowledge notices so many seconds after they are given; `None`: they ignore them.

    Raises:
        SimulationError: the number is below 0, above ten years, or none.
    """
    if acknowledge is None:
        return Conduct()
    if not 0 <= acknowledge <= _LATEST_ANSWER:
        raise SimulationError(f"jobs acknowledge after {acknowledge:g} seconds; it must be 0 to {_LATEST_ANSWER:,}, ten years")
    return Conduct(checkpoint=round(acknowledge * SECOND))


def nodes_of(path: Path, accelerators: Accelerators) -> list[NodeObserved]:
    """Read nodes: a table of machines (`.csv`, `.csv.gz`), or Node objects as YAML or JSON.

    Args:
        path: the file.
        accelerators: how many GPUs a Node object has.

    Raises:
        SimulationError: a row of the table makes no sense, a node is there twice, or there is none.
        ValueError: an object cannot be read, or is no Node.
        OSError: the file cannot be read.
    """
    if path.name.removesuffix(".gz").endswith(".csv"):
        nodes: list[NodeObserved] = read_nodes(path)
    else:
        nodes = [fact for fact in _facts(path, "Node", accelerators) if isinstance(fact, NodeObserved)]
        for name, times in Counter(node.name for node in nodes).items():
            if times > 1:
                raise SimulationError(f"{path}: node {name} is there {times} times; leave one")
    if not nodes:
        raise SimulationError(f"{path}: holds no node")
    return nodes


def objects_of(path: Path) -> list[ObjectApplied]:
    """Read objects of the cluster other than nodes and jobs.

    Raises:
        ValueError: an object cannot be read, or is of another kind.
        OSError: the file cannot be read.
    """
    return [fact for fact in _facts(path, "Queue, Tenant or PriorityClass", BUILT_IN) if isinstance(fact, ObjectApplied)]


def _facts(path: Path, wanted: str, accelerators: Accelerators) -> list[Data]:
    found: list[Data] = []
    for document in read_given(path):
        outcome = to_inputs(document, "", 0, accelerators)
        if isinstance(outcome, Refused | Ignored):
            raise RequestError(f"{path}: {outcome.reason}")
        if outcome.topic != "cluster":
            raise RequestError(f"{path}: {document.place}: {document.kind} is no {wanted}")
        found += [decode(message).data for message in outcome.messages]
    return found


def simulate(
    scenario: Scenario,
    settings: Settings,
    *,
    keep: bool,
    warn: Callable[[str], object] = lambda _: None,
    on_progress: Callable[[int], object] = lambda _: None,
) -> Results:
    """Simulate.

    Args:
        scenario: what.
        settings: configure the stages, and name the log if it is kept.
        keep: leave the whole history, bills included, in the log of the settings, which must be empty; else it is in memory.
        warn: called with each warning.
        on_progress: called after each simulated moment with the number of jobs that are over.

    Raises:
        SimulationError: the cluster takes none of the jobs, as each fits no node or is rejected; an incident names what is not
            there; or the log is not empty or on Kafka.
        ConfigurationError: the configuration of scheduling cannot be used.
        LogError: the log cannot be used.
    """
    _must_fit(scenario, settings.max_replicas, warn)
    configuration = load_configuration(settings.scheduler_config)
    _must_place(configuration, settings.scheduler_config, scenario.workload.jobs[0], warn)
    _must_give_notice(scenario, configuration, warn)
    settings = settings if keep else settings.model_copy(update={"log": _IN_MEMORY, "billing": False})
    if is_shared(settings.log):
        raise SimulationError(f"{settings.log}: a simulation leaves its history in sqlite:PATH")
    event_queue, stages = EventQueue(), stages_of(settings)
    with ExitStack() as stack:
        lock = run_lock(settings)
        stack.enter_context(lock.hold() if lock is not None else nullcontext())
        log = stack.enter_context(closing(open_log(settings.log, clock=event_queue.clock)))
        if any(log.end(Partition(topic, number)) for topic in INPUT_TOPICS for number in range(log.partitions(topic))):
            raise SimulationError(f"{settings.log}: the log is not empty; a simulation begins a new one")
        collector = stack.enter_context(freeze_live_objects(_COLLECTED))

        def after(over: int) -> None:
            collector.tick()
            on_progress(over)

        return simulate_on(log, stages, scenario, event_queue, snapshots=keep, on_progress=after)


def simulate_on(
    log: SearchableLog,
    stages: Sequence[Stage[Any]],
    scenario: Scenario,
    event_queue: EventQueue,
    *,
    snapshots: bool = False,
    on_progress: Callable[[int], object] = lambda _: None,
) -> Results:
    """Simulate on a log.

    Args:
        log: an empty log whose clock is that of the event queue.
        stages: in the order in which they take turns; those that only follow the others come when all is over.
        scenario: what.
        event_queue: virtual time, at its beginning.
        snapshots: write snapshots: the log is used after the simulation.
        on_progress: called after each simulated moment with the number of jobs that are over.

    Raises:
        SimulationError: an incident names what is not there.
        LogError: the log failed.
    """
    workload = scenario.workload
    cluster = SimulatedCluster(scenario.cluster, event_queue, scenario.conduct)
    event_queue.at(workload.start, partial(_furnish, cluster, scenario))
    for job in workload.jobs:
        event_queue.at(job.submit, partial(cluster.submit, job))
    arrange(scenario.incidents, event_queue, cluster, scenario.nodes, workload)
    results, acted = play(log, stages, cluster, event_queue, until=scenario.until, snapshots=snapshots, on_progress=on_progress)
    obstacle = next((stage.configuration.obstacle for stage in stages if isinstance(stage, SchedulingStage)), "")
    end = acted if scenario.until is None else scenario.until
    return results_of(log, results, workload, end, cluster.livelock, obstacle)


def play(
    log: SearchableLog,
    stages: Sequence[Stage[Any]],
    cluster: SimulatedCluster,
    event_queue: EventQueue,
    *,
    until: Micros | None = None,
    snapshots: bool = False,
    on_progress: Callable[[int], object] = lambda _: None,
) -> tuple[ResultsFold, Micros]:
    """Run the events of a cluster's queue and of the stages; return the results and the time of the last event in the cluster.

    Args:
        log: as of `simulate_on`.
        stages: as of `simulate_on`.
        cluster: acts on what the stages request.
        event_queue: of the cluster.
        until: the last moment that is simulated; `None`: until nothing is left to happen.
        snapshots: as of `simulate_on`.
        on_progress: as of `simulate_on`.

    Raises:
        LogError: the log failed.
    """
    results = ResultsFold()
    with ExitStack() as stack:

        def opened(stages: Sequence[Stage[Any]]) -> list[Processor[Any]]:
            every = SNAPSHOT_EVERY if snapshots else _NEVER
            shards = [(stage, number) for stage in stages for number in range(shard_count(log, stage))]
            processors = [Processor[Any](log, stage, number, snapshot_every=every) for stage, number in shards]
            for processor in processors:
                processor.open()
                stack.callback(processor.close)
            return processors

        deciding = _deciding(stages)
        processors = opened(deciding)
        simulation = Simulation(log, processors, cluster, event_queue, dict.fromkeys(ResultsFold.types, results.add))
        simulation.run(on_progress, until)
        # What only follows the others costs less at the end, in large transactions.
        processors += opened([stage for stage in stages if stage not in deciding])
        for processor in processors[0 if snapshots else len(deciding) :]:
            processor.run_until_quiet()
    return results, simulation.acted


def _deciding(stages: Sequence[Stage[Any]]) -> list[Stage[Any]]:
    """Return the stages that take producers' inputs, and those that these hear: on what they write depends what happens."""
    first = [stage for stage in stages if takes_inputs(stage)]
    heard = {topic for stage in first for topic, _ in stage.inputs}
    return [stage for stage in stages if stage in first or not heard.isdisjoint(stage.outputs)]


def _furnish(cluster: SimulatedCluster, scenario: Scenario) -> None:
    """Give the cluster its objects and nodes."""
    for fact in _objects(scenario):
        cluster.apply(fact)
    for node in scenario.nodes:
        cluster.add_node(node)


def _objects(scenario: Scenario) -> list[ObjectApplied]:
    """Return the objects of the cluster, with the queues that only the trace names."""
    given = {fact.name for fact in scenario.objects if fact.kind == "Queue"}
    own = (ObjectApplied("Queue", name, {"weight": 1}) for name in scenario.workload.queues if name not in given)
    return [*scenario.objects, *own]


def _must_place(configuration: Configuration, path: Path | None, first: PlannedJob, warn: Callable[[str], object]) -> None:
    """Warn of a configuration of scheduling, from a file, that gives no pod a node."""
    if obstacle := configuration.obstacle:
        warn(f"{path}: {obstacle}. The first job that waits: line {first.row.line}: {first.name}")


def _must_fit(scenario: Scenario, most_replicas: int, warn: Callable[[str], object]) -> None:
    """Warn of jobs for which the cluster is too small.

    Raises:
        SimulationError: it is too small for each of the jobs, or rejects it.
    """
    jobs = scenario.workload.jobs
    unfit = {job.id: f"line {job.row.line}: {job.name} fits no node: {why}" for job, why in misfits(jobs, scenario.nodes)}
    queues = queues_of(_objects(scenario))

    def obstacle(job: PlannedJob) -> str:
        if job.id in unfit:
            return unfit[job.id]
        faults = read_manifest(job.manifest(), queues=queues, most_replicas=most_replicas).faults
        return f"line {job.row.line}: {job.name} is rejected: {faults[0].path}: {faults[0].message}" if faults else ""

    if all(obstacle(job) for job in jobs):
        raise SimulationError(f"the cluster takes none of the {len(jobs):,} jobs; the first: {obstacle(jobs[0])}")
    if unfit:
        warn(f"{len(unfit):,} of {len(jobs):,} jobs will wait for ever; the first: {next(iter(unfit.values()))}")


def _must_give_notice(scenario: Scenario, configuration: Configuration, warn: Callable[[str], object]) -> None:
    """Warn of privileged jobs for which nobody can be given notice."""
    objects = {(fact.kind, fact.name): fact for fact in scenario.objects}

    def obstacle(job: PlannedJob) -> str:
        name, tenant = job.row.queue, job.row.tenant or DEFAULT_NAMESPACE
        queue = queue_of(name, objects.get(("Queue", name)) or ObjectApplied("Queue", name, {}))
        right = objects.get(("Tenant", tenant))
        if "preempt" not in configuration.actions:
            return "the configuration of scheduling does not name action preempt"
        if queue is None or not configuration.gives_notice(queue):
            return f"queue {name} does not have `preemption: notice`"
        if right is None or right.spec.get("mayPreempt") is not True:
            return f"tenant {tenant} does not have `mayPreempt: true`"
        return ""

    privileged = [job for job in scenario.workload.jobs if job.privileged]
    found = [(job, why) for job in privileged if (why := obstacle(job))]
    if found:
        first, why = found[0]
        warn(f"nobody is given notice for {len(found):,} of {len(privileged):,} privileged jobs; the first: {first.name}: {why}")
