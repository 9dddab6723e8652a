"""The scheduling stage, step by step: what it decides, what it frees, what it leaves alone, and what it is told."""

from __future__ import annotations

from itertools import pairwise

import pytest
from deployment import SECOND, START, Deployment, task, vcjob
from log_checker import faults_of

from engine.events.attempts import AttemptRunning
from engine.events.decisions import DecidedBound, DecidedEnqueued, DecidedEvicted, DecisionRefused
from engine.events.inputs import CommandIssued, CustomEventRaised, NodeObserved, ObjectDeleted, PodObserved, Taint
from engine.events.scheduling import DecisionTimedOut, GroupPhaseChanged, JobExplained, RoundEnded
from engine.history.verify import verify_shard
from engine.lifecycle.stage import LifecycleStage
from engine.scheduling.configuration import DEFAULT, Configuration, PluginOption
from engine.scheduling.stage import SchedulingStage
from engine.scheduling.state import model_sync
from statemachines.spec import Requests


@pytest.fixture
def deployment() -> Deployment:
    made = Deployment()
    made.node("n1", cpu=4)
    return made


def reasons(deployment: Deployment, job: str) -> list[str]:
    return [event.data.reason for event in deployment.events(JobExplained, job=job)]


def test_a_job_is_let_in_placed_and_runs(deployment):
    deployment.submit("j1", vcjob("train", task("w", 3)))
    deployment.settle()
    deployment.wait(4)
    assert set(deployment.places("j1").values()) == {"n1"}
    phases = [event.data.phase for event in deployment.events(GroupPhaseChanged, job="j1")]
    assert phases == ["Inqueue", "Running"]
    (bound,) = deployment.events(DecidedBound, job="j1")
    assert len(bound.data.placements) == 3
    rounds = {event.id: event for event in deployment.events(RoundEnded)}
    assert bound.causationid in rounds
    assert (bound.time, bound.recordedtime) == (START + 2 * SECOND, START + 2 * SECOND)


def test_nothing_happens_where_no_job_is_ours(deployment):
    deployment.submit("other", vcjob("other", task("w", 2), schedulerName="volcano"))
    deployment.settle()
    deployment.wait(5)
    assert deployment.messages("scheduling", "decisions") == []


def test_no_round_follows_when_nothing_changes(deployment):
    deployment.submit("j1", vcjob("train", task("w", 9)))
    deployment.settle()
    deployment.wait(3)
    rounds = len(deployment.events(RoundEnded))
    deployment.node("n1", cpu=4)  # seen again as it was
    deployment.settle()
    deployment.wait(30)
    assert len(deployment.events(RoundEnded)) == rounds
    assert reasons(deployment, "j1") == ["ClusterTooSmall"]


@pytest.mark.parametrize(("more", "rounds"), [((), 0), (("preempt",), 1), (("reclaim",), 1)])
def test_which_pods_run_is_looked_at_where_pods_are_evicted(more, rounds):
    configured = Configuration((*DEFAULT.actions, *more), DEFAULT.tiers)
    deployment = Deployment(stage=lambda: SchedulingStage(configured))
    deployment.node("n1", cpu=4)
    deployment.lazy = True
    for job in ("j1", "j2"):
        deployment.submit(job, vcjob(job, task("w", 2)))
    deployment.submit("j3", vcjob("j3", task("w", 1)))
    deployment.settle()
    deployment.wait(4)
    before = len(deployment.events(RoundEnded))
    for uid in [uid for uid, pod in deployment.pods.items() if pod.now.phase == "Bound"]:
        deployment.run(uid)
    deployment.settle()
    deployment.wait(5)
    assert len(deployment.events(AttemptRunning)) == 4
    assert len(deployment.events(RoundEnded)) == before + rounds


def test_a_history_is_folded_alike_whatever_rounds_look_at():
    evicting = Configuration((*DEFAULT.actions, "preempt"), DEFAULT.tiers)
    deployment = Deployment(stage=lambda: SchedulingStage(evicting), every=1)
    deployment.node("n1", cpu=4)
    deployment.lazy = True
    deployment.submit("j1", vcjob("train", task("w", 1)))
    deployment.settle()
    deployment.wait(5)
    deployment.run(next(iter(deployment.pods)))
    deployment.settle()
    for configured in (evicting, DEFAULT):
        assert verify_shard(deployment.log, SchedulingStage(configured), 0).ok, configured.actions


IN_PAIRS = task("w", 4) | {"partitionPolicy": {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 2}}


@pytest.mark.parametrize(
    ("manifest", "fail"), [(vcjob("train", task("w", 2)), [0]), (vcjob("train", IN_PAIRS, minAvailable=2), [1, 3])]
)
def test_a_gang_that_runs_in_part_is_unknown(deployment, manifest, fail):
    deployment.lazy = True
    deployment.submit("j1", manifest)
    deployment.settle()
    deployment.wait(4)
    bound = sorted(uid for uid, pod in deployment.pods.items() if pod.now.phase == "Bound")
    for at in fail:
        deployment.end(bound[at], "Failed")
    deployment.settle()
    deployment.wait(4)
    deployment.run(next(uid for at, uid in enumerate(bound) if at not in fail))
    deployment.settle()
    deployment.wait(2)
    assert [event.data.phase for event in deployment.events(GroupPhaseChanged, job="j1")][-1] == "Unknown"


def test_pods_of_others_take_their_room(deployment):
    seen = PodObserved("p1", "p1", "p1", "Running", START, node="n1", requests=Requests(3000, 1 << 30), bound=START, running=START)
    deployment.give("pods", seen, "p1")
    deployment.submit("j1", vcjob("train", task("w", 2)))
    deployment.settle()
    deployment.wait(3)
    assert set(deployment.places("j1").values()) in (set(), {None})
    assert reasons(deployment, "j1")[-1] in {"ClusterOvercommitted", "InsufficientResource", "GangNotComplete"}
    deployment.give("pods", PodObserved("p1", "p1", "p1", "Succeeded", START, version="9", node="n1", ended=deployment.now), "p1")
    deployment.settle()
    deployment.wait(4)
    assert set(deployment.places("j1").values()) == {"n1"}


def test_no_id_of_a_job_makes_pods_of_others_its_own(deployment):
    deployment.submit("namespace default", vcjob("train", task("w", 1)))
    deployment.settle()
    deployment.wait(3)
    deployment.submit("other", vcjob("other", task("w", 2), schedulerName="volcano"))
    deployment.settle()
    for index in range(2):
        deployment.see(f"other-w-{index}-1", phase="Running", node="n1", bound=deployment.now, running=deployment.now)
    deployment.settle()
    model = deployment.scheduling.state.clusters["c1"].model
    assert {ident: len(job.tasks) for ident, job in model.jobs.items()} == {"namespace default": 1}
    assert len(model.nodes["n1"].tasks) == 3


def test_a_refusal_frees_the_nodes_and_doubles_the_pause(deployment):
    deployment.submit("j1", vcjob("train", task("w", 1)))
    deployment.settle()
    deployment.wait()
    pauses = []
    for _ in range(4):
        deployment.deaf = True
        before = len(deployment.events(DecidedBound))
        while len(deployment.events(DecidedBound)) == before:
            deployment.wait()
        pauses.append(deployment.now)
        deployment.node("n1", cpu=4, unschedulable=True)
        deployment.deaf = False
        deployment.settle()
        deployment.node("n1", cpu=4)
        deployment.settle()
    assert [event.data.reason for event in deployment.events(DecisionRefused)] == ["NodeCordoned"] * 4
    assert [(later - earlier) // SECOND for earlier, later in pairwise(pauses)] == [1, 2, 4]
    deployment.wait(9)
    assert deployment.places("j1") == {"j1-w-0-1": "n1"}


def test_an_unanswered_decision_is_reported_after_a_minute_and_holds(deployment):
    deployment.submit("j1", vcjob("train", task("w", 1, cpu=4)))
    deployment.settle()
    deployment.wait()
    deployment.deaf = True
    deployment.wait()
    deployment.submit("j2", vcjob("later", task("w", 1, cpu=4)))
    deployment.wait(62)
    deployment.restart()
    deployment.wait(62)
    assert [event.data.kind for event in deployment.events(DecisionTimedOut)] == ["bound"]
    deployment.deaf = False
    deployment.settle()
    deployment.wait(4)
    assert deployment.places("j1") == {"j1-w-0-1": "n1"}
    assert set(deployment.places("j2").values()) <= {None}
    assert faults_of(deployment.log) == []


def test_a_binding_that_failed_is_decided_again(deployment):
    deployment.failing = True
    deployment.submit("j1", vcjob("train", task("w", 1)))
    deployment.settle()
    deployment.wait(5)
    assert len(deployment.events(DecidedBound)) == 2
    assert deployment.places("j1") == {"j1-w-0-1": "n1"}


def test_a_node_that_takes_nothing_fills_no_log():
    class Refusing(Deployment):
        def obey(self) -> bool:
            self.failing = True
            return super().obey()

    refusing = Refusing()
    refusing.node("n1", cpu=4)
    refusing.submit("j1", vcjob("train", task("w", 1)))
    refusing.settle()
    refusing.wait(130)
    times = [event.time for event in refusing.events(DecidedBound)]
    assert [(later - earlier) // SECOND for earlier, later in pairwise(times)] == [1, 2, 4, 8, 16, 32, 64]


def test_a_round_stops_at_its_limit_and_goes_on_at_once():
    deployment = Deployment(stage=lambda: SchedulingStage(round_limit=2))
    deployment.node("n1", cpu=8)
    for number in range(3):
        deployment.submit(f"j{number}", vcjob(f"j{number}", task("w", 2)))
    deployment.settle()
    deployment.wait(2)
    rounds = [event for event in deployment.events(RoundEnded) if event.data.bound]
    assert [(event.data.bound, event.data.more) for event in rounds] == [(2, True)] * 3
    assert not deployment.events(RoundEnded)[-1].data.more
    assert len({event.recordedtime for event in rounds}) == 1


def test_a_more_important_job_takes_the_place_of_another():
    tiers = (("priority", "gang", "conformance"), ("overcommit", "predicates", "proportion"))
    options = tuple(tuple(PluginOption(name) for name in tier) for tier in tiers)
    deployment = Deployment(stage=lambda: SchedulingStage(Configuration(("enqueue", "allocate", "preempt"), options)))
    deployment.node("n1", cpu=4)
    deployment.apply("PriorityClass", "high", value=100)
    deployment.submit("low", vcjob("low", task("w", 4, minAvailable=1), minAvailable=1))
    deployment.settle()
    deployment.wait(4)
    deployment.node("n2", cpu=1, taints=[Taint("special")])  # room in all, though not for it
    deployment.submit("high", vcjob("high", task("w", 1), priorityClassName="high"))
    deployment.settle()
    deployment.wait(6)
    (evicted,) = deployment.events(DecidedEvicted)
    assert (evicted.subject, evicted.data.reason, evicted.data.preemptor) == ("low", "Preempted", "high")
    assert deployment.places("high") == {"high-w-0-1": "n1"}


def test_who_is_evicted_and_comes_back_first_is_evicted_less_and_less():
    """By drf a job with less takes from one with more, but that one is more important, and has its pods placed first."""
    options = tuple((PluginOption(name),) for name in ("priority", "drf", "predicates"))
    deployment = Deployment(stage=lambda: SchedulingStage(Configuration(("enqueue", "allocate", "preempt"), options)))
    deployment.node("n1", cpu=4)
    deployment.apply("PriorityClass", "high", value=1000)
    deployment.submit("j1", vcjob("first", task("w", 4), priorityClassName="high"))
    deployment.settle()
    deployment.wait(4)
    deployment.submit("j2", vcjob("second", task("w", 1)))
    deployment.settle()
    deployment.wait(130)
    for claimant in ("j1", "j2"):
        times = [event.time // SECOND for event in deployment.events(DecidedEvicted) if event.data.preemptor == claimant]
        pauses = [later - earlier for earlier, later in pairwise(times)]
        assert all(pause >= 2**at for at, pause in enumerate(pauses))


def test_partitions_are_gangs_of_their_own(deployment):
    workers = task("w", 6, cpu=1, minAvailable=3)
    workers["partitionPolicy"] = {"totalPartitions": 2, "partitionSize": 3, "minPartitions": 1}
    deployment.submit("j1", vcjob("train", workers, minAvailable=3))
    deployment.settle()
    deployment.wait(4)
    placed = [uid for uid, node in deployment.places("j1").items() if node is not None]
    assert placed == ["j1-w-0-1", "j1-w-1-1", "j1-w-2-1"]


def test_a_parked_job_is_left_alone(deployment, monkeypatch):
    original = LifecycleStage.decide

    def decide(stage, state, event, now):
        if isinstance(event.data, CustomEventRaised):
            raise TypeError("not this one")
        return original(stage, state, event, now)

    monkeypatch.setattr(LifecycleStage, "decide", decide)
    deployment.submit("j1", vcjob("train", task("w", 1)))
    deployment.give("jobs", CustomEventRaised("Odd"), "j1")
    deployment.settle()
    deployment.wait(3)
    assert deployment.events(DecidedEnqueued) == []
    monkeypatch.undo()
    deployment.give("jobs", CommandIssued("Unpark", "ann"), "j1")
    deployment.settle()
    deployment.wait(4)
    assert deployment.places("j1") == {"j1-w-0-1": "n1"}


def test_quotas_are_read_once_for_a_round(deployment, monkeypatch):
    reads, quotas_of = [], model_sync.quotas_of

    def read(*given):
        reads.append(given)
        return quotas_of(*given)

    monkeypatch.setattr(model_sync, "quotas_of", read)
    deployment.submit("j1", vcjob("train", task("w", 1)))
    for used in range(50):
        deployment.apply("ResourceQuota", "default/q", hard={"requests.cpu": "100"}, used={"requests.cpu": str(used)})
    deployment.settle()
    assert reads == []
    deployment.wait(1)
    assert len(reads) == 1
    (quota,) = deployment.scheduling.state.clusters["c1"].model.quotas
    assert quota.used == {"requests.cpu": 49_000}


def test_a_queue_that_is_not_there_is_named(deployment):
    deployment.apply("Queue", "nobody", weight=1)
    deployment.submit("j1", vcjob("train", task("w", 1), queue="nobody"))
    deployment.settle()
    deployment.give("cluster", ObjectDeleted("Queue", "nobody"), "nobody")
    deployment.settle()
    deployment.wait(2)
    assert reasons(deployment, "j1") == ["QueueNotFound"]
    deployment.apply("Queue", "nobody", weight=1)
    deployment.settle()
    deployment.wait(4)
    assert deployment.places("j1") == {"j1-w-0-1": "n1"}
    assert reasons(deployment, "j1")[-1] == ""


@pytest.mark.parametrize("spec", [{"weight": "many"}, {"capability": {"cpu": "much"}}, {"capability": 3}, {"guarantee": []}])
def test_a_queue_that_cannot_be_read_counts_as_absent(deployment, spec):
    deployment.apply("Queue", "q", **spec)
    deployment.submit("j1", vcjob("train", task("w", 1), queue="q"))
    deployment.submit("j2", vcjob("other", task("w", 1)))
    deployment.settle()
    deployment.wait(4)
    assert reasons(deployment, "j1") == (["QueueNotFound"] if spec != {"guarantee": []} else [])
    assert deployment.places("j2") == {"j2-w-0-1": "n1"}


def test_queues_in_a_circle_end_no_round(deployment):
    deployment.apply("Queue", "a", weight=1, parent="b")
    deployment.apply("Queue", "b", weight=1, parent="a")
    deployment.submit("j1", vcjob("train", task("w", 1), queue="a"))
    deployment.submit("j2", vcjob("other", task("w", 1)))
    deployment.settle()
    deployment.wait(4)
    assert deployment.places("j2") == {"j2-w-0-1": "n1"}


def test_a_node_that_is_not_ready_takes_nothing(deployment):
    deployment.give("cluster", NodeObserved("n1", ready="Unknown", cpu_milli=4000, memory_bytes=64 << 30, pods=20), "n1")
    deployment.submit("j1", vcjob("train", task("w", 1)))
    deployment.settle()
    deployment.wait(3)
    assert deployment.places("j1") == {"j1-w-0-1": None}
    assert reasons(deployment, "j1") == ["Taint"]


def test_a_capacity_below_what_is_used_ends_nothing(deployment):
    deployment.submit("j1", vcjob("train", task("w", 4)))
    deployment.settle()
    deployment.wait(4)
    deployment.node("n1", cpu=2)
    deployment.submit("j2", vcjob("more", task("w", 1)))
    deployment.settle()
    deployment.wait(3)
    assert set(deployment.places("j1").values()) == {"n1"}
    assert set(deployment.places("j2").values()) <= {None}


def test_a_node_that_claims_to_have_more_than_there_is_ends_nothing(deployment):
    most = 2**63 - 1
    for name in ("a1", "a2", "a3"):
        seen = NodeObserved(name, cpu_milli=most, memory_bytes=most, gpu=most, pods=2**31, unschedulable=True)
        deployment.give("cluster", seen, name)
    deployment.submit("j1", vcjob("train", task("w", 2)))
    deployment.settle()
    deployment.wait(4)
    assert set(deployment.places("j1").values()) == {"n1"}


def test_pods_have_the_priority_that_their_job_is_given_later(deployment):
    deployment.apply("PriorityClass", "low", value=10)
    deployment.apply("PriorityClass", "high", value=1000)
    deployment.submit("j1", vcjob("train", task("w", 1), priorityClassName="low"))
    deployment.settle()
    deployment.wait(2)
    deployment.update("j1", vcjob("train", task("w", 1), priorityClassName="high"))
    deployment.settle()
    live, restarted = deployment.scheduling.state, SchedulingStage().initial()
    records = [(name, SchedulingStage.dump(live, name)) for name in SchedulingStage.records(live)]
    SchedulingStage.load(restarted, records)
    for state in (live, restarted):
        assert [one.priority for one in state.jobs["j1"].tasks.values()] == [1000]


def test_an_aborted_job_waits_anew_when_it_is_resumed(deployment):
    deployment.submit("j1", vcjob("train", task("w", 2)))
    deployment.settle()
    deployment.wait(4)
    deployment.give("jobs", CommandIssued("AbortJob", "ann"), "j1")
    deployment.settle()
    deployment.wait(2)
    assert deployment.places("j1") == {}
    deployment.give("jobs", CommandIssued("ResumeJob", "ann"), "j1")
    deployment.settle()
    deployment.wait(4)
    assert len(deployment.events(DecidedEnqueued)) == 2
    assert set(deployment.places("j1").values()) == {"n1"}


def test_a_pod_that_is_taken_away_counts_for_its_gang_no_more(deployment):
    deployment.submit("j1", vcjob("train", task("w", 3, minAvailable=1), minAvailable=2))
    deployment.settle()
    deployment.wait(4)
    deployment.end("j1-w-2-1")
    deployment.settle()
    group = deployment.scheduling.state.jobs["j1"]
    assert (group.ready, group.count("Succeeded")) == (3, 1)
    deployment.update("j1", vcjob("train", task("w", 2, minAvailable=1), minAvailable=2))
    deployment.settle()
    assert (group.ready, group.count("Succeeded")) == (2, 0)


def test_nothing_is_kept_of_what_is_over(deployment):
    deployment.submit("j1", vcjob("train", task("w", 2)))
    deployment.settle()
    deployment.wait(4)
    for uid in deployment.running():
        deployment.end(uid)
    deployment.settle()
    deployment.wait(2)
    state = deployment.scheduling.state
    assert state.jobs == {}
    assert state.clusters["c1"].model.jobs == {}
    stage = SchedulingStage()
    assert sorted(record.partition("/")[0] for record in stage.records(state)) == ["cluster", "node"]
