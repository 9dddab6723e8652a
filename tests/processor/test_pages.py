"""A job of several records can be recovered after any commit, and what an event rewrites does not grow with its job."""

from __future__ import annotations

import lifecycle_inputs
import pytest
from planted import Plant
from workload import job_name, life, lives

from engine.lifecycle import evolve_attempts, job_pages
from engine.lifecycle.stage import LifecycleStage
from engine.lifecycle.state import ShardState
from engine.log.memory import MemoryLog
from engine.log.port import ShardView
from engine.processor import snapshots
from engine.processor.processor import Processor
from engine.processor.recovery import recover
from engine.processor.snapshots import state_hash

BEGIN = 1_700_000_000_000_000


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_pages, "SIZES", dict.fromkeys(job_pages.SIZES, 2))
    monkeypatch.setattr(snapshots, "_CYCLE_BYTES", 2_000)


def recovered(processor: Processor[ShardState], *, with_snapshot: bool) -> str:
    """Return the hash of the state that a shard recovers, or what keeps it from recovering."""
    view = processor.log.look(processor.shard)
    assert view is not None
    records = list(view.snapshot()) if with_snapshot else []
    try:
        found = recover(processor.log, processor.stage, processor.shard, ShardView(view.position, records), 1)
    except (LookupError, AssertionError, AttributeError) as error:
        return repr(error)
    return state_hash(processor.stage, found.state)


def differs(stage: LifecycleStage, every: int) -> bool:
    """Process random inputs; tell whether after some commit snapshot and tail are another state than the history is."""
    log = MemoryLog()
    for topic, message in lifecycle_inputs.inputs(12):
        log.append(topic, [message])
    processor = Processor(log, stage, batch=3, snapshot_every=every)
    processor.open()
    while processor.step() or processor.fire_due(processor.position.now):
        if recovered(processor, with_snapshot=True) != recovered(processor, with_snapshot=False):
            return True
    return False


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("every", [5, 60])
def test_snapshot_and_tail_are_what_the_history_says_after_every_commit(every: int) -> None:
    assert not differs(LifecycleStage(), every)


class WritesApart(LifecycleStage):
    """Planted bug: the pages of one job are written by different commits."""

    def subject(self, record: str) -> str:
        return record


@pytest.mark.slow
@pytest.mark.usefixtures("small_pages")
def test_pages_that_are_written_apart_are_found() -> None:
    assert differs(WritesApart(), 60)


@pytest.mark.usefixtures("small_pages")
def test_a_changed_page_that_is_not_written_is_found(plant: Plant) -> None:
    plant(evolve_attempts, "change", lambda _job, _attempt: None)
    assert differs(LifecycleStage(), 5)


def rewritten(replicas: int) -> tuple[int, int]:
    """Return how many bytes of the snapshot one observation of a job of so many replicas rewrites, and its largest record."""
    log = MemoryLog()
    middle = list(life(0, replicas // 2, BEGIN))[:6]
    known = {message.id for message in middle}
    log.append("pods", [message for message in lives([0], replicas, BEGIN, until=6) if message.id not in known])
    processor = Processor(log, LifecycleStage())
    processor.open()
    most = 0
    for message in middle:
        processor.run_until_quiet()
        before = dict(log.shards[processor.shard].snapshot)
        log.append("pods", [message])
        processor.run_until_quiet()
        after = log.shards[processor.shard].snapshot
        most = max(most, sum(len(record) for name, record in after.items() if before.get(name) != record))
    return most, max(map(len, after.values()))


def test_an_observation_rewrites_as_much_of_a_large_job_as_of_a_small_one() -> None:
    (small, _), (large, largest) = rewritten(70), rewritten(1_000)
    assert 0 < large < 1.2 * small
    assert largest < 20_000


def test_a_large_job_that_is_closed_is_kept_as_bytes_and_stays_at_hand() -> None:
    """What trickles in about it after its end decodes and encodes a page, not all of it."""
    log = MemoryLog()
    log.append("pods", list(lives([0], 100, BEGIN)))
    stage = LifecycleStage()
    processor = Processor(log, stage)
    processor.open()
    processor.run_until_quiet()
    state = processor.state
    assert (list(state.jobs), list(state.closed)) == ([], [job_name(0)])
    assert state.warm[job_name(0)].encoded is state.closed_pages[job_name(0)]
    read = stage.initial()
    stage.load(read, [(name, stage.dump(state, name) or b"") for name in stage.records(state)])
    assert (read.jobs, read.closed, read.closed_pages) == ({}, state.closed, state.closed_pages)
    assert len(read.closed_pages[job_name(0)]) == 3
