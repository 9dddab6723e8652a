"""Timers that no engine has fired in time: said to be overdue, by the clock or by the moment asked about."""

from __future__ import annotations

import json

import pytest

DUE = "2026-05-01 09:00:00Z"


@pytest.fixture
def limited(lahar, folder):
    """A job whose hour has passed long ago; nothing was recorded since."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
    spec = {"activeDeadlineSeconds": 3_600, "template": {"spec": pod}}
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "etl", "namespace": "lab"}, "spec": spec}
    (folder / "job.json").write_text(json.dumps(manifest))
    lahar("apply", "job.json", "--at", "2026-05-01T08:00:00Z")
    return lahar


def test_a_run_to_the_end_of_the_log_says_that_timers_are_overdue(limited):
    assert f"timers of jobs are overdue by the clock, the first since {DUE}: `lahar run` fires them" in limited("run", "--once").err


def test_a_run_says_nothing_where_no_timer_is_overdue(lahar):
    assert lahar("run", "--once").err == ""


@pytest.mark.parametrize(
    ("asked", "said"), [((), f"was due at {DUE} and is overdue"), (("--at", "2026-05-01T08:30:00Z"), f"is due at {DUE}")]
)
def test_a_timer_is_overdue_once_its_moment_has_passed(limited, asked, said):
    assert said in " ".join(limited("why", "lab/etl", *asked).out.split())
