"""Completion and failure of tasks, raise rules, callback selectors, notifications, limits."""

from __future__ import annotations

import pytest

from statemachines.callbacks import parse_selector, selects
from statemachines.conditions import condition_append
from statemachines.errors import SelectorError
from statemachines.limits import active_deadline_due, ttl_due
from statemachines.notifications import group_event, pod_added, pod_deleted, pod_updated
from statemachines.raising import CHAIN_LIMIT, fires, matching, raise_rules, subject_of, too_deep
from statemachines.spec import JobSpec, RaiseRule, TaskSpec
from statemachines.task_rules import task_completed, task_failed
from statemachines.transition import Transition
from statemachines.vocabulary import JOB_PHASES


@pytest.mark.parametrize(
    ("replicas", "minimum", "succeeded", "completed"),
    [
        (2, None, 1, False),
        (2, None, 2, True),
        (0, None, 0, False),
        (3, 1, 1, True),
        (3, 1, 0, False),
        (0, 0, 0, False),
        (3, 0, 0, True),
    ],
)
def test_a_task_completes_by_volcanos_rule_or_by_min_succeeded(replicas, minimum, succeeded, completed):
    assert task_completed(TaskSpec("t", replicas, min_succeeded=minimum), succeeded) == completed


@pytest.mark.parametrize(
    ("max_retry", "max_failed", "restarts", "failed", "has_failed"),
    [
        (3, None, 2, 9, False),
        (3, None, 3, 0, True),
        (0, None, 2, 0, False),
        (0, None, 3, 0, True),
        (-1, None, 99, 0, False),
        (-1, 1, 99, 1, False),
        (-1, 1, 0, 2, True),
        (-1, 0, 0, 1, True),
        (3, 5, 3, 0, True),
    ],
)
def test_a_task_fails_by_restarts_or_by_max_failed(max_retry, max_failed, restarts, failed, has_failed):
    """Volcano: 0 means 3, -1 never. maxFailed: more than that many; unset is no limit."""
    assert task_failed(TaskSpec("t", 4, max_retry=max_retry, max_failed=max_failed), restarts, failed) == has_failed


@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded", "Failed", "Unknown"])
def test_every_added_pod_is_pending(phase):
    assert pod_added() == "PodPending"
    assert pod_added(out_of_sync=True) == "OutOfSync"


@pytest.mark.parametrize(
    ("previous", "phase", "flags", "event"),
    [
        ("Running", "Failed", {}, "PodFailed"),
        ("Failed", "Failed", {}, "OutOfSync"),
        ("Running", "Failed", {"out_of_sync": True}, "OutOfSync"),
        ("Running", "Succeeded", {}, "OutOfSync"),
        ("Running", "Succeeded", {"task_completed": True}, "TaskCompleted"),
        ("Succeeded", "Succeeded", {"task_completed": True}, "OutOfSync"),
        ("Pending", "Running", {}, "PodRunning"),
        ("Pending", "Running", {"task_failed": True}, "PodRunning"),
        ("Running", "Running", {"task_failed": True}, "TaskFailed"),
        ("Running", "Running", {}, "OutOfSync"),
        ("Unknown", "Pending", {"task_failed": True}, "PodPending"),
        ("Pending", "Pending", {"task_failed": True}, "TaskFailed"),
        ("Running", "Unknown", {}, "OutOfSync"),
    ],
)
def test_events_of_updated_pods(previous, phase, flags, event):
    assert pod_updated(previous, phase, **flags) == event


@pytest.mark.parametrize(
    ("flags", "event"), [({}, "PodEvicted"), ({"out_of_sync": True}, "OutOfSync"), ({"known": False}, "OutOfSync")]
)
def test_events_of_deleted_pods(flags, event):
    assert pod_deleted(**flags) == event


@pytest.mark.parametrize(("phase", "event"), [("Unknown", "Unknown"), ("Running", None), ("Inqueue", None)])
def test_events_of_groups(phase, event):
    assert group_event(phase) == event


def test_conditions_are_de_duplicated_by_phase():
    assert condition_append(["Pending", "Running"], "Pending") == ["Running", "Pending"]
    assert condition_append([], "Pending") == ["Pending"]
    assert condition_append(["Pending"], "Running") == ["Pending", "Running"]


@pytest.mark.parametrize("phase", JOB_PHASES)
def test_only_finished_jobs_are_collected(phase):
    due = ttl_due(JobSpec(ttl_seconds_after_finished=5), phase, 1_000_000)
    assert due == (6_000_000 if phase in ("Completed", "Failed", "Terminated") else None)
    assert ttl_due(JobSpec(), phase, 0) is None


def test_a_ttl_of_nothing_is_due_at_once():
    assert ttl_due(JobSpec(ttl_seconds_after_finished=0), "Failed", 7) == 7


def test_active_deadline():
    assert active_deadline_due(JobSpec(active_deadline_seconds=2), 1) == 2_000_001
    assert active_deadline_due(JobSpec(), 1) is None


# Raise rules

DONE = Transition("task", "Completed", "Running", task="combiner")
DIED = Transition("replica", "Failed", "Running", task="w", index=1, reason="OomKilled", exit_code=137)


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ({"level": "replica"}, True),
        ({"level": "task"}, False),
        ({"level": "replica", "task": "w"}, True),
        ({"level": "replica", "task": "v"}, False),
        ({"level": "replica", "phase": "Failed"}, True),
        ({"level": "replica", "phase": "Lost"}, False),
        ({"level": "replica", "reason": "OomKilled"}, True),
        ({"level": "replica", "reason": "AppFailed"}, False),
        ({"level": "replica", "exit_code": 137}, True),
        ({"level": "replica", "exit_code": 1}, False),
    ],
)
def test_each_condition_of_a_rule_decides(rule, holds):
    assert matching([RaiseRule("E", **rule)], DIED) == ([0] if holds else [])


def test_subjects():
    assert subject_of(DONE) == "combiner"
    assert subject_of(DIED) == "w/1"
    assert subject_of(Transition("job", "Running")) == ""


def firings(rule, subjects):
    """Fold a rule over the subjects that match it, as the stage does."""
    matched, fired, fires_for = set(), set(), []
    for subject in subjects:
        matched.add(subject)
        key = subject if rule.count <= 1 else ""
        if fires(rule, fired=key in fired, matched=len(matched)):
            fired.add(key)
            fires_for.append(subject)
    return fires_for


def test_a_rule_fires_once_for_a_subject():
    assert firings(RaiseRule("E", "replica"), ["w/1", "w/1", "w/2", "w/1"]) == ["w/1", "w/2"]


def test_a_rule_with_a_count_fires_once_when_it_is_reached():
    assert firings(RaiseRule("E", "replica", count=2), ["a", "a", "b", "c", "a"]) == ["b"]


def test_main_is_shorthand_for_two_rules_after_the_jobs_own():
    own = RaiseRule("E")
    spec = JobSpec(tasks=(TaskSpec("l"), TaskSpec("combiner", main=True)), raise_rules=(own,))
    assert raise_rules(spec) == [
        own,
        RaiseRule("MainTaskEvent", "task", "combiner", "Completed"),
        RaiseRule("MainTaskFailedEvent", "task", "combiner", "Failed"),
    ]
    assert matching(raise_rules(spec)[1:], DONE) == [0]


def test_chains_end_at_eight():
    assert [too_deep(depth) for depth in (0, CHAIN_LIMIT, CHAIN_LIMIT + 1)] == [False, False, True]
    assert CHAIN_LIMIT == 8


# Callback selectors

LABELS = {"team": "vision"}


@pytest.mark.parametrize(
    ("selector", "holds"),
    [
        ({}, True),
        ({"level": "replica"}, True),
        ({"level": ["job", "replica"]}, True),
        ({"level": "job"}, False),
        ({"from": "Running"}, True),
        ({"from": "Pending"}, False),
        ({"to": ["Failed", "Lost"]}, True),
        ({"to": "Lost"}, False),
        ({"to": "*"}, True),
        ({"reason": "OomKilled"}, True),
        ({"reason": "AppFailed"}, False),
        ({"task": "w"}, True),
        ({"task": ["v"]}, False),
        ({"labels": {"team": "vision"}}, True),
        ({"labels": {"team": "speech"}}, False),
        ({"labels": {"project": "x"}}, False),
        ({"level": "replica", "to": "Failed", "reason": ["OomKilled"], "task": "w", "labels": LABELS}, True),
    ],
)
def test_each_field_of_a_selector_decides(selector, holds):
    assert selects(parse_selector(selector), DIED, LABELS) == holds


def test_the_first_transition_leaves_no_phase():
    begun = Transition("job", "Pending")
    assert selects(parse_selector({"level": "job"}), begun, {})
    assert not selects(parse_selector({"from": "Pending"}), begun, {})


@pytest.mark.parametrize(
    ("selector", "says"),
    [
        ({"phase": "Failed"}, "unknown field 'phase'"),
        ({"level": "pod"}, "level: 'pod' is not one of job, task, replica"),
        ({"level": "job", "to": "Lost"}, "to: no job has a phase 'Lost'"),
        ({"from": "Nowhere"}, "from: no job or replica or task has a phase 'Nowhere'"),
        ({"level": "job", "task": "worker"}, "task: a transition of a job is of no task"),
        ({"level": ["job"], "task": ["worker"], "to": "Failed"}, "select the level task or replica"),
        (
            {"level": "replica", "to": "Failed", "reason": "Foo"},
            "reason: there is no reason of an end 'Foo'; write one of AppFailed, DeletedByApi",
        ),
        ({"level": "task", "reason": "OomKilled"}, "reason: a transition of a task has none"),
        ({"to": 3}, "to: give a string or a list of strings"),
        ({"task": ["a", 1]}, "task: give a string or a list of strings"),
        ({"labels": ["a"]}, "labels: give a map"),
        ({"labels": {"a": 1}}, "labels: give a map"),
    ],
)
def test_a_selector_that_can_select_nothing_is_refused(selector, says):
    with pytest.raises(SelectorError, match=says):
        parse_selector(selector)
