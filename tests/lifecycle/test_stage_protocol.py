"""What the processor and the snapshots rely on: subjects, records, timers in order, ids."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from lifecycle_driver import SECOND, START, Driver, pod, records, vcjob

from engine.events.actions import TimerFired
from engine.events.attempts import AttemptChanged
from engine.events.inputs import CommandIssued, JobObserved, NodeObserved, ObjectApplied, ObjectDeleted
from engine.events.jobs import JobForgotten
from engine.events.outcomes import InputReleased
from engine.lifecycle.actions import settle
from engine.lifecycle.errors import InvariantError
from engine.lifecycle.event_factory import EventFactory
from engine.lifecycle.evolve import peek
from engine.lifecycle.stage import LifecycleStage


@pytest.fixture
def driver():
    return Driver()


def test_every_change_of_a_subject_is_reported_once(driver):
    driver.stage.touched(driver.state)
    driver.see(pod("u", "j1", 1, "Running", node="n", running=1))
    driver.node("n", ready="Unknown")
    driver.take(driver.event(ObjectApplied("Queue", "gpu", {"weight": 1}), "gpu"))
    assert driver.stage.touched(driver.state) == ["job/j1", "node/c1/n", "object/c1/Queue/gpu"]
    assert driver.stage.touched(driver.state) == []
    driver.see(pod("u", "j1", 1, "Running", node="n", running=1))
    assert driver.stage.touched(driver.state) == []


def test_what_is_gone_has_no_record(driver):
    driver.node("n")
    driver.take(driver.event(ObjectApplied("Queue", "gpu"), "gpu"))
    assert driver.stage.touched(driver.state) == ["node/c1/n", "object/c1/Queue/gpu"]
    driver.node("n", gone=True)
    driver.take(driver.event(ObjectDeleted("Queue", "gpu"), "gpu"))
    assert driver.stage.touched(driver.state) == ["node/c1/n", "object/c1/Queue/gpu"]
    assert driver.stage.dump(driver.state, "node/c1/n") is None
    assert driver.stage.dump(driver.state, "object/c1/Queue/gpu") is None
    assert records(driver.state) == {}


def test_an_object_that_is_older_than_the_one_known_changes_nothing(driver):
    driver.take(driver.event(ObjectApplied("Queue", "gpu", {"weight": 2}, "9"), "gpu"))
    driver.take(driver.event(ObjectApplied("Queue", "gpu", {"weight": 1}, "8"), "gpu"))
    assert driver.state.facts.objects["c1", "Queue", "gpu"].spec == {"weight": 2}
    driver.take(driver.event(ObjectApplied("Queue", "gpu", {"weight": 3}, "10"), "gpu"))
    assert driver.state.facts.objects["c1", "Queue", "gpu"].spec == {"weight": 3}


def test_a_large_job_that_is_over_still_takes_a_fact(driver, monkeypatch):
    """It is the only one at hand, however many attempts it has."""
    monkeypatch.setattr("engine.lifecycle.evolve._WARM_ATTEMPTS", 1)
    for uid in ("u1", "u2"):
        driver.see(pod(uid, "j1", 1, "Succeeded", node="n", running=1, ended=2))
    driver.crash()
    driver.see(pod("u1", "j1", 2, "Succeeded", node="n", running=1, ended=3, rank="node"))
    assert driver.outcome == "late"
    assert len(driver.job("j1").attempts) == 2


def test_a_job_of_several_records_is_read_back_whole():
    driver = Driver(checked=False)
    driver.submit(vcjob(*({"name": f"t{number}", "replicas": 2} for number in range(20))))
    for number in range(200):
        driver.command("ResumeJob", key=f"command-{number}")
    driver.crash()
    assert [len(task.slots) for task in driver.job().tasks.values()] == [2] * 20
    for number in range(200):
        driver.command("ResumeJob", key=f"command-{number}")
        assert driver.outcome == "duplicate"


def test_what_a_parked_job_of_several_records_holds_is_read_back():
    driver = Driver(checked=False)
    driver.submit(vcjob({"name": "w", "replicas": 2}))
    bad = driver.event(pod("bad", "j1", 1, "Running", node="n", running=0), "j1")
    driver.drain(driver.stage.park(driver.state, bad, driver.now, "broken"))
    for number in range(40):
        driver.command("ResumeJob", key=f"command-{number}")
    driver.crash()
    assert len(driver.job().held) == 41
    made = driver.command("Unpark")
    assert [released.input for released in driver.of(InputReleased, made)][1:] == [f"command-{number}" for number in range(40)]
    driver.checked = True
    driver.crash()
    driver.check()
    assert driver.job().apart is None


def job_of(tasks, replicas=1, **spec):
    driver = Driver(checked=False)
    driver.submit(vcjob(*({"name": f"t{number}", "replicas": replicas} for number in range(tasks)), minAvailable=1, **spec))
    assert driver.outcome == "applied"
    return driver


def test_a_job_of_many_pods_is_read_back_with_its_specification():
    driver = job_of(1, replicas=40)
    before = driver.job().spec
    driver.crash()
    assert driver.job().spec == before
    assert before.tasks[0].replicas == 40


def test_a_job_record_grows_neither_with_tasks_nor_with_event_contents():
    many = {"customEvents": {f"Event{number}": {"type": "object"} for number in range(20)}}
    own = [len(records(driver.state)["job/j1"]) for driver in (job_of(40), job_of(80), job_of(40, lahar=many))]
    assert max(own) < 1.05 * min(own)


def test_a_job_record_holds_sixteen_tasks_however_many_its_pods_name(driver):
    for number in range(20):
        driver.see(pod(f"u{number}", "j1", 1, "Running", node="n", running=1, task=f"t{number}"))
    own = json.loads(records(driver.state)["job/j1"].partition(b"\n")[2])
    assert len(own["tasks"]) == 16


def test_a_task_on_a_later_page_is_written_when_it_changes():
    driver = job_of(40)
    driver.stage.touched(driver.state)
    before = records(driver.state)
    driver.run("t39")
    after = records(driver.state)
    changed = {name for name in after if after[name] != before.get(name)}
    assert "page/tasks/2/j1" in changed
    assert changed == set(driver.stage.touched(driver.state))


def seen(version, tasks):
    named = {f"t{number}": 1 for number in range(tasks)}
    return JobObserved("train", "Job", version=str(version), phase="Running", tasks=named)


def test_a_specification_that_has_become_small_has_no_record_of_its_own(driver):
    for version, tasks in enumerate((20, 2), 1):
        driver.owner(
            JobObserved("train", "Job", version=str(version), phase="Running", tasks=dict.fromkeys(map(str, range(tasks)), 1))
        )
    assert driver.stage.dump(driver.state, "page/spec/1/j1") is None
    assert driver.stage.dump(driver.state, "forgotten/7") is None


def test_jobs_that_are_over_make_room_for_each_other(driver, monkeypatch):
    monkeypatch.setattr("engine.lifecycle.evolve._WARM", 1)
    for uid in ("u1", "u2", "u3"):
        driver.see(pod(uid, f"job-{uid}", 1, "Succeeded", node="n", running=1, ended=2))
    driver.crash()
    for version, uids in ((2, ("u1", "u2", "u3")), (3, ("u3", "u2", "u1"))):
        for uid in uids:
            driver.see(pod(uid, f"job-{uid}", version, "Succeeded", node="n", running=1, ended=version))
    assert dict(driver.outcomes) == {"applied": 3, "unchanged": 3, "late": 3}


def test_a_large_job_that_is_over_is_kept_at_hand_alone(driver, monkeypatch):
    monkeypatch.setattr("engine.lifecycle.evolve._WARM_ATTEMPTS", 2)
    for job, pods in (("large", 3), ("small", 1), ("other", 1)):
        for uid in range(pods):
            driver.see(pod(f"{job}{uid}", job, 1, "Succeeded", node="n", running=1, ended=2))
    driver.crash()
    kept = []
    for job in ("small", "large", "small", "other"):
        peek(driver.state, job)
        kept.append((list(driver.state.warm), driver.state.warm_attempts))
    assert kept == [(["small"], 1), (["large"], 3), (["small"], 1), (["small", "other"], 2)]
    monkeypatch.setattr("engine.lifecycle.evolve._WARM", 1)
    peek(driver.state, "unknown")
    assert (list(driver.state.warm), driver.state.warm_attempts) == (["unknown"], 0)


def test_a_job_forgotten_after_its_record_was_written_leaves_nothing(driver):
    """A snapshot is written record by record: it may hold a job as it was when it lived, and that its id is forgotten."""
    made = driver.see(pod("u", "j1", 1, "Running", node="n", running=1))
    alive = records(driver.state)["job/j1"]
    made += driver.see(pod("u", "j1", 2, "Succeeded", node="n", running=1, ended=2))
    made += driver.wait(31 * 86_400)
    stored = {**records(driver.state), "job/j1": alive}
    state = driver.stage.initial()
    driver.stage.load(state, stored.items())
    assert state.on_node
    for event in made:
        if not driver.stage.contains(state, event):
            driver.stage.evolve(state, event)
    assert (state.jobs, state.closed, state.on_node, len(state.forgotten)) == ({}, {}, {}, 1)


def test_a_state_knows_which_events_it_holds(driver):
    made = driver.see(pod("u", "j1", 1, "Running", node="n", running=1))
    assert all(driver.stage.contains(driver.state, event) for event in made)
    assert not driver.stage.contains(driver.state, replace(made[-1], sequence=made[-1].sequence + 1))
    assert not driver.stage.contains(driver.state, replace(made[0], subject="other"))
    driver.see(pod("u", "j1", 2, "Succeeded", node="n", running=1, ended=2))
    driver.wait(31 * 86_400)
    assert driver.stage.contains(driver.state, made[0])


@pytest.mark.parametrize("stranger", [False, True])
def test_a_state_knows_what_it_has_forgotten(driver, stranger):
    made = driver.command("AbortJob") if stranger else driver.see(pod("u", "j1", 1, "Succeeded", node="n", running=1, ended=2))
    before = records(driver.state)
    (gone,) = driver.wait(31 * 86_400)
    assert isinstance(gone.data, JobForgotten)

    def holds(stored, event):
        state = driver.stage.initial()
        driver.stage.load(state, stored.items())
        return driver.stage.contains(state, event)

    after = records(driver.state)
    assert not holds({}, gone)
    assert not holds(before, gone)
    assert not holds(before | after, gone), "its record is there still"
    assert holds(after, gone)
    assert all(holds(after, event) for event in made)
    later = replace(made[0], sequence=gone.sequence + 1)
    assert holds(after, later) is not stranger, "what comes about an id that was no job goes on from there"
    assert not holds({}, replace(made[0], sequence=1))
    assert holds({}, replace(made[0], sequence=2)), "its record was forgotten before that of its id was written"


def test_the_jobs_that_are_parked_are_told(driver):
    for job in ("j1", "j2"):
        driver.see(pod(f"u-{job}", job, 1, "Running", node="n", running=1))
    driver.drain(driver.stage.park(driver.state, driver.event(CommandIssued("AbortJob"), "j2"), driver.now, "broken"))
    assert list(driver.stage.parked(driver.state)) == ["j2"]


def test_forgotten_ids_stand_in_chunks(driver):
    driver.see(pod("u", "j1", 1, "Succeeded", node="n", running=1, ended=2))
    driver.wait(31 * 86_400)
    assert list(driver.stage.records(driver.state)) == ["forgotten/0"]
    driver.crash()
    driver.see(pod("u", "j1", 1, "Succeeded", node="n", running=1, ended=2))
    assert driver.outcome == "late"


def test_timers_and_ends_of_keeping_fire_in_the_order_of_their_times():
    driver = Driver(LifecycleStage(forget_after=50 * SECOND))
    driver.submit(vcjob({"name": "a"}, lahar={"activeDeadlineSeconds": 40}), "j1")
    driver.submit(vcjob({"name": "a"}, lahar={"activeDeadlineSeconds": 60}), "j2")
    driver.see(pod("u", "j3", 1, "Succeeded", node="n", running=0, ended=0))
    driver.run("a", job="j1")
    driver.run("a", job="j2")
    made = driver.wait(40)
    driver.reap("j1")
    made += driver.wait(20)
    driver.reap("j2")
    made += driver.wait(40)
    fired = [(event.subject, event.time) for event in made if isinstance(event.data, TimerFired | JobForgotten)]
    assert fired == [
        ("j1", START + 40 * SECOND),
        ("j3", START + 50 * SECOND),
        ("j2", START + 60 * SECOND),
        ("j1", START + 90 * SECOND),
    ]


def test_what_follows_from_a_node_in_two_jobs_has_ids_of_its_own(driver):
    for job in ("j1", "j2"):
        driver.see(pod("u" + job, job, 1, "Running", node="n", running=1))
    alone = Driver()
    alone.see(pod("uj2", "j2", 1, "Running", node="n", running=1))
    silent = NodeObserved("n", ready="Unknown")
    both, one = (
        [event for event in each.take(each.event(data, "n", "the-node")) if isinstance(event.data, AttemptChanged)]
        for each, data in ((driver, silent), (alone, silent))
    )
    assert len({event.id for event in both}) == 2
    assert both[1].id == one[0].id
    assert {event.causationid for event in both} == {"the-node"}


@pytest.mark.parametrize("counter", ["pending", "running", "succeeded", "failed", "terminating"])
def test_a_counter_below_zero_breaks_an_invariant(driver, counter):
    driver.see(pod("u", "j1", 1, "Running", node="n", running=1))
    setattr(driver.job("j1").counts, counter, -1)
    with pytest.raises(InvariantError, match="negative counters"):
        driver.see(pod("u", "j1", 2, "Running", node="n", running=1, restarts=1))


def test_a_job_that_does_not_become_quiet_breaks_an_invariant(driver):
    """It must be parked, not hang the shard."""
    driver.submit(vcjob({"name": "a"}))
    job = driver.job()
    job.tasks["a"].open_slot(0)
    with pytest.raises(InvariantError, match="does not become stable in phase Pending"):
        list(settle(EventFactory(driver.state, "x", driver.now, "c1"), job))  # nothing is applied, so the replica waits for ever
