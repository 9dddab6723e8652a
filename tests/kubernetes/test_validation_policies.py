"""Volcano's rules of lifecycle policies."""

from __future__ import annotations

from typing import Any

import pytest

from engine.kubernetes.manifests.job_shapes import LifecyclePolicy
from engine.kubernetes.manifests.policy_rules import policy_faults
from statemachines.vocabulary import POLICY_EVENTS, USER_ACTIONS


def found(*policies: dict[str, Any], declared: tuple[str, ...] = ()) -> list[str]:
    shapes = [LifecyclePolicy.model_validate(policy) for policy in policies]
    return [fault.path for fault in policy_faults(shapes, "p", declared)]


@pytest.mark.parametrize("event", sorted(POLICY_EVENTS))
def test_every_policy_event_is_accepted(event: str) -> None:
    assert found({"event": event, "action": "AbortJob"}) == []


@pytest.mark.parametrize("action", sorted(USER_ACTIONS))
def test_every_user_action_is_accepted(action: str) -> None:
    assert found({"event": "PodFailed", "action": action}) == []


@pytest.mark.parametrize("event", ["OutOfSync", "CommandIssued", "PodRunning", "someFakeEvent"])
def test_internal_and_unknown_events_are_refused(event: str) -> None:
    assert found({"event": event, "action": "AbortJob"}) == ["p[0].event"]
    assert found({"events": ["PodFailed", event], "action": "AbortJob"}) == ["p[0].events[1]"]


@pytest.mark.parametrize("action", ["SyncJob", "EnqueueJob", "RequeueJob", "NoAction", "someFakeAction", "", None])
def test_internal_and_unknown_actions_are_refused_for_events(action: str | None) -> None:
    assert found({"event": "PodFailed", "action": action}) == ["p[0].action"]


def test_actions_of_exit_codes_are_not_looked_at() -> None:
    """Volcano: only its schema does."""
    assert found({"exitCode": 1, "action": "someFakeAction"}) == []


def test_a_policy_answers_events_or_an_exit_code() -> None:
    assert found({"event": "PodFailed", "exitCode": -1, "action": "AbortJob"}) == ["p[0]"]
    assert found({"events": ["PodFailed"], "exitCode": 1, "action": "AbortJob"}) == ["p[0]"]
    assert found({"action": "AbortJob"}) == ["p[0]"]
    assert found({"events": [], "event": "", "action": "AbortJob"}) == ["p[0]"]


def test_an_event_is_answered_once() -> None:
    twice = {"event": "PodFailed", "action": "AbortJob"}
    assert found(twice, {"event": "PodFailed", "action": "RestartJob"}) == ["p[1].event"]
    assert found(twice, {"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"}) == ["p[1].events[1]"]
    assert found({"event": "PodFailed", "events": ["PodFailed", "PodFailed"], "action": "AbortJob"}) == []


def test_exit_codes_are_not_zero_and_differ() -> None:
    assert found({"exitCode": 0, "action": "AbortJob"}) == ["p[0].exitCode"]
    assert found({"exitCode": 1, "action": "AbortJob"}, {"exitCode": 1, "action": "RestartJob"}) == ["p[1].exitCode"]
    assert found({"exitCode": 1, "action": "AbortJob"}, {"exitCode": 2, "action": "RestartJob"}) == []


def test_any_event_stands_alone_among_events_but_not_among_exit_codes() -> None:
    any_event = {"event": "*", "action": "AbortJob"}
    assert found(any_event, {"event": "PodFailed", "action": "RestartJob"}) == ["p"]
    assert found({"events": ["*", "PodFailed"], "action": "RestartJob"}) == ["p"]
    assert found(any_event, {"exitCode": 3, "action": "RestartJob"}) == []


def test_judgement_stops_at_the_first_bad_policy() -> None:
    assert found({"action": "AbortJob"}, {"exitCode": 0, "action": "AbortJob"}) == ["p[0]"]


def test_declared_events_are_as_good_as_built_in_ones() -> None:
    policy = {"event": "CheckpointDone", "action": "CompleteJob"}
    assert found(policy, declared=("CheckpointDone",)) == []
    assert found({"event": "*", "action": "AbortJob"}, policy, declared=("CheckpointDone",)) == ["p"]


def test_a_timeout_is_a_duration_that_is_not_negative() -> None:
    assert found({"event": "PodPending", "action": "RestartJob", "timeout": "1h30m"}) == []
    assert found({"event": "PodPending", "action": "RestartJob", "timeout": "soon"}) == ["p[0].timeout"]
    assert found({"event": "PodPending", "action": "RestartJob", "timeout": "-1s"}) == ["p[0].timeout"]
