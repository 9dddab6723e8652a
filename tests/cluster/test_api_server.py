"""The simulated cluster has the rules of a real one: names, uids, deletion in two steps, finalizers, watches and relists."""

from __future__ import annotations

import pytest
from api_server import ApiError, ApiServer, uid_of
from cluster_programs import vcjob
from control_plane import Cluster
from pod_lives import Life, new_pod
from simulated_time import SECOND, START, Timeline, stamp
from simulated_watch import Watch

from engine.kubernetes.observation.pods import observe_pod


class Setting:
    """A cluster with one job object, and pods made by hand."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.cluster = Cluster(self.timeline, Life)
        self.api = self.cluster.api
        self.owner = self.api.create(vcjob({}))

    def pod(self, life: Life | None = None, name: str = "p"):
        life = life or Life()
        annotations = {"lahar/job": uid_of(self.owner)}
        made = self.api.create(new_pod(name=name, namespace="research", owner=self.owner, annotations=annotations, life=life))
        self.cluster.made(made, life)
        return made

    def at(self, seconds: float) -> None:
        """Let everything happen up to a time."""
        while self.timeline.due is not None and self.timeline.due <= START + seconds * SECOND:
            self.timeline.step()
        self.timeline.now = START + round(seconds * SECOND)

    def find(self, name: str = "p"):
        return self.api.find("Pod", "research", name)

    def changes(self, found) -> list[str]:
        return [event.change for event in self.api.history if uid_of(event.object) == uid_of(found)]

    def truth(self, found):
        container = self.cluster.containers()[uid_of(found)]
        return [None if time is None else (time - START) // SECOND for time in (container.started, container.finished)]


def test_a_name_is_taken_until_its_object_is_gone():
    setting = Setting()
    old = setting.pod()
    setting.at(5)
    setting.api.delete("Pod", "research", "p")
    with pytest.raises(ApiError, match="AlreadyExists"):
        setting.pod()
    setting.at(8)
    assert setting.find() is None
    new = setting.pod()
    assert uid_of(new) != uid_of(old)
    with pytest.raises(ApiError, match="Conflict"):
        setting.api.delete("Pod", "research", "p", uid=uid_of(old))
    with pytest.raises(ApiError, match="NotFound"):
        setting.api.delete("Pod", "research", "q")


def test_versions_rise_over_all_objects_and_no_change_makes_none():
    api = ApiServer(Timeline())
    made = api.create({"kind": "Node", "metadata": {"name": "n"}, "spec": {}})
    assert api.update("Node", "", "n", lambda node: None) is made
    api.update("Node", "", "n", lambda node: node["spec"].update(unschedulable=True))
    assert [event.version for event in api.history] == [1001, 1002]
    assert [event.object["metadata"]["generation"] for event in api.history] == [1, 2]


def test_a_running_pod_is_deleted_in_two_steps_and_shows_its_end_between():
    setting = Setting()
    pod = setting.pod(Life(runs=100, term_takes=2))
    setting.at(10)
    setting.api.delete("Pod", "research", "p")
    assert setting.find()["metadata"]["deletionTimestamp"] == stamp(START + 40 * SECOND)
    setting.at(12)
    assert setting.find()["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
    setting.at(20)
    assert setting.find() is None
    assert setting.changes(pod)[-4:] == ["MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]
    assert setting.truth(pod) == [3, 12]
    last = setting.api.history[-1].object
    # The kubelet's own deletion, grace 0, moves the timestamp to the moment of the request.
    assert (last["metadata"]["deletionTimestamp"], last["metadata"]["deletionGracePeriodSeconds"]) == (
        stamp(START + 10 * SECOND),
        0,
    )


def test_a_pod_that_ignores_sigterm_is_killed_after_its_grace_period():
    setting = Setting()
    pod = setting.pod(Life(runs=100, on_term="ignores", grace=5))
    setting.at(10)
    setting.api.delete("Pod", "research", "p")
    setting.at(20)
    assert setting.truth(pod) == [3, 15]
    assert setting.cluster.containers()[uid_of(pod)].code == 137


def test_a_forced_deletion_removes_the_object_at_once_and_shows_no_end():
    setting = Setting()
    pod = setting.pod(Life(runs=100))
    setting.at(10)
    setting.api.delete("Pod", "research", "p", grace=0)
    assert setting.find() is None
    assert setting.changes(pod)[-2:] == ["MODIFIED", "DELETED"]
    setting.at(11)
    assert setting.truth(pod) == [3, 10]


def test_pods_without_a_node_and_ended_ones_go_at_once():
    setting = Setting()
    setting.pod(Life(scheduled_after=50))
    setting.api.delete("Pod", "research", "p")
    assert setting.find() is None
    setting.pod(Life(runs=1), "q")
    setting.at(10)
    assert setting.find("q")["status"]["phase"] == "Succeeded"
    setting.api.delete("Pod", "research", "q")
    assert setting.find("q") is None


def test_a_finalizer_holds_a_pod_until_its_controller_removes_it():
    setting = Setting()
    pod = setting.pod(Life(runs=100, finalizer=True))
    setting.at(5)
    setting.api.delete("Pod", "research", "p", grace=0)
    assert setting.find()["metadata"]["deletionGracePeriodSeconds"] == 0
    setting.at(7)
    assert setting.changes(pod)[-1] == "MODIFIED"
    setting.at(9)
    assert setting.find() is None
    assert setting.changes(pod)[-1] == "DELETED"


def test_a_pod_that_is_deleted_before_it_starts_gets_an_invented_end():
    setting = Setting()
    pod = setting.pod(Life(started_after=60))
    setting.at(5)
    setting.api.delete("Pod", "research", "p")
    setting.at(10)
    ended = [event.object for event in setting.api.history if event.object["metadata"]["name"] == "p"][-1]
    state = ended["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["status"]["phase"], state["reason"], state["finishedAt"]) == ("Failed", "ContainerStatusUnknown", None)
    assert setting.truth(pod) == [None, None]


def test_an_eviction_by_the_kubelet_leaves_the_object_undeleted():
    setting = Setting()
    pod = setting.pod(Life(runs=100))
    setting.at(5)
    setting.cluster.nodes["n0"].evict(uid_of(pod))
    setting.at(1000)
    seen = observe_pod(setting.find())
    assert (seen.phase, seen.reason) == ("Failed", "EvictedByNode")
    assert "deletionTimestamp" not in setting.find()["metadata"]


def test_a_silent_node_goes_unknown_its_pods_are_to_go_and_stay():
    setting = Setting()
    pod = setting.pod(Life(runs=60))
    setting.at(5)
    setting.cluster.silence("n0")
    setting.at(44)
    assert setting.api.get("Node", "", "n0")["status"]["conditions"][0]["status"] == "True"
    setting.at(46)
    assert setting.api.get("Node", "", "n0")["status"]["conditions"][0]["status"] == "Unknown"
    setting.at(5000)
    seen = observe_pod(setting.find())
    assert (seen.phase, seen.reason, seen.ended) == ("Terminating", "EvictedByTaint", None)
    assert setting.truth(pod) == [3, 63]
    setting.cluster.restore("n0")
    setting.at(5002)
    assert setting.find() is None
    assert observe_pod(setting.api.history[-1].object).ended == START + 63 * SECOND


def test_pods_of_a_node_that_is_gone_are_collected():
    setting = Setting()
    pod = setting.pod(Life(runs=600))
    setting.at(5)
    setting.cluster.remove_node("n0")
    setting.at(100)
    assert setting.find() is None
    last = observe_pod([event.object for event in setting.api.history if uid_of(event.object) == uid_of(pod)][-1])
    assert (last.phase, last.reason, last.ended) == ("Lost", "NodeLost", None)


def test_evictions_carry_their_condition():
    setting = Setting()
    setting.pod(Life(runs=100))
    setting.pod(Life(runs=100), "q")
    setting.at(5)
    setting.api.evict("research", "p")
    setting.cluster.taint("n1")
    setting.at(9)
    last = {event.object["metadata"]["name"]: event.object for event in setting.api.history if event.kind == "Pod"}
    assert {name: observe_pod(found).reason for name, found in last.items()} == {"p": "EvictedByApi", "q": "EvictedByTaint"}


def test_pods_of_a_deleted_job_are_collected():
    setting = Setting()
    setting.pod(Life(runs=100))
    setting.at(5)
    setting.api.delete("Job", "research", "train")
    assert setting.changes(setting.owner) == ["ADDED", "DELETED"]
    setting.at(20)
    assert setting.find() is None


def test_a_relist_tells_deletions_apart_from_new_objects_of_the_same_name():
    setting = Setting()
    told = []
    watch = Watch(
        setting.api,
        "Pod",
        setting.timeline,
        lambda change, found, *, inferred: told.append((change, uid_of(found)[:8], found["status"]["phase"], inferred)),
    )
    old = setting.pod()
    setting.at(5)
    watch.sever()
    setting.api.delete("Pod", "research", "p", grace=0)
    new = setting.pod(Life(runs=1))
    setting.at(20)
    del told[:]
    watch.relist()
    # What happened in between, the new pod's start for one, is not shown.
    assert told == [("DELETED", uid_of(old)[:8], "Running", True), ("ADDED", uid_of(new)[:8], "Succeeded", False)]
