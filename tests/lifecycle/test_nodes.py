"""Facts about nodes: they are about no one job, whatever a job is called."""

from __future__ import annotations

import pytest
from lifecycle_driver import CLUSTER, Driver, pod, vcjob

from engine.events import NotKeptError
from engine.events.actions import EffectRequested, TimerCancelled, TimerSet
from engine.events.attempts import AttemptBound, AttemptChanged, AttemptEnded, AttemptObjectChanged
from engine.events.inputs import CommandIssued, NodeDeleted, NodeObserved
from engine.lifecycle.indexes import pods_on


@pytest.fixture
def driver():
    driver = Driver()
    driver.node("n0", version="1")
    driver.submit(vcjob({"name": "w"}, maxRetry=10))
    driver.run("w")
    return driver


def waits(driver: Driver, events=None):
    return [timer.node for timer in driver.of(TimerSet, events) if timer.timer == "lost"]


def test_a_node_that_goes_again_while_its_pods_are_awaited_changes_nothing(driver):
    driver.node("n0", gone=True)
    assert driver.outcome == "applied"
    assert driver.node("n0", gone=True) == []
    assert driver.outcome == "unchanged"
    assert waits(driver) == ["n0"]


def test_the_wait_for_the_pods_of_a_node_begins_anew_when_it_goes_again(driver):
    driver.node("n0", gone=True)
    driver.wait(300)
    made = driver.node("n0", version="2")
    assert driver.outcome == "applied"
    assert len(driver.of(TimerCancelled, made)) == 1
    driver.wait(299)
    driver.crash()
    assert waits(driver, driver.node("n0", gone=True)) == ["n0"]
    driver.wait(599)
    assert driver.of(AttemptEnded) == []
    driver.wait(1)
    assert [end.reason for end in driver.of(AttemptEnded)] == ["NodeLost"]


@pytest.mark.parametrize("subject", [CLUSTER, "n0", "n1"])
def test_a_job_called_like_the_subject_of_a_fact_is_not_what_it_is_about(driver, subject):
    driver.submit(vcjob({"name": "w"}, name="squatter"), subject)
    driver.drain(driver.stage.park(driver.state, driver.event(CommandIssued("AbortJob"), subject), driver.now, "x"))
    assert driver.job(subject).parked
    for node in ("n0", "n1"):
        driver.take(driver.event(NodeObserved(node, ready="Unknown", version="5"), subject))
    assert driver.of(AttemptChanged)[-1].reason == "Suspect"
    assert driver.outcome == "unchanged"
    assert len(driver.job(subject).held) == 1


def test_a_fact_that_cannot_be_decided_on_parks_no_job(driver):
    fact = driver.event(NodeObserved("n0"), "j1")
    with pytest.raises(NotKeptError, match=r"lahar\.node\.observed\.v1 about 'j1' could not be decided on: it broke"):
        next(driver.stage.park(driver.state, fact, driver.now, "it broke"))
    assert not driver.job().parked


@pytest.mark.parametrize("crash", [False, True])
def test_an_ended_pod_whose_object_went_with_its_node_is_replaced(crash):
    driver = Driver()
    driver.node("n0")
    driver.submit(vcjob({"name": "w", "policies": [{"event": "PodFailed", "action": "RestartTask"}]}, maxRetry=10))
    driver.run("w")
    driver.end("w", code=1)
    assert waits(driver, driver.node("n0", gone=True)) == ["n0"]
    if crash:
        driver.crash()
    driver.wait(599)
    assert driver.phase() == "Restarting"
    made = driver.wait(1)
    assert driver.of(AttemptObjectChanged, made)[0].why == "its node n0 is gone"
    assert driver.asked("create_pod", made) == [("w", 0, 2)]


def test_a_pod_on_a_lost_node_that_ends_is_awaited_before_its_replacement():
    driver = Driver()
    driver.node("n0")
    driver.submit(vcjob({"name": "w", "policies": [{"event": "PodFailed", "action": "RestartTask"}]}, maxRetry=10))
    driver.run("w")
    driver.node("n0", gone=True)
    driver.end("w", code=1)
    assert driver.asked("create_pod", driver.wait(600)) == [("w", 0, 2)]


def test_a_job_that_is_over_waits_for_no_object_on_a_node_that_goes():
    driver = Driver()
    driver.node("n0")
    driver.submit(vcjob({"name": "w"}, maxRetry=10))
    driver.run("w")
    driver.command("AbortJob")
    driver.reap()
    assert driver.phase() == "Aborted"
    assert driver.node("n0", gone=True) == []


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("deleted", [False, True])
def test_a_node_of_former_times_stays_one_after_a_crash(driver, crash, deleted):
    for uid, version in (("a", "2"), ("b", "5"), ("c", "8")):
        driver.take(driver.event(NodeObserved("n0", uid=uid, version=version), "n0"))
        if deleted:
            driver.take(driver.event(NodeDeleted("n0", uid=uid, version=version), "n0"))
    before = driver.state.facts.known(("c1", "Node", "n0"))
    if crash:
        driver.crash()
    driver.take(driver.event(NodeObserved("n0", ready="Unknown", uid="a", version="3"), "n0"))
    assert driver.outcome == "duplicate"
    assert driver.state.facts.known(("c1", "Node", "n0")) == before


def test_a_deletion_that_is_older_than_the_node_is_of_an_earlier_life(driver):
    driver.node("n0", version="9")
    driver.take(driver.event(NodeDeleted("n0", version="6"), "n0"))
    assert driver.outcome == "duplicate"
    assert waits(driver) == []
    driver.take(driver.event(NodeDeleted("n0", version="9"), "n0"))
    assert waits(driver) == ["n0"]


def test_an_observation_of_before_its_deletion_brings_no_node_back(driver):
    driver.take(driver.event(NodeDeleted("n0", version="9"), "n0"))
    driver.crash()
    driver.node("n0", version="8")
    assert driver.outcome == "duplicate"
    driver.wait(600)
    assert [end.reason for end in driver.of(AttemptEnded)] == ["NodeLost"]
    driver.node("n0", version="10")
    assert driver.state.facts.nodes["c1", "n0"].version == "10"


@pytest.mark.parametrize("crash", [False, True])
def test_a_pod_that_comes_into_view_after_its_node_has_gone_is_waited_for(crash):
    """The facts of a cluster are read before those about its pods."""
    driver = Driver()
    driver.node("n0", version="1")
    driver.take(driver.event(NodeDeleted("n0", version="2"), "n0"))
    if crash:
        driver.crash()
    driver.see(pod("u1", "j1", 1, "Running", node="n0", running=1))
    driver.see(pod("u1", "j1", 2, "Running", node="n0", running=1, restarts=1))
    driver.see(pod("u2", "j2", 1, "Running", node="n1", running=1))
    assert waits(driver) == ["n0"]
    driver.wait(600)
    assert [end.reason for end in driver.of(AttemptEnded)] == ["NodeLost"]


def test_a_pod_that_ends_after_its_node_has_gone_leaves_no_wait():
    driver = Driver()
    driver.take(driver.event(NodeDeleted("n0", version="2"), "n0"))
    driver.see(pod("u1", "j1", 1, "Running", node="n0", running=1))
    driver.see(pod("u1", "j1", 2, "Succeeded", node="n0", running=1, ended=2))
    assert waits(driver) == ["n0"]
    assert driver.job("j1").timers == {}
    driver.see(pod("u2", "j2", 1, "Succeeded", node="n0", running=1, ended=2))
    assert waits(driver) == ["n0"]


def test_a_recreated_node_counts_for_the_pods_bound_under_its_name(driver):
    driver.take(driver.event(NodeDeleted("n0", version="9"), "n0"))
    made = driver.node("n0", version="11")
    assert len(driver.of(TimerCancelled, made)) == 1
    driver.wait(6000)
    assert driver.of(AttemptEnded) == []


def test_the_pods_of_a_job_that_is_only_observed_are_nobodys_to_delete():
    driver = Driver()
    for name in ("n0", "n1"):
        driver.node(name, version="1")
        driver.see(pod(name, "j1", 1, "Running", kind="Other", node=name, running=0))
    driver.see(pod("n1", "j1", 2, "Terminating", kind="Other", node="n1", running=0, terminating=1, deleting=True))
    driver.take(driver.event(NodeDeleted("n0", "2"), "n0"))
    driver.wait(86_400)
    assert [end.reason for end in driver.of(AttemptEnded)] == ["NodeLost"]
    assert driver.of(EffectRequested) == []


@pytest.mark.parametrize("node_first", [False, True])
def test_a_node_may_go_before_or_after_what_stood_on_it_is_to_be_replaced(node_first):
    driver = Driver()
    driver.node("n0", version="1")
    driver.submit(vcjob({"name": "w", "replicas": 2, "minAvailable": 1}, minAvailable=1, maxRetry=10))
    driver.run("w")
    driver.end("w", 0, code=1)
    if node_first:
        driver.take(driver.event(NodeDeleted("n0", "2"), "n0"))
    driver.command("RestartPod", task="w", index=0)
    if not node_first:
        driver.take(driver.event(NodeDeleted("n0", "2"), "n0"))
    driver.report(driver.job().attempts[0].effect, "done")
    assert driver.asked("create_pod", driver.wait(600)) == [("w", 0, 2)]


@pytest.mark.parametrize("node_first", [False, True])
def test_what_a_node_was_counts_for_its_pods_after_it_has_gone(node_first):
    driver = Driver()
    driver.node("n0", version="1", unreachable=True, type="p5", gpu_model="H100")
    facts = [driver.event(NodeDeleted("n0", "2"), "n0")]
    seen = pod("u1", "j1", 1, "Failed", reason="EvictedByTaint", node="n0", running=0, ended=5)
    facts.insert(node_first, driver.event(seen, "j1"))
    for fact in facts:
        driver.take(fact)
    (bound,), (end,) = driver.of(AttemptBound), driver.of(AttemptEnded)
    assert (bound.node_type, bound.gpu_model, end.phase, end.reason) == ("p5", "H100", "Lost", "NodeLost")


def test_a_recreated_cluster_has_nodes_of_old_names_with_new_counts(driver):
    driver.node("n1", version="500", uid="old")
    driver.take(driver.event(NodeDeleted("n1", "501", "old"), "n1"))
    driver.node("n1", version="7", uid="new")
    driver.see(pod("u1", "j2", 1, "Running", node="n1", running=0))
    driver.wait(6000)
    assert driver.of(AttemptEnded) == []


def test_a_pod_that_is_seen_on_although_its_node_has_gone_is_not_lost(driver):
    """Whoever says that the node is gone is wrong about it, or late."""
    driver.take(driver.event(NodeDeleted("n0", "9"), "n0"))
    for minute in range(1, 31):
        driver.wait(60)
        driver.see(driver.replica("w", phase="Running", node="n0", running=0, ready=True, restarts=minute))
    assert driver.of(AttemptEnded) == []
    driver.crash()
    driver.wait(599)
    assert driver.of(AttemptEnded) == []
    driver.wait(61)
    assert [end.reason for end in driver.of(AttemptEnded)] == ["NodeLost"]


def test_the_pods_of_a_job_on_a_node_are_known_from_the_first_to_the_last():
    """Of one pod the uid is kept, for most jobs have no more on a node, and a dict is 184 bytes."""
    driver, where = Driver(), (CLUSTER, "n1")
    held, found = [], []

    def show(uid, version, phase, **fields):
        driver.see(pod(uid, "j1", version, phase, node="n1", running=1, task="w", index=int(uid), **fields))
        held.append(driver.state.on_node.get(where, {}).get("j1"))
        found.append(sorted(pods_on(driver.state, driver.job("j1"), "n1")))

    for uid in "012":
        show(uid, 1, "Running")
    for uid in "102":
        show(uid, 2, "Succeeded", ended=2)
    assert found == [["0"], ["0", "1"], ["0", "1", "2"], ["0", "2"], ["2"], []]
    assert held[0] == "0"
    assert held[-1] is None
