"""Verify compares what the engine goes on from with what its history says; status tells how a shard stands."""

from __future__ import annotations

import json

import pytest

from engine.events import raw_message
from engine.history.input_check import InputCheck
from engine.history.status import shard_status
from engine.history.verify import Part, verify_shard
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.log.port import Commit, ShardId
from engine.processor.partitions import input_partitions
from engine.processor.processor import Processor
from engine.processor.snapshots import ACCOUNTS, MANIFEST

INPUTS = ("cluster", "jobs", "pods")


class Newer(LifecycleStage):
    """A release with another form of state."""

    state_version = LifecycleStage.state_version + 1


def go_on(log, stage=None, number=0):
    processor = Processor(log, stage or LifecycleStage(), number)
    processor.open()
    processor.run_until_quiet()
    processor.close()


def tamper(log, subject, change):
    """Change one record of a snapshot behind the engine's back."""
    shard = ShardId("lifecycle", 0)
    view = log.look(shard)
    held = log.open(shard, input_partitions(log, LifecycleStage(), 0))
    held.commit(Commit(view.position.vector, view.position.now, (), [(subject, change(dict(view.records)[subject]))]))


def verdict_of(log, stage=None, number=0):
    return verify_shard(log, stage or LifecycleStage(), number)


@pytest.mark.parametrize("partitions", [1, 3])
def test_sound_log_verifies(played, partitions):
    log = played(60, partitions)
    for number in range(partitions):
        verdict = verdict_of(log, number=number)
        assert verdict.ok
        assert verdict.document()["ok"] is True
        assert verdict.from_history == verdict.from_snapshot != "0" * 32
        assert verdict.sentence().startswith(f"lifecycle/{number}: ok, ")


@pytest.mark.parametrize("partitions", [1, 3])
def test_inputs_are_counted_and_each_has_an_outcome(played, partitions):
    log = played(60, partitions)
    input_check = InputCheck(log, INPUTS)
    for number in range(partitions):
        verdict = verify_shard(log, LifecycleStage(), number, input_check)
        assert verdict.ok
        assert verdict.inputs == shard_status(log, LifecycleStage(), number).received > 0


def test_an_input_that_was_taken_without_an_outcome_is_a_fault(played):
    log = played(10)
    log.append("pods", [raw_message("k", b"\xff garbage", 5)])
    assert verify_shard(log, LifecycleStage(), 0, InputCheck(log, INPUTS)).ok, "it was not taken yet"
    shard = ShardId("lifecycle", 0)
    inputs = input_partitions(log, LifecycleStage(), 0)
    position = log.look(shard).position
    vector = tuple(end + (partition.topic == "pods") for partition, end in zip(inputs, position.vector, strict=True))
    log.open(shard, inputs).commit(Commit(vector, position.now))
    verdict = verify_shard(log, LifecycleStage(), 0, InputCheck(log, INPUTS))
    assert not verdict.ok
    assert len(verdict.input_faults) == 2
    assert "cannot be decoded and has no dead letter" in verdict.input_faults[0]
    assert verdict.input_faults[1] == f"{verdict.inputs} inputs were taken and {verdict.inputs - 1} have an outcome"
    assert verdict.sentence().startswith("lifecycle/0: 2 faults in the inputs; pods/0 at ")


def test_shard_that_never_ran_verifies():
    assert verdict_of(MemoryLog()).ok


def test_wrongly_written_subjects_are_named_with_their_last_events(played):
    """The one whose last event is the earliest comes first."""
    log = played(10)
    changed = [name for name, _ in log.look(ShardId("lifecycle", 0)).records if name.startswith("job/")][1::2]
    for subject in changed:
        tamper(log, subject, lambda record: record.replace(b'"kind":"', b'"kind":"X'))
    verdict = verdict_of(log)
    assert (verdict.ok, verdict.intact) == (False, False)
    last = {record.message.subject: record.message.id for record in log.scan(("job-events",))}
    found = [(part.subject, part.event) for part in verdict.parts]
    assert len(found) > 1
    assert sorted(found) == sorted((subject, last[subject.removeprefix("job/")]) for subject in changed)
    places = [record.message.id for record in log.scan(("job-events",))]
    assert sorted(places.index(event) for _, event in found) == [places.index(event) for _, event in found]
    go_on(log)
    assert verdict_of(log).ok, "the next run did without the snapshot and made it anew"


def test_count_that_was_written_wrongly_is_a_difference(played):
    """What became of the inputs is exported as metrics, so it is verified as well."""
    log = played(10)
    tamper(log, ACCOUNTS, lambda record: record.replace(b'"applied": ', b'"applied": 1'))
    verdict = verdict_of(log)
    assert (verdict.ok, verdict.parts) == (False, [Part(ACCOUNTS, None)])
    assert "1 subject" in verdict.sentence()


def test_snapshot_of_another_release_is_said_not_to_be_compared(played):
    log = played(10)
    verdict = verdict_of(log, Newer())
    assert verdict.ok
    now, then = Newer.state_version, LifecycleStage.state_version
    assert f"no snapshot to compare: it is of state version {then}, this release reads {now}" in verdict.sentence()
    go_on(log, Newer())
    assert verdict_of(log, Newer()).fault == ""


def test_status_of_a_shard(played):
    log = played(20)
    log.append("pods", [raw_message("k", b"?", 5)])
    before = shard_status(log, LifecycleStage(), 0)
    assert (before.lag, before.dead_letters, before.snapshot_behind, before.snapshot_time) == (1, 0, 0, before.now)
    go_on(log)
    status = shard_status(log, LifecycleStage(), 0)
    assert (status.lag, status.dead_letters, status.parked_jobs) == (0, 1, 0)
    assert sum(status.outcomes.values()) == sum(end for _, _, end in status.inputs)
    records = dict(log.look(ShardId("lifecycle", 0)).records)
    assert status.snapshot_records == len(records) - len({ACCOUNTS, MANIFEST})
    assert status.outputs - status.snapshot_behind == json.loads(records[MANIFEST])["shardsequence"]


def test_status_of_a_shard_that_never_ran():
    status = shard_status(MemoryLog(), LifecycleStage(), 0)
    assert (status.lag, status.outputs, status.snapshot_time) == (0, 0, 0)
    assert status.document()["now"] is None
