"""What a class of pods knows of the nodes is kept from round to round: it is what is found anew."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from weakref import WeakKeyDictionary

from clusters import SECOND, configuration
from hypothesis import given
from hypothesis import strategies as st

from engine.events.pod_shape import LabelSelector, PodShape, PodTerm, pairs
from engine.scheduling.cluster.entities import Job, Node, Task
from engine.scheduling.cluster.model import Cluster
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.placement import Placement
from engine.scheduling.scheduler import Scheduler

HOSTNAME = "kubernetes.io/hostname"
ALONE = (PodTerm(HOSTNAME, LabelSelector((("app", "db"),))),)
SHAPES = [PodShape(pairs({"cpu": cpu})) for cpu in (1_000, 2_000, 3_000)]
SHAPES.append(PodShape(pairs({"cpu": 1_000}), labels=pairs({"app": "db"}), pod_anti_affinity=ALONE))


def answers(seed: int) -> Iterator[tuple[object, object]]:
    """Yield what is said of the nodes for each class, after each of many changes: as it is kept, and found anew."""
    chance = Random(seed)  # noqa: S311 - a story, not a secret
    cluster = Cluster()
    cluster.set_queue(Queue("q"))
    job = Job("ns/j", "ns", "q", phase="Running")
    cluster.add_job(job)
    probes = [Task(f"ns/j/{at}", job, cluster.class_of(shape), str(at)) for at, shape in enumerate(SHAPES)]
    for probe in probes:
        cluster.add_task(probe)
    scheduler = Scheduler(cluster, configuration("proportion"))
    placed: list[Task] = []
    for step in range(60):
        happens = chance.choice(("join", "place", "place", "place", "promise", "leave", "go", "go"))
        if happens == "join" and (len(cluster.nodes) < 3 or chance.random() < 0.1):
            name = f"n{chance.randrange(4)}"
            cluster.set_node(Node(name, {"cpu": chance.choice((2_000, 5_000)), "pods": 9_000}, {HOSTNAME: name}))
            cluster.settle()
        elif happens in {"place", "promise"}:
            probe = chance.choice(probes)
            best = scheduler.open(step * SECOND)[1].best(probe)
            if best is not None:
                placed.append(Task(f"ns/j/p{step}", job, probe.pod_class, "p", step))
                cluster.add_task(placed[-1])
                cluster.move(placed[-1], "Running" if happens == "place" and best[1] else "Pipelined", best[0])
        elif happens == "leave" and placed:
            task = chance.choice(placed)
            if task.status == "Running":
                cluster.move(task, "Releasing", task.node)
        elif happens == "go" and placed:
            cluster.remove_task(placed.pop(chance.randrange(len(placed))))
        session, kept = scheduler.open(step * SECOND)
        anew = Placement(session, WeakKeyDictionary())
        for probe in chance.sample(probes, 3):
            yield (kept.best(probe), kept.refusals(probe)), (anew.best(probe), anew.refusals(probe))


@given(seed=st.integers(0, 10**6))
def test_what_is_kept_of_nodes_is_what_is_found_anew(seed):
    for kept, anew in answers(seed):
        assert kept == anew
