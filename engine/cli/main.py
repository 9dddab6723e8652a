"""`lahar`: the entry point."""

from __future__ import annotations

import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING, cast

from engine.cli.app import app

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["app", "main"]


class _StandardOutput(FileIO):
    """Standard output; its errors name it, as those of a file do."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = "standard output"
            raise


def main() -> None:
    """Run the command and leave with its exit code."""
    if sys.stdout is not None:  # closed; `ErrorsToExitCodes` says so
        given = cast("TextIOWrapper", sys.stdout)
        raw = _StandardOutput(given.fileno(), "w", closefd=False)
        sys.stdout = TextIOWrapper(
            cast("BufferedWriter", raw) if given.write_through else BufferedWriter(raw),
            given.encoding,
            given.errors,
            line_buffering=given.line_buffering,
            write_through=given.write_through,
        )
    app()
