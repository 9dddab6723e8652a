"""Which records of a partition stand on torn pages of the file: what cannot be read, one by one.

A page holds some records; one higher up in the tree leads to thousands. SQLite says that something is torn and not how much.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.log.errors import LogDamagedError

__all__ = ["unreadable"]


def unreadable(read: Callable[[int, int], int], start: int, end: int, chunk: int) -> range | None:
    """Return the first range of offsets that cannot be read; `None`: all of them can be.

    Args:
        read: reads so many records from an offset on, and returns how many it has read; raises LogDamagedError.
        start: first offset; offsets have no gaps.
        end: behind the last one.
        chunk: records that are read at once, where that can be done.
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
        return error.place is not None  # it can be read, and is not what was written
