"""The queues root and default exist without being declared, as in Volcano."""

from __future__ import annotations

import pytest
from deployment import Deployment, task, vcjob

from engine.events.inputs import ObjectDeleted
from engine.events.scheduling import JobExplained
from engine.scheduling.configuration import read_configuration
from engine.scheduling.stage import SchedulingStage


def plugins(*names: str, hierarchy: str) -> SchedulingStage:
    found = [{"name": name} | ({"enabledHierarchy": True} if name == hierarchy else {}) for name in names]
    return SchedulingStage(read_configuration({"tiers": [{"plugins": found}]}))


HIERARCHIES = {
    "capacity": lambda: plugins("gang", "predicates", "capacity", hierarchy="capacity"),
    "hdrf": lambda: plugins("gang", "predicates", "drf", hierarchy="drf"),
    "proportion": lambda: plugins("gang", "predicates", "proportion", hierarchy=""),
}


def reasons(deployment: Deployment) -> dict[str, tuple[str, str]]:
    return {one.subject: (one.data.reason, one.data.message) for one in deployment.events(JobExplained) if one.data.reason}


@pytest.fixture(params=HIERARCHIES)
def deployment(request: pytest.FixtureRequest) -> Deployment:
    found = Deployment(stage=HIERARCHIES[request.param])
    found.node("n1", cpu=8)
    return found


def test_jobs_start_though_no_queue_root_is_declared(deployment):
    deployment.apply("Queue", "dept", deserved={"cpu": "8"}, parent="root")
    deployment.apply("Queue", "team", deserved={"cpu": "4"}, parent="dept")
    deployment.submit("j1", vcjob("fit", task("w", 1), queue="team"))
    deployment.submit("j2", vcjob("plain", task("w", 1)))
    deployment.settle()
    deployment.wait(5)
    assert len(deployment.running()) == 2


def test_a_declared_root_replaces_the_implied_one_until_its_deletion():
    deployment = Deployment(stage=HIERARCHIES["capacity"])
    deployment.node("n1", cpu=8)
    deployment.apply("Queue", "root", capability={"cpu": "1"})
    deployment.submit("j1", vcjob("two", task("w", 1, cpu=2)))
    deployment.settle()
    deployment.wait(5)
    assert reasons(deployment)["j1"][0] == "QueueTooSmall"
    deployment.give("cluster", ObjectDeleted("Queue", "root"), "root")
    deployment.settle()
    deployment.wait(5)
    assert len(deployment.running()) == 1


@pytest.mark.parametrize(
    ("queues", "message"),
    [
        ({"lost": "gone"}, "queue gone above queue lost does not exist"),
        ({"one": "two", "two": "one"}, "queue one stands above itself"),
    ],
)
def test_a_broken_tree_is_named(queues, message):
    deployment = Deployment(stage=HIERARCHIES["capacity"])
    deployment.node("n1", cpu=8)
    for name, parent in queues.items():
        deployment.apply("Queue", name, parent=parent)
    deployment.submit("j1", vcjob("plain", task("w", 1)))
    deployment.settle()
    deployment.wait(5)
    assert reasons(deployment) == {"j1": ("QueueHierarchyInvalid", message)}
