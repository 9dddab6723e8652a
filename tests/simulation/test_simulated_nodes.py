"""Nodes of a simulated cluster, and the jobs that are planned for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import BEGIN, machine, row

from engine.events.inputs import NodeObserved
from engine.events.times import SECOND
from engine.simulation.errors import SimulationError, TraceError
from engine.simulation.fitting import misfits
from engine.simulation.machines import read_nodes, sample_nodes, sample_of
from engine.simulation.traces.rows import BadRow
from engine.simulation.workload import NO_RUN_TIME, NoJobsError, plan
from statemachines.spec import Requests


def test_the_nodes_that_ship_are_those_of_the_table(nodes):
    assert (len(nodes), sum(node.gpu for node in nodes)) == (1_523, 6_212)
    first = next(node for node in nodes if node.gpu)
    assert first.resources == {"nvidia.com/gpu": first.gpu * 1000}
    assert first.labels["nvidia.com/gpu.product"] == first.gpu_model


@pytest.fixture(scope="module")
def nodes():
    with sample_nodes() as path:
        return read_nodes(path)


@settings(max_examples=20, deadline=None)
@given(gpus=st.integers(8, 7_000))
def test_a_part_of_the_nodes_has_their_mix(nodes, gpus):
    part = sample_of(nodes, gpus)
    names = {node.name for node in part}
    assert [node for node in nodes if node.name in names] == part
    total = sum(node.gpu for node in part)
    assert min(gpus, 6_212) - 1 <= total <= gpus
    if gpus >= 500:
        eights = sum(node.gpu == 8 for node in part) / sum(node.gpu > 0 for node in part)
        assert abs(eights - 549 / 1_213) < 0.1


def test_a_part_without_any_node_is_none():
    with pytest.raises(TraceError, match="no node has as few as 4 GPUs; the nodes have 16 together"):
        sample_of([machine("n1"), machine("n2")], 4)


def test_a_table_of_nodes_names_its_bad_row(tmp_path: Path):
    path = tmp_path / "nodes.csv"
    path.write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,1,1,8,G2\nn1,1,1,8,G2\n")
    with pytest.raises(TraceError, match="line 3: node n1 was there before"):
        read_nodes(path)


def test_jobs_are_planned_in_the_order_of_their_submission():
    planned = plan([row(0, 30), row(1, 10), row(2, 10)], "philly", "c", speed_up=2)
    assert [job.row.name for job in planned.jobs] == ["job-1", "job-2", "job-0"]
    assert [(job.submit - BEGIN) / SECOND for job in planned.jobs] == [10, 10, 20]
    assert [job.row.name for job in plan([row(0, 30), row(1, 10)], "philly", "c", most=1).jobs] == ["job-1"]


def test_rows_without_a_run_time_are_left_out():
    endless = row(1, 10, without_end=True)
    assert plan([row(0), endless], "swf", "c").left_out == [BadRow(2, endless.submit, NO_RUN_TIME)]
    with pytest.raises(NoJobsError, match="line 2: the trace tells no run time"):
        plan([endless], "swf", "c")
    with pytest.raises(SimulationError, match="the speed-up is -1"):
        plan([row(0)], "swf", "c", speed_up=-1)


def test_a_gang_of_unlike_pods_is_several_tasks():
    (job,) = plan([row(0, gpus=[8, 8, 4])], "philly", "c").jobs
    spec = job.manifest()["spec"]
    assert [(task["name"], task["replicas"]) for task in spec["tasks"]] == [("main", 2), ("main-2", 1)]
    assert spec["minAvailable"] == 3
    assert spec["policies"] == [{"event": "PodEvicted", "action": "RestartJob"}]


def test_jobs_that_are_too_wide_are_found():
    jobs = plan([row(0, gpus=[8, 8]), row(1, gpus=[8] * 3), row(2, gpus=[9])], "philly", "c").jobs
    assert [(job.row.name, why) for job, why in misfits(jobs, [machine("n1"), machine("n2")])] == [
        ("job-1", "its pods ask for 24 GPUs; all nodes together have 16"),
        ("job-2", "a pod asks for 9 GPUs; no node has more than 8"),
    ]


@pytest.mark.parametrize(("milli", "told"), [(8_000, "8 cores"), (500, "0.5 cores")])
def test_what_does_not_fit_is_told_in_the_units_of_people(milli, told):
    asked = replace(row(0), pods=[Requests(gpu=1, cpu_milli=milli, memory_bytes=16 << 30)])
    (job,) = plan([asked], "philly", "c").jobs
    assert [why for _, why in misfits([job], [NodeObserved("n", gpu=8, cpu_milli=milli, memory_bytes=1 << 30)])] == [
        f"a pod asks for 1 GPUs, {told}, 16 GiB of memory; no node has all of it"
    ]
