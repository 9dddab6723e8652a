"""Shares that follow one move at a time are those that are calculated from all jobs."""

from __future__ import annotations

from clusters import Twin, nonzero

from engine.scheduling.cluster.amounts import add
from engine.scheduling.configuration import SWITCHES, Configuration, PluginOption
from engine.scheduling.plugins.drf import Drf
from engine.scheduling.plugins.hdrf import build_tree
from engine.scheduling.scheduler import Scheduler

HDRF = Configuration(
    ("enqueue", "allocate", "backfill", "preempt", "reclaim"),
    ((PluginOption("gang"), PluginOption("conformance")), (PluginOption("drf", SWITCHES), PluginOption("predicates"))),
)
FAIRSHARE = Configuration(("enqueue", "allocate", "backfill"), ((PluginOption("fairshare"),), (PluginOption("predicates"),)))


def story(seed, configuration):
    twin = Twin(seed, "proportion")
    for number, queue in enumerate(twin.cluster.queues.values()):
        queue.annotations["volcano.sh/hierarchy"] = f"root/team{number % 2}/{queue.name}"
        queue.annotations["volcano.sh/hierarchy-weights"] = f"1/{1 + number}/2"
    twin.scheduler = Scheduler(twin.cluster, configuration)
    for _ in range(6):
        twin.add_job()
        twin.round()
        yield twin
        twin.happen()


def test_a_tree_that_follows_moves_is_the_tree_of_all_jobs(monkeypatch):
    asked = 0

    def checked(self, follow=Drf.present_tree):
        nonlocal asked
        asked += 1
        tree, cluster = follow(self), self.session.cluster
        anew = build_tree(cluster, self._total)
        for queue in cluster.queues.values():
            path = cluster.path_of(queue.name)
            assert tree.path_key(path) == anew.path_key(path)
        return tree

    monkeypatch.setattr(Drf, "present_tree", checked)
    for seed in range(15):
        for _ in story(seed, HDRF):
            pass
    assert asked > 500


def test_what_namespaces_hold_is_what_their_jobs_hold():
    for seed in range(15):
        for twin in story(seed, FAIRSHARE):
            cluster = twin.cluster
            held: dict[str, int] = {}
            for job in cluster.jobs.values():
                add(held, job.allocated.items())
            assert nonzero(cluster.allocated_by_namespace.get("ns", {})) == nonzero(held)
    for key in list(cluster.jobs):
        cluster.remove_job(key)
    assert cluster.allocated_by_namespace == {}
