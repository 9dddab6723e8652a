"""An overloaded cluster, and the comparison whose head blocks those behind it."""

from __future__ import annotations

import pytest
from experiments.first_come import FIRST_COME
from experiments.jobs import BEGIN, Role, training
from experiments.octopus import Load, rows
from experiments.trial import node, run, tiers

from engine.events.times import SECOND
from statemachines.spec import Requests


def test_an_overloaded_cluster_is_used_and_blocks_nobody_who_fits():
    """An eighth of the cluster and of the jobs: so few nodes are less even than the claim says."""
    found = {row.measure: row for row in rows(Load(17, every=8))}
    assert {measure: row.ours for measure, row in found.items()} == {
        "offered load": "1.68",
        "utilisation": "90.6 %",
        "utilisation, first come": "79.7 %",
        "imbalance": "64.7 %",
        "imbalance, first come": "87.5 %",
        "delay of jobs that fit free GPUs: jobs, mean": "248, 1.6 s",
        "delay of jobs that fit free GPUs, first come: jobs, mean": "267, 38,979.2 s",
        "delay of jobs that fit unclaimed GPUs: jobs, mean": "248, 1.6 s",
        "delay of jobs that fit unclaimed GPUs, first come: jobs, mean": "22, 53,187.3 s",
    }
    assert [row.measure for row in found.values() if not row.ok] == ["imbalance"]


@pytest.mark.slow
def test_octopus_claims_hold_on_the_whole_cluster():
    assert [row for row in rows() if not row.ok] == []


@pytest.mark.parametrize(("plugins", "waits"), [((), {"job-1", "job-3"}), (("first-come",), {"job-1"})])
def test_first_come_lets_nobody_pass_a_job_that_does_not_fit(plugins, waits):
    """Of 8 GPUs the first job takes 6; the second one wants 4, the third one would fit."""
    jobs = [training(at, [Role("worker", 1, Requests(gpu=gpu))], run=600, submit=at * 10) for at, gpu in ((1, 6), (2, 4), (3, 2))]
    scheduler = {"actions": "enqueue, allocate, backfill", "tiers": tiers(*plugins, "gang", "predicates")}
    trial = run(jobs, [node("n1", 64, gpu=8)], scheduler, plugins=FIRST_COME, until=BEGIN + 300 * SECOND)
    assert set(trial.waits()) == waits
    assert trial.finished() == {}
