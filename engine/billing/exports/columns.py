"""Columns of a record in JSON Lines, CSV and Parquet: one table, from which docs/billing-exports.md is generated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple

from engine.billing.exports.adjustments import adjustment_json, with_adjustments
from engine.billing.exports.seller import Seller
from engine.billing.records import Record, json_of

ColumnType = Literal["string", "decimal", "integer", "boolean", "time", "strings"]
"""`decimal`: digits as text, so that every number stays exact."""


class Column(NamedTuple):
    """One column."""

    name: str
    type: ColumnType
    about: str
    nullable: bool = False


COLUMNS: Final = (
    Column("id", "string", "32 hexadecimal digits: what the record is, never when it was written. Load by it"),
    Column("record", "string", "`usage`, `excess` (what increment and minimum add), `reversal`, `adjustment` (rounding)"),
    Column(
        "meter",
        "string",
        "`gpu_seconds`, `cpu_seconds`, `memory_byte_seconds`, `weighted_seconds`; null: an adjustment",
        nullable=True,
    ),
    Column("quantity", "decimal", "of the meter, exact; below zero in a reversal", nullable=True),
    Column("unit", "string", "`GPU-Seconds`, `vCPU-Seconds`, `Byte-Seconds`, `Weighted-Seconds`", nullable=True),
    Column("amount", "decimal", "exact, not rounded; those of an invoice, its adjustment among them, add up to its total"),
    Column("currency", "string", "ISO 4217; null: no price book was in force", nullable=True),
    Column("tenant", "string", "who is billed"),
    Column("project", "string", "", nullable=True),
    Column("queue", "string", "", nullable=True),
    Column("user", "string", "as the source gave it", nullable=True),
    Column("job", "string", "id of the job", nullable=True),
    Column("attempt", "integer", "of the replica, from 1", nullable=True),
    Column("task", "string", "", nullable=True),
    Column("replica", "integer", "index in the task, from 0", nullable=True),
    Column("node_type", "string", "null: not known", nullable=True),
    Column("gpu_model", "string", "null: not known, or no GPU", nullable=True),
    Column("start", "time", "of the slice; of an adjustment the month's"),
    Column("end", "time", "exclusive"),
    Column("kind", "string", "`queued`, `reserved`, `bound`, `running`, `terminating`; why there is an adjustment: `rounding`"),
    Column("class", "string", "`useful`, or the waste: `failed`, `preempted`, `restarted`, `reserved`", nullable=True),
    Column("price_version", "string", "null: no price was in force", nullable=True),
    Column("inferred", "boolean", "start or end is the best that is known, not what a node said"),
    Column("revision", "integer", "how often the attempt's records had been corrected"),
    Column("reverses", "string", "id of the record that a reversal takes back", nullable=True),
    Column("events", "strings", "ids of the job events that start the slice and, if one does, end it"),
)


def rows(records: Iterable[Record], seller: Seller) -> Iterator[dict[str, Any]]:
    """Yield the values of the columns for each record, then for the adjustments."""
    for record in with_adjustments(records, seller):
        yield json_of(record) if isinstance(record, Record) else adjustment_json(record)
