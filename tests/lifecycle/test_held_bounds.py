"""What a parked or waiting job holds is bounded; what is beyond is a dead letter with its reason, never lost or silent."""

from __future__ import annotations

import pytest
from lifecycle_driver import START, Driver, pod

from engine.events import decode, encode
from engine.events.inputs import CommandIssued
from engine.lifecycle import hold
from engine.lifecycle.errors import InvariantError
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.log.port import Partition
from engine.log.processor import Processor
from engine.log.snapshots import state_hash


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
    monkeypatch.setattr(hold, "HELD_INPUTS", 3)
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
    monkeypatch.setattr(hold, "HELD_BYTES", 2_500)
    running = processor(log, LifecycleStage())
    fields = {"task": "w", "index": 0, "attempt": 1, "managed": True, "kind": "VCJob"}
    see(log, *(pod(f"u{number}", "j1", 1, "Running", node="n", running=0, **fields) for number in range(8)))
    running.run_until_quiet()
    outcomes = running.accounts.outcomes
    assert outcomes["waiting"] + outcomes["dead"] == 8
    assert outcomes["waiting"] > 1
    assert outcomes["dead"] > 1
    assert running.state.jobs["j1"].held_bytes <= 2_500
    assert processor(log, LifecycleStage()).state.jobs["j1"].held_bytes == running.state.jobs["j1"].held_bytes
