"""How long rounds of scheduling take; JSON on standard output.

    python benchmarks/scheduling.py [--nodes 1000] [--pods 10000] [--plugins] [--growth] [--overloaded] [--steady]

The mix: 24 shapes of pods, 10 queues, gangs of 1 to 64, Volcano's default tiers with drf and binpack, every node scored. Processor
time, the median of `--repeat` runs.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import deque
from dataclasses import replace
from statistics import median
from time import process_time

from engine.events.pod_shape import PodShape, Toleration, pairs
from engine.scheduling.cluster.entities import Job, Node, Taint, Task
from engine.scheduling.cluster.model import Cluster
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.configuration import DEFAULT, Configuration, PluginOption
from engine.scheduling.outcome import Outcome
from engine.scheduling.scheduler import Scheduler

GIB = 2**30
GANGS = (1, 1, 1, 2, 4, 8, 16, 32, 64)
QUEUES = 10
SECOND = 1_000_000
ROUND_LIMIT = 2000

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
    submit(cluster, pods, chance, mix)
    return cluster


def submit(cluster: Cluster, pods: int, chance: random.Random, mix: list[PodShape], number: int = 0) -> int:
    """Add jobs of mixed sizes and priorities with so many pods, numbered from `number`; return the next number."""
    placed = 0
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
    return number


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


def start(cluster: Cluster) -> None:
    """Let all pods run that are bound."""
    for job in cluster.jobs.values():
        for task in [*job.with_status("Binding").values()]:
            cluster.move(task, "Running", task.node)


def mix_figures(nodes: int, pods: int, repeat: int) -> dict[str, object]:
    """Everything is placed in one round; nothing fits; nothing has changed since."""
    placed, bound = [], 0
    for _ in range(repeat):
        _, outcome, seconds = run(cluster_of(nodes, pods, fits=True))
        placed.append(seconds)
        bound = len(outcome.bound)
    idle, again = [], []
    for _ in range(repeat):
        scheduler, outcome, seconds = run(cluster_of(nodes, pods, fits=False))
        assert not outcome.bound
        idle.append(seconds)
        timed(scheduler, 2)  # after jobs were let in; nothing changes from here
        again.append(timed(scheduler, 3)[1])
    return {
        "nodes": nodes,
        "pods": pods,
        "bound": bound,
        "all_placed_seconds": round(median(placed), 4),
        "pods_per_second": round(bound / median(placed)),
        "nothing_fits_seconds": round(median(idle), 4),
        "unchanged_round_seconds": round(median(again), 6),
    }


def timed(scheduler: Scheduler, second: int, limit: int | None = None) -> tuple[Outcome, float]:
    """Run a round; return it and its processor time."""
    start = process_time()
    outcome = scheduler.round(second * SECOND, limit)
    return outcome, process_time() - start


def plugin_figures(nodes: int, pods: int, repeat: int) -> dict[str, float]:
    """Return by plugin the time of the mix with all plugins, as a multiple of the time without it; runs take turns."""
    names = [option.name for tier in CONFIGURATION.tiers for option in tier]
    times: dict[str, list[float]] = {name: [] for name in ["", *names]}
    for _ in range(repeat):
        for name, found in times.items():
            found.append(run(cluster_of(nodes, pods, fits=True), without(name))[2])
    return {name: round(median(times[""]) / median(times[name]), 3) for name in names}


def growth_figures(repeat: int) -> dict[str, float]:
    """Return how many times as long rounds take with ten times as many nodes, and with ten times as many pods."""

    def figures(nodes: int, pods: int) -> list[float]:
        found = mix_figures(nodes, pods, repeat)
        return [float(str(found[f"{name}_seconds"])) for name in ("all_placed", "nothing_fits", "unchanged_round")]

    small, nodes, pods = figures(500, 2000), figures(5000, 2000), figures(500, 20_000)
    return {
        "nodes_x10_all_placed": round(nodes[0] / small[0], 2),
        "nodes_x10_nothing_fits": round(nodes[1] / small[1], 2),
        "pods_x10_all_placed": round(pods[0] / small[0], 2),
        "pods_x10_nothing_fits": round(pods[1] / small[1], 2),
        "pods_x10_unchanged_round": round(pods[2] / small[2], 2),
    }


def overloaded_figures(nodes: int, pods: int) -> dict[str, object]:
    """A full cluster and as many pods again, with preempt and reclaim: rounds of 2,000 decisions until there is none left.

    What is bound runs, and what is evicted is gone, before the next round.
    """
    cluster = cluster_of(nodes, 40 * nodes, fits=True)
    run(cluster)
    start(cluster)
    for job in [job for job in cluster.jobs.values() if job.with_status("Pending")]:
        cluster.remove_job(job.key)
    running = sum(len(job.tasks) for job in cluster.jobs.values())
    submit(cluster, pods, random.Random(2), shapes(), 10**6)  # noqa: S311 - a mix, not a secret
    scheduler = Scheduler(cluster, Configuration((*DEFAULT.actions, "preempt", "reclaim"), DEFAULT.tiers))
    times, bound, evicted = [], 0, 0
    for second in range(1, 100):
        outcome, seconds = timed(scheduler, second, ROUND_LIMIT)
        times.append(seconds)
        bound += len(outcome.bound)
        evicted += len(outcome.evicted)
        if not (outcome.enqueued or outcome.bound or outcome.evicted):
            break
        start(cluster)
        for task, _ in outcome.evicted:
            cluster.remove_task(task)
    again = [timed(scheduler, 100 + at)[1] for at in range(3)]
    return {
        "running": running,
        "pending": pods,
        "rounds": len(times),
        "bound": bound,
        "evicted": evicted,
        "longest_round_seconds": round(max(times), 3),
        "median_round_seconds": round(median(times), 3),
        "unchanged_round_seconds": round(median(again), 6),
    }


def steady_figures(nodes: int, pods: int, ending: int) -> dict[str, object]:
    """Return the share of a core that rounds take where so many pods end and as many come each second."""
    cluster = cluster_of(nodes, pods, fits=True)
    scheduler, _, _ = run(cluster)
    start(cluster)
    jobs = deque(cluster.jobs.values())
    chance, mix, number = random.Random(3), shapes(), 10**6  # noqa: S311 - a mix, not a secret
    times, bound = [], 0
    for second in range(2, 22):
        ended = 0
        while ended < ending:
            job = jobs.popleft()
            ended += len(job.tasks)
            cluster.remove_job(job.key)
        before = number
        number = submit(cluster, ended, chance, mix, number)
        jobs.extend(cluster.jobs[f"ns-{at % 7}/job-{at}"] for at in range(before, number))
        outcome, seconds = timed(scheduler, second)
        times.append(seconds)
        bound += len(outcome.bound)
        start(cluster)
    return {"live_pods": pods, "bound_per_second": bound // len(times), "share_of_a_core": round(median(times), 3)}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--plugins", action="store_true", help="say what each plugin costs")
    parser.add_argument("--growth", action="store_true", help="ten times the nodes, ten times the pods")
    parser.add_argument("--overloaded", action="store_true", help="1,000 full nodes, 25,000 pods wait; preempt, reclaim")
    parser.add_argument("--steady", action="store_true", help="5,000 nodes, of 50,000 pods 1,000 end and start each second")
    given = parser.parse_args()
    figures = mix_figures(given.nodes, given.pods, given.repeat)
    if given.plugins:
        figures["times_as_long_with"] = plugin_figures(given.nodes, given.pods, given.repeat)
    if given.growth:
        figures["growth"] = growth_figures(given.repeat)
    if given.overloaded:
        figures["overloaded"] = overloaded_figures(1000, 25_000)
    if given.steady:
        figures["steady"] = steady_figures(5000, 50_000, 1000)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
