"""A List shows one moment: a job passes through no end that the whole List does not show, whatever the order of its items."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_driver import CLUSTER, ELSEWHERE, START, Driver, pod, shown_by_pods, vcjob
from pod_cluster import Cluster

from engine.events import Event, Message, Topic, decode, encode, raw_message
from engine.events.bounds import MOMENT_BYTES, MOMENT_INPUTS, NAME_CHARACTERS
from engine.events.ids import observation_id
from engine.events.inputs import JobObserved, NodeObserved, PodObserved
from engine.events.jobs import JobPhaseChanged, TaskPhaseChanged
from engine.kubernetes.list_moment import ListMoments, of_one_moment
from engine.kubernetes.owner_chains import OwnerChains
from statemachines.vocabulary import FINISHED_JOB_PHASES

ENDS = {"Succeeded", "Failed", "Lost"}
REASONS = {"Failed": "AppFailed", "Lost": "NodeLost"}

shapes = st.tuples(
    st.sampled_from(["Pending", "Bound", "Running", "Terminating", "Succeeded", "Failed", "Lost"]),
    st.integers(0, 20),  # created
    st.sampled_from([None, 0, 1, 2]),  # index
    st.sampled_from([None, "a", "b"]),  # task
    st.integers(1, 30),  # end, after the creation
)


def seen(number: int, shape: tuple[Any, ...], version: int = 1, job: str = "j1", **fields: Any) -> PodObserved:
    phase, created, index, task, length = shape
    if phase != "Pending":
        fields |= {"node": f"n{number}", "bound": created}
    if phase in {"Running", "Terminating"} | ENDS:
        fields |= {"running": created}
    if phase == "Terminating":
        fields |= {"terminating": created + length}
    if phase in ENDS:
        fields |= {"ended": created + length}
    fields.setdefault("kind", "Job")
    return pod(
        f"u{number}",
        job,
        version,
        phase,
        created=created,
        index=index,
        task=task,
        reason=REASONS.get(phase),
        owner="train",
        **fields,
    )


def message(data: PodObserved | JobObserved | NodeObserved, subject: str, key: str, recorded: int = START) -> Message:
    return encode(Event(key, "kubernetes/c1", data.TYPE, subject, recorded, recorded, 0, subject, "", CLUSTER, data))


def listed(*pods: PodObserved, recorded: int = START) -> list[tuple[Topic, Message]]:
    return [("pods", message(one, one.job, observation_id(one.uid, one.version, deleted=False), recorded)) for one in pods]


def take(driver: Driver, inputs: list[tuple[Topic, Message]]) -> list[Event[Any]]:
    return [event for _, one in of_one_moment(inputs) for event in driver.take(decode(one))]


def ends_of(made: list[Event[Any]]) -> list[str]:
    return [
        event.data.phase for event in made if isinstance(event.data, JobPhaseChanged) and event.data.phase in FINISHED_JOB_PHASES
    ]


@given(st.lists(shapes, min_size=1, max_size=6), st.lists(shapes, max_size=6), st.booleans(), st.randoms(use_true_random=False))
def test_no_end_is_passed_through_and_no_order_matters(before, after, owned, random):
    """Two Lists, one after the other, of a job whose owner may be known: what each shows is what the job is then."""
    found = []
    for shuffled in (False, True):
        driver = Driver()
        if owned:
            driver.owner(JobObserved("train", "Job", version="1", phase="Running", created=START))
        for version, shapes_ in enumerate((before, after), 1):
            pods = [seen(number, shape, version) for number, shape in enumerate(shapes_)]
            inputs = listed(*pods)
            if shuffled:
                random.shuffle(inputs)
            made = take(driver, inputs)
            if pods and any(one.live for one in driver.job().attempts):
                assert ends_of(made) == []
            assert len(ends_of(made)) <= 1
            for name, task in driver.job().tasks.items() if pods else ():
                told = [one.data.phase for one in made if isinstance(one.data, TaskPhaseChanged) and one.data.task == name]
                if "Completed" in told:
                    assert task.phase == "Completed"
        found.append([encode(event) for event in driver.events])
    assert found[0] == found[1]


MOVES = {"starts": ("go", "go"), "ends": ("go", "go", "end"), "is deleted": ("go", "go", "delete", "end"), "stays": ()}
rounds = st.tuples(
    st.integers(0, 2),  # pods that appear
    st.lists(st.sampled_from(list(MOVES)), min_size=1, max_size=2),  # what becomes of all that there are
    st.sampled_from([0, 9]),  # how they end
    st.sampled_from(["a watch", "a List", "a List", "a List that is cut", "two Lists that mix"]),
)


@given(st.lists(rounds, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_whatever_is_told_in_between_a_list_shows_what_the_pods_amount_to(program, random):
    """Watches and Lists of a job in any order, Lists that are cut, and two Lists that mix, against a phase that is counted anew."""
    driver = Driver()
    cluster = Cluster(driver)
    cluster.appear("j1")
    for new, moves, code, telling in program:
        driver.wait(1)
        for _ in range(new):
            cluster.appear("j1", index=random.choice([None, None, 0, 1]))
        for one in cluster.pods:
            for part in MOVES[random.choice(moves)]:
                if one.now.phase not in ENDS:
                    cluster.progress(one, part, code)
        if telling == "a watch":
            for one in random.sample(cluster.pods, len(cluster.pods) // 2):
                if one.untold:
                    cluster.tell(one, random.randint(0, 3))
            continue
        made = cluster.list("j1", random, cut=0 if telling == "a List" else random.randint(1, 3))
        if telling == "a List that is cut":
            continue
        if telling == "two Lists that mix":
            behind = cluster.listed("j1", random)[-2:]
            made += cluster.list("j1", random)
            made += [event for message in behind for event in driver.take(decode(message))]
        assert shown_by_pods(driver.job()) in {None, driver.phase()}
        assert len(ends_of(made)) <= 1
        assert not ends_of(made) or not driver.job().live


def test_a_running_job_whose_finished_pods_stand_first_is_running():
    driver = Driver()
    done = [seen(number, ("Succeeded", number, None, None, 5)) for number in range(3)]
    take(driver, listed(*done, seen(3, ("Running", 3, None, None, 5))))
    assert driver.path() == ["Running"]


def test_the_end_is_that_of_the_pod_that_ended_last():
    driver = Driver()
    lengths = (50, 20, 30)
    made = take(driver, listed(*(seen(number, ("Succeeded", number, None, None, length)) for number, length in enumerate(lengths))))
    (end,) = [event for event in made if isinstance(event.data, JobPhaseChanged)]
    assert (end.data.phase, end.data.inferred, end.time) == ("Completed", True, START + 50_000_000)


def test_a_replacement_pod_is_the_next_attempt_though_listed_first():
    driver = Driver()
    take(driver, listed(seen(1, ("Running", 9, None, None, 5)), seen(2, ("Failed", 0, None, None, 5))))
    assert [(one.index, one.number, one.uid) for one in driver.job().attempts] == [(0, 1, "u2"), (0, 2, "u1")]
    assert driver.path() == ["Running"]


def test_the_last_pod_ends_the_job_though_nothing_of_it_is_news():
    driver = Driver()
    first, second = ("Running", 0, None, None, 5), ("Succeeded", 1, None, None, 5)
    take(driver, listed(seen(1, first), seen(2, second)))
    assert driver.phase() == "Running"
    take(driver, listed(seen(1, ("Succeeded", 0, None, None, 5), 2), seen(2, second)))
    assert (driver.outcome, driver.path()) == ("applied", ["Running", "Completed"])
    take(driver, listed(seen(1, ("Succeeded", 0, None, None, 5), 2), seen(2, second)))
    assert driver.outcome == "duplicate"


@pytest.mark.parametrize("kind", ["Job", "JobSet", "PyTorchJob", "RayCluster", "Workflow", "Other"])
def test_jobs_of_every_kind_are_one_moment(kind):
    driver = Driver()
    take(
        driver, listed(*(seen(number, (phase, 0, None, None, 5), kind=kind) for number, phase in enumerate(["Failed", "Running"])))
    )
    assert driver.path() == ["Running"]


@pytest.mark.parametrize("elsewhere", ["namespace", "cluster"])
def test_jobs_of_one_owner_in_two_places_end_each_by_itself(elsewhere: str):
    """A cluster that was restored from the backup of another one has the same uids."""
    driver = Driver()
    shape = ("Succeeded", 0, None, None, 5)
    here = listed(seen(1, shape), seen(2, shape))
    if elsewhere == "namespace":
        there = listed(*(seen(number, shape, namespace="other") for number in (3, 4)))
    else:
        there = [(topic, one._replace(clusterid=ELSEWHERE)) for topic, one in listed(seen(3, shape), seen(4, shape))]
    take(driver, [*here, *there])
    assert [job.phase for job in driver.state.jobs.values()] == ["Completed", "Completed"]


def test_pods_that_only_claim_to_be_of_a_job_do_not_wait_for_each_other():
    driver = Driver()
    claims = [
        pod(f"u{number}", "nobody", 1, "Succeeded", managed=True, node="n", bound=0, running=0, ended=5) for number in range(2)
    ]
    take(driver, listed(*claims))
    driver.wait(120)
    assert [job.phase for job in driver.state.jobs.values() if job.opened] == ["Completed", "Completed"]


def test_what_judges_pods_stands_before_them():
    pods = listed(seen(1, ("Running", 0, None, None, 5)))
    owner: list[tuple[Topic, Message]] = [("jobs", message(JobObserved("train", "Job"), "j1", "o"))]
    node: list[tuple[Topic, Message]] = [("cluster", message(NodeObserved("n"), CLUSTER, "n"))]
    assert [topic for topic, _ in of_one_moment([*pods, *owner, *node])] == ["cluster", "jobs", "pods"]
    assert of_one_moment(pods) == pods, "one pod has nothing to wait for"


def test_a_pod_beyond_a_bound_holds_up_no_other():
    """Only the shard that takes it says that it is one, and makes a dead letter of it."""
    shape = ("Succeeded", 0, None, None, 5)
    good, bad = listed(seen(1, shape), seen(2, shape)), listed(seen(3, shape, name="x" * (NAME_CHARACTERS + 1)))
    found = of_one_moment([*good, *bad])
    assert bad[0] in found
    assert [decode(one).data.listed for _, one in found if one != bad[0][1]] == ["more", "last"]  # type: ignore[attr-defined]


def test_pods_of_a_managed_job_end_it_as_ever():
    """Its size is known: an end is none before all its pods have ended."""
    driver = Driver()
    driver.submit(vcjob({"name": "w", "replicas": 2}))
    driver.run("w")
    made = [driver.replica("w", index, phase="Succeeded", node=f"n{index}", bound=0, running=0, ended=5) for index in (0, 1)]
    take(driver, listed(*made))
    assert driver.path()[-1] == "Completed"


@pytest.mark.parametrize(("most", "size"), [(MOMENT_INPUTS, 1), (8, MOMENT_BYTES // 8)])
def test_a_list_beyond_a_bound_is_several_moments(most: int, size: int):
    """What is held back has a bound in number and one in bytes; what is handed out then is one moment of its own."""
    moments = ListMoments(OwnerChains())
    handed = [moments.take((1, "items"), [("jobs", raw_message("k", b"x" * size, number))]) for number in range(2 * most + 1)]
    sizes = [len(inputs) for inputs in handed]
    assert [at + 1 for at, size in enumerate(sizes) if size] == [most, 2 * most]
    assert [{message.recordedtime for _, message in inputs} for inputs in handed if inputs] == [{most - 1}, {2 * most - 1}]
    assert len(moments.end()) == 1


@pytest.mark.parametrize("how", ["it is gone", "a later version", "one that stands", "the same List again"])
def test_a_list_that_was_cut_is_settled_by_what_is_said_next(how: str):
    """Else a job all of whose pods have ended would run for ever."""
    driver = Driver()
    shape = ("Succeeded", 0, None, None, 5)
    pods = [seen(1, shape), seen(2, shape)]
    first, _ = of_one_moment(listed(*pods, seen(3, shape)))[:2]
    driver.see(seen(1, ("Running", 0, None, None, 5), 0))
    driver.take(decode(first[1]))
    assert (driver.phase(), driver.job().live) == ("Running", 0)
    if how == "it is gone":
        driver.gone(seen(1, shape, 2))
    elif how == "a later version":
        driver.see(seen(1, ("Failed", 0, None, None, 5), 2))
    else:
        take(driver, listed(*pods[how == "one that stands" :]))
    (end,) = [event for event in driver.events if isinstance(event.data, JobPhaseChanged) and event.data.inferred]
    assert (driver.path(), end.time) == (["Running", "Completed"], START + 5_000_000)
