"""A pod whose root becomes known after it was recorded moves to the root's job: once, while it is open, by an event."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_driver import CLUSTER, ELSEWHERE, START, Driver, check_job, pod, vcjob

from engine.events.attempts import AttemptChanged, AttemptEnded, AttemptMoved, AttemptRunning, AttemptStarted, EarlierAttempt
from engine.events.inputs import POD, JobObserved, NodeDeleted, PodObserved
from engine.events.jobs import JobPhaseChanged, TaskPhaseChanged
from engine.lifecycle.lost_pods import LOSS_WAIT
from engine.lifecycle.stage import LifecycleStage
from statemachines.spec import Requests

SECOND = 1_000_000


def executor(uid: str, version: int | None, phase: str = "Running", *, chain: str = "", **fields: Any) -> PodObserved:
    """A pod that the driver's pod controls; `chain`: the job above the driver, which was read with it."""
    fields = {"node": "n", "running": 3, **fields}
    seen = pod(uid, "driver", version, phase, kind=POD, owner="agg-driver", **fields)
    if not chain:
        return seen
    return replace(seen, job=chain, kind="SparkApplication", owner=chain, through="agg-driver", controller="driver", chained=True)


def leader(version: int = 1, phase: str = "Running", job: str = "app", **fields: Any) -> PodObserved:
    return pod("driver", job, version, phase, kind="SparkApplication", owner=job, node="n", running=2, **fields)


def worker(uid: str, version: int | None, *, chain: str = "", phase: str = "Running", **fields: Any) -> PodObserved:
    """A pod of a RayCluster; `chain`: a job above it, which was read with it."""
    fields = {"node": "n", "running": 2, **fields}
    seen = pod(uid, "c", version, phase, kind="RayCluster", owner="rj-c", **fields)
    return replace(seen, job=chain, kind="RayJob", owner=chain, through="rj-c", controller="c", chained=True) if chain else seen


def job_of(driver: Driver) -> dict[str, str]:
    """Job of each pod that is an attempt."""
    return {uid: job.id for job in driver.state.jobs.values() for uid in job.by_uid}


class Move(NamedTuple):
    pod: str
    source: str
    to: str
    owner: str
    reason: str


def moves(driver: Driver) -> list[Move]:
    found = [event for event in driver.events if isinstance(event.data, AttemptMoved)]
    return [Move(one.data.uid, one.subject, one.data.to, one.data.owner, one.data.reason) for one in found]


def executors_first(crashed: bool = False) -> Driver:
    """Two executors have waited for their driver in vain before it came."""
    driver = Driver()
    for uid in "xy":
        driver.see(executor(uid, 1))
    driver.wait(61)
    driver.see(leader())
    if crashed:
        driver.crash()
    return driver


@pytest.mark.parametrize("crashed", [False, True])
@pytest.mark.parametrize("chain", ["", "app"])
def test_executors_that_were_read_before_their_driver_move_to_its_job(chain: str, crashed: bool) -> None:
    driver = executors_first(crashed)
    for uid in "xy":
        driver.see(executor(uid, 2, chain=chain))
        if crashed:
            driver.crash()
    reason = "chain" if chain else "pod"
    assert moves(driver) == [Move(uid, "driver", "app", "SparkApplication/app", reason) for uid in "xy"]
    assert [data.moved_from for data in driver.of(AttemptStarted)][-2:] == [EarlierAttempt("driver", "main", n, 1) for n in (0, 1)]
    for uid in "xy":
        driver.see(executor(uid, 3, "Succeeded", ended=9))
    driver.see(leader(2, "Succeeded", ended=10))
    assert driver.phase("app") == "Completed"
    assert [data.uid for data in driver.of(AttemptMoved)] == ["x", "y"]
    assert len(driver.of(AttemptEnded)) == 3


def test_a_job_without_pods_left_is_not_running_failed_or_completed() -> None:
    driver = executors_first()
    driver.see(executor("x", 2))
    assert (driver.phase("driver"), driver.job("driver").live) == ("Running", 1)
    driver.see(executor("y", 2))
    ours = [event.data for event in driver.events if event.subject == "driver"]
    ends = [(data.phase, data.reason, data.inferred) for data in ours if isinstance(data, JobPhaseChanged)]
    assert ends[-1] == ("Terminated", "Moved", True)
    assert [data.phase for data in ours if isinstance(data, TaskPhaseChanged)][-1] == "Pending"
    assert not {"Failed", "Completed"} & {getattr(data, "phase", "") for data in ours}
    assert driver.job("driver").rest is not None, "it is never forgotten"


@pytest.mark.parametrize(("leaves", "task"), [("moves", "Pending"), ("is lost", "Failed")])
def test_an_earlier_pod_of_a_replica_keeps_a_job_running_until_it_leaves(leaves: str, task: str) -> None:
    def phases(driver: Driver) -> tuple[str, list[str], int]:
        job = driver.job("driver")
        return job.phase, [task.phase for task in job.tasks.values()], job.live

    driver = Driver()
    driver.node("n", ready="True", version="1")
    driver.see(executor("x", 1, name="agg-0", index=0, created=2))
    driver.see(executor("y", 1, name="agg-0", index=0, created=1))
    driver.wait(61)
    driver.see(leader())
    driver.see(executor("x", 2, name="agg-0", index=0, created=2))
    assert [move.pod for move in moves(driver)] == ["x"]
    assert phases(driver) == ("Running", ["Running"], 1)
    if leaves == "moves":
        driver.see(executor("y", 2, name="agg-0", index=0, created=1))
    else:
        driver.take(driver.event(NodeDeleted("n", "2"), "n"))
        driver.until(driver.now + 3 * LOSS_WAIT)
    assert phases(driver) == ("Terminated", [task], 0)


def test_a_pod_that_ends_as_its_root_is_observed_ends_there() -> None:
    driver = executors_first()
    driver.see(executor("x", 2, "Succeeded", ended=9))
    driver.gone(executor("y", 2, "Failed", reason="AppFailed", exit_code=1, ended=8))
    ends = [(event.subject, event.data.phase, event.data.ran) for event in driver.events if isinstance(event.data, AttemptEnded)]
    assert ends == [("app", "Succeeded", 6 * SECOND), ("app", "Failed", 5 * SECOND)]
    assert driver.phase("driver") == "Terminated"


def test_an_end_without_evidence_is_not_before_what_the_earlier_job_saw() -> None:
    driver = Driver()
    driver.see(worker("p", 1))
    driver.wait(100)
    driver.see(worker("p", 2, restarts=1))
    seen = driver.now
    driver.wait(100)
    driver.gone(worker("p", 3, phase="Lost", reason="EndUnknown", chain="rj"))
    assert [(event.subject, event.time) for event in driver.events if isinstance(event.data, AttemptEnded)] == [("rj", seen)]


def test_an_attempt_that_has_ended_stays() -> None:
    driver = Driver()
    driver.see(worker("p", 1, phase="Succeeded", ended=9))
    driver.see(worker("p", 2, phase="Succeeded", ended=9, chain="rj"))
    driver.gone(worker("p", 3, phase="Succeeded", ended=9, chain="rj"))
    assert (moves(driver), driver.phase("c")) == ([], "Completed")


def test_a_second_root_moves_nothing() -> None:
    driver = Driver()
    driver.see(worker("p", 1))
    for version, chain in enumerate(["rj", "rj2", "", "rj3", "rj"], 2):
        driver.see(worker("p", version, chain=chain))
    assert moves(driver) == [Move("p", "c", "rj", "RayJob/rj", "chain")]
    assert [data.owner for data in driver.of(AttemptChanged) if data.owner is not None] == []
    assert job_of(driver) == {"p": "rj"}


def test_another_controller_is_a_change_of_owner_and_moves_nothing() -> None:
    driver = Driver()
    driver.see(worker("p", 1))
    driver.see(replace(worker("p", 2, chain="rj"), controller="d", through="rj-d", chained=True))
    assert moves(driver) == []
    assert [data.owner for data in driver.of(AttemptChanged) if data.owner is not None] == ["RayJob/rj"]


@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize("crashed", [False, True])
def test_the_same_observations_again_move_nothing_again(versions: bool, crashed: bool) -> None:
    driver = Driver()
    seen = [worker("p", 1), worker("q", 1), worker("p", 2, chain="rj"), worker("q", 2, chain="rj"), worker("p", 3, ready=True)]
    for number, one in enumerate(seen):
        driver.see(one if versions else replace(one, version=None), key=f"o{number}")
    if crashed:
        driver.crash()
    before = len(driver.events)
    for number, one in enumerate(seen):
        driver.see(one if versions else replace(one, version=None), key=f"o{number}")
    assert driver.events[before:] == []
    assert len(moves(driver)) == 2


def test_a_pod_of_a_pod_of_a_pod_moves_to_the_job_that_has_the_first() -> None:
    """Though its chain was read up to that pod only."""
    driver = Driver()
    below = pod("z", "x", 1, "Running", kind=POD, owner="agg-exec-x", node="n", running=4)
    driver.see(below)
    driver.wait(61)
    driver.see(leader())
    driver.see(replace(below, version="2", job="driver", owner="agg-driver", through="agg-exec-x", controller="x", chained=True))
    assert [(move.source, move.to, move.owner) for move in moves(driver)] == [("x", "app", "SparkApplication/app")]


def test_a_pod_whose_first_job_was_above_its_controller_stays() -> None:
    driver = Driver()
    driver.see(worker("p", 1, chain="rj"))
    driver.see(worker("p", 2, chain="flow"))
    assert (moves(driver), job_of(driver)) == ([], {"p": "rj"})
    assert [data.owner for data in driver.of(AttemptChanged) if data.owner is not None] == []


def test_an_older_observation_moves_nothing() -> None:
    driver = Driver()
    driver.see(worker("p", 5))
    driver.see(worker("p", 4, chain="rj"))
    assert (moves(driver), driver.outcome) == ([], "duplicate")


def test_a_completion_index_of_a_job_below_names_no_replica_of_the_root() -> None:
    """The Job's pods moved in another order than that of their indexes; a later command reads none of their chain."""
    driver = Driver()
    for uid, index in (("p", 3), ("q", 0)):
        driver.see(worker(uid, 1, index=index))
        driver.see(worker(uid, 2, chain="rj", index=None))
    driver.see(worker("r", 1, index=1))
    assert job_of(driver) == {"p": "rj", "q": "rj", "r": "rj"}
    assert driver.of(AttemptEnded) == [], "a pod that lives was given up"
    assert driver.job("rj").live == 3


def test_later_pods_of_a_moved_controller_belong_to_the_root_at_once() -> None:
    driver = Driver()
    driver.see(worker("p", 1))
    driver.see(worker("p", 2, chain="rj"))
    driver.see(worker("q", 1))
    assert job_of(driver) == {"p": "rj", "q": "rj"}
    assert len(moves(driver)) == 1


def test_what_is_left_decides_the_phase() -> None:
    driver = Driver()
    driver.see(worker("p", 1))
    driver.see(worker("q", 1, phase="Succeeded", ended=9))
    driver.see(worker("p", 2, chain="rj"))
    assert (driver.phase("c"), driver.phase("rj")) == ("Completed", "Running")


@pytest.mark.parametrize("listed", [None, "last"])
def test_the_rest_ends_with_its_last_pod_not_when_the_moved_pod_began(listed: str | None) -> None:
    driver = Driver()
    driver.see(worker("p", 1))
    driver.see(worker("q", 1, phase="Succeeded", ended=9))
    driver.see(worker("r", 1, phase="Succeeded", ended=5, task="other"))
    driver.see(worker("p", 2, chain="rj", listed=listed))
    ours = [event for event in driver.events if event.subject == "c"]
    ends = [(event.data.phase, event.time) for event in ours if isinstance(event.data, JobPhaseChanged | TaskPhaseChanged)]
    assert ends[-2:] == [("Completed", START + 9 * SECOND)] * 2


@pytest.mark.parametrize("part", [True, False])
def test_the_object_of_a_job_with_moved_pods_is_followed_unless_a_part(part: bool) -> None:
    driver = Driver()
    driver.see(worker("p", 1))
    running = JobObserved("rj-c", "RayCluster", phase="Running", version="1", owner_decides=True, part=part)
    driver.owner(running, "c")
    driver.see(worker("p", 2, chain="rj"))
    assert (driver.phase("c"), driver.job("c").reason) == ("Terminated", "Moved")
    driver.owner(replace(running, version="2"), "c")
    assert driver.phase("c") == ("Terminated" if part else "Running")
    driver.delete("c", "9", part=True)
    assert driver.phase("c") == "Terminated"


def test_an_end_that_the_object_of_a_job_stated_stays() -> None:
    driver = Driver()
    driver.see(worker("p", 1))
    driver.owner(JobObserved("rj-c", "RayCluster", phase="Completed", version="1", owner_decides=True), "c")
    driver.see(worker("p", 2, chain="rj"))
    assert (driver.phase("c"), job_of(driver)) == ("Completed", {"p": "rj"})


def test_a_new_pod_takes_back_that_the_pods_of_a_job_have_moved() -> None:
    driver = executors_first()
    for uid in "xy":
        driver.see(executor(uid, 2))
    driver.see(pod("z", "driver", 1, "Running", kind="Job", owner="other", node="n", running=4))
    check_job(driver.job("driver"))
    assert sum(len(driver.job(name).by_uid) for name in ("driver", "app")) == 4


def test_a_managed_job_gets_and_loses_no_pods() -> None:
    driver = Driver()
    driver.submit(vcjob({"name": "w"}))
    driver.see(worker("p", 1))
    driver.see(worker("p", 2, chain="j1"))
    assert moves(driver) == []
    assert job_of(driver)["p"] == "c"


@pytest.mark.parametrize("elsewhere", [{"namespace": "other"}, {"cluster": ELSEWHERE}])
def test_a_job_of_another_cluster_or_namespace_gets_no_pods(elsewhere: dict[str, str]) -> None:
    driver = Driver()
    cluster = elsewhere.get("cluster", CLUSTER)
    driver.see(
        pod("r", "rj", 1, "Running", kind="RayJob", owner="rj", namespace=elsewhere.get("namespace", "default")), cluster=cluster
    )
    driver.see(worker("p", 1))
    driver.see(worker("p", 2, chain="rj"))
    assert moves(driver) == []
    assert job_of(driver)["p"] == "c"


def test_a_parked_job_gets_no_pods_until_it_goes_on() -> None:
    driver = Driver()
    driver.see(worker("q", 1, chain="rj"))
    driver.see(pod("p", "d", 1, "Running", kind="Job", owner="d", node="n", running=2))
    driver.drain(driver.stage.park(driver.state, driver.event(JobObserved("rj", "RayJob"), "rj"), driver.now, "broken"))
    below = pod("p", "d", 2, "Running", kind="Job", owner="d", node="n", running=2)
    above = replace(below, job="rj", kind="RayJob", owner="rj", through="d", controller="d", chained=True)
    driver.see(above)
    assert job_of(driver)["p"] == "d"
    driver.command("Unpark", "rj")
    driver.see(replace(above, version="3"))
    assert job_of(driver)["p"] == "rj"


def test_labels_move_no_pod() -> None:
    """All use so far would be billed to another job by an edit of a pod's labels."""
    driver = Driver()
    driver.see(worker("p", 1))
    driver.see(worker("q", 1, chain="rj"))
    driver.see(replace(worker("p", 2, chain="rj"), chained=False))
    assert moves(driver) == []
    assert job_of(driver)["p"] == "c"


def test_a_forgotten_job_gets_no_pods() -> None:
    driver = Driver(LifecycleStage(forget_after=10 * SECOND))
    driver.owner(JobObserved("rj", "RayJob", phase="Completed", version="9", ended=START), "rj")
    driver.wait(20)
    driver.see(worker("p", 1))
    driver.see(worker("p", 2, chain="rj"))
    assert (moves(driver), driver.phase("c")) == ([], "Running")


def test_what_a_pod_was_stays_known_when_it_moves() -> None:
    """Its size before a resize that the observation shows too."""
    driver = Driver()
    driver.see(worker("p", 1))
    driver.see(worker("p", 2, chain="rj", requests=Requests(cpu_milli=3000), proof=40))
    started = [event.data for event in driver.events if event.subject == "rj" and isinstance(event.data, AttemptStarted)]
    changed = [data.requests for data in driver.of(AttemptChanged)]
    assert [data.requests.cpu_milli for data in started] == [1000]
    assert changed == [Requests(cpu_milli=3000)]


@pytest.mark.parametrize("crashed", [False, True])
def test_a_node_that_is_gone_ends_a_moved_pod_in_its_new_job(crashed: bool) -> None:
    driver = Driver()
    driver.node("n", ready="True", version="1")
    driver.see(worker("p", 1))
    driver.take(driver.event(NodeDeleted("n", "2"), "n"))
    driver.see(worker("p", 2, chain="rj"))
    if crashed:
        driver.crash()
    driver.until(driver.now + 3 * LOSS_WAIT)
    ends = [(event.subject, event.data.reason) for event in driver.events if isinstance(event.data, AttemptEnded)]
    assert ends == [("rj", "NodeLost")]


def test_the_pods_of_a_list_move_together() -> None:
    """Its phases follow with the last of them: the job above is not over in between."""
    driver = Driver()
    for uid in "pq":
        driver.see(worker(uid, 1))
    driver.see(worker("p", 2, chain="rj", phase="Succeeded", ended=9, listed="more"))
    driver.see(worker("q", 2, chain="rj", phase="Failed", ended=9, exit_code=1, reason="AppFailed", listed="last"))
    assert driver.path("rj") == ["Failed"]
    assert driver.phase("c") == "Terminated"


STEPS = st.lists(
    st.tuples(st.sampled_from("pqr"), st.sampled_from(["", "rj", "rj2", "another controller"]), st.booleans(), st.booleans()),
    max_size=12,
)


@given(STEPS, st.integers(0, 12))
def test_for_any_chain_a_pod_is_one_attempt_and_moves_at_most_once(steps: list[tuple[str, str, bool, bool]], crash: int) -> None:
    driver = Driver()
    ended: set[str] = set()
    for version, (uid, chain, ends, listed) in enumerate(steps, 1):
        if version == crash:
            driver.crash()
        ended |= {uid} if ends else set()
        fields: dict[str, Any] = {"phase": "Succeeded", "ended": 9} if uid in ended else {}
        seen = worker(uid, version, chain=chain if chain.startswith("rj") else "", listed="more" if listed else None, **fields)
        driver.see(replace(seen, job="d", owner="d") if chain == "another controller" else seen)
        of_pods = [uid for job in list(driver.state.jobs.values()) for uid in job.by_uid]
        assert len(of_pods) == len(set(of_pods)), "two jobs have a pod"
    moved = [move.pod for move in moves(driver)]
    assert len(moved) == len(set(moved))
    started = [data.uid for data in driver.of(AttemptStarted) if data.moved_from is None]
    assert sorted(started) == sorted({uid for uid, *_ in steps})
    assert len(driver.of(AttemptEnded)) == len(ended)
    assert len(driver.of(AttemptRunning)) <= len(started) + len(moved)
