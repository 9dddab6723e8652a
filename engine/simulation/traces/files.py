"""Lines of a plain or compressed trace file."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final, cast

from engine.events.bounded_lines import LongLineError, bounded_lines
from engine.events.bounds import TRACE_LINE_BYTES, TRACE_LINES
from engine.simulation.errors import TraceError

Line = tuple[int, bytes]
"""Line number, from 1, and the bytes without the line ending."""

_GZIP: Final = b"\x1f\x8b"
_BOM: Final = b"\xef\xbb\xbf"


def cluster_of(path: Path) -> str:
    """Return the cluster name of a trace file: the file name without `.gz` and extension."""
    name = path.name.removesuffix(".gz")
    return Path(name).stem or name


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the non-blank lines of a file. Compression is detected by content, not by name.

    Raises:
        TraceError: the file is missing or unreadable, has a line longer than `TRACE_LINE_BYTES` or more than `TRACE_LINES` lines,
            or its compressed content is damaged.
    """
    try:
        with ExitStack() as stack:
            file: BinaryIO = stack.enter_context(path.open("rb"))
            compressed = file.read(2) == _GZIP
            file.seek(0)
            if compressed:
                file = cast("BinaryIO", stack.enter_context(gzip.open(file, "rb")))
            for number, line in enumerate(bounded_lines(file, TRACE_LINE_BYTES), start=1):
                if number > TRACE_LINES:
                    raise TraceError(f"line {number}: a trace has at most {TRACE_LINES:,} lines; split the file")
                content = (line.removeprefix(_BOM) if number == 1 else line).rstrip(b"\r\n")
                if content.strip():
                    yield number, content
    except LongLineError as error:
        raise TraceError(f"{error}, which no row of a trace has") from None
    except FileNotFoundError:
        raise TraceError("no such file; give the path of a trace, plain or .gz") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(f"the compressed content is damaged ({error}); fetch the file again") from None
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror or error}") from None
