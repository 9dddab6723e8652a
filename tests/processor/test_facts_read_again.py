"""A fact of a cluster is read again by each recovery, which comes to the same conclusion as whoever took it."""

from __future__ import annotations

import pytest

from engine.events import Event, encode
from engine.events.inputs import NodeDeleted, NodeObserved, PodObserved
from engine.events.vocabulary import Data
from engine.lifecycle.stage import LifecycleStage
from engine.lifecycle.state import ShardState
from engine.log.memory import MemoryLog
from engine.processor.processor import Processor
from engine.processor.snapshots import state_hash

STRANGE = {f"{depth} deep": b'"x":' + b"[" * depth + b"]" * depth for depth in (150, 250, 500, 850, 950)}
STRANGE |= {"a number of 4,301 digits": b'"x":' + b"1" * 4_301}
STRANGE |= {"no UTF-8": b'"x":"\xff"', "a key that is no UTF-8": b'"u\xffid":"u"'}


class Reversioned(LifecycleStage):
    """Cannot read the snapshots of the other one, so it reads everything."""

    state_version = LifecycleStage.state_version + 1


def given(data: Data, number: int, subject: str) -> Event[Data]:
    job = subject if isinstance(data, PodObserved) else ""
    return Event(f"i{number}", "test", data.TYPE, subject, number, number, 0, job, "", "c1", data)


def opened(log: MemoryLog, stage: LifecycleStage, frames: int) -> Processor[ShardState]:
    """Open a shard by a caller whose stack is so much deeper."""
    if frames:
        return opened(log, stage, frames - 1)
    processor = Processor(log, stage)
    processor.open()
    return processor


@pytest.mark.parametrize("fields", STRANGE.values(), ids=STRANGE)
def test_a_fact_with_strange_unknown_fields_stops_no_recovery(fields: bytes) -> None:
    log = MemoryLog()
    fact = encode(given(NodeDeleted("n1", "9"), 2, "n1"))
    log.append("cluster", [encode(given(NodeObserved("n1", cpu_milli=1), 1, "n1"))])
    log.append("cluster", [fact._replace(data=fact.data[:-1] + b"," + fields + b"}")])
    log.append("pods", [encode(given(PodObserved("u", "p", "j1", created=1, phase="Pending", version="1"), 3, "j1"))])
    processor = opened(log, LifecycleStage(), 0)
    processor.run_until_quiet()
    assert processor.accounts.received == 3
    for frames in (0, 30, 300):
        again = opened(log, Reversioned(), frames)
        assert state_hash(again.stage, again.state) == state_hash(again.stage, processor.state)
