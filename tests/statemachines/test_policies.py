"""Policy matching and delayed actions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachines.delays import Delay, action_class, cancelled_by_event, made_pointless, place
from statemachines.policies import MAIN_ACTIONS, Match, Request, match
from statemachines.spec import JobSpec, Policy, TaskSpec
from statemachines.vocabulary import ACTIONS, BUS_EVENTS, USER_ACTIONS

SYNC = Match("SyncJob")
EVENTS = [event for event in BUS_EVENTS if event != "*"]


def job(*policies, task=()):
    return JobSpec(
        tasks=(TaskSpec("other", policies=(Policy("AbortJob", ("*",)),)), TaskSpec("w", policies=task)), policies=policies
    )


def on(event, action="RestartJob", **fields):
    return Policy(action, (event,), **fields)


@pytest.mark.parametrize("action", ACTIONS)
def test_an_explicit_action_wins_over_everything(action):
    spec = job(on("*", "AbortJob"))
    assert match(Request("PodFailed", action, version=0, job_uid="x"), spec, version=9, job_uid="y") == Match(action)


@pytest.mark.parametrize("event", ["CommandIssued", "OutOfSync", "PodRunning"])
def test_internal_events_are_syncs_even_for_a_star(event):
    assert match(Request(event, task="w"), job(on("*"), task=[on("*")])) == SYNC


@pytest.mark.parametrize(
    ("request_uid", "job_uid", "matches"),
    [(None, None, True), (None, "a", True), ("a", "a", True), ("a", "b", False), ("a", None, False)],
)
def test_a_request_of_another_job_is_a_sync(request_uid, job_uid, matches):
    found = match(Request("PodFailed", job_uid=request_uid), job(on("PodFailed")), job_uid=job_uid)
    assert (found.action == "RestartJob") == matches


def test_a_pod_that_has_not_terminated_has_no_exit_code_but_zero():
    spec = job(Policy("AbortJob", exit_code=1), Policy("CompleteJob", exit_code=0))
    assert match(Request("PodFailed"), spec).action == "CompleteJob"


@pytest.mark.parametrize(("request_version", "matches"), [(1, False), (2, True), (3, True)])
def test_an_outdated_request_is_a_sync(request_version, matches):
    found = match(Request("PodFailed", version=request_version), job(on("PodFailed")), version=2)
    assert (found.action == "RestartJob") == matches


def test_a_groups_unknown_never_matches_after_the_first_kill():
    """Volcano: it carries version 0."""
    spec = job(on("Unknown"))
    assert match(Request("Unknown"), spec, version=0).action == "RestartJob"
    assert match(Request("Unknown"), spec, version=1) == SYNC


def test_task_policies_come_first_and_the_path_says_which_matched():
    spec = job(on("PodFailed", "AbortJob"), task=[on("PodEvicted"), on("PodFailed", "RestartTask")])
    assert match(Request("PodFailed", task="w"), spec) == Match("RestartTask", None, "spec.tasks[1].policies[1]")
    assert match(Request("PodFailed"), spec) == Match("AbortJob", None, "spec.policies[0]")


def test_task_policies_override_per_event():
    spec = job(on("PodFailed", "AbortJob"), task=[on("PodEvicted", "RestartTask")])
    assert match(Request("PodFailed", task="w"), spec).action == "AbortJob"
    assert match(Request("PodFailed", task="unknown"), spec).action == "AbortJob"


def test_the_first_task_of_a_name_answers():
    spec = JobSpec(tasks=(TaskSpec("w"), TaskSpec("w", policies=(on("*"),))))
    assert match(Request("PodFailed", task="w"), spec) == SYNC


def test_an_earlier_policy_beats_a_better_one():
    spec = job(Policy("RestartTask", exit_code=3), on("PodFailed", "AbortJob"))
    assert match(Request("PodFailed", exit_code=3), spec).action == "RestartTask"
    spec = job(on("PodFailed", "AbortJob"), Policy("RestartTask", exit_code=3))
    assert match(Request("PodFailed", exit_code=3), spec).action == "AbortJob"


@pytest.mark.parametrize(("policy", "request_code", "matches"), [(3, 3, True), (3, 4, False), (0, 0, True), (None, 0, False)])
def test_exit_codes(policy, request_code, matches):
    found = match(Request("PodFailed", exit_code=request_code), job(Policy("AbortJob", exit_code=policy)))
    assert (found.action == "AbortJob") == matches


def test_an_unmatched_event_leaves_the_exit_code_of_the_same_policy():
    assert match(Request("PodFailed", exit_code=3), job(Policy("AbortJob", ("PodEvicted",), exit_code=3))).action == "AbortJob"


def test_a_star_needs_an_event():
    """Volcano: a PodGroup's change carries none, and leads to a sync."""
    assert match(Request(), job(on("*"))) == SYNC


@pytest.mark.parametrize("listed", ["PodPending", "*"])
def test_pod_pending_matches_only_policies_that_wait(listed):
    spec = job(on(listed, "AbortJob"), on(listed, "RestartPod", timeout=10))
    assert match(Request("PodPending"), spec) == Match("RestartPod", 10, "spec.policies[1]")
    assert match(Request("PodPending"), job(on(listed, "RestartPod", timeout=0))).action == "RestartPod"


@pytest.mark.parametrize("request_", [Request("PodFailed"), Request(exit_code=9)])
def test_a_timeout_delays_any_match(request_):
    assert match(request_, job(Policy("AbortJob", ("PodFailed",), 9, timeout=5))).delay == 5


@pytest.mark.parametrize("listed", ["Divergence", "*"])
def test_custom_events_match_as_built_in_ones_do(listed):
    spec = job(task=[on(listed, "RestartTask")])
    assert match(Request("Divergence", task="w"), spec).action == "RestartTask"
    assert match(Request("Divergence", task="w", version=0), spec, version=1) == SYNC


@pytest.mark.parametrize(("event", "action"), list(MAIN_ACTIONS.items()))
def test_a_main_tasks_events_have_actions_of_their_own(event, action):
    main = JobSpec(tasks=(TaskSpec("m", main=True),))
    assert match(Request(event, task="m"), main) == Match(action)
    assert match(Request(event, task="m"), JobSpec(tasks=(TaskSpec("m"),))) == SYNC
    assert (
        match(Request(event, task="m"), JobSpec(tasks=main.tasks, policies=(on(event, "TerminateJob"),))).action == "TerminateJob"
    )


policies = st.lists(
    st.builds(
        Policy,
        action=st.sampled_from(sorted(USER_ACTIONS)),
        events=st.lists(st.sampled_from(["*", *EVENTS, "Custom"]), max_size=2).map(tuple),
        exit_code=st.none() | st.integers(0, 2),
        timeout=st.none() | st.integers(0, 2),
    ),
    max_size=4,
).map(tuple)
requests = st.builds(
    Request,
    event=st.sampled_from([None, *EVENTS, "Custom"]),
    task=st.sampled_from([None, "w", "nobody"]),
    exit_code=st.integers(0, 2),
    version=st.integers(0, 2),
)


@given(requests, policies, policies)
def test_policies_after_the_one_that_matched_do_not_matter(request_, of_task, of_job):
    found = match(request_, job(*of_job, task=of_task))
    if found.policy is None:
        assert found.action == "SyncJob"
        return
    position = int(found.policy.rpartition("[")[2][:-1])
    if found.policy.startswith("spec.tasks[1]"):
        shorter = job(task=of_task[: position + 1])
    else:
        shorter = job(*of_job[: position + 1], task=of_task)
    assert match(request_, shorter) == found


@given(requests, policies, policies)
def test_a_match_is_a_policy_that_speaks_of_the_event_or_the_exit_code(request_, of_task, of_job):
    found = match(request_, job(*of_job, task=of_task))
    if found.policy is not None:
        position = int(found.policy.rpartition("[")[2][:-1])
        policy = (of_task if found.policy.startswith("spec.tasks[1]") else of_job)[position]
        assert (found.action, found.delay) == (policy.action, policy.timeout)
        assert request_.event in policy.events or "*" in policy.events or policy.exit_code == request_.exit_code


# Delayed actions


def delay(action="RestartPod", event="PodFailed", pod="p0", uid="u0"):
    return Delay(action, f"{action}/{event}/{pod}", event, pod, uid)


def test_a_second_delayed_action_of_the_same_kind_for_a_pod_is_ignored():
    assert place([delay()], delay(event="PodEvicted")) == ("ignore", [])


def test_another_action_for_the_same_pod_replaces_the_running_one():
    running = delay()
    assert place([running], delay("AbortJob")) == ("set", [running])


def test_delayed_actions_of_other_pods_stay():
    assert place([delay(pod="p1")], delay()) == ("set", [])
    assert place([delay(pod=None)], delay(pod=None)) == ("ignore", [])


@pytest.mark.parametrize(
    ("running", "event", "uid", "cancels"),
    [
        ("PodPending", "PodRunning", "u0", True),
        ("PodPending", "PodFailed", "u0", True),
        ("PodPending", "PodEvicted", "u0", True),
        ("PodPending", "PodPending", "u0", False),
        ("PodPending", "PodRunning", "u1", False),
        ("PodFailed", "PodRunning", "u1", True),
        ("PodEvicted", "PodRunning", "u1", True),
        ("PodFailed", "PodEvicted", "u0", False),
        ("PodFailed", "PodPending", "u1", False),
        ("TaskFailed", "PodRunning", "u0", False),
        ("PodPending", "TaskCompleted", "u0", False),
    ],
)
def test_what_a_pods_event_cancels(running, event, uid, cancels):
    timer = delay(event=running)
    assert cancelled_by_event([timer], event, "p0", uid) == ([timer] if cancels else [])
    assert cancelled_by_event([timer], event, "p1", uid) == []


@pytest.mark.parametrize(
    ("action", "pointless"),
    [
        ("AbortJob", {"AbortJob", "RestartJob", "TerminateJob", "CompleteJob", "ResumeJob"}),
        ("RestartTask", {"RestartTask"}),
        ("RestartPod", {"RestartPod"}),
        ("RestartPartition", {"RestartPartition"}),
        ("SyncJob", set()),
        ("EnqueueJob", set()),
    ],
)
def test_an_executed_action_makes_delayed_ones_of_its_class_pointless(action, pointless):
    assert set(made_pointless(action)) == pointless


@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_has_a_class(action):
    expected = {"RestartTask": "task", "RestartPod": "pod", "RestartPartition": "partition"}.get(action, "job")
    assert action_class(action) == expected
