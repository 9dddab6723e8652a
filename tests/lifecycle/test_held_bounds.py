"""What a parked or waiting job holds is bounded; what is beyond is a dead letter with its reason, never lost or silent."""

from __future__ import annotations

import pytest
from lifecycle_driver import CLUSTER, SECOND, START, Driver, pod, vcjob

from engine.events import decode, encode
from engine.events.inputs import CommandIssued, JobSubmitted
from engine.events.outcomes import InputReleased
from engine.lifecycle import held_inputs, indexes, inputs, refused_inputs
from engine.lifecycle.errors import InvariantError
from engine.lifecycle.stage import LifecycleStage
from engine.lifecycle.steps import PACE
from engine.log.memory import MemoryLog
from engine.log.port import Partition
from engine.processor.processor import Processor
from engine.processor.snapshots import state_hash


class Faulty(LifecycleStage):
    """Fails on pods whose name says so, until it is mended."""

    mended = False

    def decide(self, state, event, now):
        outcome = yield from super().decide(state, event, now)
        if not self.mended and getattr(event.data, "name", "") == "bad":
            raise InvariantError(event.subject, "broken on purpose")
        return outcome


@pytest.fixture
def log():
    return MemoryLog()


def processor(log, stage):
    found = Processor(log, stage)
    found.open()
    return found


def see(log, *pods):
    driver = Driver(checked=False)
    log.append("pods", [encode(driver.event(one, one.job, f"{one.uid}@{one.version}")) for one in pods])


def letters(log):
    return [decode(record.message).data for record in log.read(Partition("dead-letters", 0), 0, 100)]


def test_a_parked_job_holds_so_many_inputs(log, monkeypatch):
    monkeypatch.setattr(held_inputs, "HELD_INPUTS", 3)
    stage = Faulty()
    running = processor(log, stage)
    see(log, pod("bad", "j1", 1, "Running", name="bad", node="n", running=0))
    see(log, *(pod(f"u{number}", "j1", 1, "Running", node="n", running=0) for number in range(5)))
    see(log, pod("other", "j2", 1, "Running", node="n", running=0))
    running.run_until_quiet()
    outcomes = running.accounts.outcomes
    assert (outcomes["parked"], outcomes["dead"], outcomes["applied"]) == (3, 3, 1)
    assert running.accounts.balanced
    assert [letter.attributes["id"] for letter in letters(log)] == ["u2@1", "u3@1", "u4@1"]
    assert letters(log)[0].reason.startswith("job j1 holds 3 inputs")
    assert state_hash(stage, processor(log, stage).state) == state_hash(stage, running.state)
    stage.mended = True
    again = processor(log, stage)
    driver = Driver(checked=False)
    driver.now = START + 1
    command = driver.event(CommandIssued("Unpark"), "j1")
    log.append("jobs", [encode(command)])
    again.run_until_quiet()
    assert [attempt.uid for attempt in again.state.jobs["j1"].attempts] == ["bad", "u0", "u1"]
    assert (again.state.jobs["j1"].held, again.state.jobs["j1"].held_bytes) == ({}, 0)


def test_pods_that_wait_for_their_job_are_bounded_in_bytes(log, monkeypatch):
    monkeypatch.setattr(held_inputs, "HELD_BYTES", 2_500)
    running = processor(log, LifecycleStage())
    fields = {"task": "w", "index": 0, "attempt": 1, "managed": True, "kind": "VCJob"}
    see(log, *(pod(f"u{number}", "j1", 1, "Running", node="n", running=0, **fields) for number in range(8)))
    running.run_until_quiet()
    outcomes = running.accounts.outcomes
    assert outcomes["waiting"] + outcomes["dead"] == 8
    assert outcomes["waiting"] > 1
    assert outcomes["dead"] > 1
    assert running.state.jobs["j1"].waiting_bytes <= 2_500
    assert 0 < running.state.jobs["j1"].waiting_bytes == processor(log, LifecycleStage()).state.jobs["j1"].waiting_bytes


def waiting(uid, version=1, **fields):
    fields = {"task": "w", "index": int(uid[1:]), "attempt": 1, "managed": True, "kind": "VCJob"} | fields
    return pod(uid, "j1", version, "Running", node="n", running=0, **fields)


def test_pods_of_another_namespace_take_no_room_from_the_named_jobs_pods(log, monkeypatch):
    monkeypatch.setattr(held_inputs, "HELD_INPUTS", 3)
    monkeypatch.setattr(held_inputs, "NAMESPACES", 2)
    stage = LifecycleStage()
    running = processor(log, stage)
    see(log, *(waiting(f"e{number}", namespace="evil") for number in range(5)))
    see(log, *(waiting(f"u{number}", name=f"train-w-{number}") for number in range(4)))
    see(log, waiting("x0", namespace="third"))
    running.run_until_quiet()
    reasons = [(letter.attributes["id"], letter.reason.partition(" bytes")[0]) for letter in letters(log)]
    assert [ident for ident, _ in reasons] == ["e3@1", "e4@1", "u3@1", "x0@1"]
    assert reasons[0][1].startswith("job j1 holds 3 inputs")
    assert reasons[-1][1].startswith("job j1 holds 6 inputs")
    again = processor(log, stage)
    assert again.state.jobs["j1"].waiters == running.state.jobs["j1"].waiters
    log.append("jobs", [encode(Driver(checked=False).event(JobSubmitted(vcjob({"name": "w", "replicas": 3})), "j1"))])
    again.run_until_quiet()
    job = again.state.jobs["j1"]
    assert [attempt.uid for attempt in job.attempts] == ["u0", "u1", "u2"]
    assert (job.waiting, job.waiters, job.waiting_bytes) == ({}, {}, 0)


def test_a_jobs_own_pods_are_taken_in_first_and_wait_for_no_others(monkeypatch):
    monkeypatch.setattr(inputs, "RELEASED", 1)
    driver = Driver(checked=False, quiet=False)
    for number in range(3):
        driver.see(waiting(f"e{number}", namespace="evil"))
    for number in range(2):
        driver.see(waiting(f"u{number}", name=f"train-w-{number}"))
    driver.submit(vcjob({"name": "w", "replicas": 3}))
    assert [attempt.uid for attempt in driver.job().attempts if attempt.uid] == ["u0"]
    driver.see(waiting("u1", 2, name="train-w-1", ready=True))
    assert driver.outcome == "waiting", "what came before it waits still"
    driver.wait(2.5 * PACE / SECOND)
    assert [attempt.uid for attempt in driver.job().attempts if attempt.uid] == ["u0", "u1"]
    driver.see(waiting("u2", name="train-w-2"))
    assert (driver.outcome, len(driver.job().waiting)) == ("applied", 3)
    driver.wait(1)
    assert driver.job().waiting == {}
    assert [attempt.uid for attempt in driver.job().attempts] == ["u0", "u1", "u2"]


def test_a_held_or_waiting_input_is_a_duplicate_after_any_number_of_others(monkeypatch):
    monkeypatch.setattr(indexes, "SEEN", 2)
    driver = Driver(checked=False)
    early = [driver.event(waiting(f"u{number}"), "j1", f"early{number}") for number in range(40)]
    for event in early:
        driver.take(event)
    driver.take(early[0])
    assert driver.outcome == "duplicate"
    driver = Driver(checked=False)
    driver.see(pod("u", "j1", 1, "Running", node="n", running=0))
    late = [driver.event(CommandIssued("AbortJob"), "j1", f"late{number}") for number in range(40)]
    driver.drain(driver.stage.park(driver.state, late[0], driver.now, "broken"))
    for event in late[1:]:
        driver.take(event)
    driver.take(late[0])
    assert driver.outcome == "duplicate"


def parked_before_its_job(monkeypatch, before):
    """An id under which so many pods wait, one has parked it, and five more are held."""
    monkeypatch.setattr(inputs, "RELEASED", 2)
    driver = Driver(checked=False, quiet=False)
    for number in range(before):
        driver.see(waiting(f"u{number}", name=f"train-w-{number}"))
    bad = driver.event(waiting(f"u{before}", name=f"train-w-{before}"), "j1", "bad")
    driver.drain(driver.stage.park(driver.state, bad, driver.now, "broken"))
    for number in range(before + 1, before + 6):
        driver.see(waiting(f"u{number}", name=f"train-w-{number}"))
    return driver


def taken_in(driver, replicas):
    driver.submit(vcjob({"name": "w", "replicas": replicas}))
    assert driver.outcome == "applied"
    driver.wait(5)
    return sorted(attempt.uid or "" for attempt in driver.job().attempts)


def test_a_step_releases_few_large_inputs(monkeypatch):
    driver = parked_before_its_job(monkeypatch, 1)
    size = driver.job().held_bytes // 6
    monkeypatch.setattr(inputs, "RELEASED", 100)
    monkeypatch.setattr(inputs, "RELEASED_BYTES", 5 * size // 2)
    driver.command("Unpark")
    assert len(driver.of(InputReleased)) == 3
    driver.wait(1)
    assert len(driver.of(InputReleased)) == 6


def test_large_held_inputs_are_records_of_their_own(monkeypatch):
    """A topic takes records of 4 MiB, and a shard whose record is larger stops for everybody."""
    driver = parked_before_its_job(monkeypatch, 1)
    large = vcjob({"name": "w", "replicas": 1})
    large["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["args"] = ["x" * (1 << 20)]
    for number in range(8):
        driver.take(driver.event(JobSubmitted(large), "j1", f"large{number}"))
        assert driver.outcome == "parked"
        driver.take(driver.event(CommandIssued("AbortJob"), "j1", f"small{number}"))
    kept = list(driver.job().held)
    assert len(kept) == 6 + 16
    assert driver.job().held_bytes > 8 << 20
    sizes = [len(driver.stage.dump(driver.state, name)) for name in driver.stage.records(driver.state)]
    assert max(sizes) < 2 << 20
    driver.crash()
    assert list(driver.job().held) == kept
    driver.command("Unpark")
    driver.wait(5)
    assert driver.job().held == {}
    assert not any(name.startswith("page/held") for name in driver.stage.records(driver.state))


def test_what_an_input_is_held_under_is_found_once_a_decision(monkeypatch):
    """It takes as long as the manifest is large."""
    driver, asked = parked_before_its_job(monkeypatch, 1), []

    def held_key(event):
        asked.append(event.id)
        return refused_inputs.held_key(event)

    monkeypatch.setattr(held_inputs, "held_key", held_key)
    submission = driver.event(JobSubmitted(vcjob({"name": "w", "replicas": 1})), "j1", "s")
    for outcome in ("parked", "duplicate"):
        asked.clear()
        driver.take(submission)
        assert (driver.outcome, set(asked)) == (outcome, {"s"})
        assert len(asked) == 1


def test_pods_that_wait_are_not_lost_when_what_came_after_them_is_released(monkeypatch):
    driver = parked_before_its_job(monkeypatch, 2)
    driver.command("Unpark")
    driver.wait(5)
    assert (len(driver.job().waiting), driver.job().held) == (8, {})
    driver.crash()
    assert taken_in(driver, 8) == [f"u{number}" for number in range(8)]


def test_an_id_with_an_abandoned_release_can_be_unparked_before_its_job(monkeypatch):
    driver = parked_before_its_job(monkeypatch, 1)
    driver.wait(100)
    driver.command("Unpark")
    driver.now = driver.stage.due(driver.state)
    driver.drain(driver.stage.drop(driver.state, driver.now, "too large"))
    driver.wait(100)
    assert len(driver.job().held) == 4
    driver.command("Unpark")
    assert driver.outcome == "applied"
    driver.wait(0.5)
    assert driver.job().held == {}
    driver.wait(61)
    assert driver.job().waiting == {}


def test_a_pod_of_another_namespace_that_no_job_may_have_displaces_none(monkeypatch):
    driver = Driver(checked=False, quiet=False)
    for number in range(2):
        driver.see(waiting(f"u{number}", name=f"train-w-{number}"))
    beyond = {"namespace": "evil", "owner": "Job/x", "managed": False, "index": 10**7}
    driver.see(waiting("u7", **beyond))
    assert (driver.outcome, list(driver.job().waiters)) == ("anomalous", [(CLUSTER, "default")])
    assert taken_in(driver, 2) == ["u0", "u1"]


def test_pods_of_other_namespaces_take_no_room_once_the_job_has_come(monkeypatch):
    monkeypatch.setattr(held_inputs, "HELD_INPUTS", 3)
    monkeypatch.setattr(inputs, "RELEASED", 1)
    driver = Driver(checked=False, quiet=False)
    for number in range(3):
        driver.see(waiting(f"u{number}", name=f"train-w-{number}"))
    for space in ("a", "b", "c"):
        for number in range(3):
            driver.see(waiting(f"{space}{number}", namespace=space))
    driver.submit(vcjob({"name": "w", "replicas": 3}))
    driver.see(waiting("u2", 2, name="train-w-2", ready=True))
    assert (driver.outcome, len(driver.job().waiting)) == ("waiting", 12)
