"""What operators watch: what rounds take by action, and who waits since when."""

from __future__ import annotations

from itertools import count

import pytest
from deployment import CLUSTER, SECOND, START, Deployment, task, vcjob
from msgspec import msgpack

from engine.events.scheduling import RoundEnded
from engine.scheduling.configuration import Configuration, PluginOption
from engine.scheduling.plugins.gang import Gang
from engine.scheduling.stage import SchedulingStage
from engine.scheduling.state.record_names import cluster_record

CONFIGURATION = Configuration(("enqueue", "allocate"), ((PluginOption("gang"), PluginOption("predicates")),))


def shown(deployment: Deployment, name: str) -> dict[str, float]:
    """Last label → value of a metric."""
    found = SchedulingStage.figures(deployment.scheduling.state)
    return {labels[-1][1]: value for metric, _, _, labels, value in found if metric == name}


def oldest(deployment: Deployment) -> dict[str, float]:
    """Queue → seconds after the start at which the job was submitted."""
    found = shown(deployment, "scheduling_oldest_pending_timestamp_seconds")
    return {queue: value - START / SECOND for queue, value in found.items()}


def one_placed(stage: SchedulingStage) -> Deployment:
    deployment = Deployment(stage=lambda: stage)
    deployment.node("n1", cpu=4)
    deployment.submit("j1", vcjob("train", task()))
    deployment.settle()
    deployment.wait(4)
    return deployment


def test_seconds_are_added_up_by_action():
    ticks = count()
    deployment = one_placed(SchedulingStage(CONFIGURATION, stopwatch=lambda: next(ticks)))
    seconds = shown(deployment, "scheduling_action_seconds")
    assert list(seconds) == ["open", "enqueue", "allocate", "close"]
    (times,) = set(seconds.values())  # each is measured once a round, and takes one tick
    assert next(ticks) == 2 * 4 * times
    assert 2 <= times <= shown(deployment, "scheduling_rounds")[CLUSTER]


def test_an_action_that_fails_has_taken_its_time(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> bool:
        raise TypeError("not this one")

    monkeypatch.setattr(Gang, "job_valid", fail)
    ticks = count()
    deployment = one_placed(SchedulingStage(CONFIGURATION, stopwatch=lambda: next(ticks)))
    seconds = shown(deployment, "scheduling_action_seconds")
    assert seconds["allocate"] > seconds["close"]


def test_no_decision_depends_on_the_stopwatch():
    ticks = count()
    watched = one_placed(SchedulingStage(CONFIGURATION, stopwatch=lambda: next(ticks) ** 2))
    assert watched.messages("scheduling", "decisions") == one_placed(SchedulingStage(CONFIGURATION)).messages(
        "scheduling", "decisions"
    )


def test_the_job_that_was_submitted_first_is_shown_for_each_queue():
    deployment = Deployment()
    deployment.node("n1", cpu=1)
    deployment.apply("Queue", "q", weight=1)
    for job, queue in (("runs", "default"), ("first", "q"), ("second", "default"), ("third", "q")):
        deployment.submit(job, vcjob(job, task(cpu=1 if job == "runs" else 4), queue=queue))
        deployment.settle()
        deployment.wait(3)
    assert oldest(deployment) == {"q": 3, "default": 6}
    assert deployment.events(RoundEnded)[-1].data.oldest == {"default": START + 6 * SECOND, "q": START + 3 * SECOND}
    deployment.command("first", "TerminateJob")
    deployment.settle()
    deployment.wait(2)
    assert oldest(deployment) == {"q": 9, "default": 6}


def test_nobody_waits_where_no_job_is_left():
    deployment = Deployment()
    deployment.node("n1", cpu=1)
    deployment.submit("j1", vcjob("train", task(cpu=4)))
    deployment.settle()
    deployment.wait(2)
    assert (oldest(deployment), shown(deployment, "scheduling_pending_jobs")) == ({"default": 0}, {"default": 1})
    deployment.command("j1", "TerminateJob")
    deployment.settle()
    deployment.wait(2)
    assert (oldest(deployment), shown(deployment, "scheduling_pending_jobs")) == ({}, {})


def test_a_record_of_a_cluster_without_the_oldest_is_read():
    deployment = Deployment()
    deployment.node("n1", cpu=1)
    deployment.submit("j1", vcjob("train", task(cpu=4)))
    deployment.settle()
    deployment.wait(2)
    stage, name = SchedulingStage(), cluster_record(CLUSTER)
    *before, kept, opened, notices, newest, _configuration = msgpack.decode(stage.dump(deployment.scheduling.state, name))
    assert (kept, opened, notices, newest) == ({"default": START}, 0, {}, 0)
    again = stage.initial()
    stage.load(again, [(name, msgpack.encode(before))])
    assert msgpack.decode(stage.dump(again, name)) == [*before, {}, 0, {}, 0, {}]
