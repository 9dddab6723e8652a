"""The three machines are what the stage runs: one row that says something else, and the engine does something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lifecycle_driver import Driver, pod, vcjob

import statemachines.phase_rule
import statemachines.replica
import statemachines.task
from engine.events.attempts import AttemptRunning
from statemachines.machine import MachineTable, TransitionRow


def altered(table: MachineTable[Any], change: Callable[[TransitionRow], TransitionRow]) -> MachineTable[Any]:
    """The machine with its rows changed."""
    rows = [change(row.copy()) for row in table.rows]
    assert rows != list(table.rows)
    return MachineTable(table.name, table.states, table.initial, table.triggers, rows, table.guards)


def test_the_replica_machine_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(row: TransitionRow) -> TransitionRow:
        if (row["source"], row["trigger"]) == ("Pending", "Start"):
            row["dest"] = "Bound"
        return row

    table = altered(statemachines.replica.REPLICA, change)
    monkeypatch.setattr(statemachines.replica, "_NEXT", {key: rows[0].dest for key, rows in table.compiled.items()})
    driver = Driver(checked=False)
    driver.see(pod("u", "j1", 1, "Running", node="n", running=1))
    assert (driver.job().attempts[0].phase, driver.of(AttemptRunning)) == ("Bound", [])
    driver.see(pod("u", "j1", 2, "Running", node="n", running=1))
    assert driver.job().attempts[0].phase == "Running"


def test_the_task_machine_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(row: TransitionRow) -> TransitionRow:
        if (row["source"], row["dest"]) == ("Pending", "Running"):
            row["dest"] = "Failed"
        return row

    monkeypatch.setattr(statemachines.task, "TASK", altered(statemachines.task.TASK, change))
    driver = Driver(checked=False)
    driver.submit(vcjob({"name": "w"}))
    driver.run("w")
    assert driver.task("w") == "Failed"


def test_the_job_machine_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(row: TransitionRow) -> TransitionRow:
        if (row["source"], row["dest"]) == ("Pending", "Running"):
            row["dest"] = "Aborting"
        return row

    table = altered(statemachines.phase_rule.JOB, change)
    monkeypatch.setattr(statemachines.phase_rule, "_COMPILED", table.compiled)
    driver = Driver(checked=False)
    driver.submit(vcjob({"name": "w"}))
    driver.run("w")
    assert driver.path()[0] == "Aborting"
