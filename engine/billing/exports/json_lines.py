"""Records as JSON Lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

from msgspec.json import encode

from engine.billing.exports.columns import rows
from engine.billing.exports.seller import Seller
from engine.billing.records import Record, json_of
from engine.controls import visible_line


def write_json_lines(records: Iterable[Record], seller: Seller, stream: BinaryIO) -> None:
    """Write each record and adjustment as a JSON object per line, in UTF-8, with control characters escaped."""
    _write(rows(records, seller), stream)


def write_records(records: Iterable[Record], stream: BinaryIO) -> None:
    """Write records as `write_json_lines` does, without adjustments, so that parts of invoices are allowed."""
    _write(map(json_of, records), stream)


def _write(objects: Iterable[Mapping[str, Any]], stream: BinaryIO) -> None:
    stream.writelines(visible_line(encode(row).decode()).encode() + b"\n" for row in objects)
