"""How long rounds of scheduling take: everything placed, and nothing fits; JSON on standard output.

    python benchmarks/scheduling.py [--nodes 1000] [--pods 10000] [--without PLUGIN …]

The mix: 24 shapes of pods, 10 queues, gangs of 1 to 64, Volcano's default tiers with drf and binpack, every node scored.
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import replace
from statistics import median
from time import process_time

from engine.events.pod_shape import PodShape, Toleration, pairs
from engine.scheduling.configuration import DEFAULT, Configuration, PluginOption
from engine.scheduling.model.cluster import Cluster
from engine.scheduling.model.entities import Job, Node, Taint, Task
from engine.scheduling.model.queues import Queue
from engine.scheduling.scheduler import Scheduler
from engine.scheduling.session import Outcome

GIB = 2**30
GANGS = (1, 1, 1, 2, 4, 8, 16, 32, 64)
QUEUES = 10
SECOND = 1_000_000

CONFIGURATION = Configuration(DEFAULT.actions, (DEFAULT.tiers[0], (*DEFAULT.tiers[1], PluginOption("binpack"))))


def shapes() -> list[PodShape]:
    """Twenty-four shapes: six sizes, by zone, by tolerated taint, or neither."""
    sizes = [(500, 1), (1000, 2), (1000, 4), (2000, 4), (2000, 8), (4000, 8)]
    plain = [PodShape(requests=pairs({"cpu": cpu, "memory": memory * GIB})) for cpu, memory in sizes]
    zoned = [replace(shape, node_selector=(("zone", f"z{at % 4}"),)) for at, shape in enumerate(plain)]
    tolerant = [replace(shape, tolerations=(Toleration("batch", "Exists"),)) for shape in plain]
    gpu = [
        replace(shape, requests=pairs({**dict(shape.requests), "nvidia.com/gpu": 1000}), tolerations=(Toleration("gpu", "Exists"),))
        for shape in plain
    ]
    return plain + zoned + tolerant + gpu


def cluster_of(nodes: int, pods: int, *, fits: bool, seed: int = 1) -> Cluster:
    """Build a cluster and its pending jobs.

    Args:
        nodes: how many.
        pods: how many, in gangs.
        fits: whether there is room for all of them; else each asks for more memory than any node has.
        seed: of the mix.
    """
    chance = random.Random(seed)  # noqa: S311 - a mix, not a secret
    cluster = Cluster()
    for at in range(nodes):
        allocatable = {"cpu": 64_000, "memory": 256 * GIB, "pods": 110_000}
        taints: tuple[Taint, ...] = ()
        if at % 10 == 0:
            allocatable["nvidia.com/gpu"] = 32_000
            taints = (Taint("gpu"),)
        elif at % 10 == 1:
            taints = (Taint("batch"),)
        labels = {"zone": f"z{at % 4}", "kubernetes.io/hostname": f"node-{at:05}"}
        cluster.set_node(Node(f"node-{at:05}", dict(allocatable), labels, taints))
    cluster.settle()
    for at in range(QUEUES):
        cluster.set_queue(Queue(f"queue-{at}", weight=1 + at % 3))
    mix = shapes()
    if not fits:
        mix = [replace(shape, requests=pairs({**dict(shape.requests), "memory": 1024 * GIB})) for shape in mix]
    placed = number = 0
    while placed < pods:
        size = min(chance.choice(GANGS), pods - placed)
        job = Job(
            f"ns-{number % 7}/job-{number}",
            f"ns-{number % 7}",
            f"queue-{number % QUEUES}",
            min_member=size,
            priority=chance.choice((0, 0, 0, 10)),
            created=number,
        )
        cluster.add_job(job)
        pod_class = cluster.class_of(chance.choice(mix))
        for index in range(size):
            cluster.add_task(Task(f"{job.key}-{index}", job, pod_class, "worker", index))
        placed += size
        number += 1
    return cluster


def run(cluster: Cluster, configuration: Configuration = CONFIGURATION) -> tuple[Scheduler, Outcome, float]:
    """Run one round; return it and how many seconds of processor time it took."""
    scheduler = Scheduler(cluster, configuration)
    start = process_time()
    outcome = scheduler.round(SECOND)
    return scheduler, outcome, process_time() - start


def without(name: str) -> Configuration:
    """Return the configuration without a plugin."""
    tiers = tuple(tuple(option for option in tier if option.name != name) for tier in CONFIGURATION.tiers)
    return Configuration(CONFIGURATION.actions, tiers)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--plugins", action="store_true", help="say what each plugin costs")
    given = parser.parse_args()
    times, bound = [], 0
    for _ in range(given.repeat):
        _, outcome, seconds = run(cluster_of(given.nodes, given.pods, fits=True))
        times.append(seconds)
        bound = len(outcome.bound)
    figures: dict[str, object] = {
        "nodes": given.nodes,
        "pods": given.pods,
        "bound": bound,
        "all_placed_seconds": round(median(times), 4),
        "pods_per_second": round(bound / median(times)),
    }
    idle, again = [], []
    for _ in range(given.repeat):
        cluster = cluster_of(given.nodes, given.pods, fits=False)
        scheduler, outcome, seconds = run(cluster)
        assert not outcome.bound
        idle.append(seconds)
        scheduler.round(2 * SECOND)  # after jobs were let in; nothing changes from here
        start = process_time()
        scheduler.round(3 * SECOND)
        again.append(process_time() - start)
    figures["nothing_fits_seconds"] = round(median(idle), 4)
    figures["unchanged_round_seconds"] = round(median(again), 6)
    if given.plugins:
        costs = {}
        for option in [option for tier in CONFIGURATION.tiers for option in tier]:
            less = without(option.name)
            taken = median(run(cluster_of(given.nodes, given.pods, fits=True), less)[2] for _ in range(given.repeat))
            costs[option.name] = round(median(times) - taken, 4)
        figures["seconds_by_plugin"] = costs
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
