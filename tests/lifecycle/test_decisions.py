"""Decisions of the scheduling stage: accepted or refused as the job is now, and what follows."""

from __future__ import annotations

from pathlib import Path

import pytest
from lifecycle_driver import Driver, vcjob

from engine.events import decode, encode, to_cloudevent
from engine.events.actions import ActionTaken, EffectRequested, EventRaised
from engine.events.attempts import AttemptStarted
from engine.events.decisions import (
    AttemptKey,
    DecidedBound,
    DecidedEnqueued,
    DecidedEvicted,
    DecidedPipelined,
    DecidedUnschedulable,
    DecisionAccepted,
    DecisionRefused,
    Placement,
)
from engine.events.inputs import JobObserved, JobSubmitted, NodeObserved
from engine.events.jobs import JobOpened, JobPhaseChanged
from engine.history.reading import JobHistory
from engine.history.status import shard_status
from engine.history.verify import verify_shard
from engine.history.why import why_job
from engine.kubernetes.edge import Ignored, line_to_inputs
from engine.lifecycle import decisions, pods
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.processor.processor import Processor

PAGE = Path(__file__).parents[2] / "docs" / "decisions.md"


@pytest.fixture
def driver():
    made = Driver()
    for name in ("n0", "n1"):
        made.node(name, version="1")
    return made


def submitted(driver, *tasks, scheduler="lahar", **spec):
    driver.submit(vcjob(*(tasks or [{"name": "a", "replicas": 2}]), schedulerName=scheduler, **spec))


def enqueued(driver, *tasks, **spec):
    submitted(driver, *tasks, **spec)
    driver.decide(DecidedEnqueued(driver.job().sequence))


def pending(driver, *tasks, **spec):
    """A job whose pods exist, and wait for a node."""
    enqueued(driver, *tasks, **spec)
    for task in driver.job().tasks.values():
        for index in task.slots:
            driver.see(driver.replica(task.spec.name, index, phase="Pending"))


def running(driver, *tasks, **spec):
    pending(driver, *tasks, **spec)
    for name in driver.job().tasks:
        driver.run(name)


def bound(driver, *indexes, task="a", node="n0", seen=None):
    places = [Placement(task, index, driver.job().tasks[task].slots[index].number, node) for index in indexes]
    return driver.decide(DecidedBound(driver.job().sequence if seen is None else seen, places))


def evicted(driver, *indexes, task="a", **fields):
    keys = [AttemptKey(task, index, driver.job().tasks[task].slots[index].number) for index in indexes]
    return driver.decide(DecidedEvicted(driver.job().sequence, "Preempted", keys, **fields))


def refusal(driver):
    return driver.of(DecisionRefused)[-1].reason


# --- enqueued ---------------------------------------------------------------------------------------------------------


def test_a_job_that_we_schedule_has_no_pods_before_its_group_is_enqueued(driver):
    submitted(driver)
    driver.wait(3600)
    assert driver.of(AttemptStarted) == []
    made = driver.decide(DecidedEnqueued(driver.job().sequence), key="d1")
    assert driver.outcome == "applied"
    assert driver.of(DecisionAccepted) == [DecisionAccepted("d1", "enqueued")]
    assert driver.asked("create_pod", made) == [("a", 0, 1), ("a", 1, 1)]


def test_why_says_that_a_job_waits_to_be_enqueued(driver):
    submitted(driver)
    explanation = why_job(JobHistory([event for event in driver.events if event.subject == "j1"]))
    assert "It has no pods yet: the scheduler has not enqueued it." in explanation.sentences()


def test_a_job_of_another_scheduler_has_its_pods_at_once(driver):
    submitted(driver, scheduler="volcano")
    assert driver.asked("create_pod") == [("a", 0, 1), ("a", 1, 1)]


def test_a_restart_of_the_job_needs_another_enqueue(driver):
    running(driver)
    before = driver.job().sequence
    driver.command("RestartJob")
    driver.reap()
    assert driver.phase() == "Pending"
    assert len(driver.asked("create_pod")) == 2
    driver.decide(DecidedEnqueued(before))
    assert (driver.outcome, refusal(driver)) == ("refused", "Stale")
    driver.decide(DecidedEnqueued(driver.job().sequence))
    assert len(driver.asked("create_pod")) == 4


def test_a_job_that_grows_needs_no_other_enqueue(driver):
    enqueued(driver)
    driver.update(vcjob({"name": "a", "replicas": 3}, schedulerName="lahar", minAvailable=2))
    assert driver.asked("create_pod")[-1] == ("a", 2, 1)


def test_opening_a_job_that_we_schedule_records_the_requests_of_its_pods(driver):
    submitted(driver, {"name": "a"}, {"name": "b"})
    driver.submit(vcjob({"name": "a"}, name="other", schedulerName="volcano"), "j2")
    ours, theirs = driver.of(JobOpened)
    asked = (("cpu", 1000), ("memory", 1 << 30))
    assert {task: shape.requests for task, shape in ours.shapes.items()} == {"a": asked, "b": asked}
    assert theirs.shapes == {}


# --- bound ------------------------------------------------------------------------------------------------------------


def test_a_gang_is_bound_by_one_decision_and_each_pod_by_a_request(driver):
    pending(driver)
    made = bound(driver, 0, 1)
    (accepted,) = driver.of(DecisionAccepted, made)
    assert accepted.placements == [Placement("a", 0, 1, "n0"), Placement("a", 1, 1, "n0")]
    requests = driver.of(EffectRequested, made)
    assert [(one.effect, one.uid, one.index, one.node) for one in requests] == [
        ("bind_pod", "j1-a-0-1", 0, "n0"),
        ("bind_pod", "j1-a-1-1", 1, "n0"),
    ]
    assert {event.causationid for event in made[1:]} == {made[0].id}
    assert driver.job().tasks["a"].slots[0].phase == "Pending", "Bound is what is seen"
    driver.run("a")
    assert [one.decided for one in driver.job().attempts] == [None, None]


def test_a_pod_that_is_not_seen_yet_is_bound_when_it_comes_into_view(driver):
    enqueued(driver)
    assert driver.asked("bind_pod", bound(driver, 0, 1)) == []
    assert driver.asked("bind_pod", driver.see(driver.replica("a", 1, phase="Pending"))) == [("a", 1, 1)]
    assert driver.asked("bind_pod", driver.see(driver.replica("a", 1, phase="Pending", reason="Unschedulable"))) == []


def test_one_attempt_that_cannot_be_bound_refuses_the_whole_decision(driver):
    pending(driver)
    driver.decide(DecidedBound(driver.job().sequence, [Placement("a", 0, 1, "n0"), Placement("a", 1, 2, "n0")]))
    assert refusal(driver) == "AttemptGone"
    assert driver.job().attempts[0].decided is None
    bound(driver, 0, 0)
    assert refusal(driver) == "AttemptPlaced"
    assert driver.job().attempts[0].decided is None


def test_nothing_is_bound_to_a_node_that_is_gone_or_takes_no_pods(driver):
    pending(driver)
    driver.node("n1", version="2", unschedulable=True)
    bound(driver, 0, node="n1")
    assert refusal(driver) == "NodeCordoned"
    bound(driver, 0, node="n7")
    assert refusal(driver) == "NodeGone"


def test_a_binding_that_fails_leaves_the_attempt_to_another_decision(driver):
    pending(driver)
    (asked,) = [event for event in bound(driver, 0) if isinstance(event.data, EffectRequested)]
    bound(driver, 0, node="n1")
    assert refusal(driver) == "AttemptPlaced"
    driver.report(asked.id, "failed", reason="Conflict")
    bound(driver, 0, node="n1")
    assert driver.of(EffectRequested)[-1].node == "n1"
    assert driver.outcome == "applied"


def test_a_decision_made_on_an_earlier_specification_is_stale(driver):
    pending(driver)
    before = driver.job().sequence
    driver.update(vcjob({"name": "a", "replicas": 3}, schedulerName="lahar", minAvailable=3))
    bound(driver, 0, 1, seen=before)
    assert refusal(driver) == "Stale"
    bound(driver, 0, 1)
    assert driver.outcome == "applied"


def test_a_change_of_neither_spec_nor_group_makes_no_decision_stale(driver):
    pending(driver)
    before = driver.job().sequence
    driver.see(driver.replica("a", 0, phase="Pending", reason="Unschedulable", message="0/2 nodes"))
    assert driver.job().sequence > before
    bound(driver, 0, 1, seen=before)
    assert driver.outcome == "applied"


def test_a_large_gang_is_bound_step_by_step():
    driver = Driver(checked=False)
    driver.node("n0", version="1")
    pending(driver, {"name": "a", "replicas": 600})
    driver.quiet = False
    made = bound(driver, *range(600))
    assert len(driver.of(DecisionAccepted, made)[0].placements) == 600
    assert len(driver.asked("bind_pod")) == 250
    driver.wait(1)
    assert sorted(index for _, index, _ in driver.asked("bind_pod")) == list(range(600))


# --- evicted ----------------------------------------------------------------------------------------------------------


def test_an_evicted_pod_is_deleted_and_replaced_and_burns_no_retry(driver):
    running(driver)
    made = evicted(driver, 1, preemptor="j9")
    (asked,) = driver.of(EffectRequested, made)
    assert (asked.effect, asked.index, asked.cause) == ("delete_pod", 1, "PreemptedByScheduler")
    driver.reap()
    attempt = driver.job().attempts[1]
    assert (attempt.phase, attempt.reason) == ("Failed", "PreemptedByScheduler")
    assert driver.asked("create_pod")[-1] == ("a", 1, 2)
    assert (driver.job().retry_count, driver.job().restarts) == (0, 0)


def test_policies_answer_an_eviction_as_volcanos(driver):
    """Volcano: its scheduler deletes the pod, and its controller sees a pod that was evicted."""
    running(driver, policies=[{"event": "PodEvicted", "action": "RestartJob"}])
    evicted(driver, 1)
    driver.kill()
    assert [one.event for one in driver.of(EventRaised)] == ["PodEvicted"]
    (taken,) = driver.of(ActionTaken)
    assert (taken.action, taken.event) == ("RestartJob", "PodEvicted")
    assert (driver.job().retry_count, driver.job().restarts) == (0, 1)


def test_a_job_that_is_evicted_as_a_whole_is_requeued(driver):
    running(driver, policies=[{"event": "PodEvicted", "action": "AbortJob"}], maxRetry=1)
    evicted(driver)
    assert driver.of(ActionTaken) == [ActionTaken("RequeueJob", by="lahar", reason="Preempted")]
    driver.reap()
    assert driver.path() == ["Running", "Restarting", "Pending"]
    assert {one.reason for one in driver.job().attempts} == {"PreemptedByScheduler"}
    assert driver.job().retry_count == 0
    assert driver.of(JobPhaseChanged)[-1].previous == "Restarting"
    assert len(driver.asked("create_pod")) == 2, "its new group is Pending"


def test_one_decision_evicts_a_bounded_number_of_attempts():
    driver = Driver(checked=False)
    enqueued(driver, {"name": "a", "replicas": 251})
    evicted(driver, *range(251))
    assert refusal(driver) == "TooMany"
    evicted(driver, *range(250))
    assert driver.outcome == "applied"


# --- answers ----------------------------------------------------------------------------------------------------------


def test_why_a_job_cannot_be_placed_is_kept(driver):
    submitted(driver)
    driver.decide(DecidedUnschedulable(driver.job().sequence, "NotEnoughResources", "queue default has no cpu left"), key="d1")
    assert driver.of(DecisionAccepted) == [
        DecisionAccepted("d1", "unschedulable", reason="NotEnoughResources", message="queue default has no cpu left")
    ]


def test_a_decision_that_comes_again_is_a_duplicate_accepted_or_refused(driver):
    submitted(driver)
    for _ in range(2):
        driver.decide(DecidedEnqueued(1), key="d1")
    assert driver.outcome == "duplicate"
    for _ in range(2):
        driver.decide(DecidedEnqueued(1), key="d2")
    assert driver.outcome == "duplicate"
    for _ in range(2):
        driver.decide(DecidedEnqueued(1), "nobody", key="d3")
    assert driver.outcome == "duplicate"
    driver.submit(vcjob({"name": "a"}, name="later", schedulerName="lahar"), "nobody")
    driver.decide(DecidedEnqueued(1), "nobody", key="d3")
    assert driver.outcome == "duplicate"
    assert [one.reason for one in driver.of(DecisionRefused)] == ["AlreadyEnqueued", "UnknownJob"]


def test_a_decision_about_a_parked_job_is_answered_when_it_goes_on(driver):
    submitted(driver)
    driver.drain(driver.stage.park(driver.state, driver.event(JobObserved("x", "Job"), "j1"), driver.now, "a defect"))
    driver.decide(DecidedEnqueued(1), key="d1")
    assert driver.outcome == "parked"
    driver.command("Unpark")
    assert driver.of(DecisionAccepted) == [DecisionAccepted("d1", "enqueued")]
    driver.decide(DecidedEnqueued(1), key="d1")
    assert driver.outcome == "duplicate"


def test_a_decision_about_a_job_of_another_cluster_is_refused(driver):
    submitted(driver)
    driver.take(driver.event(DecidedEnqueued(1), "j1", cluster="c2"))
    assert refusal(driver) == "UnknownJob"


# --- through a log ----------------------------------------------------------------------------------------------------


def test_a_shard_takes_its_partitions_decisions_and_answers_by_job_events():
    log, driver = MemoryLog(), Driver()
    log.append("cluster", [encode(driver.event(NodeObserved("n0"), "c1"), "c1")])
    log.append("jobs", [encode(driver.event(JobSubmitted(vcjob({"name": "a"}, schedulerName="lahar")), "j1"))])
    made = [DecidedEnqueued(1), DecidedEnqueued(1), DecidedBound(3, [Placement("a", 0, 1, "n0")])]
    log.append("decisions", [encode(driver.event(data, "j1", f"d{at}")) for at, data in enumerate(made)])
    shard = Processor(log, LifecycleStage(), 0)
    shard.open()
    shard.run_until_quiet()
    shard.close()
    answers = [decode(record.message).data for record in log.scan(("job-events",))]
    assert [one for one in answers if isinstance(one, DecisionAccepted | DecisionRefused)] == [
        DecisionAccepted("d0", "enqueued"),
        DecisionRefused("d1", "enqueued", "AlreadyEnqueued", "the job's group is Inqueue"),
        DecisionAccepted("d2", "bound", [Placement("a", 0, 1, "n0")]),
    ]
    status = shard_status(log, LifecycleStage(), 0)
    assert ("decisions/0", 3, 3) in status.inputs
    assert (status.received, status.outcomes["applied"], status.outcomes["refused"]) == (5, 3, 1)
    assert verify_shard(log, LifecycleStage(), 0).ok


@pytest.mark.parametrize("data", [DecidedEnqueued(1), DecidedBound(1, []), DecidedEvicted(1, "Preempted")])
def test_no_producer_of_inputs_can_decide(data):
    given = to_cloudevent(encode(Driver().event(data, "j1")))
    found = line_to_inputs(given, "c1", 0)
    assert isinstance(found, Ignored)
    assert "written by the engine itself" in found.reason


# --- planted bugs -----------------------------------------------------------------------------------------------------


def test_a_stage_that_forgets_what_it_has_decided_is_found_out(driver, plant):
    plant(decisions, "_has_place", lambda _attempt: False)
    pending(driver)
    bound(driver, 0)
    with pytest.raises(AssertionError, match="bound twice"):
        bound(driver, 0, node="n1")


def test_a_stage_that_makes_pods_of_a_pending_group_is_found_out(driver, plant):
    plant(pods, "group_phase", lambda _job: "Inqueue")
    with pytest.raises(AssertionError, match="before its group is enqueued"):
        submitted(driver)


# --- the table --------------------------------------------------------------------------------------------------------


def stale(driver):
    pending(driver)
    driver.update(vcjob({"name": "a", "replicas": 2}, schedulerName="lahar", minAvailable=1))


def after(command):
    def state(driver):
        running(driver)
        driver.command(command)

    return state


def completed(driver):
    running(driver)
    driver.end("a")


def with_node(driver):
    pending(driver)
    bound(driver, 0, 1)


def being_evicted(driver):
    running(driver)
    evicted(driver, 0, 1)


STATES = {
    "no job": lambda _: None,
    "observed": lambda driver: driver.owner(JobObserved("j", "Job", tasks={"a": 2})),
    "of another scheduler": lambda driver: submitted(driver, scheduler="volcano"),
    "group Pending": submitted,
    "pods wait for a node": pending,
    "nodes decided": with_node,
    "Running": running,
    "pods being evicted": being_evicted,
    "Restarting": after("RestartJob"),
    "Aborting": after("AbortJob"),
    "Completed": completed,
    "updated since": stale,
}
DECISIONS = {
    "enqueued": DecidedEnqueued,
    "bound": lambda seen: DecidedBound(seen, [Placement("a", 0, 1, "n0")]),
    "pipelined": lambda seen: DecidedPipelined(seen, [Placement("a", 0, 1, "n0")]),
    "evicted": lambda seen: DecidedEvicted(seen, "Preempted", [AttemptKey("a", 0, 1)]),
    "evicted, the job": lambda seen: DecidedEvicted(seen, "Preempted"),
    "unschedulable": lambda seen: DecidedUnschedulable(seen, "NotEnoughResources"),
}


def answer(state, decision):
    driver = Driver()
    driver.node("n0", version="1")
    STATES[state](driver)
    seen = 1 if state == "updated since" else driver.job().sequence
    driver.decide(DECISIONS[decision](seen))
    return "accepted" if driver.outcome == "applied" else refusal(driver)


def test_the_page_says_what_becomes_of_each_decision_in_each_state():
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    first = next(at for at, row in enumerate(rows) if row[0] == "state")
    table = [row for row in rows[first:] if len(row) == len(DECISIONS) + 1 and not set(row[1]) <= {"-"}]
    assert table[0] == ["state", *DECISIONS]
    assert table[1:] == [[state, *(answer(state, decision) for decision in DECISIONS)] for state in STATES]
