"""Writes into docs/billing-exports.md what is generated there: the tables of columns, and a record as an example.

python tests/billing/exports/exports_page.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from golden_files import FILES

from engine.billing.exports.columns import COLUMNS, ColumnType
from engine.billing.exports.focus_columns import FOCUS_COLUMNS

PAGE = Path(__file__).parents[3] / "docs" / "billing-exports.md"

_PARQUET: dict[ColumnType, str] = {
    "string": "string",
    "decimal": "string",
    "integer": "int64",
    "boolean": "boolean",
    "time": "timestamp[us, UTC]",
    "strings": "list of string",
}
_JSON: dict[ColumnType, str] = {
    "string": "string",
    "decimal": "string of digits",
    "integer": "integer",
    "boolean": "boolean",
    "time": "string, RFC 3339",
    "strings": "array of string",
}
_MARK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def _table(heading: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in (heading, ("---",) * len(heading), *lines))


def columns() -> str:
    """Return the table of a record's columns."""
    return _table(
        ("column", "JSON", "Parquet", "null", "what it is"),
        ((f"`{one.name}`", _JSON[one.type], _PARQUET[one.type], "yes" if one.nullable else "", one.about) for one in COLUMNS),
    )


def focus() -> str:
    """Return the table of FOCUS's columns."""
    return _table(
        ("column", "versions", "null", "what Lahar writes"),
        ((f"`{one.name}`", one.only or "1.2, 1.4", "yes" if one.nullable else "", one.about) for one in FOCUS_COLUMNS),
    )


def record() -> str:
    """Return a record of the sample."""
    first = json.loads(FILES["jsonl"].read_text(encoding="utf-8").splitlines()[0])
    return f"```json\n{json.dumps(first, indent=2, ensure_ascii=False)}\n```\n"


def written_anew(page: str) -> str:
    """Return a page with what is generated in the place of what stands there."""
    made = {"columns": columns(), "focus": focus(), "record": record()}
    return _MARK.sub(lambda found: f"{found[1]}\n{made[found[2]]}\n{found[3]}", page)


if __name__ == "__main__":
    PAGE.write_text(written_anew(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
