"""Jobs that wait in lines: kept from round to round, they find what a scheduler finds that is made anew before each round."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from random import Random

import pytest
from deployment import Deployment, task, vcjob
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.events.pod_shape import PodShape, pairs
from engine.events.scheduling import JobExplained
from engine.scheduling.cluster.entities import Job, Node, Task
from engine.scheduling.cluster.job_records import JobRecord
from engine.scheduling.cluster.model import Cluster
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.configuration import Arguments, Configuration, PluginOption
from engine.scheduling.inqueue_resources import InqueueResources
from engine.scheduling.pending import pending_reasons
from engine.scheduling.pending.explanations import due_at, margin
from engine.scheduling.pending.queue import PendingQueue
from engine.scheduling.plugins.overcommit import Overcommit
from engine.scheduling.plugins.priority import Priority
from engine.scheduling.scheduler import Scheduler
from engine.scheduling.stage import SchedulingStage

SECOND = 1_000_000
ACTIONS = ("enqueue", "allocate", "backfill", "preempt", "reclaim")


def configuration(*more: PluginOption) -> Configuration:
    tiers = (("priority", "gang"), ("overcommit", "drf", "predicates", "proportion", "nodeorder"))
    named = [tuple(map(PluginOption, tier)) for tier in tiers]
    return Configuration(ACTIONS, (named[0], (*named[1], *more)))


CONFIGURATIONS = {
    "default": configuration(),
    "fairshare": configuration(PluginOption("fairshare"), PluginOption("resourcequota")),
    "sla": configuration(PluginOption("sla", arguments=Arguments({"sla-waiting-time": "90s"}))),
}


def made_anew(deployment: Deployment) -> None:
    """Forget what is kept of who waits, as a restart does."""
    for cluster in deployment.scheduling.state.clusters.values():
        cluster.scheduler.pending_queue.__init__(cluster.model)
        cluster.scheduler.inqueue.__init__(cluster.model)
        cluster.scheduler._kept.clear()
        cluster.scheduler._quiet = None
        cluster.pending_reasons.forget()


def crowd(seed: int, configured: Configuration, before_each: Callable[[Deployment], object]) -> list[object]:
    """A small cluster and far too many jobs, some of them alike; they end, are stopped, and others come. Returns all records.

    In every other story so many come at once that kinds of jobs that overtake each other change places by more than a few.
    """
    chance = Random(seed)  # noqa: S311 - a story, not a secret
    deployment = Deployment(stage=lambda: SchedulingStage(configured))
    deployment.node("n1", cpu=6)
    deployment.apply("Queue", "q", weight=2, capability={"cpu": "4"})
    deployment.apply("PriorityClass", "high", value=1000)
    number = 0
    for at in range(25):
        for _ in range(80 if at == seed % 2 else chance.choice((0, 1, 6))):
            spec = {"queue": chance.choice(("default", "q")), "minAvailable": 1}
            if chance.random() < 0.2:
                spec["priorityClassName"] = "high"
            manifest = vcjob(f"j{number}", task("w", chance.choice((1, 1, 1, 3)), cpu=chance.choice((1, 2))), **spec)
            manifest["metadata"]["namespace"] = chance.choice(("ns", "other"))
            deployment.submit(f"j{number}", manifest)
            number += 1
        deployment.settle()
        for uid in chance.sample(sorted(deployment.running()), min(len(deployment.running()), chance.randint(0, 3))):
            deployment.end(uid, "Succeeded")
        if number and chance.random() < 0.3:
            deployment.command(f"j{chance.randrange(number)}", chance.choice(("AbortJob", "ResumeJob")))
        if chance.random() < 0.2:
            deployment.node("n1", cpu=chance.choice((3, 6, 9)))
        if chance.random() < 0.1:
            deployment.apply("PriorityClass", "high", value=chance.choice((-1000, 1000)))
        if chance.random() < 0.1:
            deployment.apply("ResourceQuota", "other/weight", weight=chance.choice((1, 3)))
        deployment.settle()
        for _ in range(chance.choice((1, 2, 70))):
            before_each(deployment)
            deployment.wait(1)
    return deployment.messages("scheduling", "decisions")


@pytest.mark.parametrize("name", CONFIGURATIONS)
@settings(deadline=None, max_examples=5)
@example(seed=21)  # news of a job that was let in and stands far behind are put off
@given(seed=st.integers(0, 10**6))
def test_what_is_kept_changes_no_record(name, seed):
    configured = CONFIGURATIONS[name]
    assert crowd(seed, configured, lambda _: None) == crowd(seed, configured, made_anew)


ALLOCATE = import_module("engine.scheduling.actions.allocate")


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_pods_without_a_place_are_told_what_placing_them_finds(monkeypatch, name):
    configured, found, check = CONFIGURATIONS[name], [], ALLOCATE.is_hopeless

    def checked(*asked: object) -> bool:
        found.append(check(*asked))
        return found[-1]

    monkeypatch.setattr(ALLOCATE, "is_hopeless", checked)
    quick = [crowd(seed, configured, lambda _: None) for seed in range(3)]
    assert found.count(True) > 50
    monkeypatch.setattr(ALLOCATE, "is_hopeless", lambda *_: False)
    assert [crowd(seed, configured, lambda _: None) for seed in range(3)] == quick


def returning(before_each: Callable[[Deployment], object]) -> list[object]:
    """Jobs of one kind wait; half of them, the first ones, go and come back. Returns all records."""
    deployment = Deployment(stage=lambda: SchedulingStage(CONFIGURATIONS["default"]))
    deployment.node("n1", cpu=1)
    for at in range(40):
        deployment.submit(f"j{at:02}", vcjob(f"j{at:02}", task("w", 2), minAvailable=2))
    for action in ("", "AbortJob", "ResumeJob"):
        for at in range(20 if action else 0):
            deployment.command(f"j{at:02}", action)
        deployment.settle()
        for seconds in (1, 1, 1, 3_600, 3_600):  # places that were told before are told again at most an hour later
            before_each(deployment)
            deployment.wait(seconds)
    return deployment.messages("scheduling")


def test_who_comes_back_changes_nothing_else() -> None:
    assert returning(lambda _: None) == returning(made_anew)


def coming(before_each: Callable[[Deployment], object]) -> list[object]:
    """Jobs come one by one while all is quiet: behind others of their kind, before them, as others; or something else changes."""
    deployment = Deployment(stage=lambda: SchedulingStage(CONFIGURATIONS["fairshare"]))
    deployment.node("n1", cpu=2)
    deployment.apply("PriorityClass", "high", value=1000)

    def come(name: str, cpu: int = 2, **spec: object) -> None:
        deployment.submit(name, vcjob(name, task("w", 1, cpu=cpu), minAvailable=1, **spec))

    story: tuple[Callable[[], object], ...] = (
        *(partial(come, name) for name in ("j0", "j1", "j3", "j4")),
        partial(come, "j2", cpu=3),
        partial(come, "j5", priorityClassName="high"),
        partial(come, "j6"),
        partial(deployment.command, "j1", "AbortJob"),
        partial(come, "j7"),
        partial(deployment.node, "n1", cpu=4),
        *(partial(come, name) for name in ("j8", "j9")),
        partial(deployment.command, "j1", "ResumeJob"),
    )
    for happen in story:
        happen()
        deployment.settle()
        for _ in range(5):
            before_each(deployment)
            deployment.wait(1)
    return deployment.messages("scheduling", "decisions")


def test_who_comes_behind_others_changes_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some rounds reuse the result of the last one and open no session."""
    calls: dict[str, int] = {}
    monkeypatch.setattr(Scheduler, "open", counted(calls, "open", Scheduler.open))
    right = coming(made_anew)
    anew = calls.pop("open")
    assert coming(lambda _: None) == right
    assert calls["open"] < anew - 3


# --- what a round costs ---------------------------------------------------------------------------------------------------------


def crowded(jobs: int) -> tuple[Cluster, Scheduler]:
    """A full node, so many jobs of three kinds that wait to be let in, and a scheduler that has run."""
    cluster = Cluster()
    cluster.set_node(Node("n1", {"cpu": 4_000, "memory": 1 << 40, "pods": 100_000}))
    cluster.set_node(Node("n2", {"cpu": 1_000, "memory": 1 << 40, "pods": 100_000}))
    cluster.set_queue(Queue("q"))
    full = Job("ns/full", "ns", "q", min_member=1, min_resources={"cpu": 4_000}, phase="Running")
    cluster.add_job(full)
    shape = PodShape(pairs({"cpu": 4_000}))
    cluster.add_task(Task("ns/full/w/0", full, cluster.class_of(shape), "w", 0), "Running", "n1")
    for at in range(jobs):
        asked = {"cpu": 3_000 + 500 * (at % 3)}
        cluster.add_job(Job(f"ns/j{at:05}", "ns", "q", min_member=1, min_resources=asked, created=at))
    scheduler = Scheduler(cluster, CONFIGURATIONS["default"])
    assert len(scheduler.round(SECOND).reasons) == jobs
    return cluster, scheduler


def counted(calls: dict[str, int], name: str, function: Callable[..., object]) -> Callable[..., object]:
    def call(*arguments: object, **named: object) -> object:
        calls[name] = calls.get(name, 0) + 1
        return function(*arguments, **named)

    return call


def calls_of_next_round(monkeypatch, jobs: int) -> dict[str, int]:
    """How often functions are called in a round in which one job among so many is new."""
    calls: dict[str, int] = {}
    for owner, name in COUNTED:
        monkeypatch.setattr(owner, name, counted(calls, name, getattr(owner, name)))
    cluster, scheduler = crowded(jobs)
    calls.clear()
    cluster.add_job(Job("ns/new", "ns", "q", min_member=1, min_resources={"cpu": 3_000}, created=-1))  # before all: a session opens
    assert not scheduler.round(2 * SECOND).skipped
    monkeypatch.undo()
    return calls


COUNTED = (
    (Priority, "job_order"),
    (Overcommit, "job_enqueueable"),
    (PendingQueue, "_file"),
    (InqueueResources, "_take"),
    (Cluster, "note"),
)


def test_a_round_asks_no_more_of_thousands_than_of_few(monkeypatch):
    calls = calls_of_next_round(monkeypatch, 30)
    assert len(calls) == len(COUNTED)
    assert calls_of_next_round(monkeypatch, 3_000) == calls


def explained_again(monkeypatch, jobs: int) -> int:
    """For how many jobs a round looks at whether they are to be told something, after one among so many has gone."""
    deployment = Deployment(stage=lambda: SchedulingStage(CONFIGURATIONS["default"]))
    deployment.node("n1", cpu=1)
    for at in range(jobs):
        deployment.submit(f"j{at}", vcjob(f"j{at}", task("w", 2), minAvailable=2))
    deployment.settle()
    deployment.wait(3)
    assert len({event.subject for event in deployment.events(JobExplained)}) == jobs
    calls: dict[str, int] = {}
    monkeypatch.setattr(pending_reasons, "due_at", counted(calls, "due_at", pending_reasons.due_at))
    deployment.command(f"j{jobs - 1}", "AbortJob")
    deployment.settle()
    deployment.wait(2)
    monkeypatch.undo()
    return calls["due_at"]


def test_a_round_looks_at_few_reasons_however_many_wait(monkeypatch):
    assert 0 < explained_again(monkeypatch, 120) <= explained_again(monkeypatch, 30) + 4


def test_what_is_to_be_looked_at_for_its_place_is_noted_once():
    queue = pending_reasons.QueueMemory()
    for _ in range(300):
        queue.shifts += 1
        list(queue.due())
        for place in range(9, 200):
            queue.look_at(f"j{place}", margin(place, place))
    assert sum(map(len, queue.checks.values())) <= 2 * 191


# --- places ---------------------------------------------------------------------------------------------------------------------

PLACES = st.integers(1, 200)


@given(place=PLACES, told=PLACES, moved=PLACES)
def test_no_place_is_worth_a_record_before_its_margin(place, told, moved):
    head = JobRecord("c1", "ns", 0, reason=_said(told))
    assert (due_at(_said(place), place, head) is None) == (margin(place, told) > 0)
    if abs(moved - place) < margin(place, told):
        assert due_at(_said(moved), moved, head) is None


def _said(place: int) -> JobExplained:
    return JobExplained("ClusterOvercommitted", "enqueue", "overcommit", queue="q", place=place)


def test_lines_look_at_all_jobs_once_they_are_far_behind(monkeypatch):
    monkeypatch.setattr("engine.scheduling.cluster.changes._KEPT", 10)
    cluster, scheduler = crowded(30)
    for at in range(40):
        cluster.add_job(Job(f"ns/more{at}", "ns", "q", min_member=1, min_resources={"cpu": 9_000}, created=100 + at))
    assert len(scheduler.round(2 * SECOND).reasons) == 70
