"""Why a job that lives is where it is: each replica that does not run, and what it waits for."""

from __future__ import annotations

import json

import pytest

from engine.events.actions import ActionDeferred, EffectRequested, EffectSettled, TimerSet
from engine.events.attempts import AttemptChanged, AttemptEnded, AttemptStarted
from engine.events.jobs import JobRevised
from engine.events.times import SECOND
from engine.history.explanation import Explanation
from engine.history.reading import JobHistory
from engine.history.replicas import GROUPS
from engine.history.why import why_job
from engine.history.why_replica import read_replica, why_replica
from statemachines.spec import DependsOn, JobSpec, TaskSpec

FULL = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
T = "1970-01-01 00:00:{:02}Z"


def why(told) -> Explanation:
    answer = why_job(JobHistory(told.events))
    assert answer is not None
    return answer


def test_what_is_said_of_a_replica_is_told_with_its_attempt(story):
    told = story()
    told.opened(0, {"main": 2}, queue="research", name="gang")
    told.started(0, reason="Unschedulable", message=FULL)
    told.started(0, ("main", 1, 1))
    told.running(1, ("main", 1, 1))
    assert why(told).sentences()[:3] == [
        f"default/gang is Pending in queue research since {T.format(0)}.",
        "1 of the 2 replicas that must run at once is running.",
        f"main[0] waits for a node since {T.format(0)}, attempt 1: Unschedulable: “{FULL}”",
    ]


def test_a_message_stands_as_long_as_its_reason(story):
    told = story()
    told.opened(0)
    told.started(0, reason="Unschedulable", message="no")
    told.add(AttemptChanged("main", 0, 1, message="not yet"), 1)
    assert why(told).replicas[0].message == "not yet"
    told.add(AttemptChanged("main", 0, 1, restarts=1), 2)
    assert why(told).replicas[0].message == "not yet"
    told.add(AttemptChanged("main", 0, 1, reason="Gated", reason_changed=True), 3)
    assert why(told).replicas[0].message == ""


def test_thousands_that_stand_alike_are_one_sentence(story):
    """They differ in numbers, nodes and times; the others of the job are named each."""
    told = story()
    told.opened(0, {"worker": 2_000})
    for index in range(2_000):
        slot = ("worker", index, 1)
        told.started(index // 100, slot)
        if index in {0, 1, 2, 999}:
            told.running(30, slot)
        else:
            told.bound(30, slot, node=f"n{index % 9}", reason="ImagePullBackOff", message=f"Back-off pulling image in {index}s")
    told.job_phase("Running", 30)
    answer = why(told)
    assert answer.details == [
        "4 of 2000 replicas are running.",
        (
            f"worker[3..998,1000..1999] (1,996 replicas) have not started on 9 nodes since {T.format(30)}, attempt 1: "
            "ImagePullBackOff: “Back-off pulling image in 3s”."
        ),
    ]
    (group,) = answer.document()["replicas"]
    assert (group["indexes"], group["count"], group["attempt"]) == ([[3, 998], [1000, 1999]], 1_996, 1)


def test_however_different_replicas_are_an_answer_is_bounded(story):
    told = story()
    told.opened(0, {"main": 500})
    for index in range(500):
        told.started(0, ("main", index, 1), reason="Unschedulable", message="word " * (index + 1) + "x" * (index % 400 + 1))
        told.add(TimerSet("effect", (60 + index) * SECOND, task="main", index=index, attempt=1), 1)
    answer = why(told)
    assert len(answer.replicas) == GROUPS
    assert f"{500 - 2 * GROUPS} more replicas are not running either; `lahar job show` lists them." in answer.details
    (timer,) = (one for one in answer.details if "a failed request" in one)
    assert "500 of them" in timer
    assert len("\n".join(answer.sentences())) < 20_000
    assert len(json.dumps(answer.document())) < 40_000


def test_replicas_without_a_pod_are_named(story):
    told = story()
    told.opened(0, {"main": 5}, kind="Job")
    for index in (0, 2):
        told.started(0, ("main", index, 1))
        told.running(1, ("main", index, 1))
    told.job_phase("Running", 1)
    assert why(told).details == ["2 of 2 replicas are running.", "main[1,3..4] (3 replicas) have no pod yet."]


def test_a_job_that_its_owner_holds(story):
    told = story()
    told.opened(0, kind="Job", name="nightly", queue="batch")
    told.add(JobRevised(reason="JobSuspended", message="Job suspended"), 1)
    assert why(told).sentences() == [
        f"default/nightly is Pending (JobSuspended) in queue batch since {T.format(0)}.",
        "Its Job object says: “Job suspended”.",
        ("To do: JobSuspended: it starts when its `spec.suspend` is false; a queue such as Kueue sets that when there is room."),
    ]
    told.add(JobRevised(reason="", message=""), 2)
    assert why(told).details == ["None of its pods has been seen yet."]


def test_a_task_waits_for_one_of_others(story):
    told = story()
    tasks = (TaskSpec("a", 1), TaskSpec("b", 1), TaskSpec("c", 1, depends_on=DependsOn(("a", "b"), any=True)))
    told.opened(0, managed=True, spec=JobSpec(tasks=tasks))
    told.started(0, ("a", 0, 1))
    assert why(told).details[0] == "Task c waits for one of a (Pending) and b (Pending)."


def wanted(told, number=1, **given):
    """An attempt of a managed job whose pod was asked for."""
    told.add(AttemptStarted("main", 0, number, pod="train-main-0", **given), 1)
    return told.add(EffectRequested("create_pod", pod="train-main-0", task="main", index=0, attempt=number), 1)


def test_a_pod_that_was_asked_for_and_refused(story):
    told = story()
    told.opened(0, managed=True)
    asked = wanted(told)
    assert why(told).details == [f"main[0] waits for a pod to be made since {T.format(1)}, attempt 1."]
    assert why(told).advice == []
    told.add(EffectSettled(asked.id, "failed", message="exceeded quota: team", reason="Conflict"), 2)
    told.add(TimerSet("effect", 9 * SECOND, task="main", index=0, attempt=1), 2)
    assert why(told).details == [
        (
            f"main[0] waits for a pod to be made since {T.format(1)}, attempt 1: "
            "the last request for it failed (Conflict, “exceeded quota: team”)."
        ),
        f"The wait before a failed request is repeated is due at {T.format(9)}.",
    ]
    told.add(AttemptChanged("main", 0, 1, uid="uid"), 3)
    assert "failed (" not in " ".join(why(told).details)


def test_a_pod_whose_deletion_was_asked_for_is_named_while_it_runs(story):
    told = story()
    told.opened(0, managed=True)
    told.started(0)
    told.running(1)
    told.job_phase("Running", 1)
    told.add(EffectRequested("delete_pod", pod="train-main-0", task="main", index=0, attempt=1, cause="KilledByAction"), 2)
    assert why(told).details[1] == f"main[0] runs since {T.format(1)}, attempt 1: its deletion was requested."


def test_the_next_attempt_waits_for_the_object_of_the_last_one(story):
    told = story()
    told.opened(0, managed=True)
    told.started(0)
    told.running(1)
    told.job_phase("Running", 1)
    told.add(
        AttemptEnded("main", 0, 1, phase="Failed", reason="EvictedByNode", message="low on memory", object="deleting", node="n1"), 5
    )
    (first, second, *_) = why(told).details
    assert first == "0 of 1 replica are running."
    assert second == (
        f"main[0] was evicted by its node at {T.format(5)}, attempt 1: “low on memory”: "
        "the next attempt waits until pod train-main-0 is gone."
    )
    told.job_phase("Restarting", 6)
    assert second in why(told).details


def test_attempts_before_the_present_ones_are_told_the_last_ones_first(story):
    told = story()
    told.opened(0)
    for number in range(1, 8):
        slot = ("main", 0, number)
        told.started(number, slot)
        told.running(number, slot)
        if number < 7:
            told.ended(number, slot, "Failed", reason="PreemptedByScheduler", message=f"for job {number}", node="n")
    told.job_phase("Running", 7)
    assert why(told).details == [
        "1 of 1 replica is running.",
        *(
            f"Earlier, main[0] attempt {number} was preempted by the scheduler at {T.format(number)} on n: “for job {number}”."
            for number in (6, 5, 4, 3)
        ),
        "2 more attempts ended badly before that.",
    ]


def test_an_action_that_waits_for_the_restart(story):
    told = story()
    told.opened(0, managed=True)
    told.job_phase("Restarting", 1)
    told.add(ActionDeferred("AbortJob", by="ann"), 2)
    assert "AbortJob waits until the restart is over." in why(told).details


def test_the_message_of_a_failed_jobs_attempts_and_object(story):
    told = story()
    told.opened(0, kind="Job", name="etl")
    told.started(0)
    told.running(0)
    told.ended(5, phase="Failed", reason="AppFailed", exit_code=1, message="no such file: /data")
    told.job_phase("Failed", 6, reason="BackoffLimitExceeded", message="Job has reached the limit")
    assert why(told).sentences()[2:] == [
        f"main[0] attempt 1 failed (exit 1) at {T.format(5)} after running 5 s: “no such file: /data”.",
    ]
    assert "“Job has reached the limit”" in why(told).causes[0].text


def test_a_disruption_and_restarts_of_what_runs(story):
    told = story()
    told.opened(0)
    told.started(0)
    told.running(1)
    told.job_phase("Running", 1)
    told.add(
        AttemptChanged("main", 0, 1, restarts=2, disruption="EvictionByEvictionAPI", message="its last run ended with exit 3"), 2
    )
    assert why(told).details[1] == (
        f"main[0] runs since {T.format(1)}, attempt 1, 2 restarts: “its last run ended with exit 3”: "
        "a disruption is announced (EvictionByEvictionAPI)."
    )


# --- one replica --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["worker", "worker[]", "worker[-1]", "[1]", "worker[1", "worker[1]#2", "worker[9999999999]"])
def test_what_is_no_replica(text):
    with pytest.raises(ValueError, match=r"write TASK\[INDEX\]"):
        read_replica(text)


def test_a_replica_of_a_task_with_brackets():
    assert read_replica("a[b][2]") == ("a[b]", 2)


def test_one_replica_is_told_with_its_earlier_attempts(training):
    answer = why_replica(JobHistory(training.events), "worker", 1)
    assert answer is not None
    assert answer.headline == "default/bert: worker[1] succeeded on node-3 at 1970-01-01 00:16:40Z, attempt 2."
    assert answer.details == [
        "The job is Completed.",
        "Its pod is train-worker-1, uid uid-worker-1-2.",
        "Earlier, worker[1] attempt 1 was OOM-killed (exit 137) at 1970-01-01 00:05:00Z on node-2 after running 4 min 30 s.",
    ]
    assert [step.type for step in answer.causes] == ["lahar.attempt.ended.v1"]


def test_one_replica_says_what_it_waits_for(story):
    told = story()
    tasks = (TaskSpec("a", 2), TaskSpec("b", 2, depends_on=DependsOn(("a",))))
    told.opened(0, managed=True, spec=JobSpec(tasks=tasks))
    told.started(0, ("a", 0, 1), reason="Unschedulable", message=FULL)
    answer = why_replica(JobHistory(told.events), "b", 1)
    assert answer is not None
    assert (answer.headline, answer.details) == (
        "default/train: b[1] has no pod yet.",
        ["The job is Pending.", "Task b waits for a (Pending)."],
    )
    held = why_replica(JobHistory(told.events), "a", 0)
    assert held is not None
    assert held.headline == f"default/train: a[0] waits for a node since {T.format(0)}, attempt 1: Unschedulable: “{FULL}”"
    assert held.advice == ["Unschedulable: no node fits: free or add what the message names, or ask for less"]
    for task, index in (("a", 2), ("c", 0)):
        assert why_replica(JobHistory(told.events), task, index) is None
