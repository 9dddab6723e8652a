"""What the shard of scheduling keeps, and what an input costs it, is bounded by what there is, not by what there was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clusters import work
from deployment import SECOND, START, Deployment, task, vcjob

from engine.events import Event, Message
from engine.events.bounds import RESOURCE
from engine.events.decisions import DecidedBound
from engine.events.inputs import NodeDeleted, NodeObserved, ObjectApplied, ObjectDeleted, PodDeleted, PodObserved
from engine.events.jobs import JobForgotten, JobOpened
from engine.events.scheduling import RoundEnded
from engine.scheduling.stage import SchedulingStage
from engine.scheduling.state.shard import State


def fact(data: Any, cluster: str) -> Event[Any]:
    return Event(f"{cluster}/{data.TYPE}", "test", data.TYPE, data.name, START, START, 0, "", "", cluster, data)


def opened() -> Event[JobOpened]:
    """The event of a job that we schedule."""
    deployment = Deployment()
    deployment.submit("j1", vcjob("train", task("w", 1)))
    deployment.settle()
    (event,) = deployment.events(JobOpened)
    return event


def restarted(state: State) -> State:
    stage = SchedulingStage()
    again = stage.initial()
    stored = [(name, content) for name in stage.records(state) if (content := stage.dump(state, name)) is not None]
    stage.load(again, stored)
    return again


# --- clusters -------------------------------------------------------------------------------------------------------------------


def test_a_cluster_of_which_nothing_is_left_is_forgotten():
    stage, event = SchedulingStage(), opened()
    state = stage.initial()
    for at in range(20):
        name = f"c{at}"
        stage.absorb(state, fact(NodeObserved("n1", version="1", cpu_milli=1000), name))
        stage.absorb(state, fact(ObjectApplied("Queue", "q", {}, version="1"), name))
        stage.absorb(state, replace(event, subject=f"j{at}", clusterid=name))
        assert state.clusters[name].due() == START + SECOND
        stage.absorb(state, fact(NodeDeleted("n1", version="2"), name))
        stage.absorb(state, fact(ObjectDeleted("Queue", "q", version="2"), name))
        assert list(restarted(state).clusters) == list(state.clusters) == [name]
        data = JobForgotten(START)
        stage.absorb(state, Event(f"f{at}", "test", data.TYPE, f"j{at}", START, START, 2, f"j{at}", "", name, data))
    assert (state.clusters, state.ended, stage.due(state)) == ({}, {}, None)
    stage.touched(state)
    assert not [record for record in stage.records(state) if record.startswith("cluster/")]


def test_the_rounds_of_a_cluster_that_comes_back_are_counted_on():
    deployment = Deployment()
    for job in ("j1", "j2"):
        deployment.wait()
        deployment.node("n1", cpu=4, version=str(deployment.now))
        deployment.settle()
        deployment.submit(job, vcjob(job, task("w", 1)))
        deployment.settle()
        deployment.wait(3)
        deployment.end(f"{job}-w-0-1")
        deployment.settle()
        deployment.wait(2)
        deployment.give("cluster", NodeDeleted("n1", version=str(deployment.now)), "n1")
        deployment.settle()
        state = deployment.scheduling.state
        assert (state.clusters, list(state.ended)) == ({}, ["c1"])
        assert restarted(state).ended == state.ended
        deployment.restart()
    numbers = [event.sequence for event in deployment.events(RoundEnded)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_an_input_costs_the_same_for_any_clusters_and_untouched_jobs():
    stage, event = SchedulingStage(), opened()

    def cost(clusters: int, refused: int) -> int:
        state = stage.initial()
        for at in range(clusters):
            stage.absorb(state, replace(event, subject=f"j{at}", clusterid=f"c{at}", recordedtime=START + at))
        for at in range(refused):
            state.clusters["c0"].pause(f"refused{at}", START + (at + 2) * SECOND)
        assert stage.due(state) == START + SECOND

        def take() -> None:
            stage.absorb(state, replace(event, subject="more", clusterid="c1"))
            assert stage.due(state) == START + SECOND
            assert stage.timer(state) == "round/c0/1"

        return work(take)

    assert cost(1000, 1000) <= cost(10, 10) + 20


def test_timers_that_are_outdated_do_not_heap_up():
    stage = SchedulingStage()
    state = stage.initial()
    stage.absorb(state, opened())
    for at in range(1000):
        cluster = state.cluster("c1")
        cluster.own, cluster.wake = (None, START + 10**9 * SECOND) if at % 2 else ((START + at, ""), None)
        stage.due(state)
    assert len(state.rounds_due) < 100


# --- jobs -----------------------------------------------------------------------------------------------------------------------


def test_an_attempt_that_ended_goes_with_its_replica():
    deployment = Deployment()
    deployment.node("n1", cpu=8)
    manifest = vcjob("train", task("w", 4, minAvailable=1), minAvailable=1)
    deployment.submit("j1", manifest)
    deployment.settle()
    deployment.wait(4)
    for index in (1, 3):
        deployment.end(f"j1-w-{index}-1")
        deployment.gone(f"j1-w-{index}-1")
    deployment.settle()
    known = deployment.scheduling.state.jobs["j1"]
    assert len(known.pods) == len(known.tasks) == 4
    deployment.update("j1", vcjob("train", task("w", 2, minAvailable=1), minAvailable=1))
    deployment.settle()
    assert sorted(known.pods) == [("w", 0, 1), ("w", 1, 1)]
    assert len(restarted(deployment.scheduling.state).jobs["j1"].pods) == 2


def test_pods_of_others_with_the_longest_names_fit_into_a_record():
    """A topic takes records of 4 MiB, and a shard whose record is larger stops for everybody."""
    deployment = Deployment()

    def name(at: int, letter: str, characters: int) -> str:
        return f"{at:03}".ljust(characters, letter)

    odd = {name(at, "\N{GRINNING FACE}", 512): RESOURCE for at in range(50)}
    real = {name(at, "a", 317): RESOURCE for at in range(50)}
    for at in range(64):
        ports = [f"{port}/TCP/{name(port, ('1', chr(0x1F600))[port % 2], 500)}" for port in range(100)]
        seen = PodObserved(f"p{at}", "o1", f"p{at}", "Pending", deployment.now, kind="Job", task="w", index=at)
        deployment.give("pods", replace(seen, resources=odd | real, host_ports=ports), "o1")
    deployment.settle()
    state = deployment.scheduling.state
    attempts = [pod.attempt for pod in state.jobs["o1"].pods.values()]
    assert {len(attempt.shape.requests) for attempt in attempts if attempt.shape} == {50}
    assert {len(attempt.shape.host_ports) for attempt in attempts if attempt.shape} == {50}
    stage = SchedulingStage()
    assert max(len(stage.dump(state, record) or b"") for record in stage.records(state)) < 3 << 20
    assert [pod.attempt for pod in restarted(state).jobs["o1"].pods.values()] == attempts


# --- replays --------------------------------------------------------------------------------------------------------------------


def others(deployment: Deployment, at: int) -> None:
    """A pod of another scheduler that has no node comes and goes: it changes nothing that rounds look at."""
    seen = PodObserved(f"p{at}", f"p{at}", f"p{at}", "Pending", deployment.now)
    deployment.give("pods", seen, seen.job)
    gone = replace(seen, phase="Failed", version="9", ended=deployment.now, reason="DeletedByApi")
    deployment.give("pods", PodDeleted(gone), seen.job)


def test_rounds_that_find_nothing_changed_say_the_same_after_a_restart():
    def told(*, restarts: bool) -> list[Message]:
        deployment = Deployment()
        deployment.node("n1", cpu=1)
        deployment.submit("j1", vcjob("train", task("w", 3, minAvailable=1), minAvailable=1))
        deployment.settle()
        deployment.wait()
        for _ in range(5):  # refused again and again, it is left alone for a while
            deployment.deaf = True
            before = len(deployment.events(DecidedBound))
            while len(deployment.events(DecidedBound)) == before:
                deployment.wait()
            deployment.node("n1", cpu=1, unschedulable=True)
            deployment.deaf = False
            deployment.settle()
            deployment.node("n1", cpu=1)
            deployment.settle()
        deployment.submit("j2", vcjob("wide", task("w", 1, nodeSelector={"zone": "none"})))
        deployment.settle()
        deployment.wait(3)
        rounds = len(deployment.events(RoundEnded))
        for at in range(4):
            if restarts:
                deployment.restart()
            others(deployment, at)
            deployment.settle()
            deployment.wait()
        assert len(deployment.events(RoundEnded)) == rounds + 4
        return deployment.messages("scheduling", "decisions")

    assert told(restarts=True) == told(restarts=False)
