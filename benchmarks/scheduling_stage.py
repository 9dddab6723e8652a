"""What the scheduling stage costs with its log: the whole way of a decision, a restart, memory; JSON on standard output.

    python benchmarks/scheduling_stage.py [--nodes 1000] [--replicas 10000] [--live 50000] [--repeat 3]

- `whole_way_seconds`: jobs are open in `job-events`; both stages on a log in memory, until every binding is accepted there.
  `scheduling_seconds`, `lifecycle_seconds`: the parts of it.
- `restart_seconds`: the shard is opened again from its snapshot on a cluster with `--live` running pods.
- `bytes_a_pod`: what the process grows by that shard, for each of these pods.

Processor time, the median of `--repeat` runs. Gangs of ten, 2 cpu and 4 GiB a pod; nodes of 64 cpu.
"""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Iterable, Iterator
from multiprocessing import get_context
from statistics import median
from time import process_time
from typing import Any, Final, cast

from growth import resident
from workload import BEGIN

from engine.events import Data, Event, Message, decode, encode
from engine.events.decisions import DecisionAccepted
from engine.events.inputs import JobSubmitted, NodeObserved, PodObserved
from engine.events.times import SECOND
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.log.port import Partition, Record
from engine.processor.processor import Processor
from engine.runtime.gc_control import freeze_live_objects
from engine.scheduling.stage import SchedulingStage
from statemachines.spec import Requests

GANG: Final = 10
GIB: Final = 1 << 30
CLUSTER: Final = "bench"


def input_of(data: Data, subject: str, ident: str) -> Message:
    """Return an input of the benchmark's one moment."""
    event = Event(ident, "bench", data.TYPE, subject, BEGIN, BEGIN, 0, subject, "", CLUSTER, data)
    return encode(event, CLUSTER if data.TOPIC == "cluster" else None)


def manifest(number: int) -> dict[str, Any]:
    """Return a gang of ten pods."""
    container = {"name": "c", "image": "busybox:1.36", "resources": {"requests": {"cpu": "2", "memory": "4Gi"}}}
    task = {"name": "w", "replicas": GANG, "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": f"job-{number}", "namespace": "bench"},
        "spec": {"schedulerName": "lahar", "minAvailable": GANG, "tasks": [task]},
    }


class Place:
    """Both stages on a log in memory."""

    def __init__(self, nodes: int, replicas: int) -> None:
        """Fill the log with nodes and jobs, and open the jobs."""
        self.log = MemoryLog(clock=lambda: 1 << 60)
        found = [
            NodeObserved(f"n{at}", cpu_milli=64_000, memory_bytes=256 * GIB, pods=110, labels={"kubernetes.io/hostname": f"n{at}"})
            for at in range(nodes)
        ]
        self.log.append("cluster", [input_of(node, node.name, f"node/{node.name}") for node in found])
        jobs = [input_of(JobSubmitted(manifest(at)), f"job-{at}", f"job/{at}") for at in range(replicas // GANG)]
        self.log.append("jobs", jobs)
        self.lifecycle: Processor[Any] = Processor(self.log, LifecycleStage(), 0)
        self.lifecycle.open()
        self.work_off(self.lifecycle)
        self.now = BEGIN

    def work_off(self, processor: Processor[Any]) -> float:
        """Process until nothing waits; returns processor time in seconds."""
        began = process_time()
        while processor.step():
            pass
        return process_time() - began

    def decide(self, processor: Processor[Any], replicas: int) -> tuple[float, float]:
        """Let the stages take turns until so many bindings are accepted.

        Returns:
            Processor time of scheduling, and of lifecycle (seconds).
        """
        scheduling, lifecycle = self.work_off(processor), 0.0
        accepted, read = 0, 0
        while accepted < replicas:
            self.now += SECOND
            began = process_time()
            while processor.fire_due(self.now):
                pass
            scheduling += process_time() - began
            lifecycle += self.work_off(self.lifecycle)
            scheduling += self.work_off(processor)
            records = self.log.read(Partition("job-events", 0), read, 1 << 30)
            read += len(records)
            accepted += sum(len(event.data.placements) for event in accepted_of(records))
        return scheduling, lifecycle

    def run_pods(self) -> None:
        """Have every bound pod run."""
        pods = []
        for event in accepted_of(self.log.read(Partition("job-events", 0), 0, 1 << 30)):
            for at in event.data.placements:
                uid = f"{event.subject}-{at.index}"
                seen = PodObserved(
                    uid, event.subject, uid, "Running", BEGIN, kind="VCJob", managed=True, requests=Requests(2000, 4 * GIB),
                    task=at.task, index=at.index, attempt=at.attempt, node=at.node, version="1",
                )  # fmt: skip
                pods.append(input_of(seen, event.subject, f"pod/{uid}"))
        self.log.append("pods", pods)
        self.work_off(self.lifecycle)


def accepted_of(records: Iterable[Record]) -> Iterator[Event[DecisionAccepted]]:
    """Yield the acceptances among records."""
    for record in records:
        if record.message.type == DecisionAccepted.TYPE:
            yield cast("Event[DecisionAccepted]", decode(record.message))


def opened(log: MemoryLog) -> Processor[Any]:
    """Open the shard of scheduling."""
    processor: Processor[Any] = Processor(log, SchedulingStage(), 0)
    processor.open()
    return processor


def whole_way(nodes: int, replicas: int) -> tuple[float, float]:
    """Return processor time of scheduling and of lifecycle (seconds)."""
    place = Place(nodes, replicas)
    with freeze_live_objects():
        return place.decide(opened(place.log), replicas)


def restart(nodes: int, live: int) -> tuple[float, float]:
    """Return the time of a restart (seconds) and memory (bytes a pod) with so many running pods."""
    place = Place(nodes, live)
    processor = opened(place.log)
    place.decide(processor, live)
    place.run_pods()
    place.work_off(processor)
    gc.collect()
    # The shard that gave its place up stays in memory: what it left free would be taken first.
    before, began = resident(), process_time()
    held = opened(place.log)
    seconds = process_time() - began
    gc.collect()
    grown = resident() - before
    held.close()
    return seconds, grown / live


def main() -> None:
    """Measure, each run in a process of its own, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--replicas", type=int, default=10_000)
    parser.add_argument("--live", type=int, default=50_000)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        ways = pool.starmap(whole_way, [(given.nodes, given.replicas)] * given.repeat, chunksize=1)
        restarts = pool.starmap(restart, [(given.nodes * max(given.live // given.replicas, 1), given.live)], chunksize=1)
    scheduling, lifecycle = (median(part) for part in zip(*ways, strict=True))
    found = {
        "nodes": given.nodes,
        "replicas": given.replicas,
        "whole_way_seconds": round(median(map(sum, ways)), 2),
        "scheduling_seconds": round(scheduling, 2),
        "lifecycle_seconds": round(lifecycle, 2),
        "live": given.live,
        "restart_seconds": round(restarts[0][0], 2),
        "bytes_a_pod": round(restarts[0][1]),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
