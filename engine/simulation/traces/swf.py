"""Standard Workload Format of the Parallel Workloads Archive: 18 columns between blanks, `;` before header lines, -1 unknown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from engine.events.times import SECOND
from engine.simulation.errors import RowError, TraceError
from engine.simulation.traces.files import Line
from engine.simulation.traces.rows import Fields, TraceRow
from statemachines.spec import Requests

__all__ = ["Swf"]

_COLUMNS: Final[dict[str, int]] = {
    "job number": 0,
    "submit time": 1,
    "wait time": 2,
    "run time": 3,
    "allocated processors": 4,
    "status": 10,
    "user": 11,
    "queue": 14,
}
_WIDTH: Final = 18
_CANCELLED: Final = 5
_PHASES: Final[dict[int, Literal["Completed", "Failed", "Terminated"]]] = {0: "Failed", _CANCELLED: "Terminated"}


class Swf:
    """Format `swf`. Row key: column 1, the job number."""

    def __init__(self) -> None:
        self._origin = 0

    def fields(self, lines: Iterator[Line]) -> Iterator[Fields]:
        """Yield the rows. `; UnixStartTime:` is the moment that submit times count from; without it 1970 is.

        Raises:
            TraceError: UnixStartTime is no whole number, or there are rows and none of them has 18 columns.
        """
        row = widest = 0
        for number, line in lines:
            text = line.decode("utf-8", "replace").strip()
            if text.startswith(";"):
                self._header(number, text)
                continue
            row += 1
            values = text.split()
            widest = max(widest, len(values))
            fault = RowError(f"{len(values)} columns, fewer than {_WIDTH}")
            yield Fields(number, row, _COLUMNS, values if len(values) >= _WIDTH else fault)
        if row and widest < _WIDTH:
            raise TraceError(f"no row has more than {widest} columns between blanks, an swf trace has {_WIDTH}; is --format right?")

    def _header(self, number: int, text: str) -> None:
        name, _, value = text.lstrip("; \t").partition(":")
        if name.strip() != "UnixStartTime":
            return
        try:
            origin = int(value)
        except ValueError:
            raise TraceError(f"line {number}: UnixStartTime is not a whole number of seconds: {value.strip()!r}") from None
        # -1 is the format's word for unknown.
        self._origin = max(origin, 0) * SECOND

    def submit(self, fields: Fields) -> int:
        """Return UnixStartTime plus column 2."""
        return self._origin + fields.seconds("submit time")

    def row(self, fields: Fields, submit: int) -> TraceRow:
        """Return the job: one pod with its processors as CPUs. A run time of -1 says that the end is not known."""
        key = fields.key("job number")
        processors = fields.count("allocated processors", least=1)
        status = fields.whole("status")
        start = submit + fields.seconds("wait time")
        without_end = fields.number("run time") == -1
        user, queue = fields.text("user"), fields.text("queue")
        return TraceRow(
            line=fields.line,
            key=key,
            name=f"swf-{key}",
            submit=submit,
            start=start,
            end=start if without_end else start + fields.seconds("run time"),
            phase="Terminated" if without_end else _PHASES.get(status, "Completed"),
            pods=(Requests(cpu_milli=processors * 1000),),
            queue="default" if queue == "-1" else queue,
            user="" if user == "-1" else user,
            reason="Cancelled" if status == _CANCELLED else None,
            without_end=without_end,
        )
