"""Answers to why, in sentences that an operator would write."""

from __future__ import annotations

from typing import get_args

import pytest

from engine.events import Event
from engine.events.actions import ActionTaken, TimerFired, TimerKind, TimerSet
from engine.events.attempts import AttemptChanged, AttemptEnded
from engine.events.inputs import CommandIssued, JobObserved, PodObserved
from engine.events.jobs import JobPhaseChanged
from engine.events.outcomes import JobParked
from engine.events.times import SECOND
from engine.history.listing import Filter, Listing
from engine.history.phrases import exit_words, fate
from engine.history.reading import JobHistory, history_of, job_events
from engine.history.sentences import describe
from engine.history.why import why_event, why_job
from statemachines.spec import DependsOn, JobSpec, TaskSpec
from statemachines.vocabulary import FAILED_REASONS, LOST_REASONS


def given(identity, data, seconds):
    """An input."""
    return Event(identity, "s", data.TYPE, "job", seconds * SECOND, seconds * SECOND, 0, "job", "", "seren", data)


OBSERVED = {"observation": given("observation", PodObserved("uid", "job", "bert-worker-1", "Failed", 0, reason="OomKilled"), 300)}


def test_restarted_training(training):
    explanation = why_job(JobHistory(training.events, OBSERVED))
    assert explanation.sentences() == [
        "default/bert is Completed since 1970-01-01 00:16:40Z, 16 min 10 s after it first ran.",
        "Of 3 replicas: 3 Succeeded.",
        (
            "worker[1] attempt 1 was OOM-killed (exit 137) at 1970-01-01 00:05:00Z on node-2 after running 4 min 30 s; "
            "policy spec.tasks[1].policies[0] answers PodFailed with RestartTask on worker at 1970-01-01 00:05:00Z; "
            "worker[1] attempt 2 started as pod train-worker-1 at 1970-01-01 00:05:02Z."
        ),
        (
            "The job went from Running to Completed at 1970-01-01 00:16:40Z, "
            "because ps[0] attempt 1 succeeded at 1970-01-01 00:16:40Z after running 16 min 10 s."
        ),
    ]


def test_chain_of_causes_leads_back_to_the_input(training):
    history = JobHistory(training.events, OBSERVED)
    again = next(e for e in training.events if e.type == "lahar.attempt.started.v1" and e.data.attempt == 2)
    explanation = why_event(history, again)
    assert [step.type for step in explanation.causes] == [
        "lahar.attempt.started.v1",
        "lahar.job.action_taken.v1",
        "lahar.event.raised.v1",
        "lahar.attempt.ended.v1",
        "lahar.pod.observed.v1",
    ]
    assert explanation.sentences()[-1] == (
        "worker[1] attempt 2 started as pod train-worker-1 at 1970-01-01 00:05:02Z, "
        "because policy spec.tasks[1].policies[0] answers PodFailed with RestartTask on worker at 1970-01-01 00:05:00Z; "
        "because worker[1] attempt 1 raised PodFailed (exit 137); "
        "because worker[1] attempt 1 was OOM-killed (exit 137) at 1970-01-01 00:05:00Z on node-2 after running 4 min 30 s; "
        "because pod bert-worker-1 was seen Failed (OomKilled) at 1970-01-01 00:05:00Z."
    )
    assert explanation.document()["causes"][-1]["id"] == "observation"


def test_what_followed_is_told_too(training):
    history = JobHistory(training.events, OBSERVED)
    killed = next(e for e in training.events if isinstance(e.data, AttemptEnded) and e.data.phase == "Failed")
    assert why_event(history, killed).details == ["From this followed: worker[1] attempt 1 raised PodFailed (exit 137)."]


def test_input_that_is_gone_ends_the_chain(training):
    """An input that is no longer retained leaves the chain shorter, not broken."""
    history = JobHistory(training.events)
    assert why_event(history, training.events[0]).sentences() == [
        "The job default/bert with 3 replicas was submitted by ann to queue research at 1970-01-01 00:00:00Z."
    ]


def test_failed_multi_node_job_names_the_first_failures_and_the_owner(story):
    told = story()
    told.opened(0, {"main": 4}, kind="Job", name="gang")
    for index in range(4):
        told.started(0, ("main", index, 1))
        told.running(0, ("main", index, 1))
    told.job_phase("Running", 0)
    told.ended(50, ("main", 2, 1), "Failed", reason="KilledBySignal", exit_code=139, node="n7")
    for index in (0, 1, 3):
        told.ended(55, ("main", index, 1), "Failed", reason="AppFailed", exit_code=1)
    told.job_phase("Failed", 56, reason="BackoffLimitExceeded", cause="owner")
    owner = given("owner", JobObserved("gang", "Job", phase="Failed", reason="BackoffLimitExceeded"), 56)
    assert why_job(JobHistory(told.events, {"owner": owner})).sentences() == [
        "default/gang is Failed (BackoffLimitExceeded) since 1970-01-01 00:00:56Z, 56 s after it first ran.",
        "Of 4 replicas: 4 Failed.",
        "First, main[2] attempt 1 was killed by a signal (exit 139, SIGSEGV) at 1970-01-01 00:00:50Z on n7 after running 50 s.",
        (
            "Then main[0] attempt 1, main[1] attempt 1 and main[3] attempt 1 failed (exit 1) at 1970-01-01 00:00:55Z "
            "after running 55 s, all at once."
        ),
        (
            "The job went from Running to Failed (BackoffLimitExceeded) at 1970-01-01 00:00:56Z, "
            "because its Job object reported Failed (“BackoffLimitExceeded”) at 1970-01-01 00:00:56Z."
        ),
    ]


def test_pending_job_says_what_it_waits_for(story):
    told = story()
    told.opened(0, {"main": 3}, name="gang")
    for index in range(3):
        told.started(0, ("main", index, 1))
    told.add(AttemptChanged("main", 0, 1, reason="Unschedulable", reason_changed=True), 5)
    told.bound(6, ("main", 1, 1), reason="ImagePullBackOff")
    told.running(7, ("main", 2, 1))
    assert why_job(JobHistory(told.events)).sentences() == [
        "default/gang is Pending since 1970-01-01 00:00:00Z.",
        "1 of the 3 replicas that must run at once is running.",
        "main[1] has not started on node-1 since 1970-01-01 00:00:06Z, attempt 1: ImagePullBackOff.",
        "main[0] waits for a node since 1970-01-01 00:00:00Z, attempt 1: Unschedulable.",
        "To do: ImagePullBackOff: check the name of its image, and the pull secret of its namespace.",
        "To do: Unschedulable: no node fits: free or add what the message names, or ask for less.",
    ]


def test_replicas_that_are_being_deleted_are_named(story):
    told = story()
    told.opened(0, {"main": 2})
    for index in range(2):
        told.started(0, ("main", index, 1))
    told.terminating(3, ("main", 0, 1), reason="EvictedByApi")
    told.terminating(3, ("main", 1, 1))
    said = [
        "main[0] is being deleted since 1970-01-01 00:00:03Z, attempt 1: EvictedByApi.",
        "main[1] is being deleted since 1970-01-01 00:00:03Z, attempt 1.",
    ]
    assert why_job(JobHistory(told.events)).details == said
    told.job_phase("Running", 3)
    assert why_job(JobHistory(told.events)).details == ["0 of 2 replicas are running.", *said]


@pytest.mark.parametrize(
    ("waiting", "said"),
    [
        (["b"], "Task b waits for a (Pending)."),
        (["b", "c"], "Tasks b and c wait for a (Pending)."),
    ],
)
def test_tasks_that_wait_for_others_are_named(story, waiting, said):
    told = story()
    tasks = (TaskSpec("a", 1), *(TaskSpec(name, 1, depends_on=DependsOn(("a",))) for name in waiting))
    told.opened(0, managed=True, spec=JobSpec(tasks=tasks))
    told.started(0, ("a", 0, 1))
    assert why_job(JobHistory(told.events)).details == [
        said,
        "a[0] waits for a node since 1970-01-01 00:00:00Z, attempt 1: Queued.",
    ]


def test_pending_job_without_pods(story):
    told = story()
    told.opened(0)
    assert why_job(JobHistory(told.events)).details == ["None of its pods has been seen yet."]


def test_running_job_names_what_is_odd(story):
    told = story()
    told.opened(0, {"main": 2})
    for index in range(2):
        told.started(0, ("main", index, 1))
        told.running(1, ("main", index, 1))
    told.job_phase("Running", 1)
    told.add(AttemptChanged("main", 1, 1, reason="CrashLooping", reason_changed=True), 5)
    assert why_job(JobHistory(told.events)).details == [
        "2 of 2 replicas are running.",
        "main[1] runs since 1970-01-01 00:00:01Z, attempt 1: CrashLooping.",
    ]


def test_command_is_told_with_who_and_why(story):
    told = story()
    told.opened(0, managed=True)
    told.started(0)
    told.running(1)
    told.job_phase("Running", 1)
    taken = told.add(ActionTaken("AbortJob", by="ann", reason="wrong data"), 9, cause="command")
    told.job_phase("Aborting", 9, reason="AbortJob", cause=taken.id)
    command = given("command", CommandIssued("AbortJob", by="ann", reason="wrong data"), 9)
    sentences = why_job(JobHistory(told.events, {"command": command})).sentences()
    assert sentences[-1] == (
        "The job went from Running to Aborting (AbortJob) at 1970-01-01 00:00:09Z, "
        "because AbortJob by ann was carried out at 1970-01-01 00:00:09Z; "
        "because ann commanded AbortJob at 1970-01-01 00:00:09Z (wrong data)."
    )
    assert why_job(JobHistory(told.events)).sentences()[-1].endswith("carried out at 1970-01-01 00:00:09Z (wrong data).")


def test_delayed_action_is_told_with_its_policy(story):
    told = story()
    told.opened(0, managed=True)
    told.started(0)
    ended = told.ended(5, phase="Failed", reason="AppFailed", exit_code=2)
    timer = told.add(
        TimerSet("policy", 65 * SECOND, action="RestartJob", policy="spec.policies[0]", event="PodFailed"), 5, cause=ended.id
    )
    assert "RestartJob is due at 1970-01-01 00:01:05Z." in why_job(JobHistory(told.events)).details
    fired = told.add(TimerFired(timer.id), 65, cause=timer.id)
    told.add(ActionTaken("RestartJob", policy="spec.policies[0]", event="PodFailed"), 65, cause=fired.id)
    said = why_event(JobHistory(told.events), told.events[-1]).sentences()[-1]
    assert "because a timer fired at 1970-01-01 00:01:05Z" in said
    assert "because policy spec.policies[0] answers PodFailed with RestartJob, delayed until 1970-01-01 00:01:05Z" in said


@pytest.mark.parametrize("kind", get_args(TimerKind))
def test_timers_of_every_kind_are_told(story, kind):
    told = story()
    told.opened(0, managed=True)
    timer = told.add(TimerSet(kind, 65 * SECOND, action="RestartJob", policy="spec.policies[0]", event="PodFailed"), 5)
    assert "1970-01-01 00:01:05Z" in describe(timer)
    (said,) = (one for one in why_job(JobHistory(told.events)).details if "is due at 1970-01-01 00:01:05Z" in one)
    assert said.startswith("RestartJob" if kind == "policy" else "The ")


def test_a_timer_that_is_held_is_told(story):
    told = story()
    told.opened(0, managed=True)
    said = describe(told.add(TimerSet("step", 65 * SECOND, held=True), 70))
    assert said == "a timer was stopped at 1970-01-01 00:01:10Z: it resumes when the job is unparked and has no held input"
    (stands,) = (one for one in why_job(JobHistory(told.events)).details if "held input" in one)
    assert stands.endswith(" waits until the job is unparked and has no held input.")


def test_parked_job_says_so_first(story):
    told = story()
    told.opened(0)
    told.add(JobParked("negative counters"), 4)
    assert why_job(JobHistory(told.events)).details[0] == "It is parked, its inputs wait for `lahar job unpark`: negative counters."


def test_circle_of_causes_ends(story):
    """Damaged causes never make the question run for ever."""
    told = story()
    first = told.opened(0)
    first.causationid = "later"
    second = told.job_phase("Running", 1, cause=first.id)
    second.id = "later"
    assert len(why_event(JobHistory(told.events), second).causes) == 2


def test_no_job_has_no_reason():
    assert why_job(JobHistory([])) is None


def test_every_reason_has_its_words():
    """No reason of the closed list is told by its name."""
    for reason in FAILED_REASONS:
        assert reason not in fate("Failed", reason)
    for reason in LOST_REASONS:
        assert reason not in fate("Lost", reason)


def test_exit_codes_in_words():
    assert exit_words("KilledBySignal", 137) == " (exit 137, SIGKILL)"
    assert exit_words("KilledBySignal", 128 + 60) == " (exit 188, signal 60)"
    assert exit_words("AppFailed", None) == " (exit code unknown)"
    assert exit_words("StoppedByUser", None) == exit_words(None, 0) == ""


def test_every_event_has_its_words(played, training):
    """Whatever the engine writes is told in words, never by its type."""
    for event in [*job_events(played()), *training.events]:
        assert event.type not in describe(event)


def test_failed_multi_node_job_of_the_sample_trace(played):
    """On a real job: the pods that failed, and what the trace reported, found through the log."""
    log = played(60)
    listing = Listing()
    for event in job_events(log):
        listing.add(event)
    job = next(line for line in listing.lines(Filter(phases=frozenset({"Failed"}))) if line.attempts > 1)
    history = history_of(log, job.id)
    sentences = why_job(history).sentences()
    assert sentences[1] == "Of 4 replicas: 4 Failed."
    assert "failed (exit code unknown)" in sentences[2]
    assert "because the trace reported Failed" in sentences[-1]
    assert all(
        history.causes(event)[-1].id in history.inputs for event in history.events if isinstance(event.data, JobPhaseChanged)
    )
