"""Sessions from the inside: statements, reasons, rounds that find nothing new, nodes and resources that come and go."""

from __future__ import annotations

import gc
from random import Random
from weakref import WeakSet

import pytest
from clusters import SECOND, configuration, nonzero, recounted

from engine.events.pod_shape import REVOCABLE_ZONE, LabelSelector, PodShape, PodTerm, pairs
from engine.scheduling.cluster.amounts import LARGEST
from engine.scheduling.cluster.budgets import Budget, Quota
from engine.scheduling.cluster.entities import Job, Node, Task
from engine.scheduling.cluster.model import Cluster
from engine.scheduling.cluster.notices import Preemption, Tenant
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.configuration import Arguments, Configuration, PluginOption
from engine.scheduling.plugin_results import Rows
from engine.scheduling.plugins.tdm import spared
from engine.scheduling.scheduler import Scheduler
from engine.scheduling.session import Plugin
from engine.scheduling.statement import Statement


def cluster_of(*nodes, queues=("q",)):
    cluster = Cluster()
    for at, cpu in enumerate(nodes):
        cluster.set_node(Node(f"n{at}", {"cpu": cpu, "memory": 100, "pods": 10_000}))
    for name in queues:
        cluster.set_queue(Queue(name))
    cluster.settle()
    return cluster


def add(cluster, name, *pods, queue="q", on=None, phase="Pending", **fields):
    """A job with a task for each amount of CPU."""
    job = Job(f"ns/{name}", "ns", queue, phase=phase, **fields)
    cluster.add_job(job)
    for index, cpu in enumerate(pods):
        shape = PodShape(requests=pairs({"cpu": cpu} if cpu else {}))
        task = Task(f"{job.key}-{index}", job, cluster.class_of(shape), index=index)
        cluster.add_task(task, "Running" if on else "Pending", on or "")
    return job


def bound(outcome):
    return [(task.key, node) for task, node in outcome.bound]


def test_a_discarded_statement_leaves_everything_as_it_was():
    cluster = cluster_of(2000, 2000)
    old, new = add(cluster, "old", 1000, on="n0"), add(cluster, "new", 1000, 1000)
    session, _ = Scheduler(cluster, configuration("proportion")).open(SECOND)
    before = [cluster.table.idle.tolist(), cluster.table.future.tolist(), nonzero(new.allocated), old.ready]
    statement, inner = Statement(session), Statement(session)
    victim = old.tasks["ns/old-0"]
    statement.evict(victim)
    statement.pipeline(new.tasks["ns/new-0"], cluster.nodes["n0"])
    inner.allocate(new.tasks["ns/new-1"], cluster.nodes["n1"])
    statement.merge(inner)
    assert (len(statement), len(inner), victim in session.evicted) == (3, 0, True)
    statement.discard()
    assert [cluster.table.idle.tolist(), cluster.table.future.tolist(), nonzero(new.allocated), old.ready] == before
    assert (victim.status, victim in session.evicted, recounted(cluster)) == ("Running", False, [])


def test_a_round_over_an_unchanged_cluster_asks_nobody(monkeypatch):
    cluster = cluster_of(1000)
    add(cluster, "big", 2000)
    scheduler = Scheduler(cluster, configuration("proportion"))
    assert scheduler.round(SECOND).enqueued
    assert scheduler.round(2 * SECOND).reasons
    monkeypatch.setattr(scheduler, "open", None)
    assert scheduler.round(3 * SECOND).reasons == {}
    add(cluster, "small", 500)
    monkeypatch.undo()
    assert bound(scheduler.round(4 * SECOND)) == [("ns/small-0", "n0")]


class Own(Plugin):
    """A plugin of a third party, which may look at anything."""

    NAME = "own"


def waiting(cluster, name, cpu, created):
    return add(cluster, name, min_resources={"cpu": cpu}, min_member=1, created=created).key


@pytest.mark.parametrize("owned", [False, True])
def test_who_comes_behind_others_of_a_kind_gets_their_answer(monkeypatch, owned):
    cluster = cluster_of(1000)
    waiting(cluster, "a", 5000, 3)
    configured = configuration("proportion", *(["own"] if owned else []))
    scheduler = Scheduler(cluster, configured, {"own": Own} if owned else {})
    alone = scheduler.round(SECOND).reasons["ns/a"]
    monkeypatch.setattr(scheduler, "open", None)
    behind = waiting(cluster, "b", 5000, 4)
    if owned:
        with pytest.raises(TypeError):
            scheduler.round(2 * SECOND)
        return
    assert scheduler.round(2 * SECOND).reasons == {"ns/a": alone, behind: alone}
    assert scheduler.round(3 * SECOND).skipped
    for name, cpu, created in (("first", 5000, 1), ("other", 4000, 9)):
        waiting(cluster, name, cpu, created)
        with pytest.raises(TypeError):
            scheduler.round(4 * SECOND)


def test_a_round_stops_at_its_limit_and_the_next_goes_on():
    cluster = cluster_of(9000)
    for name, size in (("a", 2), ("b", 3), ("c", 1)):
        add(cluster, name, *[100] * size, min_member=size, created=ord(name))
    scheduler = Scheduler(cluster, configuration("proportion", actions="enqueue allocate"))
    rounds = [scheduler.round(SECOND, limit=3) for _ in range(3)]
    assert [[task.job.key for task, _ in outcome.bound] for outcome in rounds] == [["ns/a"] * 2 + ["ns/b"] * 3, ["ns/c"], []]
    assert [outcome.more for outcome in rounds] == [True, False, False]


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_a_round_evicts_no_more_than_its_limit(action):
    cluster = cluster_of(1000, 1000, 1000, queues=("q", "other"))
    for at in range(3):
        add(cluster, f"low{at}", 1000, on=f"n{at}", phase="Running")
        queue = "q" if action == "preempt" else "other"
        add(cluster, f"high{at}", 1000, queue=queue, phase="Inqueue", priority=9, min_member=1)
    tiers = ((PluginOption("priority" if action == "preempt" else "gang"),), (PluginOption("predicates"),))
    scheduler = Scheduler(cluster, Configuration(("allocate", action), tiers))
    rounds = [scheduler.round(at * SECOND, limit=2) for at in range(1, 4)]
    assert [(len(outcome.evicted), len(outcome.pipelined), outcome.more) for outcome in rounds] == [
        (2, 2, True),
        (1, 3, False),
        (0, 3, False),
    ]


def test_time_alone_wakes_a_round():
    cluster = cluster_of(1000)
    tiers = ((PluginOption("sla"),), (PluginOption("overcommit"),))
    add(cluster, "big", 9000, min_resources={"cpu": 9000}, annotations={"sla-waiting-time": "1h"})
    scheduler = Scheduler(cluster, Configuration(("enqueue",), tiers))
    hour = 3600 * SECOND
    assert [[job.key for job in scheduler.round(now).enqueued] for now in (SECOND, hour - SECOND, hour)] == [[], [], ["ns/big"]]


@pytest.mark.parametrize(
    ("prepare", "code", "said"),
    [
        (lambda cluster: add(cluster, "j", 1500), "NodeTooSmall", {"missing": {"cpu": 500}, "asked": {"cpu": 1500}}),
        (lambda cluster: add(cluster, "j", 600, 600, min_member=2), "GangNotComplete", {"nodes": {"InsufficientResource/cpu": 1}}),
        (lambda cluster: add(cluster, "j", 100, min_member=2), "NotEnoughPods", {}),
        (lambda cluster: add(cluster, "j", 100, min_member=1, role_minimum={"ps": 1}), "NotEnoughPodsOfTask", {"subject": "ps"}),
        (lambda cluster: add(cluster, "j", 100, queue="gone"), "QueueNotFound", {"subject": "gone"}),
        (
            lambda cluster: [add(cluster, name, 100, min_resources={"cpu": 900}) for name in ("i", "j")],
            "ClusterOvercommitted",
            {"plugin": "overcommit", "missing": {"cpu": 600}},
        ),
        (
            lambda cluster: add(cluster, "j", 100, min_resources={"cpu": 5000}),
            "ClusterTooSmall",
            {"plugin": "overcommit", "missing": {"cpu": 3800}},
        ),
    ],
)
def test_a_pending_job_says_why(prepare, code, said):
    cluster = cluster_of(1000)
    prepare(cluster)
    scheduler = Scheduler(cluster, configuration(actions="enqueue allocate backfill"))
    reason = scheduler.round(SECOND).reasons["ns/j"]
    assert reason.code == code
    for field, value in said.items():
        assert getattr(reason, field) == value


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_a_queue_that_is_full_says_how_much_is_missing(plugin):
    cluster = cluster_of(1000)
    cluster.set_queue(Queue("q", capability={"cpu": 700}))
    add(cluster, "i", 500, on="n0", phase="Running")
    add(cluster, "j", 400)
    reason = Scheduler(cluster, configuration(plugin, actions="enqueue allocate")).round(SECOND).reasons["ns/j"]
    assert (reason.code, reason.plugin, reason.subject, reason.missing) == ("QueueLimit", plugin, "q", {"cpu": 200})


@pytest.mark.parametrize("plugin", ["overcommit", "proportion", "capacity"])
def test_a_privileged_job_that_is_let_in_counts_once(plugin):
    """It is the first of its queue, and plugins make their sums when it is let in."""
    cluster = cluster_of(10_000, queues=())
    cluster.set_queue(Queue("q", preemption="notice"))
    cluster.tenants = {"t": Tenant(0, may_preempt=True)}
    add(cluster, "first", 0, min_resources={"cpu": 4000}, created=0, preemption=Preemption("t", privileged=True))
    add(cluster, "next", 0, min_resources={"cpu": 6000}, created=1)
    outcome = Scheduler(cluster, configuration(plugin, actions="enqueue preempt")).round(SECOND)
    assert [job.key for job in outcome.enqueued] == ["ns/first", "ns/next"]


def test_most_nodes_give_the_reason():
    cluster = cluster_of(1000, 1000, 4000)
    for name in ("n0", "n1"):
        cluster.set_node(Node(name, {"cpu": 9000, "memory": 9, "pods": 9000}, unschedulable=True))
    add(cluster, "j", 5000)
    reason = Scheduler(cluster, configuration("proportion", actions="enqueue allocate")).round(SECOND).reasons["ns/j"]
    assert (reason.code, reason.nodes) == ("NodeUnschedulable", {"NodeUnschedulable": 2, "NodeTooSmall/cpu": 1})


def test_a_quota_and_a_closed_queue_say_so():
    cluster = cluster_of(9000, queues=("q", "shut"))
    cluster.set_queue(Queue("shut", state="Closing"))
    cluster.quotas = [Quota("ns", {"requests.cpu": 1000}, {"requests.cpu": 500})]
    add(cluster, "a", 100, min_resources={"cpu": 600})
    add(cluster, "b", 100, queue="shut", min_resources={"cpu": 100})
    tiers = ((PluginOption("proportion"), PluginOption("resourcequota")),)
    reasons = Scheduler(cluster, Configuration(("enqueue",), tiers)).round(SECOND).reasons
    assert (reasons["ns/a"].code, reasons["ns/a"].missing) == ("QuotaExceeded", {"requests.cpu": 100})
    assert (reasons["ns/b"].code, reasons["ns/b"].subject) == ("QueueNotOpen", "shut")


def test_budgets_of_disruption_hold():
    cluster = cluster_of(2000)
    low = add(cluster, "low", 1000, 1000, on="n0", phase="Running")
    add(cluster, "high", 1000, 1000, phase="Inqueue", priority=9, min_member=1)
    cluster.budgets = [Budget("ns", LabelSelector(), allowed=1)]
    tiers = ((PluginOption("priority"), PluginOption("pdb"), PluginOption("predicates")),)
    outcome = Scheduler(cluster, Configuration(("preempt",), tiers)).round(SECOND)
    assert len(outcome.evicted) == 1
    assert low.count("Running") == 1


def test_a_job_that_is_promised_a_place_waits_for_evicted_pods_to_leave():
    cluster = cluster_of(1000)
    add(cluster, "low", 1000, on="n0", phase="Running")
    add(cluster, "high", 1000, phase="Inqueue", priority=9, min_member=1)
    add(cluster, "same", 1000, phase="Inqueue", min_member=1, created=9)
    outcome = Scheduler(cluster, configuration(actions="allocate preempt")).round(SECOND)
    assert [(task.key, node) for task, node in outcome.pipelined] == [("ns/high-0", "n0")]
    assert [(task.key, action) for task, action in outcome.evicted] == [("ns/low-0", "preempt")]
    assert {key: reason.code for key, reason in outcome.reasons.items()} == {
        "ns/high": "VictimsLeaving",
        "ns/same": "InsufficientResource",
    }
    assert outcome.reasons["ns/same"].missing == {"cpu": 1000}


def test_phases_follow_what_tasks_do():
    cluster = cluster_of(1000)
    job = add(cluster, "j", 1000, min_member=1)
    scheduler = Scheduler(cluster, configuration("proportion"))
    scheduler.round(SECOND)
    assert job.phase == "Inqueue"
    (task,) = job.tasks.values()
    cluster.move(task, "Running", task.node)
    assert scheduler.round(2 * SECOND).phases == [(job, "Running")]
    cluster.move(task, "Succeeded", None)
    assert scheduler.round(3 * SECOND).phases == [(job, "Completed")]


def test_a_resource_that_nobody_knew_and_a_node_that_has_it():
    cluster = cluster_of(1000)
    job = add(cluster, "j", 100)
    shape = PodShape(requests=pairs({"cpu": 100, "example.com/fpga": 1000}))
    cluster.add_task(Task("ns/j-fpga", job, cluster.class_of(shape), index=9))
    scheduler = Scheduler(cluster, configuration("proportion", actions="enqueue allocate"))
    assert bound(scheduler.round(SECOND)) == [("ns/j-0", "n0")]
    cluster.set_node(Node("a-new-one", {"cpu": 1000, "memory": 9, "pods": 9000, "example.com/fpga": 1000}))
    assert bound(scheduler.round(2 * SECOND)) == [("ns/j-fpga", "a-new-one")]
    assert recounted(cluster) == []
    cluster.remove_node("n0")
    assert recounted(cluster) == []
    assert [node.name for node in cluster.table.nodes] == ["a-new-one"]


def test_pods_that_keep_apart_are_counted_while_they_come_and_go():
    cluster = cluster_of(9000, 9000)
    apart = PodShape(
        requests=pairs({"cpu": 100}),
        labels=pairs({"app": "db"}),
        pod_anti_affinity=(PodTerm("kubernetes.io/hostname", LabelSelector(pairs({"app": "db"}))),),
    )
    for name in ("n0", "n1"):
        cluster.set_node(Node(name, {"cpu": 9000, "memory": 9, "pods": 9000}, labels={"kubernetes.io/hostname": name}))
    job = Job("ns/j", "ns", "q")
    cluster.add_job(job)
    for index in range(3):
        cluster.add_task(Task(f"ns/j-{index}", job, cluster.class_of(apart), index=index))
    scheduler = Scheduler(cluster, configuration("proportion", actions="enqueue allocate"))
    first = bound(scheduler.round(SECOND))
    assert sorted(node for _, node in first) == ["n0", "n1"]
    cluster.remove_task(job.tasks[first[1][0]])
    assert bound(scheduler.round(2 * SECOND)) == [("ns/j-2", first[1][1])]


def test_queues_may_come_later_and_move():
    cluster = cluster_of(9000, queues=("root", "q"))
    job = add(cluster, "j", 100, on="n0", queue="late", phase="Running")
    assert job.path == ()
    cluster.set_queue(Queue("late", parent="q"))
    assert [queue.name for queue in job.path] == ["late", "q", "root"]
    assert nonzero(cluster.queues["root"].allocated) == {"cpu": 100, "pods": 1000}
    cluster.set_queue(Queue("late"))
    assert nonzero(cluster.queues["q"].allocated) == {}
    cluster.set_queue(Queue("q", parent="late"))
    cluster.set_queue(Queue("late", parent="q"))
    assert [queue.name for queue in cluster.path_of("late")] == ["late", "q"]
    cluster.remove_queue("late")
    assert job.path == ()


def test_a_class_goes_with_the_last_of_its_pods():
    cluster = cluster_of(9000)
    scheduler = Scheduler(cluster, configuration("proportion", actions="enqueue allocate"))
    classes: WeakSet[object] = WeakSet()
    for at in range(20):
        classes.update(task.pod_class for task in add(cluster, f"j{at}", 100 + at).tasks.values())
        assert len(bound(scheduler.round((at + 1) * SECOND))) == 1
        cluster.remove_job(f"ns/j{at}")
    gc.collect()  # jobs and tasks hold each other
    assert (len(cluster.classes), recounted(cluster)) == (0, [])
    assert len(classes) <= 1  # plugins hold the last session


def test_the_order_in_which_jobs_came_spares_nobody():
    def evicted(names):
        cluster = cluster_of()
        cluster.set_node(Node("n0", {"cpu": 9000, "memory": 100, "pods": 10_000}, {REVOCABLE_ZONE: "z"}))
        cluster.budgets = [Budget("ns", LabelSelector(), 1)]
        for name in names:
            add(cluster, name, 100, on="n0", phase="Running")
        tdm = PluginOption("tdm", arguments=Arguments({"tdm.revocable-zone.z": "0:00-0:01"}))
        scheduler = Scheduler(cluster, Configuration(("shuffle",), ((tdm, PluginOption("pdb")),)))
        return [task.key for task, _ in scheduler.round(3600 * SECOND).evicted]

    assert evicted("ab") == evicted("ba") == ["ns/a-0"]


def test_when_a_period_of_tdm_ends_it_is_asked_again():
    """Else it would remember another time after a restart, since the first round of a process asks it."""
    cluster = cluster_of()
    cluster.set_node(Node("n0", {"cpu": 1000, "memory": 9, "pods": 9000}, {REVOCABLE_ZONE: "z"}))
    scheduler = Scheduler(
        cluster,
        Configuration(
            ("shuffle",),
            ((PluginOption("tdm", arguments=Arguments({"tdm.revocable-zone.z": "8:00-9:00", "tdm.evict.period": "10s"})),),),
        ),
    )
    scheduler.round(5 * SECOND)
    assert (scheduler.memory, scheduler.next_change(5 * SECOND)) == ({}, 60 * SECOND)
    add(cluster, "j", 100, on="n0", phase="Running")
    assert len(scheduler.round(6 * SECOND).evicted) == 1
    assert (scheduler.memory, scheduler.next_change(6 * SECOND)) == ({"tdm": {"evicted_at": 6 * SECOND}}, 16 * SECOND)
    assert scheduler.next_change(16 * SECOND) == 60 * SECOND


@pytest.mark.parametrize(
    ("text", "left"),
    [("2", 2), ("25%", 3), ("1/0%", 0), ("1e999999999%", 0), ("9" * 5000, 0), ("-1", 0), ("many", 0)],
)
def test_any_text_says_how_many_pods_of_a_job_may_be_missing(text, left):
    job = add(cluster_of(9000), "j", *[100] * 10, on="n0", annotations={"volcano.sh/jdb-max-unavailable": text})
    assert spared(job) == left


def test_sums_over_nodes_are_exact_beyond_64_bits():
    cluster = cluster_of()
    for at in range(40):
        cluster.set_node(Node(f"n{at}", {"disk": LARGEST - at}))
    cluster.settle()
    assert cluster.total() == {"disk": 40 * LARGEST - 780}
    assert cluster.used()["disk"] == 0


def test_a_node_scores_the_same_alone_and_among_others():
    """Scores are kept from round to round; after a restart all nodes are scored at once."""
    chance = Random(1)  # noqa: S311 - amounts, not a secret
    cluster = cluster_of()
    for at in range(100):
        amounts = {"cpu": chance.randint(9, 99) * 1000, "memory": chance.randint(9, 99), "gpu": chance.randint(1, 9), "pods": 10**6}
        cluster.set_node(Node(f"n{at}", amounts))
        if at % 7 == 0:
            del cluster.nodes[f"n{at}"].allocatable["gpu"]
    task = Task("ns/j-0", add(cluster, "j"), cluster.class_of(PodShape(requests=pairs({"cpu": 1100, "memory": 3, "gpu": 1}))))
    scored = tuple(PluginOption(name, arguments=Arguments({"binpack.resources": "gpu"})) for name in ("nodeorder", "binpack"))
    session, _ = Scheduler(cluster, Configuration(("allocate",), (scored,))).open(0)
    (scorers,) = session.functions("node_order")
    for scorer in scorers:
        together = scorer(task.pod_class, Rows(cluster.table, task.pod_class, slice(0, 100)))
        alone = [scorer(task.pod_class, Rows(cluster.table, task.pod_class, slice(row, row + 1))) for row in range(100)]
        by_number = [scorer(task.pod_class, Rows(cluster.table, task.pod_class, row)) for row in range(100)]
        assert together.tolist() == [score for (score,) in alone] == by_number


def test_tasks_that_suit_several_buckets_equally_are_spread_over_them():
    """Volcano balances buckets by what they ask for: each parameter server gets as many workers as the other."""
    cluster = cluster_of(9000, 9000)
    affinity = {"volcano.sh/task-topology-affinity": "ps,worker", "volcano.sh/task-topology-anti-affinity": "ps"}
    job = add(cluster, "tf", phase="Inqueue", annotations=affinity)
    for role, count in (("ps", 2), ("worker", 4)):
        for index in range(count):
            shape = PodShape(requests=pairs({"cpu": 1000}))
            cluster.add_task(Task(f"{role}-{index}", job, cluster.class_of(shape), index=index, role=role), "Pending", "")
    found = dict(bound(Scheduler(cluster, configuration("task-topology")).round(SECOND)))
    on_nodes = [sorted(key[:-2] for key, node in found.items() if node == name) for name in ("n0", "n1")]
    assert on_nodes == [["ps", "worker", "worker"]] * 2


def grouped(roles: dict[str, int], **annotations: str) -> list[tuple[str, str]]:
    """Return the task and the node of each placement, in order; the first node has room for one, the others for four."""
    cluster = cluster_of(1000, 4000, 4000)
    stated = {f"volcano.sh/task-topology-{name.replace('_', '-')}": text for name, text in annotations.items()}
    job = add(cluster, "tf", phase="Inqueue", annotations=stated)
    for role, count in roles.items():
        for index in range(count):
            shape = PodShape(requests=pairs({"cpu": 1000}))
            cluster.add_task(Task(f"{role}-{index}", job, cluster.class_of(shape), index=index, role=role), "Pending", "")
    return bound(Scheduler(cluster, configuration("task-topology")).round(SECOND))


def test_tasks_that_do_not_avoid_each_other_stay_together():
    """Volcano opens a bucket only for a task that avoids all that there are."""
    found = dict(grouped({"ps": 2, "worker": 2}, anti_affinity="ps,worker"))
    assert found["ps-0"] == found["ps-1"] != found["worker-0"] == found["worker-1"]


def test_members_that_a_task_goes_with_and_avoids_count_against_each_other():
    found = dict(grouped({"a": 2, "b": 1, "c": 1}, affinity="a,c", anti_affinity="b,c", task_order="a,b,c"))
    assert found["c-0"] == found["a-0"] == found["a-1"]


def test_tasks_that_no_group_names_come_last():
    placed = grouped({"side": 2, "worker": 1}, affinity="worker", task_order="side,worker")
    assert [key[:-2] for key, _ in placed] == ["worker", "side", "side"]
