"""The formats of exports, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import BinaryIO, Final

from engine.billing.exports.comma_separated import write_csv
from engine.billing.exports.errors import ExportError
from engine.billing.exports.focus import write_focus
from engine.billing.exports.json_lines import write_json_lines
from engine.billing.exports.parquet import write_parquet
from engine.billing.exports.seller import Seller
from engine.billing.records import Record

FORMATS: Final[Mapping[str, Callable[[Iterable[Record], Seller, BinaryIO], None]]] = {
    "csv": write_csv,
    "parquet": write_parquet,
    "jsonl": write_json_lines,
    "focus-1.2": partial(write_focus, version="1.2"),
    "focus-1.4": partial(write_focus, version="1.4"),
}


def export(name: str, records: Iterable[Record], seller: Seller, stream: BinaryIO) -> None:
    """Write records in a format, in the given order, then the rounding adjustment of each invoice.

    Args:
        name: name of the format.
        records: all records of their invoices; with some of them, the adjustments would be wrong.
        seller: issuer of the invoices.
        stream: binary stream; stays open. After an error its content is incomplete.

    Raises:
        ExportError: the format is unknown, needs a price book and there is none, or its library is not installed.
    """
    if name not in FORMATS:
        raise ExportError(f"no format {name!r}; there are {', '.join(FORMATS)}")
    FORMATS[name](records, seller, stream)
