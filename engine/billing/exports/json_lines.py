"""Records as JSON Lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

from msgspec.json import encode

from engine.billing.exports.columns import rows
from engine.billing.exports.seller import Seller
from engine.billing.records import Record
from engine.controls import visible_line

__all__ = ["write_json_lines"]


def write_json_lines(records: Iterable[Record], seller: Seller, stream: BinaryIO) -> None:
    """Write each record as an object of its own, on a line of its own, in UTF-8; controls of terminals are escaped."""
    stream.writelines(visible_line(encode(row).decode()).encode() + b"\n" for row in rows(records, seller))
