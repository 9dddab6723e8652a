"""Rounds that come again: because of time alone, after a restart, or as room comes and goes."""

from __future__ import annotations

from typing import Any

from deployment import SECOND, START, Deployment, task, vcjob

from engine.events.decisions import DecidedEnqueued, DecidedUnschedulable
from engine.events.pod_shape import PodShape, pairs
from engine.events.scheduling import JobExplained, RoundEnded
from engine.scheduling.cluster.entities import Job, Node, Task
from engine.scheduling.cluster.model import Cluster
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.configuration import DEFAULT, Arguments, Configuration, PluginOption
from engine.scheduling.scheduler import Scheduler
from engine.scheduling.stage import SchedulingStage

MINUTE = 60 * SECOND


def options(*names: str) -> tuple[PluginOption, ...]:
    return tuple(map(PluginOption, names))


def test_a_job_whose_time_has_come_is_let_in_though_nothing_else_happens():
    """Plugin sla, of a job that has no pods yet."""
    tiers = (options("priority", "gang", "sla"), options("overcommit", "predicates", "proportion", "nodeorder"))
    configuration = Configuration(("enqueue", "allocate", "backfill"), tiers)
    deployment = Deployment(stage=lambda: SchedulingStage(configuration))
    deployment.node("n1", cpu=4)
    deployment.submit("j0", vcjob("full", task("w", 4)))
    deployment.settle()
    deployment.wait(4)
    late = vcjob("late", task("w", 2, cpu=2))
    late["metadata"]["annotations"] = {"sla-waiting-time": "60s"}
    submitted = deployment.now
    deployment.submit("j1", late)
    deployment.settle()
    deployment.wait(120)
    (let_in,) = deployment.events(DecidedEnqueued, job="j1")
    assert MINUTE <= let_in.recordedtime - submitted < MINUTE + 2 * SECOND


def rounds_while_a_place_is_promised(*, restart: bool) -> tuple[list[Any], dict[str, int]]:
    class Slow(Deployment):
        """Its pods take their time to go."""

        def do(self, event: Any) -> None:
            if event.data.effect != "delete_pod":
                super().do(event)

    deployment = Slow()
    deployment.node("n1", cpu=8)
    deployment.submit("j0", vcjob("first", task("w", 1, cpu=8)))
    deployment.settle()
    deployment.wait(4)
    deployment.submit("j1", vcjob("second", task("w", 1)))
    deployment.settle()
    deployment.wait(3)
    (pod,) = deployment.pods
    deployment.command("j0", "AbortJob")
    deployment.settle()
    deployment.wait(2)
    if restart:
        deployment.restart()
    deployment.see(pod, phase="Terminating", deleting=True, terminating=deployment.now)
    deployment.settle()
    deployment.wait(2)
    records = [(event.time, event.data) for event in deployment.events(RoundEnded)]
    return records, dict(deployment.scheduling.state.clusters["c1"].counts)


def test_a_restart_while_a_place_is_promised_changes_no_record():
    assert rounds_while_a_place_is_promised(restart=True) == rounds_while_a_place_is_promised(restart=False)


def test_a_decision_is_not_written_each_time_room_comes_and_goes():
    deployment = Deployment()
    deployment.node("n1", cpu=3)
    deployment.node("n2", cpu=1)
    deployment.submit("j1", vcjob("train", task("w", 2, cpu=2)))
    deployment.settle()
    deployment.wait(3)
    for at in range(20):
        deployment.node("n1", cpu=1 if at % 2 else 3)
        deployment.settle()
        deployment.wait()
    assert len(deployment.events(DecidedUnschedulable, job="j1")) == 1
    told = [event.data.reason for event in deployment.events(JobExplained, job="j1")]
    assert told == ["GangNotComplete", "ClusterTooSmall"]  # each word once, however often they change
    assert deployment.now > START


def test_the_reason_changes_with_the_hour():
    """A node that is lent to others until one o'clock, and then is too small."""
    cluster = Cluster()
    cluster.set_node(Node("n1", {"cpu": 1000, "memory": 1 << 30, "pods": 10_000}, {"volcano.sh/revocable-zone": "z"}))
    cluster.set_queue(Queue("q"))
    tdm = PluginOption("tdm", arguments=Arguments({"tdm.revocable-zone.z": "1:00-2:00"}))
    scheduler = Scheduler(cluster, Configuration(("allocate",), (options("gang"), (PluginOption("predicates"), tdm))))
    job = Job("ns/j", "ns", "q", phase="Inqueue", min_member=1)
    cluster.add_job(job)
    shape = PodShape(pairs({"cpu": 2000}), annotations=pairs({"volcano.sh/revocable-zone": "*"}))
    cluster.add_task(Task("ns/j/w/0", job, cluster.class_of(shape), "w", 0))
    reasons = [scheduler.round(at * MINUTE).reasons["ns/j"].code for at in (30, 61, 62)]
    assert reasons == ["RevocableZone", "NodeTooSmall", "NodeTooSmall"]


def test_why_no_node_takes_a_pod_changes_with_the_hour_though_none_does():
    """Outside its hours a node is refused for them, within them for what it lacks."""
    cluster = Cluster()
    cluster.set_node(Node("n1", {"cpu": 1000, "memory": 1 << 30, "pods": 10_000}, {"volcano.sh/revocable-zone": "z"}))
    cluster.set_queue(Queue("q"))
    tdm = PluginOption("tdm", arguments=Arguments({"tdm.revocable-zone.z": "1:00-2:00"}))
    scheduler = Scheduler(cluster, Configuration(("allocate",), (options("gang"), (tdm, PluginOption("predicates")))))
    job = Job("ns/j", "ns", "q", phase="Inqueue", min_member=1)
    cluster.add_job(job)
    annotations = pairs({"volcano.sh/revocable-zone": "*", "volcano.sh/preemptable": "true"})
    shape = PodShape(pairs({"cpu": 500}), annotations=annotations, node_selector=pairs({"x": "y"}))
    cluster.add_task(Task("ns/j/w/0", job, cluster.class_of(shape), "w", 0))
    reasons = [scheduler.round(at * MINUTE).reasons["ns/j"].code for at in (30, 61)]
    assert reasons == ["RevocableZone", "NodeSelector"]


def test_jobs_are_let_in_by_name_where_no_action_does():
    configured = Configuration(("allocate", "backfill"), DEFAULT.tiers)

    def let_in(*, restart: bool) -> list[str]:
        deployment = Deployment(stage=lambda: SchedulingStage(configured), every=1, partitions=1)
        deployment.node("n1")
        for job in ("b", "a"):
            deployment.submit(job, vcjob(job, task("w", 1)))
        deployment.settle()
        if restart:
            deployment.restart()
        deployment.wait(2)
        return [event.subject for event in deployment.events(DecidedEnqueued)]

    assert let_in(restart=True) == let_in(restart=False) == ["a", "b"]
