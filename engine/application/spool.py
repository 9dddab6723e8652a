"""Temporary file that holds an answer until it is complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedRandom, FileIO
from tempfile import TemporaryFile, gettempdir
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _NamedInErrors(FileIO):
    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:  # most likely the disk is full; the file itself has no name
            error.filename = gettempdir()
            raise


@contextmanager
def spool() -> Iterator[BinaryIO]:
    """Open a temporary file to write and read.

    Raises:
        OSError: what is written does not fit; it names the directory of temporary files (TMPDIR).
    """
    with TemporaryFile(buffering=0) as file, BufferedRandom(_NamedInErrors(file.fileno(), "r+b", closefd=False)) as buffered:
        yield buffered
