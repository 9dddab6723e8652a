"""Lines of a file, none longer than a bound: a small file may unpack to one line of gigabytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO


class LongLineError(ValueError):
    """Raised when a line is longer than the bound."""

    def __init__(self, line: int, most: int) -> None:
        super().__init__(f"line {line} has more than {most:,} bytes")


def bounded_lines(file: BinaryIO, most: int) -> Iterator[bytes]:
    """Yield the lines of a file with their ends, holding one at a time.

    Args:
        file: the file, at the beginning of its first line.
        most: longest line in bytes, its end included.

    Raises:
        LongLineError: a line is longer; no more than `most` bytes of it are read.
        OSError: reading fails.
    """
    number = 1
    while line := file.readline(most + 1):
        if len(line) > most:
            raise LongLineError(number, most)
        yield line
        number += 1
