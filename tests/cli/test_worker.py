"""`lahar worker` refuses what cannot be before it goes near a broker."""

from __future__ import annotations

import pytest

KAFKA = ("--log", "kafka://localhost:1")


def test_an_embedded_log_is_run_by_one_process(lahar):
    for stage in ("lifecycle", "effects"):
        done = lahar("worker", "--stage", stage, code=2)
        assert "is run by one process: use `lahar run`" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--stage", "lifecycle", "--ordinal", "0"), "--ordinal and --workers belong together"),
        (("--stage", "lifecycle", "--workers", "2"), "--ordinal and --workers belong together"),
        (
            ("--stage", "effects", "--ordinal", "0", "--workers", "2"),
            "--ordinal is for stages (lifecycle, scheduling, billing, budgets)",
        ),
        (("--stage", "planning"), "there is no stage 'planning': there are lifecycle, scheduling, billing, budgets, effects"),
        ((), "Missing option '--stage'"),
    ],
)
def test_options_that_do_not_fit_are_refused(lahar, arguments, said):
    assert said in lahar("worker", *arguments, *KAFKA, code=2).err


def test_that_the_stage_is_off_is_said(lahar):
    assert "the billing stage is off" in lahar("worker", "--stage", "billing", *KAFKA, code=2, LAHAR_BILLING="0").err


def test_the_environment_says_which_worker_it_is(lahar, monkeypatch):
    monkeypatch.setenv("LAHAR_WORKER_ORDINAL", "3")
    assert "belong together" in lahar("worker", "--stage", "lifecycle", *KAFKA, code=2).err
