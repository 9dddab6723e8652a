"""Search for the records of a partition that cannot be read because pages of the file are torn.

A leaf page holds some records; a page higher in the tree leads to thousands. SQLite reports an error, but not how many records
are lost, so they are read one by one.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.log.errors import LogDamagedError


def unreadable(read: Callable[[int, int], int], start: int, end: int, chunk: int) -> range | None:
    """Return the first range of unreadable offsets; `None` if all are readable.

    Args:
        read: reads up to `count` records from an offset and returns the number read; raises LogDamagedError.
        start: first offset; offsets have no gaps.
        end: end offset, exclusive.
        chunk: records per read, until a read fails.
    """
    while start < end and _reads(read, start, min(chunk, end - start)):
        start += chunk
    while start < end and _reads(read, start, 1):
        start += 1
    if start >= end:
        return None
    behind = start + 1
    while behind < end and not _reads(read, behind, 1):
        behind += 1
    return range(start, behind)


def _reads(read: Callable[[int, int], int], start: int, count: int) -> bool:
    try:
        return read(start, count) == count
    except LogDamagedError as error:
        return error.place is not None  # a checksum error has a place: its page is readable
