"""What history reads of the inputs is what the shards took."""

from __future__ import annotations

import pytest

from engine.events import Data, Event, Message, Topic, encode
from engine.events.inputs import NodeObserved, PodObserved
from engine.history.reading import cluster_facts, history_of
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.processor import shard_run as run
from engine.processor.processor import Processor

WIDE, NARROW = 1000, 150


class Renewed(LifecycleStage):
    """Does not read the snapshots of the other one."""

    state_version = LifecycleStage.state_version + 1


def opened(log: MemoryLog, stage: LifecycleStage) -> Processor:
    processor = Processor(log, stage)
    processor.open()
    return processor


def test_what_is_read_is_what_was_taken_whatever_the_bounds_were_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """An input that was taken under wider bounds counts, one that was set aside under narrower ones does not."""
    monkeypatch.setattr(run, "SMALL", 0)  # no real bound is as narrow as these
    log, long = MemoryLog(), "x" * NARROW
    for number, bound in enumerate((NARROW, WIDE, NARROW)):
        for data in (NodeObserved(f"n{number}", type=long), PodObserved(f"u{number}", f"j{number}", "p", "Running", 0, node=long)):
            monkeypatch.setattr(type(data), "LARGEST", bound)
            job = f"j{number}"
            log.append(data.TOPIC, [encode(Event(f"i{number}", "test", data.TYPE, job, number, number, 0, job, "", "c", data))])
        opened(log, LifecycleStage()).run_until_quiet()
    assert set(opened(log, Renewed()).state.facts.nodes) == {("c", "n1")}
    for bound in (NARROW, WIDE):
        monkeypatch.setattr(NodeObserved, "LARGEST", bound)
        assert [event.id for event in cluster_facts(log)] == ["i1"]
    assert list(history_of(log, "j1").inputs) == ["i1"]


class Counted(MemoryLog):
    """Notes what is searched."""

    def __init__(self) -> None:
        super().__init__()
        self.searched: list[Topic] = []

    def scan(self, topics, types=None, start=None):
        self.searched += topics
        return super().scan(topics, types, start)


def grown(jobs: int, pods: int) -> tuple[Counted, dict[str, list[str]]]:
    """A log of some jobs in turns, with the inputs of each."""
    log = Counted()
    told: dict[str, list[str]] = {}
    log.append("cluster", [message(NodeObserved("n0"), "node", "c", 0)])
    for number in range(jobs * pods):
        job = f"j{number % jobs}"
        data = PodObserved(f"u{number}", job, f"p{number}", "Running", 0, node="n0")
        log.append("pods", [message(data, f"i{number}", job, number)])
        told.setdefault(job, []).append(f"i{number}")
    opened(log, LifecycleStage()).run_until_quiet()
    return log, told


def message(data: Data, ident: str, key: str, number: int) -> Message:
    return encode(Event(ident, "test", data.TYPE, key, number, number, 0, key, "", "c", data))


def test_the_inputs_of_a_job_are_read_where_its_events_say_that_they_stand() -> None:
    """A search passes over all inputs of the log; in what is small it is the faster way."""
    log, told = grown(400, 3)
    assert sorted(history_of(log, "j7").inputs) == sorted(told["j7"])
    assert log.searched == ["job-events"]
    log, told = grown(2, 3)
    assert sorted(history_of(log, "j1").inputs) == sorted(told["j1"])
    assert log.searched == ["job-events", "jobs", "pods"]


def test_an_input_that_stands_elsewhere_is_searched_for() -> None:
    """Events that name an input which was held follow from a later one."""
    log, told = grown(400, 3)
    log.records = {
        partition: [record._replace(basis=(1, 0, 5)) if record.basis else record for record in records]
        for partition, records in log.records.items()
    }
    assert sorted(history_of(log, "j7").inputs) == sorted(told["j7"])
