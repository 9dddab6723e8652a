"""The closed lists, written a second time from the page of the lifecycle, and what is read from them."""

from __future__ import annotations

import pytest

from statemachines.vocabulary import (
    FAILED_REASONS,
    FINISHED_JOB_PHASES,
    INTERNAL_ACTIONS,
    INTERNAL_EVENTS,
    JOB_PHASES,
    LIVE_ATTEMPT_PHASES,
    LOST_REASONS,
    POLICY_EVENTS,
    RANKS,
    TERMINAL_ATTEMPT_PHASES,
    USER_ACTIONS,
    failure_class,
    volcano_phase,
)

CLASSES = {
    "transient": (
        *("EvictedByNode", "EvictedByApi", "EvictedByTaint", "NodeShutdown", "RejectedByNode", "DeletedByApi"),
        *("PreemptedByScheduler", "PreemptedByKubelet", "PreemptedByNotice", "NodeLost", "ExitUnknown", "EndUnknown"),
    ),
    "none": ("KilledByAction", "StoppedByUser", "NeverStarted"),
    "user": ("AppFailed", "OomKilled", "KilledBySignal", "StartError", "TimedOut"),
}


@pytest.mark.parametrize(("reason", "found"), [(reason, name) for name, reasons in CLASSES.items() for reason in reasons])
def test_every_reason_has_a_class(reason, found):
    """Only a failure of the user can be permanent."""
    assert failure_class(reason) == failure_class(reason, 3, frozenset({4})) == found
    assert failure_class(reason, 3, frozenset({3})) == ("permanent" if found == "user" else found)


def test_a_success_is_no_failure():
    assert failure_class(None, 0, frozenset({0})) == "none"


def test_reasons_are_a_closed_list():
    assert set().union(*CLASSES.values()) == FAILED_REASONS | LOST_REASONS
    assert {"NodeLost", "ExitUnknown", "EndUnknown"} == LOST_REASONS
    assert not FAILED_REASONS & LOST_REASONS


def test_the_node_is_trusted_most_and_an_inference_least():
    assert sorted(RANKS, key=RANKS.__getitem__) == ["node", "scheduler", "watcher", "inferred"]


@pytest.mark.parametrize("phase", JOB_PHASES)
def test_volcano_knows_neither_phase_of_a_notice(phase):
    assert volcano_phase(phase) == {"Privileged": "Pending", "WillEvicted": "Running"}.get(phase, phase)


def test_phases_that_are_left_and_those_that_are_not():
    assert LIVE_ATTEMPT_PHASES == ("Pending", "Bound", "Running", "Terminating")
    assert {"Succeeded", "Failed", "Lost"} == TERMINAL_ATTEMPT_PHASES
    assert {"Completed", "Failed", "Terminated"} == FINISHED_JOB_PHASES


def test_what_policies_and_commands_may_name():
    assert {"OutOfSync", "CommandIssued", "PodRunning"} == INTERNAL_EVENTS
    assert not INTERNAL_EVENTS & POLICY_EVENTS
    assert {"SyncJob", "EnqueueJob", "RequeueJob", "NoAction"} == INTERNAL_ACTIONS
    assert not INTERNAL_ACTIONS & USER_ACTIONS
