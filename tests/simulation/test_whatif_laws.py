"""What-if: a simulated history with other rules is the simulation with these rules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from simulated import BEGIN, Simulated, incident, machine, row, simulated

from engine.application.whatif import OtherRules, Window, what_if
from engine.events.envelope import raw_message
from engine.events.inputs import CommandIssued, ObjectApplied
from engine.events.times import SECOND
from engine.lifecycle.stage import LifecycleStage
from engine.processor.processor import Processor
from engine.runtime.scheduler_config import load_configuration
from engine.runtime.settings import Settings
from engine.simulation.comparison import Comparison
from engine.simulation.incidents import Incident
from engine.simulation.traces.rows import TraceRow

LAW = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=8, derandomize=True, phases=[Phase.generate]
)
"""Worlds are simulated three times each: too slow to be shrunk."""
FIRST = {"actions": "enqueue, allocate, backfill"}
PREEMPTING = {"actions": "enqueue, allocate, preempt, reclaim, backfill"}
PACKED = {"actions": "enqueue, allocate, backfill", "more": [{"name": "binpack", "arguments": {"binpack.weight": 10}}]}


def configured(folder: Path, name: str, given: dict[str, Any]) -> Path:
    tiers = [
        {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
        {"plugins": [{"name": one} for one in ("drf", "predicates", "proportion", "nodeorder")] + given.get("more", [])},
    ]
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"actions": given["actions"], "tiers": tiers}))
    return path


def asked(done: Simulated, was: Path, *, window: Window | None = None, **rules: Path) -> Comparison:
    return what_if(done.log, Settings(log="memory:", scheduler_config=was), window or Window(), OtherRules(**rules))


def figures_of(done: Simulated) -> dict[str, Any]:
    """The figures of a simulation that a comparison has as well."""
    found, waits = done.results.document, done.results.document["summary"]["wait_seconds"]
    return {
        "began": waits["n"],
        "finished": found["totals"]["finished"],
        "mean_wait_seconds": waits["mean"],
        "p99_wait_seconds": waits["p99"],
        "max_wait_seconds": waits["max"],
        "gpu_seconds_held": pytest.approx(found["gpu_seconds_held"], abs=1e-6),
        "preemptions": found["totals"]["preemptions"],
        "gpu_seconds_lost": pytest.approx(found["gpu_seconds_lost"], abs=1e-6),
    }


def column(answer: Comparison, name: str, expected: dict[str, Any]) -> dict[str, Any]:
    found = {figure: getattr(answer.total[figure], name) for figure in expected}
    inexact = {"gpu_seconds_held", "gpu_seconds_lost"}
    return {figure: float(value or 0) if figure in inexact else value for figure, value in found.items()}


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[TraceRow], list[Incident], dict[str, int]]:
    """Rows in two queues, whose jobs wait for each other; nodes that are lost, drained and restored; weights."""
    rows = []
    for number in range(1, draw(st.integers(2, 8)) + 1):
        gpus = draw(st.lists(st.integers(1, 4), min_size=1, max_size=2))
        phase = draw(st.sampled_from(["Completed", "Completed", "Failed", "Terminated"]))
        queue = draw(st.sampled_from(["a", "b"]))
        submit, run = draw(st.integers(0, 300)), draw(st.integers(1, 400))
        rows.append(row(number, submit, run, gpus, phase, queue=queue))
    incidents = []
    if draw(st.booleans()):
        after, what = draw(st.integers(0, 300)), draw(st.sampled_from(["lose", "drain"]))
        incidents = [incident(after, what, "n1"), incident(after + draw(st.integers(10, 500)), "restore", "n1")]
    return rows, incidents, {"a": draw(st.integers(1, 5)), "b": 1}


def ran(
    rows: Sequence[TraceRow], incidents: Sequence[Incident], weights: dict[str, int], configuration: Path, **more: Any
) -> Simulated:
    objects = [ObjectApplied("Queue", name, {"weight": weight}) for name, weight in weights.items()]
    nodes = [machine("n1", 4), machine("n2", 4)]
    return simulated(rows, nodes, *incidents, configured=load_configuration(configuration), objects=objects, **more)


@pytest.mark.parametrize(("was", "other"), [(FIRST, PREEMPTING), (PREEMPTING, PACKED)])
@LAW
@given(world=worlds())
def test_a_simulation_with_other_rules_is_what_they_would_have_made_of_it(
    tmp_path: Path, was: dict[str, Any], other: dict[str, Any], world: tuple[list[TraceRow], list[Incident], dict[str, int]]
) -> None:
    rows, incidents, weights = world
    first, second = configured(tmp_path, "was", was), configured(tmp_path, "other", other)
    done = ran(rows, incidents, weights, first)
    answer = asked(done, first, scheduler=second)
    assert not errors(answer)
    expected = figures_of(done)
    assert column(answer, "as_it_was", expected) == expected
    if not done.waiting:  # else it is not recorded how long all of them run
        expected = figures_of(ran(rows, incidents, weights, second))
        assert column(answer, "what_if", expected) == expected


def errors(answer: Comparison) -> dict[str, Any]:
    groups = {"all": answer.total, **answer.queues, **answer.jobs}
    return {f"{group} {name}": one for group, found in groups.items() for name, one in found.items() if one.model_error}


@LAW
@given(world=worlds(), happenings=st.lists(st.tuples(st.integers(5, 400), st.sampled_from(["stop", "fail", "resize"])), max_size=3))
def test_what_users_do_to_jobs_is_done_again(
    tmp_path: Path, world: tuple[list[TraceRow], list[Incident], dict[str, int]], happenings: list[tuple[int, Any]]
) -> None:
    rows, incidents, weights = world
    first = configured(tmp_path, "was", PREEMPTING)
    begin, more = min(row.submit for row in rows), []
    for after, what in happenings:  # to a job after its submission
        job = rows[after % len(rows)]
        more.append(incident((job.submit - begin) // SECOND + after, what, job.name, 1))
    done = ran(rows, [*incidents, *more], weights, first)
    assert not errors(asked(done, first, scheduler=configured(tmp_path, "other", FIRST)))


def window(begin: int) -> Window:
    return Window(BEGIN + begin * SECOND)


@pytest.mark.parametrize("begin", [50, 95, 150])
def test_jobs_that_run_when_a_window_begins_run_on_where_they_are(tmp_path: Path, begin: int) -> None:
    """All fit, one after the other; the last comes after them."""
    first, gpus = configured(tmp_path, "was", FIRST), [1, 2, 1, 2]
    rows = [row(number, 2 * number, 40 * number + 20, [size]) for number, size in enumerate(gpus, 1)]
    rows.append(row(9, 310, 50, [4, 4], "Failed"))
    answer = asked(ran(rows, [], {}, first), first, window=window(begin), scheduler=configured(tmp_path, "other", PACKED))
    assert not errors(answer)
    assert answer.total["began"].recorded == 1 + sum(2 * number + 4 > begin for number, _ in enumerate(gpus, 1))


@pytest.mark.parametrize("begin", [96, 98, 99])
@pytest.mark.parametrize("action", ["RestartTask", "RestartJob", "AbortJob", "TerminateJob", "drain"])
def test_pods_that_leave_when_a_window_begins_are_stopped_then(tmp_path: Path, action: Any, begin: int) -> None:
    """After 95 seconds a job is stopped; its pod takes five seconds to go, and another job waits for its place."""
    first, rows = configured(tmp_path, "was", FIRST), [row(1, 0, 200, [4]), row(2, 10, 100, [4])]
    incidents = [incident(95, "drain", "n1"), incident(250, "restore", "n1")] if action == "drain" else []
    commands = [] if action == "drain" else [(95, "job-1", CommandIssued(action, task="main" if action == "RestartTask" else None))]
    more = {"configured": load_configuration(first), "commands": commands}
    done = simulated(rows, [machine("n1", 4)], *incidents, **more)
    answer = asked(done, first, window=window(begin), scheduler=configured(tmp_path, "other", PACKED))
    for figure in ("finished", "began"):
        assert answer.total[figure].model_error == 0
    for figure in ("mean_wait_seconds", "mean_turnaround_seconds"):
        assert abs(answer.total[figure].model_error or 0) <= 5


def test_inputs_that_nobody_can_read_change_nothing(tmp_path: Path) -> None:
    first, other = configured(tmp_path, "was", FIRST), configured(tmp_path, "other", PACKED)
    done = ran([row(1, 0, 10)], [], {}, first)
    before = asked(done, first, scheduler=other)
    for topic in ("cluster", "jobs", "pods"):
        done.log.append(topic, [raw_message("test", b"{{{", BEGIN + 60 * SECOND)])
    processor = Processor(done.log, LifecycleStage(), 0)
    processor.open()
    processor.run_until_quiet()
    processor.close()
    assert asked(done, first, scheduler=other) == before
