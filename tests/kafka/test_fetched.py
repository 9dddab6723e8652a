"""What is made of the bytes that a broker sends."""

from __future__ import annotations

import struct

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from streams.fetched import committed

CONTROL, TRANSACTIONAL = 0x20, 0x10
PRODUCER = 7


def batch(offset: int, attributes: int, *values: bytes) -> bytes:
    """A batch of a producer as it stands in a log; the attributes are those that brokers alone may set."""
    builder = DefaultRecordBatchBuilder(2, 0, True, PRODUCER, 0, 0, 1 << 16)
    for number, value in enumerate(values):
        builder.append(number, 0, None, value, [])
    made = builder.build()
    struct.pack_into(">q", made, 0, offset)
    struct.pack_into(">h", made, 21, attributes)
    struct.pack_into(">I", made, 17, calc_crc32c(bytes(made[21:])))
    return bytes(made)


def test_a_marker_of_which_compaction_has_kept_the_batch_alone_is_passed() -> None:
    content = batch(0, TRANSACTIONAL, b"a", b"b") + batch(2, TRANSACTIONAL | CONTROL) + batch(3, TRANSACTIONAL, b"c")
    records, behind = committed(content, [], 0)
    assert ([(record.offset, record.value) for record in records], behind) == ([(0, b"a"), (1, b"b"), (3, b"c")], 4)
