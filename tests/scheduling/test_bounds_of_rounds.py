"""What tenants may send is bounded in what it leaves behind and in what it costs: sizes and calls are counted, never time."""

from __future__ import annotations

from typing import Any

import pytest
from clusters import SECOND, configuration, recounted, work
from deployment import Deployment, task, vcjob

from engine.events import Event, encode
from engine.events.bounds import INT32
from engine.events.decisions import DecidedBound, DecidedPipelined, DecisionAccepted, Placement
from engine.events.pod_shape import PodShape, pairs
from engine.events.scheduling import JobExplained
from engine.log.port import size_of
from engine.scheduling import decision_size
from engine.scheduling.cluster.entities import Job, Node, Task
from engine.scheduling.cluster.model import Cluster
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.cluster.sub_groups import SubGroupPolicy, SubGroups
from engine.scheduling.configuration import Configuration, PluginOption
from engine.scheduling.scheduler import Scheduler
from engine.scheduling.stage import SchedulingStage
from streams.topics import TOPICS


def cluster_of(nodes: int = 2, **more: int) -> Cluster:
    """Nodes with plenty of everything, and the queue `q`."""
    cluster = Cluster()
    for at in range(nodes):
        cluster.set_node(Node(f"n{at:03}", {"cpu": 10**9, "memory": 10**12, "pods": 10**9, **more}, {"zone": "a"}))
    cluster.set_queue(Queue("q"))
    return cluster


def add(cluster: Cluster, name: str, shape: PodShape, size: int = 1, **fields: Any) -> Job:
    job = Job(f"ns/{name}", "ns", "q", phase="Inqueue", **fields)
    cluster.add_job(job)
    for index in range(size):
        cluster.add_task(Task(f"{job.key}/w/{index}", job, cluster.class_of(shape), "w", index))
    return job


# --- names ----------------------------------------------------------------------------------------------------------------------


def test_names_that_no_node_offers_leave_nothing_behind():
    cluster = cluster_of()
    scheduler = Scheduler(cluster, configuration("proportion", actions="enqueue allocate preempt reclaim"))
    unlimited = Scheduler(cluster, configuration(actions="allocate"))
    for at in range(50):
        shape = PodShape(pairs({"cpu": 1000, f"example.com/x{at}": 2000}), node_selector=pairs({f"label{at}": "a"}))
        job = add(cluster, f"j{at}", shape, min_member=1)
        reason = scheduler.round((at + 1) * SECOND).reasons[job.key]
        assert (reason.code, reason.missing) == ("ClusterTooSmall", {f"example.com/x{at}": 2000})
        reason = unlimited.round((at + 1) * SECOND).reasons[job.key]
        assert (reason.code, reason.nodes) == ("NodeSelector", {"NodeSelector": 2})
        cluster.remove_job(job.key)
    table, queue = cluster.table, cluster.queues["q"]
    assert list(table.resources) == ["cpu", "memory", "pods"]
    assert len(table.idle) == 3
    assert all(table.column(f"label{at}") is not table.column(f"label{at}") for at in range(50))
    assert (queue.requested, queue.allocated, cluster.allocated_by_namespace) == ({}, {}, {})


def test_a_name_is_missing_until_a_node_offers_it():
    cluster = cluster_of()
    scheduler = Scheduler(cluster, configuration(actions="allocate backfill preempt reclaim"))
    job = add(cluster, "j", PodShape(pairs({"example.com/x": 2000})), min_member=1)
    reason = scheduler.round(SECOND).reasons[job.key]
    assert (reason.code, reason.nodes, reason.missing) == (
        "NodeTooSmall",
        {"NodeTooSmall/example.com/x": 2},
        {"example.com/x": 2000},
    )
    cluster.set_node(Node("x", {"cpu": 1, "memory": 1, "pods": 10**6, "example.com/x": 3000}))
    assert [node for _, node in scheduler.round(2 * SECOND).bound] == ["x"]
    assert recounted(cluster) == []
    cluster.remove_node("x")
    cluster.settle()
    assert list(cluster.table.resources) == ["cpu", "memory", "pods"]


def test_what_others_take_of_a_name_counts_once_a_node_offers_it():
    cluster = cluster_of(1)
    job = add(cluster, "other", PodShape(pairs({"example.com/x": 2000})))
    (task,) = job.tasks.values()
    cluster.move(task, "Running", cluster.nodes["n000"])
    cluster.settle()
    cluster.set_node(Node("n000", {"cpu": 1000, "memory": 1, "pods": 10**6, "example.com/x": 3000}))
    cluster.settle()
    assert cluster.table.future_of("example.com/x").tolist() == [1000]


# --- sub-groups -----------------------------------------------------------------------------------------------------------------


def pairs_of(cluster: Cluster, pods: int, minimum: int) -> Job:
    """A job of gangs of two, of which some must be complete."""
    policy = SubGroupPolicy("w", 2, minimum, partition=2)
    return add(cluster, "j", PodShape(pairs({"cpu": 1000})), pods, min_member=2 * minimum, sub_groups=SubGroups([policy]))


@pytest.mark.parametrize("minimum", [lambda pods: 1, lambda pods: pods // 2], ids=["one", "all"])
@pytest.mark.parametrize("room", [10**9, 3000])
def test_twice_as_many_sub_groups_cost_twice_as_much(minimum, room):
    def cost(pods: int) -> int:
        cluster = cluster_of(0)
        for at in range(2):
            cluster.set_node(Node(f"n{at}", {"cpu": room, "memory": 1, "pods": 10**9}))
        job = pairs_of(cluster, pods, minimum(pods))
        scheduler = Scheduler(cluster, configuration("proportion"))
        found = work(lambda: scheduler.round(SECOND))
        assert job.count("Binding") == (pods if room > 3000 else 6 if minimum(pods) == 1 else 0)
        return found

    assert cost(800) <= 2.2 * cost(400)


def test_sub_groups_are_bound_whole_and_go_on_where_they_ended():
    cluster = cluster_of(0)
    for at in range(3):
        cluster.set_node(Node(f"n{at}", {"cpu": 3000, "memory": 1, "pods": 10**9}))
    job = pairs_of(cluster, 10, 1)
    scheduler = Scheduler(cluster, configuration())
    placed = [task.index for task, _ in scheduler.round(SECOND).bound]
    assert sorted(placed) == list(range(8))
    cluster.move(job.tasks["ns/j/w/0"], "Failed", None)
    assert job.sub_groups is not None
    assert (job.sub_groups.enough(), job.sub_groups.needed("w/0"), job.sub_groups.needed("w/4")) == (True, 1, 2)
    assert [task.index for task, _ in scheduler.round(2 * SECOND).bound] == [8, 9]


# --- task-topology --------------------------------------------------------------------------------------------------------------


def topology_cost(roles: list[str], pods: int, nodes: int = 4, **annotations: str) -> int:
    """The work of a round that places a job of some roles with such annotations."""
    cluster = cluster_of(nodes)
    stated = {f"volcano.sh/task-topology-{name.replace('_', '-')}": text for name, text in annotations.items()}
    job = Job("ns/j", "ns", "q", phase="Inqueue", min_member=pods, annotations=stated)
    cluster.add_job(job)
    for index in range(pods):
        role = roles[index % len(roles)]
        cluster.add_task(Task(f"ns/j/{role}/{index}", job, cluster.class_of(PodShape(pairs({"cpu": 1000}))), role, index))
    scheduler = Scheduler(cluster, configuration("task-topology", actions="allocate"))
    found = work(lambda: scheduler.round(SECOND))
    assert job.count("Binding") == pods
    return found


@pytest.mark.parametrize(
    "annotations",
    [
        {"affinity": "ps,worker"},
        {"anti_affinity": "ps;worker"},
        {"anti_affinity": "ps", "affinity": "ps,worker"},
        {"task_order": "ps"},
    ],
    ids=",".join,
)
def test_twice_as_many_tasks_together_or_apart_cost_twice_as_much(annotations):
    roles = ["ps", "worker"]
    assert topology_cost(roles, 400, **annotations) <= 2.3 * topology_cost(roles, 200, **annotations)


def test_tasks_of_a_topology_cost_the_same_on_any_number_of_nodes():
    roles = ["ps", "worker"]
    few, many = (topology_cost(roles, 100, nodes, affinity="ps,worker", anti_affinity="ps") for nodes in (10, 100))
    assert many <= 1.5 * few


def test_however_many_roles_an_annotation_groups_it_costs_little():
    roles = [f"role{at}" for at in range(200)]
    plain = topology_cost(roles, 400)
    for text in (",".join(roles), ";".join(roles), ",".join(roles * 50), ";".join([",".join(roles)] * 50)):
        assert topology_cost(roles, 400, affinity=text, anti_affinity=text) <= 8 * plain


# --- decisions ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def four_at_once(monkeypatch):
    """A decision has room for four places of pods of task `w`, on nodes with names of four characters."""
    monkeypatch.setattr(decision_size, "DECISION_BYTES", 4 * (64 + len('"w"') + len('"n000"')))


@pytest.mark.usefixtures("four_at_once")
def test_a_gang_too_large_for_one_decision_says_so_and_others_go_on():
    cluster = cluster_of()
    too_large = add(cluster, "a", PodShape(pairs({"cpu": 1000})), 5, min_member=5)
    just = add(cluster, "b", PodShape(pairs({"cpu": 1000})), 4, min_member=4)
    scheduler = Scheduler(cluster, configuration("proportion"))
    outcome = scheduler.round(SECOND)
    assert {task.job for task, _ in outcome.bound} == {just}
    reason = outcome.reasons[too_large.key]
    assert (reason.code, reason.message) == (
        "GangTooLarge",
        "one decision can place 4 of its pods, and more must be placed together",
    )


@pytest.mark.usefixtures("four_at_once")
def test_a_sub_group_that_is_too_large_for_one_decision_says_so():
    cluster = cluster_of()
    policies = SubGroups([SubGroupPolicy("w", 5, 1, partition=5)])
    job = add(cluster, "j", PodShape(pairs({"cpu": 1000})), 5, min_member=1, sub_groups=policies)
    outcome = Scheduler(cluster, configuration()).round(SECOND)
    assert (outcome.bound, outcome.reasons[job.key].code, recounted(cluster)) == ([], "GangTooLarge", [])


@pytest.mark.usefixtures("four_at_once")
@pytest.mark.parametrize("request_", [{"cpu": 1000}, {}], ids=["allocate", "backfill"])
def test_pods_beyond_one_decision_are_bound_in_the_next_rounds(request_):
    cluster = cluster_of()
    job = add(cluster, "j", PodShape(pairs(request_)), 10, min_member=2)
    scheduler = Scheduler(cluster, configuration())
    outcomes = [scheduler.round(at * SECOND) for at in (1, 2, 3)]
    assert [len(outcome.bound) for outcome in outcomes] == [4, 4, 2]
    assert [outcome.reasons[job.key].code for outcome in outcomes[:2]] == ["Waiting", "Waiting"]


@pytest.mark.usefixtures("four_at_once")
def test_no_more_is_promised_than_a_decision_can_say():
    cluster = cluster_of(0)
    cluster.set_node(Node("n000", {"cpu": 6000, "memory": 1, "pods": 10**9}))
    low = add(cluster, "low", PodShape(pairs({"cpu": 1000})), 6, min_member=0)
    for running in [*low.tasks.values()]:
        cluster.move(running, "Running", cluster.nodes["n000"])
    add(cluster, "high", PodShape(pairs({"cpu": 1000})), 6, min_member=1, priority=9)
    outcome = Scheduler(cluster, Configuration(("preempt",), ((PluginOption("priority"),), (PluginOption("predicates"),)))).round(
        SECOND
    )
    assert (len(outcome.evicted), len(outcome.pipelined)) == (6, 4)


@pytest.mark.parametrize("kind", [DecidedBound, DecidedPipelined, DecisionAccepted])
@pytest.mark.parametrize(("role", "node"), [("w", "n"), ("w" * 63, "n" * 253), ("w", '"\n' * 200)], ids=["short", "long", "odd"])
def test_the_largest_decision_and_its_answer_are_records_that_topics_take(kind, role, node):
    cluster = cluster_of(0)
    cluster.set_node(Node(node, {"cpu": 1}))
    cluster.settle()
    job = Job("j" * 500, "ns", "q")
    cluster.add_job(job)
    cluster.add_task(Task(f"{job.key}/{role}/0", job, cluster.class_of(PodShape()), role))
    most = decision_size.DecisionSizes(cluster).most(job)
    places = [Placement(role, INT32, INT32, node)] * most
    data = kind("d" * 500, "bound", places) if kind is DecisionAccepted else kind(INT32, places)
    event = Event("i" * 500, "lahar/scheduling", data.TYPE, job.key, 2**60, 2**60, INT32, job.key, "c" * 500, "c" * 500, data)
    assert size_of(encode(event)) < int(TOPICS["decisions"].config()["max.message.bytes"])


def test_a_reason_names_some_of_what_is_missing():
    deployment = Deployment()
    deployment.node("n1")
    made = task("w", 1)
    resources = made["template"]["spec"]["containers"][0]["resources"]
    resources["limits"] = {f"example.com/x{at}": "1" for at in range(80)}
    resources["requests"].update(resources["limits"])
    for plugins in (("gang",), ("gang", "proportion")):
        deployment.stage = lambda plugins=plugins: SchedulingStage(
            Configuration(("enqueue", "allocate"), (tuple(PluginOption(name) for name in plugins),))
        )
        deployment.restart()
        deployment.submit(plugins[-1], vcjob(plugins[-1], made))
        deployment.settle()
        deployment.wait(4)
    said = [event.data for event in deployment.events(JobExplained)]
    assert {(one.reason, len(one.missing), len(one.asked)) for one in said} == {("ClusterTooSmall", 50, 50)}
