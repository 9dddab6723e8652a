"""Files of objects, compressed or not."""

from __future__ import annotations

import errno
import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

from statemachines.errors import LaharError

_GZIP: Final = b"\x1f\x8b"


class DamagedFileError(LaharError, ValueError):
    """Raised when the compressed content of a file is truncated or not gzip."""

    def __init__(self, path: Path, error: Exception) -> None:
        super().__init__(f"{path}: the compressed content is damaged ({error})")


def standard_input() -> BinaryIO:
    """Return the byte stream of standard input.

    Raises:
        OSError: standard input is closed.
    """
    if sys.stdin is None:
        raise OSError(errno.EBADF, "it is closed; name a file, or send something to it", "standard input")
    return sys.stdin.buffer


@contextmanager
def open_objects(path: Path) -> Iterator[BinaryIO]:
    """Open a file of objects; `-` is standard input. Compression is detected by content.

    Raises:
        OSError: the file cannot be opened.
        DamagedFileError: raised by reads of the file.
    """
    if str(path) == "-":
        yield standard_input()
        return
    with ExitStack() as stack:
        file: BinaryIO = stack.enter_context(path.open("rb"))
        compressed = file.read(2) == _GZIP if file.seekable() else False
        if file.seekable():
            file.seek(0)
        if not compressed:
            yield file
            return
        try:
            yield cast("BinaryIO", stack.enter_context(gzip.open(file, "rb")))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DamagedFileError(path, error) from None


def unpacked(file: BinaryIO) -> bool:
    """Return true if a file is decompressed while it is read, so that a few of its bytes may become very many."""
    return isinstance(file, gzip.GzipFile)
