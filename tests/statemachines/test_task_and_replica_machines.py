"""Task, replica and observed jobs: how their phases move."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachines.counters import Counters
from statemachines.observed import ObservedPhase, attempts_show, owner_shows
from statemachines.replica import next_attempt_phase, skipped
from statemachines.spec import DependsOn, TaskSpec
from statemachines.task import TaskFacts, initial_task_phase, next_task_phase
from statemachines.vocabulary import ATTEMPT_PHASES, FINISHED_JOB_PHASES, LIVE_ATTEMPT_PHASES, TASK_PHASES, TERMINAL_ATTEMPT_PHASES

LIVE, ENDS = LIVE_ATTEMPT_PHASES, sorted(TERMINAL_ATTEMPT_PHASES)


@pytest.mark.parametrize(("phase", "shown"), list(product(LIVE, ATTEMPT_PHASES)))
def test_an_observation_never_moves_an_attempt_backwards(phase, shown):
    after = next_attempt_phase(phase, shown)
    order = list(ATTEMPT_PHASES)
    assert after == (shown if order.index(shown) > order.index(phase) else phase)


@pytest.mark.parametrize(("phase", "shown"), list(product(ENDS, ATTEMPT_PHASES)))
def test_a_closed_attempt_never_changes(phase, shown):
    assert next_attempt_phase(phase, shown) is None


@pytest.mark.parametrize(
    ("phase", "shown", "between"),
    [
        ("Pending", "Bound", ()),
        ("Pending", "Running", ("Bound",)),
        ("Pending", "Terminating", ("Bound", "Running")),
        ("Pending", "Failed", ("Bound", "Running", "Terminating")),
        ("Bound", "Succeeded", ("Running", "Terminating")),
        ("Running", "Terminating", ()),
        ("Running", "Lost", ("Terminating",)),
        ("Terminating", "Succeeded", ()),
        ("Running", "Bound", ()),
    ],
)
def test_skipped_phases_are_named_in_order(phase, shown, between):
    assert skipped(phase, shown) == between


@given(st.lists(st.sampled_from(ATTEMPT_PHASES), max_size=12))
def test_any_observations_in_any_order_end_an_attempt_once(shown):
    phase, ended = "Pending", 0
    for observed in shown:
        after = next_attempt_phase(phase, observed)
        if after is not None and after != phase:
            ended += after in TERMINAL_ATTEMPT_PHASES
            phase = after
    assert ended == (1 if set(shown) & TERMINAL_ATTEMPT_PHASES else 0)


# Tasks


def settle(phase, facts):
    for _ in range(10):
        after = next_task_phase(phase, "Counted", facts)
        if after == phase:
            return phase
        phase = after
    raise AssertionError("does not settle")


def facts(replicas=2, *, minimum=None, retrying=False, met=True, replacing=False, stopped=False, spec=None, **counters):
    return TaskFacts(spec or TaskSpec("t", replicas, minimum), Counters(**counters), retrying, met, replacing, stopped=stopped)


def test_a_failure_stands_unless_a_retry_is_known_to_follow():
    assert next_task_phase("Running", "Counted", TaskFacts(TaskSpec("t", 1, main=True), Counters(failed=1))) == "Failed"


def test_a_task_begins_waiting_if_it_depends_on_others():
    assert initial_task_phase(TaskSpec("t")) == "Pending"
    assert initial_task_phase(TaskSpec("t", depends_on=DependsOn(("a",)))) == "Waiting"
    assert initial_task_phase(TaskSpec("t", depends_on=DependsOn(()))) == "Pending"


@pytest.mark.parametrize(
    ("phase", "known", "after"),
    [
        ("Waiting", facts(met=False), "Waiting"),
        ("Waiting", facts(), "Pending"),
        ("Waiting", facts(running=2), "Running"),
        ("Pending", facts(running=1, pending=1), "Pending"),
        ("Pending", facts(running=1, pending=1, minimum=1), "Running"),
        ("Pending", facts(running=2), "Running"),
        ("Pending", facts(minimum=0), "Pending"),
        ("Pending", facts(succeeded=2), "Completed"),
        ("Pending", facts(replicas=0), "Pending"),
        ("Running", facts(running=1, succeeded=1), "Running"),
        ("Running", facts(running=1, pending=1), "Pending"),
        ("Running", facts(running=1, pending=1, minimum=1), "Running"),
        ("Running", facts(succeeded=2), "Completed"),
        ("Running", facts(succeeded=1, failed=1), "Running"),
        ("Running", facts(running=1, failed=1), "Running"),
        ("Running", facts(spec=TaskSpec("t", 2, main=True), running=1, failed=1), "Failed"),
        ("Running", facts(spec=TaskSpec("t", 2, main=True), running=1, failed=1, retrying=True), "Running"),
        ("Running", facts(spec=TaskSpec("t", 2, main=True, min_succeeded=1), running=1, failed=1), "Running"),
        ("Running", facts(spec=TaskSpec("t", 2, main=True, min_succeeded=1), failed=2), "Failed"),
        ("Pending", facts(spec=TaskSpec("t", 0, main=True), replicas=0), "Pending"),
        ("Running", facts(spec=TaskSpec("t", 3, max_failed=0), running=2, failed=1), "Failed"),
        ("Pending", facts(spec=TaskSpec("t", 3, max_failed=0), pending=2, failed=1), "Failed"),
        ("Running", facts(spec=TaskSpec("t", 3, min_succeeded=1), running=2, succeeded=1), "Completed"),
        ("Running", facts(succeeded=1, failed=1, stopped=True), "Pending"),
        ("Running", facts(stopped=True), "Pending"),
        ("Running", facts(succeeded=2, stopped=True), "Completed"),
        ("Completed", facts(succeeded=2, stopped=True), "Completed"),
        ("Restarting", facts(failed=2, stopped=True), "Pending"),
        ("Restarting", facts(terminating=1, replacing=True), "Restarting"),
        ("Restarting", facts(pending=2), "Pending"),
        ("Restarting", facts(running=2), "Running"),
        ("Completed", facts(succeeded=2), "Completed"),
        ("Completed", facts(replicas=3, succeeded=2, pending=1), "Pending"),
        ("Failed", facts(running=2), "Failed"),
    ],
)
def test_what_a_tasks_counters_amount_to(phase, known, after):
    assert settle(phase, known) == after


@pytest.mark.parametrize("phase", TASK_PHASES)
def test_a_restart_reaches_every_task(phase):
    assert next_task_phase(phase, "Restarted", facts()) == "Restarting"


@pytest.mark.parametrize(
    ("phase", "after"),
    [
        ("Waiting", "Failed"),
        ("Pending", "Failed"),
        ("Running", "Failed"),
        ("Restarting", "Failed"),
        ("Completed", "Completed"),
        ("Failed", "Failed"),
    ],
)
def test_a_task_that_has_not_completed_when_its_job_finishes_has_failed(phase, after):
    assert next_task_phase(phase, "JobFinished", facts(running=1)) == after


def test_a_task_that_completes_with_its_job_has_completed():
    assert next_task_phase("Running", "JobFinished", facts(succeeded=2)) == "Completed"


numbers = st.integers(0, 3)


@given(
    st.sampled_from(TASK_PHASES),
    st.builds(facts, numbers, minimum=st.none() | numbers, running=numbers, pending=numbers, succeeded=numbers, failed=numbers),
)
def test_counting_settles(phase, known):
    settle(phase, known)


# Observed jobs


@pytest.mark.parametrize(
    ("phase", "counters", "known", "after"),
    [
        ("Pending", Counters(), {}, ("Pending", False)),
        ("Pending", Counters(pending=1), {}, ("Pending", False)),
        ("Pending", Counters(running=1, pending=1), {}, ("Running", False)),
        ("Running", Counters(pending=1, failed=1), {}, ("Running", False)),
        ("Pending", Counters(pending=1, failed=1), {}, ("Pending", False)),
        ("Running", Counters(pending=1), {}, ("Pending", False)),
        ("Running", Counters(terminating=1), {}, ("Running", False)),
        ("Pending", Counters(terminating=1), {}, ("Pending", False)),
        ("Pending", Counters(pending=1, terminating=1, succeeded=1), {}, ("Pending", False)),
        ("Running", Counters(pending=1, unknown=1, succeeded=1), {}, ("Running", False)),
        ("Running", Counters(succeeded=2), {}, ("Completed", True)),
        ("Running", Counters(succeeded=1, failed=1), {}, ("Failed", True)),
        ("Running", Counters(succeeded=1), {"expected": 2}, ("Running", False)),
        ("Completed", Counters(succeeded=1, running=1), {"inferred": True}, ("Running", False)),
        ("Failed", Counters(pending=1, failed=1), {"inferred": True}, ("Pending", False)),
        ("Completed", Counters(running=1), {}, ("Completed", False)),
        ("Running", Counters(succeeded=2), {"owner_known": True}, ("Running", False)),
        ("Pending", Counters(running=1), {"owner_known": True}, ("Running", False)),
        ("Running", Counters(pending=1), {"owner_known": True}, ("Running", False)),
        ("Pending", Counters(running=1), {"owner_known": True, "owner_decides": True}, ("Pending", False)),
        ("Running", Counters(terminating=1), {"owner_known": True, "owner_decides": True}, ("Running", False)),
        ("Completed", Counters(running=1), {"owner_known": True, "inferred": True}, ("Running", False)),
        ("Aborting", Counters(running=1), {"owner_known": True}, ("Aborting", False)),
    ],
)
def test_what_attempts_show_of_an_observed_job(phase, counters, known, after):
    assert attempts_show(phase, counters, **known) == after


def test_an_owner_takes_back_an_inferred_end_but_not_its_own():
    assert owner_shows("Completed", "Running", inferred=True) == ObservedPhase("Running")
    assert owner_shows("Completed", "Failed", inferred=False) is None
    assert owner_shows("Completed", "Completed", inferred=False) == ObservedPhase("Completed")
    assert owner_shows("Completed", "Completed", inferred=True) == ObservedPhase("Completed")
    assert owner_shows("Running", "Aborted", inferred=False) == ObservedPhase("Aborted")


@pytest.mark.parametrize(
    ("phase", "shown", "counters", "after"),
    [
        ("Pending", "Running", Counters(), "Running"),
        ("Pending", "Running", Counters(pending=1), "Pending"),
        ("Pending", "Pending", Counters(running=1), "Running"),
        ("Running", "Pending", Counters(), "Running"),
        ("Running", "Pending", Counters(pending=1), "Running"),
        ("Restarting", "Pending", Counters(), "Pending"),
        ("Running", "Failed", Counters(running=1), "Failed"),
    ],
)
def test_counts_of_pods_start_a_job_and_do_not_take_that_back(phase, shown, counters, after):
    assert owner_shows(phase, shown, inferred=False, owner_decides=False, counters=counters) == ObservedPhase(after)


def test_counts_of_pods_take_back_an_inferred_end():
    assert owner_shows("Failed", "Pending", inferred=True, owner_decides=False) == ObservedPhase("Running")


@given(st.sampled_from(sorted(FINISHED_JOB_PHASES)), st.builds(Counters, numbers, numbers, numbers, numbers))
def test_attempts_never_take_back_an_end_that_the_owner_stated(phase, counters):
    assert attempts_show(phase, counters) == (phase, False)
