"""What is made of the bytes that a broker sends."""

from __future__ import annotations

import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from streams.client.record_batches import CorruptBatchError, committed

CONTROL, TRANSACTIONAL = 0x20, 0x10
PRODUCER = 7


ABORT, COMMIT = struct.pack(">hh", 0, 0), struct.pack(">hh", 0, 1)
HEADER = "a-name"


def batch(
    offset: int, attributes: int, *values: bytes, producer: int = PRODUCER, key: bytes | None = None, header: bytes | None = None
) -> bytes:
    """A batch of a producer as it stands in a log; the attributes are those that brokers alone may set."""
    builder = DefaultRecordBatchBuilder(2, 0, True, producer, 0, 0, 1 << 16)
    for number, value in enumerate(values):
        builder.append(number, 0, key, value, [] if header is None else [(HEADER, b"h")])
    made = builder.build()
    if header is not None:
        made = bytearray(made.replace(HEADER.encode(), header))
    struct.pack_into(">q", made, 0, offset)
    struct.pack_into(">h", made, 21, attributes)
    struct.pack_into(">I", made, 17, calc_crc32c(bytes(made[21:])))
    return bytes(made)


def test_a_marker_of_which_compaction_has_kept_the_batch_alone_is_passed() -> None:
    content = batch(0, TRANSACTIONAL, b"a", b"b") + batch(2, TRANSACTIONAL | CONTROL) + batch(3, TRANSACTIONAL, b"c")
    records, behind = committed(content, [], 0)
    assert ([(record.offset, record.value) for record in records], behind) == ([(0, b"a"), (1, b"b"), (3, b"c")], 4)


def marker(offset: int, key: bytes, producer: int = PRODUCER) -> bytes:
    """The end of a producer's transaction."""
    return batch(offset, TRANSACTIONAL | CONTROL, b"", producer=producer, key=key)


def read(content: bytes, aborted: list[tuple[int, int]] | None, start: int = 0) -> tuple[list[tuple[int, bytes | None]], int]:
    records, behind = committed(content, aborted, start)
    return [(record.offset, record.value) for record in records], behind


def test_an_aborted_transaction_is_skipped_and_the_producers_next_is_read() -> None:
    content = batch(0, TRANSACTIONAL, b"a", b"b") + marker(2, ABORT) + batch(3, TRANSACTIONAL, b"c") + marker(4, COMMIT)
    assert read(content, [(PRODUCER, 0)]) == ([(3, b"c")], 5)


@pytest.mark.parametrize("aborted", [[(9, 0), (7, 3)], [(7, 3), (9, 0)]])
def test_each_producer_aborts_its_own(aborted: list[tuple[int, int]]) -> None:
    """A broker names them in no order; a transaction that began later takes nothing of an earlier one away."""
    content = b"".join(
        [
            batch(0, TRANSACTIONAL, b"gone", producer=9),
            batch(1, TRANSACTIONAL, b"stays", producer=7),
            marker(2, COMMIT, 7),
            batch(3, TRANSACTIONAL, b"gone", producer=7),
            batch(4, 0, b"outside", producer=7),
            marker(5, ABORT, 7),
            marker(6, ABORT, 9),
        ]
    )
    assert read(content, aborted) == ([(1, b"stays"), (4, b"outside")], 7)


def test_without_named_aborted_transactions_all_are_read_from_the_start() -> None:
    content = batch(0, 0, b"a", b"b") + batch(2, 0, b"c")
    assert read(content, None) == ([(0, b"a"), (1, b"b"), (2, b"c")], 3)
    assert read(content, None, 1) == ([(1, b"b"), (2, b"c")], 3)
    assert read(b"", None, 9) == ([], 9)


def test_a_batch_whose_bytes_were_changed_is_refused() -> None:
    content = bytearray(batch(0, 0, b"a") + batch(1, 0, b"b"))
    content[-2] ^= 1
    records, behind = committed(bytes(content), [], 0)
    assert ([record.value for record in records], behind) == ([b"a"], 1)
    with pytest.raises(CorruptBatchError, match="batch at 1") as damage:
        committed(bytes(content[len(batch(0, 0, b"a")) :]), [], 1)
    assert (damage.value.offset, damage.value.behind) == (1, 2)


def test_the_start_of_the_next_batch_counts_not_a_damaged_batchs_length() -> None:
    content = bytearray(batch(5, 0, b"a", b"b") + batch(7, 0, b"c"))
    struct.pack_into(">i", content, 23, 1_000_000)  # its number of records
    with pytest.raises(CorruptBatchError) as damage:
        committed(bytes(content), [], 5)
    assert (damage.value.offset, damage.value.behind) == (5, 7)


def test_records_are_taken_a_few_at_a_time() -> None:
    records, _ = committed(batch(0, 0, b"a", b"b", b"c") + batch(3, 0, b"d"), [], 0)
    taken = [records.take(limit, lambda raw: raw.value) for limit in (1, 2, 5)]
    assert taken == [[b"a"], [b"b", b"c"], [b"d"]]
    assert not records


def test_a_batch_may_be_larger_than_16_mib() -> None:
    content = batch(0, 0, bytes(1 << 24)) + batch(1, 0, b"b", header=b"\xff-name")
    records, behind = committed(content, [], 1)
    assert ([(record.offset, record.value) for record in records], behind) == ([(1, b"b")], 2)


def test_names_of_headers_that_are_no_text_are_read_in_their_own_batch() -> None:
    content = b"".join(
        [
            batch(0, 0, b"a"),
            batch(1, 0, b"b", b"c", header=b"\xff-name"),
            batch(3, 0, b"d", header=b"b-name"),
        ]
    )
    records, behind = committed(content, [], 2)
    found = [(record.offset, record.value, record.headers) for record in records]
    assert found == [(2, b"c", [("\\xff-name", b"h")]), (3, b"d", [("b-name", b"h")])]
    assert behind == 4
