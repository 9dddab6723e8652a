"""How long a round takes in which thousands of jobs starve and nobody may be evicted for any of them; JSON on standard output.

    python benchmarks/starving.py [--jobs 10000] [--shapes 100 10000] [--actions "enqueue, allocate, preempt, reclaim"]

A full cluster of 100 nodes, two queues with hierarchical DRF: the one whose jobs wait holds more than its weight already, so each
search asks plugins about all that runs. Processor time of the first round.
"""

from __future__ import annotations

import argparse
import json
from time import process_time

from engine.events.pod_shape import PodShape, pairs
from engine.scheduling.cluster.entities import Job, Node, Task
from engine.scheduling.cluster.model import Cluster
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.configuration import Configuration, read_configuration
from engine.scheduling.scheduler import Scheduler

NODES = 100
PODS_OF_NODE = 8
GIB = 2**30
ACTIONS = "enqueue, allocate, preempt, reclaim"


def configured(actions: str) -> Configuration:
    """Return hierarchical DRF with the actions."""
    first = [{"name": name} for name in ("priority", "gang", "conformance")]
    second = [{"name": "drf", "enableHierarchy": True}, {"name": "predicates"}, {"name": "nodeorder"}]
    return read_configuration({"actions": actions, "tiers": [{"plugins": first}, {"plugins": second}]})


def add_job(cluster: Cluster, key: str, queue: str, shape: PodShape, node: str = "") -> None:
    """Add a job of one pod, which runs on a node or waits."""
    job = Job(key, "ns", queue, min_member=1, phase="Running" if node else "Inqueue")
    cluster.add_job(job)
    cluster.add_task(Task(f"{key}-0", job, cluster.class_of(shape)), "Running" if node else "Pending", node)


def starving(jobs: int, shapes: int, nodes: int = NODES) -> Cluster:
    """Return a full cluster: a quarter of it is of the queue whose jobs wait, which deserves a tenth.

    Args:
        jobs: how many wait.
        shapes: how many different shapes they have.
        nodes: how many nodes are full.
    """
    cluster = Cluster()
    for queue, weight in (("rich", 9), ("poor", 1)):
        cluster.set_queue(Queue(queue, weight))
    runs = PodShape(requests=pairs({"cpu": 8000, "memory": 32 * GIB}))
    for at in range(nodes):
        cluster.set_node(Node(f"n{at:03}", {"cpu": 64_000, "memory": 256 * GIB, "pods": 110_000}))
        for number in range(PODS_OF_NODE):
            add_job(cluster, f"runs/{at}/{number}", "rich" if number % 4 else "poor", runs, f"n{at:03}")
    for number in range(jobs):
        shape = PodShape(requests=pairs({"cpu": 1000 + number % shapes % 7000, "memory": (16 + number % shapes) * 2**20}))
        add_job(cluster, f"waits/{number}", "poor", shape)
    return cluster


def seconds_of_a_round(jobs: int, shapes: int, actions: str = ACTIONS) -> float:
    """Return the processor time of a round (seconds)."""
    cluster = starving(jobs, shapes)
    scheduler = Scheduler(cluster, configured(actions))
    begun = process_time()
    scheduler.round(1_000_000)
    return process_time() - begun


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--shapes", type=int, nargs="+", default=[100, 10_000])
    parser.add_argument("--actions", default=ACTIONS)
    given = parser.parse_args()
    seconds = {f"{shapes}_shapes": round(seconds_of_a_round(given.jobs, shapes, given.actions), 3) for shapes in given.shapes}
    print(json.dumps({"waiting_jobs": given.jobs, "nodes": NODES, "round_seconds": seconds}, indent=2))


if __name__ == "__main__":
    main()
