"""The job's phase rule, row by row of Volcano's state table, and Lahar's differences from it."""

from __future__ import annotations

from itertools import product

import pytest

from statemachines.counters import Counters
from statemachines.phase_rule import NextPhase, deferred, effect_of, next_phase, notice_phase, preempted_action
from statemachines.spec import JobSpec, TaskSpec
from statemachines.vocabulary import ACTIONS, JOB_PHASES, volcano_phase

TARGETED = ("RestartTask", "RestartPod", "RestartPartition")
VOLCANO_PHASES = [phase for phase in JOB_PHASES if volcano_phase(phase) == phase]


def spec(replicas=2, minimum=2, **fields):
    return JobSpec(tasks=(TaskSpec("t", replicas),), min_available=minimum, **fields)


def move(phase, action, job=None, counters=None, retry_count=0, minimum=2, **more):
    return next_phase(phase, action, job or spec(), counters or Counters(), retry_count, minimum, **more)


def expected_effect(phase, action):
    """Volcano's state table, effects, written a second time and another way."""
    if action == "NoAction":
        return "none"
    if phase in ("Pending", "Running"):
        if action in ("RestartJob", "RequeueJob"):
            return "kill_none"
        if action in TARGETED:
            return "kill_target"
        return "kill_soft" if action in ("AbortJob", "TerminateJob", "CompleteJob") else "sync"
    if phase == "Restarting":
        if action == "SyncJob":
            return "sync"
        return "kill_target" if action in TARGETED else "kill_none"
    return "kill_soft"


@pytest.mark.parametrize(("phase", "action"), list(product(VOLCANO_PHASES, ACTIONS)))
def test_effects_are_those_of_the_state_table(phase, action):
    assert effect_of(phase, action) == expected_effect(phase, action)


@pytest.mark.parametrize(("double", "phase"), [("Privileged", "Pending"), ("WillEvicted", "Running")])
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("running", [0, 2])
def test_a_job_under_notice_behaves_as_its_volcano_phase(double, phase, action, running):
    counters = Counters(running=running, pending=2 - running)
    assert effect_of(double, action) == effect_of(phase, action)
    answer, reference = (move(name, action, counters=counters) for name in (double, phase))
    stays = double == "WillEvicted" and reference.phase == "Pending"  # nobody shakes off a notice by asking for more pods
    if reference.phase == phase or stays:
        assert answer == NextPhase(double, *reference[1:])
    else:
        assert answer == reference


def test_nothing_is_done_for_a_job_that_is_being_deleted():
    assert {effect_of(phase, action, deleting=True) for phase in JOB_PHASES for action in ACTIONS} == {"none"}


def test_an_unknown_action_is_a_sync():
    """Volcano: every state has a default branch."""
    assert effect_of("Running", "OpenQueue") == "sync"
    assert effect_of("Aborting", "OpenQueue") == "kill_soft"
    assert move("Pending", "OpenQueue", counters=Counters(running=2)).phase == "Running"


@pytest.mark.parametrize("phase", ["Pending", "Running"])
@pytest.mark.parametrize("action", ["RestartJob", *TARGETED])
def test_a_restart_leads_to_restarting_and_burns_a_retry(phase, action):
    assert move(phase, action) == ("Restarting", 1, 1)


@pytest.mark.parametrize("phase", ["Pending", "Running"])
@pytest.mark.parametrize(
    ("action", "to"), [("AbortJob", "Aborting"), ("TerminateJob", "Terminating"), ("CompleteJob", "Completing")]
)
def test_stops(phase, action, to):
    assert move(phase, action) == (to, 0, 0)


@pytest.mark.parametrize("action", ["SyncJob", "EnqueueJob", "ResumeJob"])
@pytest.mark.parametrize(
    ("counters", "to"),
    [
        (Counters(pending=1, running=1), "Pending"),
        (Counters(running=2), "Running"),
        (Counters(running=1, failed=1), "Running"),
        (Counters(succeeded=1, failed=1), "Running"),
        (Counters(running=1, unknown=1), "Pending"),
        (Counters(running=1, terminating=1), "Pending"),
    ],
)
def test_pending_runs_when_enough_pods_started(action, counters, to):
    """Volcano: spec.minAvailable <= running + succeeded + failed."""
    assert move("Pending", action, counters=counters) == (to, 0, 0)


def test_pending_with_a_minimum_of_nothing_runs_at_once():
    assert move("Pending", "SyncJob", JobSpec()).phase == "Running"


@pytest.mark.parametrize(
    ("job", "counters", "to"),
    [
        (JobSpec(min_available=0), Counters(succeeded=3), "Running"),
        (spec(3, 3, min_success=1), Counters(running=2, succeeded=1), "Completed"),
        (spec(2, 1, min_success=2), Counters(succeeded=1, failed=1), "Failed"),
        (spec(2, 1), Counters(succeeded=1, failed=1), "Completed"),
        (spec(2, 2), Counters(succeeded=1, failed=1), "Failed"),
        (spec(2, 2), Counters(succeeded=1, running=1), "Running"),
        (spec(3, 2), Counters(pending=1, running=2), "Running"),
        (spec(3, 2), Counters(pending=2, running=1), "Pending"),
        (spec(3, 2), Counters(running=1, unknown=2), "Running"),
        (spec(2, 2), Counters(running=0, terminating=2), "Running"),
    ],
    ids=[
        "scaled to zero keeps its phase",
        "minSuccess is reached with pods alive",
        "minSuccess is missed",
        "enough succeeded",
        "too few succeeded",
        "not all ended",
        "few pending",
        "too many pending",
        "few running alone",
        "terminating alone",
    ],
)
def test_running_sync(job, counters, to):
    assert move("Running", "SyncJob", job, counters).phase == to


def two_tasks(minimum, a=2, b=1):
    return JobSpec(tasks=(TaskSpec("a", 2, a), TaskSpec("b", 1, b)), min_available=minimum)


@pytest.mark.parametrize(
    ("job", "succeeded", "to"),
    [
        (two_tasks(3), {"a": 1, "b": 1}, "Failed"),
        (two_tasks(2), {"a": 1, "b": 1}, "Completed"),
        (two_tasks(2, a=1), {"a": 1, "b": 1}, "Completed"),
        (two_tasks(2, a=1), {"a": 2, "b": 0}, "Failed"),
        (two_tasks(2, a=1), {"a": 2}, "Completed"),
        (two_tasks(2, a=1, b=None), {"a": 2, "b": 0}, "Completed"),
    ],
    ids=["short task", "job minimum below the sum", "met", "short b", "b is not counted", "b has no minimum"],
)
def test_tasks_minima_count_when_the_jobs_minimum_covers_them(job, succeeded, to):
    """Volcano: a nil minimum counts as all replicas in the sum, and is not judged."""
    counters = Counters(succeeded=2, failed=1)
    tasks = {name: Counters(succeeded=number) for name, number in succeeded.items()}
    assert move("Running", "SyncJob", job, counters, tasks=tasks).phase == to


@pytest.mark.parametrize("action", [action for action in ACTIONS if action != "NoAction"])
@pytest.mark.parametrize(
    ("retry_count", "terminating", "to"),
    [(3, 0, "Failed"), (2, 0, "Pending"), (2, 1, "Restarting"), (0, 2, "Restarting"), (3, 2, "Failed")],
)
def test_restarting_resolves_whatever_is_asked(action, retry_count, terminating, to):
    """Volcano: even an abort is answered by killing all and resolving."""
    assert move("Restarting", action, counters=Counters(terminating=terminating), retry_count=retry_count) == (to, 0, 0)


def test_restarting_compares_with_the_statuss_minimum_not_the_specs():
    counters = Counters(terminating=1)
    assert move("Restarting", "SyncJob", spec(2, 2), counters, minimum=1).phase == "Pending"


def test_max_retry_n_allows_n_minus_one_restarts():
    job, retry_count, restarts, phase = spec(max_retry=3), 0, 0, "Running"
    while phase == "Running":
        step = move(phase, "RestartJob", job, retry_count=retry_count)
        retry_count += step.retry_delta
        phase = move("Restarting", "SyncJob", job, retry_count=retry_count).phase
        if phase == "Pending":
            restarts, phase = restarts + 1, "Running"
    assert (restarts, phase) == (2, "Failed")


@pytest.mark.parametrize("phase", ["Aborting", "Aborted"])
@pytest.mark.parametrize("cause", [None, "user", "transient", "permanent"])
def test_resume_restarts_and_burns_a_retry(phase, cause):
    """Whatever led to it."""
    assert move(phase, "ResumeJob", counters=Counters(running=1), cause=cause) == ("Restarting", 1, 0)


@pytest.mark.parametrize(("phase", "to"), [("Aborting", "Aborted"), ("Completing", "Completed"), ("Terminating", "Terminated")])
@pytest.mark.parametrize("action", ["SyncJob", "RestartJob", "AbortJob", "RequeueJob", "EnqueueJob"])
def test_stopping_ends_when_drained(phase, to, action):
    """Volcano: terminating, pending and running must be 0; unknown pods are ignored."""
    assert move(phase, action, counters=Counters(unknown=1, succeeded=1)).phase == to
    for counters in (Counters(terminating=1), Counters(pending=1), Counters(running=1)):
        assert move(phase, action, counters=counters).phase == phase


@pytest.mark.parametrize(("phase", "action"), list(product(["Completed", "Failed", "Terminated"], ACTIONS)))
def test_finished_jobs_stay(phase, action):
    assert move(phase, action) == (phase, 0, 0)


@pytest.mark.parametrize("action", [action for action in ACTIONS if action != "ResumeJob"])
def test_aborted_stays_until_resumed(action):
    assert move("Aborted", action) == ("Aborted", 0, 0)


@pytest.mark.parametrize("phase", JOB_PHASES)
def test_no_action_changes_nothing(phase):
    assert move(phase, "NoAction", counters=Counters(running=2)) == (phase, 0, 0)


@pytest.mark.parametrize(
    ("cause", "delta"), [(None, (1, 1)), ("user", (1, 1)), ("transient", (0, 1)), ("none", (0, 1)), ("permanent", (3, 1))]
)
@pytest.mark.parametrize("action", ["RestartJob", *TARGETED])
def test_only_the_users_failures_burn_retries(cause, delta, action):
    """A command counts as the user's; a permanent failure uses up what is left, so that the restart resolves to Failed."""
    step = move("Running", action, spec(max_retry=3), cause=cause)
    assert step == ("Restarting", *delta)
    resolved = move("Restarting", "SyncJob", spec(max_retry=3), retry_count=step.retry_delta)
    assert resolved.phase == ("Failed" if cause == "permanent" else "Pending")


def test_a_permanent_failure_burns_the_retries_that_are_left():
    assert move("Running", "RestartJob", spec(max_retry=3), cause="permanent", retry_count=1).retry_delta == 2


def test_a_permanent_failure_with_no_retry_left_still_counts_one():
    assert move("Running", "RestartJob", spec(max_retry=0), cause="permanent").retry_delta == 1


def test_requeue_neither_touches_nor_tests_retries():
    assert move("Running", "RequeueJob", spec(max_retry=1)) == ("Restarting", 0, 0)
    assert move("Restarting", "SyncJob", spec(max_retry=1), retry_count=1, requeued=True).phase == "Pending"
    assert move("Restarting", "SyncJob", spec(max_retry=1), retry_count=1).phase == "Failed"


@pytest.mark.parametrize(("phase", "action"), list(product(JOB_PHASES, ACTIONS)))
def test_only_a_stop_asked_for_during_a_restart_is_deferred(phase, action):
    assert deferred(phase, action) == (phase == "Restarting" and action in ("AbortJob", "TerminateJob", "CompleteJob"))


@pytest.mark.parametrize(
    ("phase", "trigger", "to"),
    [
        ("Pending", "NoticeOpened", "Privileged"),
        ("Running", "NoticeReceived", "WillEvicted"),
        ("Pending", "NoticeReceived", "WillEvicted"),
        ("Running", "NoticeOpened", None),
        ("Restarting", "NoticeReceived", None),
        ("WillEvicted", "NoticeReceived", None),
        ("Privileged", "NoticeOpened", None),
        ("WillEvicted", "NoticeOpened", None),
        ("Privileged", "NoticeWithdrawn", "Pending"),
        ("Privileged", "NoticeExecuted", "Pending"),
        ("WillEvicted", "NoticeWithdrawn", "Running"),
        ("WillEvicted", "NoticeExecuted", "Restarting"),
        ("Pending", "NoticeWithdrawn", None),
        ("Completed", "NoticeOpened", None),
        ("Restarting", "NoticeExecuted", None),
    ],
)
def test_notices(phase, trigger, to):
    assert notice_phase(phase, trigger, spec(), Counters(running=1, pending=1)) == to


def test_a_pending_job_without_a_pod_that_runs_is_no_victim():
    assert notice_phase("Pending", "NoticeReceived", spec(), Counters(pending=2)) is None


@pytest.mark.parametrize("trigger", ["NoticeWithdrawn", "NoticeExecuted"])
def test_a_preemptor_that_started_meanwhile_runs_when_its_notice_ends(trigger):
    assert notice_phase("Privileged", trigger, spec(), Counters(running=2)) == "Running"


@pytest.mark.parametrize(
    ("wish", "action", "to"),
    [("Requeue", "RequeueJob", "Restarting"), ("Abort", "AbortJob", "Aborting"), ("Terminate", "TerminateJob", "Terminating")],
)
def test_a_victim_becomes_what_its_specification_says(wish, action, to):
    """The action that stops it leads to the phase that the notice's own trigger names."""
    job = spec(on_preempted=wish)
    assert preempted_action(job) == action
    assert move("WillEvicted", action, job) == (to, 0, 0)
    assert notice_phase("WillEvicted", "NoticeExecuted", job, Counters(running=2)) == to
