"""What a simulated cluster does with what the stages decide, and what holds whatever happens to it."""

from __future__ import annotations

from decimal import Decimal
from math import log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_checker import faults_of
from simulated import Simulated, configuration, incident, machine, row, simulated

from engine.billing.report import Costs
from engine.events import decode
from engine.events.billing import UsageRecorded
from engine.events.inputs import ObjectApplied
from engine.events.times import SECOND
from engine.history.summary import SUMMARISED, Summary
from engine.scheduling.configuration import read_configuration
from engine.scheduling.preemption import backoff
from engine.simulation.cluster import Conduct, SimulatedCluster
from engine.simulation.incidents import read_incidents
from engine.simulation.livelock import STOPS


def test_a_job_runs_for_the_time_of_its_trace_once_it_has_a_node():
    done = simulated([row(0, run=100)], [machine()])
    job = done.jobs()["job-0"]
    # a round lets it in, the next one binds it, and its pod takes two seconds to start
    assert (job["phase"], job["wait_seconds"], job["run_seconds"]) == ("Completed", "4", "100")


def test_jobs_wait_for_those_before_them():
    done = simulated([row(0, run=100, gpus=[8]), row(1, submit=1, run=50, gpus=[8])], [machine()])
    first, second = done.jobs()["job-0"], done.jobs()["job-1"]
    assert first["phase"] == second["phase"] == "Completed"
    assert float(second["wait_seconds"]) > 100


def test_a_job_ends_as_its_trace_says():
    rows = [row(0), row(1, phase="Failed"), row(2, phase="Terminated", reason="Killed"), row(3, run=None, phase="Terminated")]
    found = {name: (job["phase"], job["started"] != "") for name, job in simulated(rows, [machine()]).jobs().items()}
    assert found == {
        "job-0": ("Completed", True),
        "job-1": ("Failed", True),
        "job-2": ("Terminated", True),
        "job-3": ("Terminated", True),  # the trace's cluster had no place for it; this one has, until its user stops it
    }


def test_the_pods_of_a_lost_node_start_over_elsewhere():
    done = simulated([row(0, run=100)], [machine("n1"), machine("n2")], incident(30, "lose", "n1"), incident(30, "drain", "n2"))
    assert done.waiting[0]["name"] == "job-0"
    done = simulated([row(0, run=100)], [machine("n1"), machine("n2")], incident(30, "lose", "n1"))
    job = done.jobs()["job-0"]
    assert (job["phase"], job["attempts"]) == ("Completed", "2")
    assert done.results.document["summary"]["attempts_by_reason"] == {"NodeLost": 1}


def test_a_gang_starts_over_as_a_whole():
    done = simulated([row(0, run=100, gpus=[8, 8])], [machine("n1"), machine("n2"), machine("n3")], incident(30, "lose", "n1"))
    job = done.jobs()["job-0"]
    assert (job["phase"], job["attempts"]) == ("Completed", "4")


def test_the_pods_of_a_drained_node_take_their_time_to_go():
    done = simulated([row(0, run=100)], [machine("n1"), machine("n2")], incident(30, "drain", "n1"))
    assert done.jobs()["job-0"]["phase"] == "Completed"
    assert done.results.document["summary"]["attempts_by_reason"] == {"EvictedByApi": 1}


def test_a_node_that_is_drained_again_and_again_is_no_livelock():
    often = [incident(100 * at + after, what, "n1") for at in range(110) for after, what in ((50, "drain"), (60, "restore"))]
    done = simulated([row(0, run=300)], [machine("n1")], *often)
    assert done.results.document["livelock"] == {}
    assert done.jobs()["job-0"]["phase"] == "Completed"


def test_a_job_that_is_resized_has_as_many_pods():
    done = simulated([row(0, run=100, gpus=[1, 1])], [machine()], incident(30, "resize", "job-0", 4))
    assert done.jobs()["job-0"]["attempts"] == "4"


def test_jobs_are_failed_and_stopped_by_incidents():
    done = simulated([row(0, run=100), row(1, run=100)], [machine()], incident(30, "fail", "job-0"), incident(40, "stop", "job-1"))
    assert {name: job["phase"] for name, job in done.jobs().items()} == {"job-0": "Failed", "job-1": "Terminated"}


def test_an_incident_may_fail_some_pods_of_a_job(tmp_path):
    table = tmp_path / "incidents.csv"
    table.write_text("seconds,what,name,replicas\n30,fail,job-0,1\n40,fail,job-1,\n")
    done = simulated([row(number, run=100, gpus=[1, 1]) for number in (0, 1)], [machine()], *read_incidents(table))
    assert done.results.document["summary"]["attempts_by_reason"] == {"AppFailed": 3}


def test_a_job_that_others_give_way_to_waits_less():
    rows = [row(0, run=1000, gpus=[8], queue="a"), row(1, submit=100, run=100, queue="b")]
    without = simulated(rows, [machine()])
    reclaims = simulated(rows, [machine()], configured=configuration("enqueue allocate backfill reclaim"))
    assert without.totals["preemptions"] == 0
    assert float(without.jobs()["job-1"]["wait_seconds"]) > 900
    assert reclaims.totals["preemptions"] == 1
    assert float(reclaims.jobs()["job-1"]["wait_seconds"]) < 60


def test_a_simulation_without_progress_ends_and_says_what_jobs_wait_for():
    done = simulated([row(0), row(1, gpus=[9])], [machine()])
    assert done.jobs()["job-0"]["phase"] == "Completed"
    (waiting,) = done.waiting
    assert (waiting["name"], waiting["line"], waiting["reason"]) == ("job-1", 2, "ClusterTooSmall")
    assert "1 nvidia.com/gpu is missing" in waiting["why"]


def test_a_configuration_that_places_nothing_is_told_by_its_jobs():
    done = simulated([row(0), row(1)], [machine()], configured=configuration("enqueue"))
    assert [job["name"] for job in done.waiting] == ["job-0", "job-1"]
    assert all(job["why"] for job in done.waiting)


CIRCLING = read_configuration(
    {
        "actions": "enqueue, allocate, reclaim",
        "tiers": [
            {"plugins": [{"name": "gang", "enableReclaimable": False}, *({"name": name} for name in ("conformance", "predicates"))]}
        ],
    }
)
"""No plugin says whose the places are: gangs of two queues take them from each other for ever."""
RIVALS = [row(at, at, 600, [8, 8], queue=queue) for at, queue in enumerate("ab", 1)]


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an eviction nobody waits for more than a minute to evict again, as with a scheduler whose evictions never end."""
    monkeypatch.setattr(backoff, "_LONGEST_PAUSE", 6)


def test_jobs_that_stop_each_other_pause_ever_longer_until_both_end():
    done = simulated(RIVALS, [machine("n1"), machine("n2")], configured=CIRCLING)
    assert (done.waiting, done.results.document["livelock"]) == ([], {})
    assert done.totals["preemptions"] < 2 * 2 * 2 * (log2(600) + 2)


@pytest.mark.usefixtures("short_pauses")
def test_jobs_that_only_stop_each_other_end_the_simulation():
    done = simulated(RIVALS, [machine("n1"), machine("n2")], configured=CIRCLING)
    stopped = done.results.document["livelock"]
    assert [job["name"] for job in done.waiting] == ["job-1", "job-2"]
    assert set(stopped) == {job["job"] for job in done.waiting}
    assert max(stopped.values()) == STOPS
    assert [job["why"] for job in done.waiting] == [
        f"it was stopped for others {stopped[job['job']]} times, and no pod got further meanwhile" for job in done.waiting
    ]


@pytest.mark.usefixtures("short_pauses")
def test_jobs_may_stop_each_other_as_long_as_another_gets_further():
    """A job of two hours whose queue gives nothing back leaves the others two of four nodes; they all fit when it has ended."""
    nodes, queue = [machine(f"n{at}") for at in range(4)], ObjectApplied("Queue", "c", {"weight": 1, "reclaimable": False})
    done = simulated([row(0, 0, 7200, [8, 8], queue="c"), *RIVALS], nodes, configured=CIRCLING, objects=[queue])
    assert (done.waiting, done.results.document["livelock"]) == ([], {})
    assert done.totals["preemptions"] > 4 * STOPS


def test_the_same_inputs_give_the_same_bytes():
    rows = [row(at, submit=at * 7 % 40, run=at * 13 % 90, gpus=[1 + at % 8]) for at in range(20)]
    first, second = (simulated(rows, [machine("n1"), machine("n2")], incident(30, "lose", "n1")) for _ in range(2))
    assert first.results == second.results
    assert [record.message for record in first.log.scan(("job-events", "decisions", "scheduling", "pods", "jobs", "billing"))] == [
        record.message for record in second.log.scan(("job-events", "decisions", "scheduling", "pods", "jobs", "billing"))
    ]


# --- what holds of every simulation ---------------------------------------------------------------------------------------------

ROWS = st.lists(
    st.tuples(
        st.integers(0, 200),
        st.one_of(st.none(), st.integers(0, 300)),
        st.lists(st.integers(1, 8), min_size=1, max_size=4),
        st.sampled_from(["Completed", "Completed", "Failed", "Terminated"]),
        st.sampled_from(["a", "b"]),
    ),
    min_size=1,
    max_size=12,
)
INCIDENTS = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from(["lose", "drain", "restore"]), st.sampled_from(["n1", "n2", "n3"])), max_size=5
)
EVERYTHING = configuration("enqueue allocate backfill preempt reclaim", "binpack")


NOTICES = (
    ObjectApplied("Queue", "a", {"preemption": "notice", "preemptionDelaySeconds": 20}),
    ObjectApplied("Tenant", "rich", {"priority": 5, "mayPreempt": True}),
)


def story(rows, incidents) -> Simulated:
    """Every third job is a privileged one of a rich tenant; whoever is given notice has saved its work after 10 s."""
    made = [
        row(at, submit, run, gpus, "Terminated" if run is None else phase, queue=queue, tenant="" if at % 3 else "rich")
        for at, (submit, run, gpus, phase, queue) in enumerate(rows)
    ]
    found = [incident(*one) for one in incidents]
    rich = [one.name for one in made if one.tenant]
    more = {"privileged": rich, "objects": NOTICES, "conduct": Conduct(checkpoint=10 * SECOND)}
    return simulated(made, [machine("n1"), machine("n2"), machine("n3", 4)], *found, configured=EVERYTHING, **more)


@settings(deadline=None, max_examples=15)
@given(ROWS, INCIDENTS)
def test_every_job_ends_or_is_named_and_no_node_holds_more_than_it_has(rows, incidents):
    done = story(rows, incidents)
    assert faults_of(done.log) == []
    jobs = done.jobs()
    assert len(jobs) == len(rows)
    ended = {name for name, job in jobs.items() if job["ended"]}
    assert ended ^ {job["name"] for job in done.waiting} == set(jobs)


@settings(deadline=None, max_examples=10)
@given(ROWS, INCIDENTS)
def test_gpu_seconds_are_those_of_the_summary_and_of_the_bills(rows, incidents):
    done = story(rows, incidents)
    summary = Summary()
    costs = Costs()
    for record in done.log.scan(("job-events",), SUMMARISED):
        summary.add(decode(record.message))
    for record in done.log.scan(("billing",), {UsageRecorded.TYPE}):
        costs.take(decode(record.message), None)
    assert done.results.document["summary"] == summary.result()
    stays = done.results.document["summary"]["gpu_seconds"]
    assert sum(queue["gpu_seconds"] for queue in done.results.document["queues"].values()) == stays
    if not done.waiting:
        assert costs.gpu.total == Decimal(stays)


def test_a_pod_that_outlives_its_kill_is_found(monkeypatch: pytest.MonkeyPatch):
    """The checks can fail: nodes that keep pods which are to go are full for ever, and jobs behind them wait."""
    rows = [row(0, run=50, gpus=[8], phase="Terminated"), row(1, submit=1, run=50, gpus=[8])]
    assert simulated(rows, [machine()]).waiting == []
    monkeypatch.setattr(SimulatedCluster, "_stop", lambda *_: None)
    assert [job["name"] for job in simulated(rows, [machine()]).waiting] == ["job-0", "job-1"]
