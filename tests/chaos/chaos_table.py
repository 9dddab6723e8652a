"""What the schedules found, as lines of JSON while they run and as a table at the end.

    python tests/chaos/chaos_table.py FILE < chaos.log

writes the table of a run between the marks in a Markdown file (docs/reliability.md).
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_USUAL = 100_000
EVENTS = int(os.environ.get("LAHAR_CHAOS_EVENTS", _USUAL))
"""Inputs of a long schedule, at least. Fewer are for those who work on the schedules."""
ROW = "row of the chaos table"
"""The property of a test that holds a row."""

_BEGIN, _END = "<!-- chaos table -->", "<!-- end of chaos table -->"
_COLUMNS = ("schedule", "events", "faults", "seconds", "outputs", "lost", "doubled", "differing", "ended")
_MARK = "chaos "


@dataclass(frozen=True)
class Row:
    """What one schedule found."""

    schedule: str
    events: int
    faults: str
    seconds: float
    outputs: int
    lost: int
    doubled: int
    differing: int
    ended: int
    """Workers that ended by themselves and were started anew."""
    seed: int
    remarks: str = ""


def line(found: dict[str, Any]) -> str:
    """Return a row, or what the figures depend on, as `markdown` reads it from what a run printed."""
    return f"\n{_MARK}{json.dumps(found)}"


def table(rows: list[dict[str, Any]]) -> str:
    """Return the machine and all rows for a terminal."""
    return f"{line(machine())}\n{text(rows)}"


def machine() -> dict[str, object]:
    """Return what the figures depend on."""
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "events": EVENTS,
    }


def _cells(rows: list[dict[str, Any]]) -> list[list[str]]:
    return [[f"{row[name]:,}" if isinstance(row[name], int | float) else row[name] for name in _COLUMNS] for row in rows]


def text(rows: list[dict[str, Any]]) -> str:
    """Return the rows for a terminal."""
    cells = [list(_COLUMNS), *_cells(rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(_COLUMNS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)


def markdown(lines: list[str]) -> str:
    """Return the table of a run for a document.

    Args:
        lines: what the run printed.
    """
    found = [json.loads(line.split(_MARK, 1)[1]) for line in lines if re.match(rf"^\S*{_MARK}{{", line)]
    rows = [row for row in found if "schedule" in row]
    told = next(row for row in found if "machine" in row)
    drawn = ["| " + " | ".join(_COLUMNS) + " |", "|---|" + "---|" * (len(_COLUMNS) - 1)]
    drawn += ["| " + " | ".join(cells) + " |" for cells in _cells(rows)]
    remarks = [f"- {row['schedule']}: {row['remarks']}" for row in rows if row["remarks"]]
    command = "make chaos" if told["events"] == _USUAL else f"LAHAR_CHAOS_EVENTS={told['events']} make chaos"
    where = f"`{command}` on {told['date']} ({told['machine']}; three brokers of Apache Kafka on the same machine)."
    return "\n".join([where, "", *drawn, "", *remarks])


def main() -> None:
    """Write the table into the file named."""
    path = Path(sys.argv[1])
    before, _, rest = path.read_text(encoding="utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    path.write_text(f"{before}{_BEGIN}\n{markdown(sys.stdin.read().splitlines())}\n{_END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
