"""The compiled tables against `transitions` itself: every state x trigger x outcome of the conditions."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transitions import Machine, MachineError

from statemachines.counters import Counters
from statemachines.errors import TableError
from statemachines.job import JOB, JOB_TRIGGERS, JobFacts
from statemachines.machine import MachineTable, TransitionRow, compile_table, diagram, step
from statemachines.replica import REPLICA
from statemachines.spec import JobSpec, TaskSpec
from statemachines.task import TASK
from statemachines.vocabulary import ACTIONS, ATTEMPT_PHASES, JOB_PHASES, TASK_PHASES

MACHINES: list[MachineTable[Any]] = [JOB, TASK, REPLICA]


class Oracle:
    """A model that `transitions` drives; its conditions answer what they are told, its callbacks are noted."""

    def __init__(self, table: MachineTable[Any]) -> None:
        self.outcomes: dict[str, bool] = {}
        self.called: list[str] = []
        for name in table.guards:
            setattr(self, name, lambda name=name: self.outcomes[name])
        for row in table.rows:
            for key in ("before", "after"):
                if name := row.get(key):
                    setattr(self, name, lambda name=name: self.called.append(name))
        self.machine = Machine(
            model=self,
            states=list(table.states),
            transitions=[dict(row) for row in table.rows],
            initial=table.initial,
            auto_transitions=False,
        )

    def fire(self, state: str, trigger: str, outcomes: dict[str, bool]) -> tuple[str, list[str]] | None:
        """Return the state after a trigger and the callbacks called; `None` if the trigger is not listed for the state."""
        self.outcomes, self.called = outcomes, []
        self.machine.set_state(state, model=self)
        try:
            taken = self.trigger(trigger)
        except MachineError:
            return None
        return (self.state, self.called) if taken else (state, [])


def compiled(table: MachineTable[Any], state: str, trigger: str, facts: Any, rows: Any) -> tuple[str, list[str]] | None:
    try:
        row = step(rows, state, trigger, facts)
    except KeyError:
        return None
    return (state, []) if row is None else (row.dest, [name for name in (row.effect, row.after) if name])


@pytest.mark.parametrize("table", MACHINES, ids=lambda table: table.name)
def test_compiled_table_and_transitions_agree_everywhere(table):
    """For every state, every trigger and every outcome of the conditions involved: same phase, same effects."""
    oracle = Oracle(table)
    rows = compile_table(table.rows, {name: lambda facts, name=name: facts[name] for name in table.guards})
    compared = 0
    for state, trigger in product(table.states, table.triggers):
        names = sorted(
            {
                name
                for row in table.rows
                if (row["source"], row["trigger"]) == (state, trigger)
                for name in row.get("conditions", ())
            }
        )
        for outcome in product((False, True), repeat=len(names)):
            facts = dict(zip(names, outcome, strict=True))
            assert compiled(table, state, trigger, facts, rows) == oracle.fire(state, trigger, facts), (state, trigger, facts)
            compared += 1
    assert compared >= len(table.states) * len(table.triggers)


counts = st.integers(0, 4)
job_facts = st.builds(
    JobFacts,
    spec=st.builds(
        JobSpec,
        tasks=st.lists(
            st.builds(TaskSpec, name=st.sampled_from("ab"), replicas=counts, min_available=st.none() | counts), max_size=2
        ).map(tuple),
        min_available=counts,
        min_success=st.none() | counts,
        max_retry=counts,
        on_preempted=st.sampled_from(["Requeue", "Abort", "Terminate"]),
    ),
    counters=st.builds(Counters, counts, counts, counts, counts, counts, counts),
    tasks=st.dictionaries(st.sampled_from("ab"), st.builds(Counters, succeeded=counts)),
    retry_count=counts,
    status_min_available=counts,
    requeued=st.booleans(),
)
JOB_ORACLE = Oracle(JOB)


@given(st.sampled_from(list(JOB.states)), st.sampled_from(list(JOB.triggers)), job_facts)
def test_job_machine_agrees_with_transitions_on_real_facts(state, trigger, facts):
    """The job's own conditions lead `transitions` to the phase that they lead the compiled table to."""
    outcomes = {name: guard(facts) for name, guard in JOB.guards.items()}
    assert compiled(JOB, state, trigger, facts, JOB.compiled) == JOB_ORACLE.fire(state, trigger, outcomes)


def test_each_machine_begins_in_its_first_phase():
    assert [table.initial for table in MACHINES] == ["Pending", "Waiting", "Pending"]


def test_machines_cover_the_vocabulary():
    assert tuple(JOB.states) == JOB_PHASES
    assert tuple(TASK.states) == TASK_PHASES
    assert tuple(REPLICA.states) == ATTEMPT_PHASES
    assert tuple(JOB_TRIGGERS)[: len(ACTIONS)] == ACTIONS


def test_every_action_is_listed_for_every_job_phase():
    """An action is never an anomaly; a notice may be."""
    assert all((phase, action) in JOB.compiled for phase in JOB_PHASES for action in ACTIONS)


@pytest.mark.parametrize("table", MACHINES, ids=lambda table: table.name)
def test_every_state_and_trigger_is_documented(table):
    assert all(len(text) > 10 for text in [*table.states.values(), *table.triggers.values()])


INHERITED = {"Privileged": "Pending", "WillEvicted": "Running"}


@pytest.mark.parametrize("table", MACHINES, ids=lambda table: table.name)
def test_documentation_names_exactly_the_states_that_may_follow(table):
    for state, text in table.states.items():
        follows = {row["dest"] for row in table.rows if row["source"] == state} - {None, state}
        if state in INHERITED:
            follows -= {row["dest"] for row in table.rows if row["source"] == INHERITED[state]}
            assert follows <= set(re.findall(r"\w+", text)), state
        elif "Every other" in text:
            assert follows == set(table.states) - {state}
        elif "or an end follow" in text:
            assert follows == set(re.findall(r"\w+", text)) & set(table.states) | {"Succeeded", "Failed", "Lost"}
        else:
            after = set(re.findall(r"\w+", text)) & set(table.states) - {state}
            assert follows == after, state


@pytest.mark.parametrize("table", MACHINES, ids=lambda table: table.name)
def test_diagram_is_mermaid_and_names_every_state(table):
    drawn = diagram(table)
    assert drawn.startswith(f"---\ntitle: {table.name}\n---\nstateDiagram-v2\n")
    assert drawn.endswith(f"[*] --> {table.initial}\n")
    assert all(f'state "{state}" as {state}' in drawn for state in table.states)
    moves = {(row["source"], row["dest"]) for row in table.rows if row["dest"] not in (None, row["source"])}
    assert set(re.findall(r"^ *(\w+) --> (\w+):", drawn, re.MULTILINE)) == moves


ROW = TransitionRow(trigger="go", source="A", dest="B")


@pytest.mark.parametrize("dest", ["A", None])
def test_a_row_that_changes_no_phase_is_not_drawn(dest):
    stay = TransitionRow(trigger="stay", source="A", dest=dest)
    drawn = diagram(MachineTable("M", {"A": "a", "B": "b"}, "A", {"go": "Go.", "stay": "Stay."}, [ROW, stay], {}))
    assert re.findall(r"(\w+) --> (\w+):", drawn) == [("A", "B")]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{**ROW, "dest": "C"}], "C is no state"),
        ([{**ROW, "trigger": "stop"}], "stop is no trigger"),
        ([{**ROW, "conditions": ["tired"]}], "no guard is called 'tired'"),
        ([{**ROW, "before": "kill"}, {**ROW, "before": "sync"}], "different effects, kill and sync"),
    ],
)
def test_a_faulty_table_does_not_compile(rows, says):
    with pytest.raises(TableError, match=says):
        MachineTable("M", {"A": "a", "B": "b"}, "A", {"go": "Go."}, rows, {})


def test_step_without_a_row_that_holds_is_none():
    table = MachineTable(
        "M", {"A": "a", "B": "b"}, "A", {"go": "Go."}, [{**ROW, "conditions": ["never"]}], {"never": lambda _: False}
    )
    assert step(table.compiled, "A", "go", None) is None
