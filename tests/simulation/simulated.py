"""Small simulations: rows by hand, nodes by hand, the real stages on a log in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from engine.application.simulation import Scenario, simulate_on
from engine.billing.stage import BillingStage
from engine.events import Event, encode
from engine.events.inputs import CommandIssued, NodeObserved
from engine.events.times import SECOND
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.scheduling.configuration import Configuration, PluginOption
from engine.scheduling.stage import SchedulingStage
from engine.simulation.event_queue import EventQueue
from engine.simulation.incidents import Incident
from engine.simulation.results import Results
from engine.simulation.traces.rows import TraceRow
from engine.simulation.workload import plan
from statemachines.spec import Requests

BEGIN = 1_500_000_000 * SECOND


@dataclass(frozen=True)
class Simulated:
    """A simulation that is over."""

    log: MemoryLog
    results: Results

    @property
    def totals(self) -> dict[str, Any]:
        return self.results.document["totals"]

    @property
    def waiting(self) -> list[dict[str, Any]]:
        return self.results.document["waiting"]

    def jobs(self) -> dict[str, dict[str, Any]]:
        """Name → the job's row of the table."""
        head, *rows = (line.split(",") for line in self.results.table().splitlines())
        return {line[1]: dict(zip(head, line, strict=True)) for line in rows}


def row(number: int, submit: int = 0, run: int | None = 60, gpus: Sequence[int] = (1,), phase: Any = "Completed", **more: Any):
    """A row of a trace; `run` `None`: it never ran, and its user waited for a minute. Seconds."""
    start = None if run is None else (BEGIN + submit * SECOND)
    end = BEGIN + (submit + (60 if run is None else run)) * SECOND
    pods = [Requests(gpu=gpu) for gpu in gpus]
    return TraceRow(number + 1, str(number), f"job-{number}", BEGIN + submit * SECOND, start, end, phase, pods, **more)


def machine(name: str = "n1", gpu: int = 8) -> NodeObserved:
    resources = {"nvidia.com/gpu": gpu * 1000} if gpu else {}
    labels = {"kubernetes.io/hostname": name}
    return NodeObserved(name, cpu_milli=64_000, memory_bytes=1 << 38, gpu=gpu, pods=110, resources=resources, labels=labels)


def incident(after: int, what: Any, name: str, replicas: int | None = None) -> Incident:
    return Incident(2, after * SECOND, what, name, replicas)


def configuration(actions: str = "enqueue allocate backfill", *plugins: str) -> Configuration:
    tiers = (("priority", "gang", "conformance"), ("overcommit", "drf", "predicates", "proportion", "nodeorder", *plugins))
    return Configuration(tuple(actions.split()), tuple(tuple(PluginOption(name) for name in tier) for tier in tiers))


def simulated(
    rows: Sequence[TraceRow],
    nodes: Sequence[NodeObserved],
    *incidents: Incident,
    configured: Configuration | None = None,
    speed_up: float = 1.0,
    privileged: Collection[str] = (),
    commands: Sequence[tuple[int, str, CommandIssued]] = (),
    **more: Any,
) -> Simulated:
    """Simulate; `commands`: seconds, name of the job and what its user commands then."""
    event_queue = EventQueue()
    log = MemoryLog(clock=event_queue.clock)
    stages = [LifecycleStage(), SchedulingStage(configured or configuration()), BillingStage()]
    workload = plan(list(rows), "philly", "test", speed_up=speed_up, privileged=privileged)
    ids = {job.name: job.id for job in workload.jobs}
    for after, name, command in commands:
        time = BEGIN + after * SECOND
        event = Event(f"{name}/{after}", "test", command.TYPE, ids[name], time, time, 0, ids[name], "", "test", command)
        event_queue.at(time, partial(log.append, "jobs", [encode(event)]))
    return Simulated(log, simulate_on(log, stages, Scenario("test", workload, nodes, incidents=incidents, **more), event_queue))
