"""Records as CSV (RFC 4180): lines end in CR LF, and a field is quoted only if it contains a quote, a comma, CR or LF."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from engine.billing.exports.columns import COLUMNS, rows
from engine.billing.exports.seller import Seller
from engine.billing.records import Record


class _Utf8:
    """Text stream for `csv` that writes UTF-8 to a binary stream."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(text.encode())


def write_lines(header: Iterable[str], lines: Iterable[Iterable[str | None]], stream: BinaryIO) -> None:
    """Write a header and lines; `None` is an empty field."""
    # CR LF, because only then do all versions of `csv` quote a lone CR in a field.
    writer = csv.writer(_Utf8(stream), lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows(lines)


def write_csv(records: Iterable[Record], seller: Seller, stream: BinaryIO) -> None:
    """Write a header and one line per record; null is an empty field, lists are joined by spaces."""
    write_lines([column.name for column in COLUMNS], map(_fields, rows(records, seller)), stream)


def _fields(row: dict[str, Any]) -> Iterator[str | None]:
    for value in row.values():
        if value is None or isinstance(value, str):
            yield value
        elif isinstance(value, bool):
            yield "true" if value else "false"
        else:
            yield " ".join(value) if isinstance(value, list) else str(value)
