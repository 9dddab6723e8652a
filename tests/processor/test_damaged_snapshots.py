"""A snapshot that is not what was written is not used, whatever has become of it: history is read, and it is made anew."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from lifecycle_inputs import inputs

from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.log.port import ShardId
from engine.processor.processor import Processor
from engine.processor.snapshots import MANIFEST, rehashed, state_hash
from engine.processor.stage import Stage

SHARD = ShardId("lifecycle", 0)
Records = dict[str, bytes]


def changed(**fields: object) -> Callable[[Records], None]:
    def change(records: Records) -> None:
        records[MANIFEST] = json.dumps({**json.loads(records[MANIFEST]), **fields}).encode()

    return change


def replaced(manifest: bytes) -> Callable[[Records], None]:
    def change(records: Records) -> None:
        records[MANIFEST] = manifest

    return change


def torn(records: Records) -> None:
    records[MANIFEST] = records[MANIFEST][:-9]


def of_the_last_generation(records: Records) -> None:
    subject = next(subject for subject in records if subject.startswith("job/"))
    records[subject] = b"\xff\xff\xff\xff" + records[subject][4:]


def of_another_release(records: Records) -> None:
    for subject in ("plan/7", "forgotten/all", "forgotten/99", "object"):
        records[subject] = records[next(iter(records))][:4] + b"unheard of"


DAMAGES = {
    "torn": torn,
    "empty": replaced(b""),
    "a list": replaced(b"[]"),
    "without its fields": replaced(b'{"generation": 1}'),
    "a text for a number": changed(shardsequence="many"),
    "a generation that there is not": changed(generation=2**32),
    "of another state": changed(state_version=9_999),
    "a job of the last generation": of_the_last_generation,
    "subjects that nobody knows": of_another_release,
}


def work(log: MemoryLog) -> Processor[object]:
    stage: Stage[object] = LifecycleStage()  # type: ignore[assignment]  # its state is of no interest here
    processor = Processor(log, stage)
    processor.open()
    processor.run_until_quiet()
    return processor


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_snapshot_is_not_used_and_made_anew(name: str, caplog: pytest.LogCaptureFixture) -> None:
    given = inputs(20)
    log = MemoryLog()
    for topic, message in given[: len(given) // 2]:
        log.append(topic, [message])
    work(log).close()
    DAMAGES[name](log.shards[SHARD].snapshot)
    for topic, message in given[len(given) // 2 :]:
        log.append(topic, [message])
    again = work(log)
    assert "the snapshot of shard lifecycle/0 is not used" in caplog.text
    expected = MemoryLog()
    for half in (given[: len(given) // 2], given[len(given) // 2 :]):
        for topic, message in half:
            expected.append(topic, [message])
        right = work(expected)
    assert state_hash(again.stage, again.state) == state_hash(right.stage, right.state)
    again.close()
    caplog.clear()
    last = Processor(log, again.stage)
    last.open()
    assert "is not used" not in caplog.text
    assert set(log.shards[SHARD].snapshot) == set(expected.shards[SHARD].snapshot)


GENERATIONS = [(4, True), (int.from_bytes(b'{"ge'), True), (2**32 - 1, True), (2**32, False), (2**32 + 1, False), (-1, False)]


@pytest.mark.parametrize(("generation", "whole"), GENERATIONS)
def test_a_generation_has_four_bytes_and_no_record_of_another_one_counts(generation: int, whole: bool) -> None:
    manifest = {"generation": generation, "state_version": 1, "shardsequence": 0, "vector": [], "now": 0, "offsets": []}
    records = [(MANIFEST, json.dumps({**manifest, "hash": "0" * 32}).encode()), ("job/j", b"\0\0\0\5 of another generation")]
    assert rehashed(records)[1] == whole


def test_the_hash_of_a_state_is_the_sum_of_those_of_its_records() -> None:
    stage = LifecycleStage()
    assert state_hash(stage, stage.initial()) == "0" * 32
