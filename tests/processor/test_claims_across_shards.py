"""A pod that claims the job of another shard: its own job stands in that shard, and is found there by its id."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.events import Data, Event, Message, encode
from engine.events.inputs import CommandIssued, JobSubmitted, PodObserved
from engine.events.jobs import JobOpened
from engine.events.outcomes import CommandRefused
from engine.history.reading import events_of, history_of
from engine.history.verify import verify_shard
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.log.partitioner import partition_of
from engine.log.sqlite import SqliteLog
from engine.processor.processor import Processor

SHARDS = 4
NOW = 1_000_000_000_000
MANIFEST = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "research"},
    "spec": {"tasks": [{"name": "w", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}]},
}


def message(data: Data, job: str, ident: str) -> Message:
    return encode(Event(ident, "test", data.TYPE, job, NOW, NOW, 0, job, "", "c1", data))


def claim(number: int, version: int) -> Message:
    job = f"job-{number}"
    pod = PodObserved(f"evil-{number}", job, "evil", "Running", NOW, namespace="evil", version=str(version), managed=True, task="w")
    return message(pod, job, f"claim-{number}-{version}")


def process(log: MemoryLog | SqliteLog) -> None:
    for number in range(SHARDS):
        processor = Processor(log, LifecycleStage(), number)
        processor.open()
        processor.run_until_quiet()
        processor.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_the_own_job_of_a_pod_is_in_the_shard_of_the_job_that_it_claims(kind: str, tmp_path: Path) -> None:
    log = MemoryLog(SHARDS) if kind == "memory" else SqliteLog(tmp_path / "log.db", SHARDS)
    for number in range(12):
        log.append("jobs", [message(JobSubmitted(MANIFEST), f"job-{number}", f"submit-{number}")])
        log.append("pods", [claim(number, 1)])
    process(log)
    opened = [record for record in log.scan(("job-events",), {JobOpened.TYPE}) if "~" in record.message.subject]
    assert len(opened) == 12
    assert len({record.partition.number for record in opened}) > 1
    for number in range(12):
        log.append("pods", [claim(number, 2)])
    for record in opened:
        own = record.message.subject
        assert partition_of(own, SHARDS) == partition_of(record.message.key, SHARDS) == record.partition.number
        # What is said of it by its id reaches the same shard, and is no dead letter.
        log.append("jobs", [message(CommandIssued("AbortJob"), own, f"abort {own}")])
    process(log)
    assert not list(log.scan(("dead-letters",)))
    for record in opened:
        events = events_of(log, record.message.subject)
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        assert sum(isinstance(event.data, CommandRefused) for event in events) == 1
        history = history_of(log, record.message.subject)
        cause = history.cause(history.events[0])
        assert cause is not None
        assert isinstance(cause.data, PodObserved)
    assert all(verify_shard(log, LifecycleStage(), number).ok for number in range(SHARDS))
    log.close()
