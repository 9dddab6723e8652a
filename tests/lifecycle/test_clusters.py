"""Nodes and queues of several clusters have the same names, and have nothing else to do with each other."""

from __future__ import annotations

from typing import Any

import pytest
from lifecycle_driver import ELSEWHERE, Driver, derived, pod, records, vcjob

from engine.events import Data, Event, encode
from engine.events.attempts import AttemptBound
from engine.events.inputs import NodeDeleted, NodeObserved, ObjectApplied, ObjectDeleted
from engine.lifecycle.event_factory import Decision
from engine.lifecycle.stage import LifecycleStage
from engine.lifecycle.state import ShardState
from engine.log.memory import MemoryLog
from engine.processor.processor import Processor
from engine.processor.snapshots import state_hash


def say(driver: Driver, data: Any, cluster: str = "c1") -> list[Any]:
    return driver.take(driver.event(data, cluster, cluster=cluster))


@pytest.fixture
def driver() -> Driver:
    """A pod of one name runs on a node of one name in either cluster."""
    driver = Driver()
    for cluster, kind in (("c1", "small"), (ELSEWHERE, "large")):
        say(driver, NodeObserved("n", version="1", type=kind), cluster)
        driver.see(pod(f"uid-{cluster}", f"uid-{cluster}", 1, "Running", name="p", node="n", bound=1, running=2), cluster=cluster)
    return driver


def reason(driver: Driver, cluster: str) -> Any:
    return driver.job(f"uid-{cluster}").attempts[0].reason


def test_a_node_that_falls_silent_makes_only_pods_of_its_cluster_suspect(driver: Driver) -> None:
    say(driver, NodeObserved("n", version="5", ready="Unknown"), ELSEWHERE)
    assert (reason(driver, "c1"), reason(driver, ELSEWHERE)) == (None, "Suspect")
    say(driver, NodeObserved("n", version="2", ready="Unknown"))
    assert driver.outcome == "applied"
    driver.crash()
    say(driver, NodeObserved("n", version="3"))
    assert driver.outcome == "applied"
    assert (reason(driver, "c1"), reason(driver, ELSEWHERE)) == (None, "Suspect")


def test_an_attempt_is_bound_to_the_node_of_its_cluster(driver: Driver) -> None:
    assert [one.node_type for one in driver.of(AttemptBound)] == ["small", "large"]


def test_what_is_deleted_in_one_cluster_stays_in_the_other(driver: Driver) -> None:
    say(driver, ObjectApplied("Queue", "q", {}))
    say(driver, ObjectApplied("Queue", "q", {}), ELSEWHERE)
    say(driver, NodeDeleted("n"))
    say(driver, ObjectDeleted("Queue", "q"))
    assert list(driver.state.facts.nodes) == [(ELSEWHERE, "n")]
    assert list(driver.state.facts.objects) == [(ELSEWHERE, "Queue", "q")]


def test_a_job_is_judged_by_the_queues_of_its_cluster(driver: Driver) -> None:
    say(driver, ObjectApplied("Queue", "research", {}), ELSEWHERE)
    driver.submit(vcjob({"name": "w"}, queue="research"))
    assert driver.outcome == "rejected"
    say(driver, ObjectApplied("Queue", "research", {}))
    driver.submit(vcjob({"name": "w"}, queue="research"))
    assert driver.outcome == "applied"


@pytest.mark.parametrize(
    ("first", "second"), [(("a/b", "n"), ("a", "b/n")), (("a%2Fb", "n"), ("a/b", "n")), (("", "n"), ("n", "n"))]
)
def test_no_two_clusters_and_names_have_one_record(first: tuple[str, str], second: tuple[str, str]) -> None:
    driver = Driver()
    for number, (cluster, name) in enumerate((first, second)):
        say(driver, NodeObserved(name, gpu=number), cluster)
        say(driver, ObjectApplied("Queue", name, {"weight": number}), cluster)
    before, nodes = records(driver.state), dict(driver.state.facts.nodes)
    assert len(before) == 4
    driver.crash()
    assert (records(driver.state), driver.state.facts.nodes, derived(driver.state)) == (before, nodes, derived(driver.shadow))


class Faulty(LifecycleStage):
    """Fails on every node that is not ready."""

    def decide(self, state: ShardState, event: Event[Data], now: int) -> Decision:
        if getattr(event.data, "ready", "True") != "True":
            raise ValueError("broken on purpose")
        return (yield from super().decide(state, event, now))


def test_a_fact_that_is_set_aside_is_no_part_of_the_state() -> None:
    """Recovery passes over it, so whoever runs on must too."""
    driver, log, stage = Driver(), MemoryLog(), Faulty()
    facts = [NodeObserved("n", version="1"), NodeObserved("n", version="2", ready="Unknown")]
    log.append("cluster", [encode(driver.event(fact, "c1", f"n@{fact.version}")) for fact in facts])
    running, again = Processor(log, stage), Processor(log, stage)
    running.open()
    running.run_until_quiet()
    assert running.accounts.outcomes["dead"] == 1
    assert [node.version for node in running.state.facts.nodes.values()] == ["1"]
    before = state_hash(stage, running.state)
    again.open()
    assert state_hash(stage, again.state) == before
