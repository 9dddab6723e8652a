"""Records as Parquet: a fixed schema, row groups of a fixed size, nothing machine-specific in the file.

The file names the release of pyarrow that wrote it, and releases may encode differently: the release pinned in requirements.lock
always writes the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, BinaryIO, Final

from engine.billing.exports.columns import COLUMNS, Column, ColumnType, rows
from engine.billing.exports.errors import ExportError
from engine.billing.exports.seller import Seller
from engine.billing.records import Record

ROW_GROUP: Final = 65_536
"""Rows per row group."""
_BATCH: Final = 4_096
"""Rows held as Python objects at a time, which take several times the memory of Arrow's."""


def write_parquet(records: Iterable[Record], seller: Seller, stream: BinaryIO) -> None:
    """Write records in row groups, compressed with zstd.

    Raises:
        ExportError: pyarrow is not installed.
    """
    try:
        import pyarrow  # noqa: ICN001, PLC0415  an extra that most installations do without
        from pyarrow.parquet import ParquetWriter  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise ExportError(f"{missing.name} is not installed; Parquet needs lahar[parquet], the other formats do not") from None

    types: dict[ColumnType, Any] = {
        "string": pyarrow.string(),
        "decimal": pyarrow.string(),
        "integer": pyarrow.int64(),
        "boolean": pyarrow.bool_(),
        "time": pyarrow.timestamp("us", "UTC"),
        "strings": pyarrow.list_(pyarrow.field("element", pyarrow.string(), nullable=False)),
    }
    schema = pyarrow.schema([pyarrow.field(column.name, types[column.type], column.nullable) for column in COLUMNS])
    waiting = rows(records, seller)

    def batches() -> Iterator[Any]:
        while taken := list(islice(waiting, _BATCH)):
            arrays = [_array(pyarrow, column, types, [row[column.name] for row in taken]) for column in COLUMNS]
            yield pyarrow.RecordBatch.from_arrays(arrays, schema=schema)

    made = batches()
    # Without Arrow's own schema, which readers of Parquet do not need.
    with ParquetWriter(stream, schema, compression="zstd", compression_level=3, store_schema=False) as writer:
        while group := list(islice(made, ROW_GROUP // _BATCH)):
            writer.write_table(pyarrow.Table.from_batches(group, schema), ROW_GROUP)


def _array(pyarrow: Any, column: Column, types: Mapping[ColumnType, Any], values: list[Any]) -> Any:  # noqa: ANN401 - it has no types
    if column.type == "time":  # Arrow parses a whole column at once
        return pyarrow.array(values, pyarrow.string()).cast(types["time"])
    return pyarrow.array(values, types[column.type])
