"""Machines of `transitions` that job events drive: they stand where the history says, and call what hangs on them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transitions import MachineError

from engine.events.jobs import JobOpened, JobPhaseChanged
from engine.events.transitions import transition_of
from engine.history.fold import fold
from engine.history.machines import Machines, Who
from engine.history.reading import events_of, job_events
from statemachines.job import JOB
from statemachines.machine import machine_of
from statemachines.replica import REPLICA
from statemachines.task import TASK

ROOT = Path(__file__).parents[2]
PAGER = ROOT / "examples" / "machines" / "pager.py"
STORY = ROOT / "examples" / "out-of-memory"


class Noting:
    """Notes each phase that it enters."""

    state: str
    trigger: Callable[..., bool]

    def __init__(self, who: Who, entered: list[tuple[Who, str]]) -> None:
        self.who, self.entered = who, entered


for name in {**JOB.states, **TASK.states, **REPLICA.states}:
    setattr(Noting, f"on_enter_{name}", lambda self, event: self.entered.append((self.who, event.transition.dest)))


def test_they_stand_where_the_history_says(played):
    log = played(60)
    made: dict[Who, Noting] = {}
    entered: list[tuple[Who, str]] = []

    def make(who: Who) -> Noting:
        made[who] = Noting(who, entered)
        return made[who]

    machines = Machines(make)
    events = list(job_events(log))
    for event in events:
        machines.take(event)
    for job in {event.subject for event in events}:
        view = fold(events_of(log, job))
        if view is not None:
            assert made[Who(job, "job")].state == view.phase
    changes = [(event.subject, change) for event in events if (change := transition_of(event.data)) and change.previous]
    replicas = [(job, change.phase) for job, change in changes if change.level == "replica"]
    assert [(who.job, phase) for who, phase in entered if who.level == "replica"] == replicas
    assert len(replicas) > 20


def test_from_the_middle_on(played):
    events = list(job_events(played(40)))
    made: dict[Who, Noting] = {}
    machines = Machines(lambda who: made.setdefault(who, Noting(who, [])))
    for event in events[len(events) // 2 :]:
        machines.take(event)
    assert made


def test_a_managed_job_change_that_the_table_does_not_list_is_an_error(played):
    events: list[Any] = list(job_events(played(60)))
    opened = next(event for event in events if isinstance(event.data, JobOpened))
    changed = next(event for event in events if isinstance(event.data, JobPhaseChanged))
    wrong = replace(changed, subject=opened.subject, data=replace(changed.data, previous="Completed", phase="Pending"))
    for managed in (True, False):
        machines = Machines(lambda who: Noting(who, []))
        machines.take(replace(opened, data=replace(opened.data, managed=managed)))
        with pytest.raises(MachineError) if managed else nullcontext():
            machines.take(wrong)


def test_a_free_machine_takes_any_change():
    free, bound = Noting(Who("j", "replica"), []), Noting(Who("j", "replica"), [])
    machine_of(REPLICA, free, state="Failed", free=True)
    free.trigger("enter_Running")
    assert free.state == "Running"
    machine_of(REPLICA, bound, state="Failed")
    with pytest.raises((MachineError, AttributeError)):
        bound.trigger("enter_Running")


def test_the_example_is_told_what_fails(tmp_path):
    """What docs/agents.md shows."""
    environment = {
        **os.environ,
        "LAHAR_LOG": f"sqlite:{tmp_path}/l.db",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    subprocess.run(["sh", STORY / "play.sh"], check=True, capture_output=True, env=environment)
    events = subprocess.run(["lahar", "events", "--json"], check=True, capture_output=True, env=environment).stdout
    pager = subprocess.run([sys.executable, PAGER], input=events, check=True, capture_output=True, env=environment)
    shown = pager.stdout.decode()
    assert "has failed: OomKilled" in shown
    assert textwrap.indent(shown, "    ") in (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
