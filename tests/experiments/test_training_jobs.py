"""Jobs whose pods work together."""

from __future__ import annotations

import pytest
from experiments.jobs import CLUSTER, Role, TrainingJob, training
from experiments.paddlepaddle import progress
from experiments.task_topology import slowdown
from simulated import configuration, incident, machine

from engine.application.simulation import Scenario, simulate_on
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.scheduling.stage import SchedulingStage
from engine.simulation.event_queue import EventQueue
from engine.simulation.workload import Workload
from statemachines.spec import Requests

PAIR = (Role("ps", 1, Requests(gpu=8)), Role("worker", 1, Requests(gpu=8)))


def document(job: TrainingJob, *incidents, nodes=3):
    event_queue = EventQueue()
    stages = [LifecycleStage(), SchedulingStage(configuration())]
    scenario = Scenario(CLUSTER, Workload([job], ()), [machine(f"n{at}") for at in range(nodes)], incidents=incidents)
    return simulate_on(MemoryLog(clock=event_queue.clock), stages, scenario, event_queue).document


def test_work_starts_when_all_pods_run_and_takes_what_placement_costs():
    done = document(training(1, PAIR, run=600, progress=lambda places: 0.5 * (len(places) == 2)))
    assert (done["totals"]["finished"], float(done["simulated_seconds"])) == (1, 4 + 1200)


def test_a_pod_that_is_lost_takes_the_work_of_all_with_it():
    done = document(training(1, PAIR, run=600), incident(300, "lose", "n0"))
    assert done["totals"]["finished"] == 1
    assert 900 < float(done["simulated_seconds"]) < 930


def test_pods_that_wait_for_others_hold_their_nodes_and_do_nothing():
    done = document(training(1, PAIR, run=600, minimum=1), nodes=1)
    assert (done["totals"]["finished"], done["totals"]["waiting"]) == (0, 1)
    assert float(done["gpu_seconds_held"]) > 0


def test_jobs_are_in_the_namespace_that_they_name():
    done = document(training(1, PAIR, run=600, namespace="nlp"))
    assert done["summary"]["jobs"] == done["totals"]["finished"] == 1


def test_work_goes_on_at_the_rate_of_the_pods_that_run():
    """A worker for 100 seconds and two from then on: 100 of 600 are done when the second one comes, which starts in two seconds."""
    workers = (Role("worker", 2, Requests(gpu=8)),)
    job = training(1, workers, run=600, minimum=1, progress=len, holders=())
    done = document(job, incident(100, "restore", "n1"), incident(0, "lose", "n1"), nodes=2)
    assert done["totals"]["finished"] == 1
    assert 350 < float(done["simulated_seconds"]) < 360


def test_the_work_of_a_pod_that_holds_none_is_not_lost_with_it():
    pair = training(1, PAIR, run=600, minimum=1, progress=lambda places: "worker" in dict(places), holders=("ps",))
    done = document(pair, incident(300, "lose", "n1"))
    assert done["totals"]["finished"] == 1
    assert 600 < float(done["simulated_seconds"]) < 630


@pytest.mark.parametrize(
    ("places", "factor"),
    [
        ([("ps", "a"), ("ps", "a"), ("worker", "a"), ("worker", "a")], 1),
        ([("ps", "a"), ("ps", "b"), ("worker", "a"), ("worker", "b")], 2),
        ([("ps", "a"), ("ps", "a"), ("worker", "a"), ("worker", "b")], 1.5),
        ([("ps", "a"), ("ps", "b"), ("worker", "c"), ("worker", "d")], 3),
    ],
)
def test_exchanges_over_the_network_slow_a_job_down(places, factor):
    """Of the third: two workers, at 1 and 1/3 of a step a second, do together 2/3 of what they would on one node."""
    assert slowdown(places) == pytest.approx(factor)


PAIRS = [("pair", "a"), ("pair", "b"), ("pair", "c")]
APART = [*(("ps", "z") for _ in range(3)), ("trainer", "a"), ("trainer", "b"), ("trainer", "c")]


@pytest.mark.parametrize(
    ("places", "slow", "rate"),
    [(PAIRS, "", 3 / 5), (PAIRS, "b", 3 / 10), (PAIRS[:2], "", 0), (APART, "", 1 / 2), (APART, "z", 1 / 2), (APART[:5], "", 0)],
)
def test_trainers_wait_for_the_slowest_and_for_those_that_are_missing(places, slow, rate):
    """A pair exchanges two thirds of its update over the network: a step of 5/3."""
    assert progress(places, slow) == pytest.approx(rate)
