"""The checks of rounds see bugs that are planted in them."""

from __future__ import annotations

import pytest
from test_kept_candidates import answers
from test_rounds_keep_the_rules import broken

from engine.scheduling import statement
from engine.scheduling.cluster.entities import PodClass
from engine.scheduling.cluster.model import Cluster
from engine.scheduling.cluster.nodes import NodeTable
from engine.scheduling.placement import Placement
from engine.scheduling.plugins import gang
from engine.scheduling.plugins.capacity import Capacity
from engine.scheduling.plugins.predicates import Predicates
from engine.scheduling.session import Session


def no_filter(self, pod_class):
    return iter(())


def forgets_the_future(self, row, pod_class, idle, future, take=NodeTable.take):
    take(self, row, pod_class, idle, idle)


def binds_half(self, commit=statement.Statement.commit):
    for task in [*self._former][: len(self) // 2]:
        del self._former[task]
    commit(self)


def every_node_fits(self, task, best=Placement.best):
    found = best(self, task)
    return found or (self._table.nodes[0], True)


def miscounts(self, task, old, new, count=Cluster._count):
    count(self, task, old, new)
    if new.counted:
        count(self, task, old, new)


@pytest.mark.parametrize(
    ("owner", "name", "bug"),
    [
        (Placement, "best", every_node_fits),
        (Predicates, "predicate", no_filter),
        (Predicates, "pod_predicate", lambda self, pod_class, namespace, without: iter(())),
        (gang, "is_ready", lambda job: True),
        (Capacity, "allocatable", lambda self, queue, task: True),
        (Session, "job_ready", lambda self, job: job.ready > 0),
        (statement.Statement, "commit", binds_half),
        (statement.Statement, "discard", lambda self: None),
        (NodeTable, "take", forgets_the_future),
        (Cluster, "_count", miscounts),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_the_checks_of_the_rules_see_a_planted_bug(plant, owner, name, bug):
    plant(owner, name, bug)
    assert any(broken(seed, "capacity") for seed in range(60))


TAKE = NodeTable.take


def take_only(table: NodeTable, row: int, pod_class: PodClass, idle: int, future: int) -> None:
    """Note of nothing that it was given back."""
    freed = table.freed
    TAKE(table, row, pod_class, idle, future)
    table.freed = freed


@pytest.mark.parametrize(
    ("owner", "name", "bug"),
    [
        (NodeTable, "take", take_only),
        (Placement, "_is_full", lambda placement, found, pod_class: found.full >= 0),
    ],
    ids=["what is given back", "nodes that changed"],
)
def test_a_planted_bug_in_kept_candidates_is_seen(plant, owner, name, bug):
    plant(owner, name, bug)
    assert any(kept != anew for seed in range(3) for kept, anew in answers(seed))
