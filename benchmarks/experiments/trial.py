"""One run of an experiment: jobs on nodes under a configuration of scheduling, by the stages of production, on a log in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from engine.application.simulation import Scenario, simulate_on
from engine.events import decode
from engine.events.inputs import NodeObserved, ObjectApplied
from engine.events.times import SECOND, Micros
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.processor.stage import Stage
from engine.scheduling.configuration import read_configuration
from engine.scheduling.session import Plugin
from engine.scheduling.stage import SchedulingStage
from engine.simulation.cluster import Conduct
from engine.simulation.event_queue import EventQueue
from engine.simulation.incidents import Incident
from engine.simulation.results_fold import ResultsFold
from engine.simulation.workload import PlannedJob, Workload
from experiments.jobs import BEGIN, CLUSTER

_GIBIBYTE: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Trial:
    """A run that is over."""

    results: ResultsFold
    jobs: Mapping[str, PlannedJob]
    """By id."""

    def finished(self) -> dict[str, float]:
        """Return job → seconds from its submission to its end, of those that ended."""
        found = {}
        for ident, job in self.jobs.items():
            facts = self.results.jobs[ident]
            if facts.ended is not None:
                found[job.row.name] = (facts.ended - facts.submitted) / SECOND
        return found

    def waits(self) -> dict[str, float]:
        """Return job → seconds from its submission to its first running pod, of those that ran."""
        found = {}
        for ident, job in self.jobs.items():
            facts = self.results.jobs[ident]
            if facts.first_running is not None:
                found[job.row.name] = (facts.first_running - facts.submitted) / SECOND
        return found

    def pods(self, by: Literal["job", "queue", "node"], after: int) -> Counter[str]:
        """Return job, queue or node → pods that held a node so many seconds after the first submission."""
        moment = BEGIN + after * SECOND
        there = [
            placement
            for placement in self.results.placements
            if placement.bound <= moment and (placement.end is None or placement.end > moment)
        ]
        return Counter(self.jobs[placement.job].row.name if by == "job" else getattr(placement, by) for placement in there)


def run(
    jobs: Sequence[PlannedJob],
    nodes: Sequence[NodeObserved],
    scheduler: Mapping[str, Any],
    objects: Sequence[ObjectApplied] = (),
    incidents: Sequence[Incident] = (),
    checkpoint: int | None = None,
    plugins: Mapping[str, type[Plugin]] | None = None,
    until: Micros | None = None,
) -> Trial:
    """Run jobs.

    Args:
        jobs: in order of submission.
        nodes: all there from the beginning.
        scheduler: a configuration of scheduling in Volcano's format.
        objects: queues, tenants, priority classes and quotas.
        incidents: what happens beside the jobs.
        checkpoint: seconds from a notice until a job has saved its work and acknowledges; `None`: jobs ignore notices.
        plugins: those that the product does not have, by name.
        until: when the run is cut off; `None`: it goes on until nothing happens any more.
    """
    event_queue, results = EventQueue(), ResultsFold()
    log = MemoryLog(clock=event_queue.clock)
    stages: list[Stage[Any]] = [LifecycleStage(), SchedulingStage(read_configuration(scheduler), plugins)]
    conduct = Conduct(checkpoint=None if checkpoint is None else checkpoint * SECOND)
    simulate_on(log, stages, Scenario(CLUSTER, Workload(jobs, ()), nodes, objects, incidents, conduct, until), event_queue)
    for record in log.scan(("job-events",), ResultsFold.types):
        results.add(decode(record.message))
    return Trial(results, {job.id: job for job in jobs})


def tiers(*plugins: str, without: Collection[str] = (), **settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a tier of plugins for a configuration of scheduling.

    Args:
        plugins: in order.
        without: those that are switched off.
        settings: plugin → its arguments and switches.
    """
    return [{"plugins": [{"name": name, **settings.get(name, {})} for name in plugins if name not in without]}]


def node(name: str, cores: int, gpu: int = 0, memory: int = 256) -> NodeObserved:
    """Return a node; memory in GiB."""
    return NodeObserved(
        name,
        cpu_milli=cores * 1000,
        memory_bytes=memory * _GIBIBYTE,
        gpu=gpu,
        pods=110,
        labels={"kubernetes.io/hostname": name},
        resources={"nvidia.com/gpu": gpu * 1000} if gpu else {},
    )
