"""What a simulation counts: use that was lost by preemptions, and nodes whose devices change."""

from __future__ import annotations

import pytest
from experiments.jobs import Role, training
from experiments.trial import Trial, node, run, tiers

from engine.events.inputs import NodeDeleted, NodeObserved, ObjectApplied
from engine.events.times import SECOND
from engine.simulation.figures import Machine, machines_of
from statemachines.spec import Requests

WORKER = Requests(cpu_milli=4000, gpu=1)


def preempted(mode: str, checkpoint: int | None) -> tuple[Trial, int]:
    """Two gangs of four fill two nodes; a job of two comes after half an hour. Return the trial, and what the gangs need."""
    gangs = [training(number, [Role("worker", 4, WORKER)], run=3600) for number in (1, 2)]
    urgent = training(
        3, [Role("worker", 2, WORKER)], run=60, submit=1800, annotations={"lahar/spec": "preempt: true"}, priority="urgent"
    )
    objects = [
        ObjectApplied("Queue", "default", {"weight": 1, "preemption": mode, "preemptionDelaySeconds": 300}),
        ObjectApplied("Tenant", "default", {"priority": 0, "mayPreempt": True}),
        ObjectApplied("PriorityClass", "urgent", {"value": 1000}),
    ]
    plugins = tiers("priority", "gang", "predicates", "nodeorder", gang={"enablePreemptable": False})
    nodes = [node(f"node-{at}", 32, gpu=4) for at in (1, 2)]
    scheduler = {"actions": "enqueue, allocate, preempt", "tiers": plugins}
    trial = run([*gangs, urgent], nodes, scheduler, objects, checkpoint=checkpoint)
    return trial, sum(job.gpus * job.amount for job in gangs)


@pytest.mark.parametrize(("mode", "checkpoint"), [("immediate", None), ("notice", None), ("notice", 60), ("none", None)])
def test_what_is_lost_is_what_runs_again(mode: str, checkpoint: int | None) -> None:
    trial, needed = preempted(mode, checkpoint)
    placements = [placement for placement in trial.results.placements if trial.jobs[placement.job].row.name != "job-3"]
    ran = sum(
        placement.gpu * (placement.end - placement.running)
        for placement in placements
        if placement.end is not None and placement.running is not None
    )
    lost = sum(placement.gpu * placement.lost for placement in placements)
    assert lost == pytest.approx(ran - needed, abs=len(placements))
    assert (lost > 0) == (mode != "none")


def test_a_node_with_changed_devices_counts_with_those_of_the_time() -> None:
    def seen(gpu: int) -> NodeObserved:
        return NodeObserved("a", gpu=gpu)

    facts = [
        (0, seen(0)),
        (30, seen(8)),
        (40, seen(8)),
        (60, seen(4)),
        (90, NodeDeleted("a")),
        (95, NodeDeleted("a")),
        (99, seen(4)),
    ]
    found = list(machines_of(((time * SECOND, data) for time, data in facts), 100 * SECOND))
    assert [(one.gpu, one.begin // SECOND, one.end // SECOND) for one in found] == [
        (0, 0, 30),
        (8, 30, 60),
        (4, 60, 90),
        (4, 99, 100),
    ]
    assert {one.name for one in found} == {"a"}
    assert isinstance(found[0], Machine)
