"""The example agent saves the work of a job that is given notice, and the job is stopped before its deadline."""

from __future__ import annotations

import asyncio
import runpy
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engine.cli.main import app
from engine.events import Event
from engine.events.jobs import JobPhaseChanged
from engine.history.preemptions import notice_named
from engine.history.reading import job_events
from engine.log.url import open_log
from streams.agents import Agent

EXAMPLES = Path(__file__).parents[2] / "examples"
TRAIN = "7e0f2a94-53c1-4d8b-9f26-b0a8d1c47e35"


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Event[JobPhaseChanged]:
    """The event with which the job of the story is given notice; what comes after it has not happened."""
    story = EXAMPLES / "short-notice"
    monkeypatch.setenv("LAHAR_LOG", f"sqlite:{tmp_path}/log.db")
    monkeypatch.setenv("LAHAR_CONFIG", str(story / "lahar.toml"))
    monkeypatch.setenv("LAHAR_SCHEDULER_CONFIG", str(story / "scheduler.yaml"))
    monkeypatch.setenv("CHECKPOINT", f"touch {tmp_path}/saved")
    monkeypatch.chdir(story)
    commands = [line for line in (story / "play.sh").read_text().splitlines() if line.startswith("lahar ")]
    for line in commands[: next(at for at, line in enumerate(commands) if " preemptions " in line)]:
        assert CliRunner().invoke(app, shlex.split(line)[1:]).exit_code == 0
    return changed(tmp_path)[-1]


def changed(folder: Path) -> list[Event[JobPhaseChanged]]:
    log = open_log(f"sqlite:{folder}/log.db", create=False, readonly=True)
    try:
        return [event for event in job_events(log) if event.subject == TRAIN and isinstance(event.data, JobPhaseChanged)]
    finally:
        log.close()


def test_a_job_that_is_given_notice_is_saved_and_stopped_early(
    given: Event[JobPhaseChanged], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert given.data.deadline is not None
    monkeypatch.setattr("time.time", lambda: given.recordedtime / 1e6)
    monkeypatch.setattr("engine.application.producer.wall_clock", lambda: given.recordedtime + 60_000_000)
    example: Agent = runpy.run_path(str(EXAMPLES / "agents" / "checkpoint.py"))["checkpoint"]
    monkeypatch.chdir(tmp_path)
    asyncio.run(example.function(given))
    asyncio.run(example.function(given))
    assert (tmp_path / "saved").exists()
    assert (tmp_path / TRAIN).exists()
    assert CliRunner().invoke(app, ["run", "--once"]).exit_code == 0
    log = open_log(f"sqlite:{tmp_path}/log.db", create=False, readonly=True)
    try:
        notice = notice_named(log, given.data.notice)
    finally:
        log.close()
    assert (notice.state, notice.change, notice.victims) == ("Executed", "Acknowledged", {TRAIN: "stopped"})
    assert changed(tmp_path)[-1].data.phase == "Restarting"


def test_a_notice_whose_deadline_has_passed_is_left_alone(given: Event[JobPhaseChanged], tmp_path: Path) -> None:
    example: Agent = runpy.run_path(str(EXAMPLES / "agents" / "checkpoint.py"))["checkpoint"]
    asyncio.run(example.function(given))
    assert not (tmp_path / "saved").exists()
    assert changed(tmp_path)[-1].data.phase == "WillEvicted"
