"""Records of other producers that a broker takes and Lahar must not stumble over."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c
from log_contract import PODS, message, read_all

from engine.lifecycle.stage import LifecycleStage
from engine.processor.processor import Processor
from streams.client.record_batches import committed
from streams.codec import encode
from streams.log import KafkaLog
from streams.reader import record_of

Make = Callable[[int], KafkaLog]
_CRC = slice(17, 21)


def batch(names: list[str]) -> bytes:
    """Return a batch of records, each with a header of its own; of a name, `X` stands for a byte that is no UTF-8."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=1 << 20
    )
    for number, name in enumerate(names):
        fields = encode(message("a", number))
        given = [*fields.headers, (name, b"1")]
        assert builder.append(number, timestamp=1_700_000_000_000, key=fields.key, value=fields.value, headers=given) is not None
    made = bytearray(builder.build()).replace(b"X", b"\xff")
    made[_CRC] = struct.pack(">I", calc_crc32c(bytes(made[_CRC.stop :])))
    return bytes(made)


NAMES = [["nXme"], ["name", "nXme", "other"], ["nXme", "name", "nXme"], ["name", "other"]]


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("start", [0, 1, 2])
def test_names_of_headers_that_are_no_text_hide_no_record(names: list[str], start: int) -> None:
    records, behind = committed(batch(names), [], start)
    assert behind == max(len(names), start)
    found = records.take(1, lambda raw: raw) if records else []
    found += records.take(100, lambda raw: raw) if records else []
    assert [raw.offset for raw in found] == list(range(start, len(names)))
    assert [raw.headers[-1][0] for raw in found] == [name.replace("X", "\\xff") for name in names[start:]]
    assert [record_of(PODS, raw).message for raw in found] == [message("a", number) for number in range(start, len(names))]


def test_a_broker_takes_such_a_record_and_it_is_read_like_the_others(make_log: Make) -> None:
    log = make_log(1)
    log.append("pods", [message("a", 100)])
    name, leader = log.name(PODS), log.wire.leader(log.name(PODS))
    request = ProduceRequest(None, -1, 10_000, [(name.topic, [(name.partition, batch(["name", "nXme", "other"]))])])
    answer = log.background.run(log.wire.client.send(leader, request))
    assert answer.topics[0][1][0][1] == 0, "the broker refuses it"
    log.append("pods", [message("a", 101)])
    assert [record.message for record in read_all(log, PODS)] == [message("a", number) for number in (100, 0, 1, 2, 101)]
    assert [raw.headers[-1][0] for raw in log.reader.chunks(PODS, 2, 3).__next__()] == ["n\\xffme"]


def test_an_input_from_the_future_does_not_take_the_shard_with_it(make_log: Make) -> None:
    """All timers would be due for good."""
    log = make_log(1)
    second, sent = 1_000_000, message("a", 1)._replace(recordedtime=250_000_000_000_000_000)
    log.append("pods", [sent])
    (record,) = read_all(log, PODS)
    assert record.message == sent._replace(recordedtime=record.appended + second)
    processor = Processor(log, LifecycleStage())
    processor.open()
    processor.run_until_quiet()
    assert processor.position.now == record.appended + second
    ahead = sent._replace(recordedtime=record.appended + 3_600 * second)
    log.append("pods", [ahead, sent._replace(recordedtime=record.appended + second + 1)])
    processor.run_until_quiet()
    latest = read_all(log, PODS)[1]
    assert processor.position.now == latest.appended + second
