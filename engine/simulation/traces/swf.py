"""Standard Workload Format of the Parallel Workloads Archive: 18 blank-separated columns, header lines with `;`, -1 for unknown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from engine.events.times import SECOND
from engine.simulation.errors import RowError, TraceError
from engine.simulation.traces.files import Line
from engine.simulation.traces.rows import Fields, TraceRow
from statemachines.spec import Requests

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


class _Status(NamedTuple):
    """Meaning of a value in the status column."""

    phase: Literal["Completed", "Failed", "Terminated"] | None
    """Phase of the job; `None` if the outcome is not recorded."""
    reason: str | None = None


_STATUSES: Final = {
    0: _Status("Failed"),
    1: _Status("Completed"),
    2: _Status(None, "ToBeContinued"),
    3: _Status("Completed"),
    4: _Status("Failed"),
    5: _Status("Terminated", "Cancelled"),
}
"""Definition of the format, version 2.2. 2 is a partial run that continues later; 3 and 4 are the last partial run of a job that
completed or failed. -1 and other values do not record the outcome."""
_PARTIAL: Final = frozenset({"2", "3", "4"})


class _Line(NamedTuple):
    number: int
    row: int
    values: Sequence[str]


class Swf:
    """Format `swf`. Row key: column 1, the job number.

    Consecutive lines of one job with status 2, 3 or 4 are its partial runs. If a line with another status sums them up, they are
    left out, as the format's definition requires; otherwise they become the attempts of one job.
    """

    def __init__(self, columns: Mapping[str, str] = MappingProxyType({})) -> None:
        """Prepare to read one file.

        Raises:
            TraceError: columns are given; the format has no header with names.
        """
        if columns:
            raise TraceError("an swf trace has no header, so --columns does not apply; its columns have fixed places")
        self._origin = 0
        self._runs: Sequence[Fields] = ()
        """Lines of the last yielded row."""

    def fields(self, lines: Iterator[Line]) -> Iterator[Fields]:
        """Yield the rows. Submit times count from the time in `; UnixStartTime:`, or from 1970 without it.

        Raises:
            TraceError: UnixStartTime is not an integer, or there are rows and none of them has 18 columns.
        """
        widest = 0
        for _, found in groupby(self._rows(lines), lambda line: line.values[0] if len(line.values) >= _WIDTH else line.number):
            group = list(found)
            widest = max(widest, len(group[0].values))
            partial = [line for line in group if len(line.values) >= _WIDTH and line.values[_COLUMNS["status"]] in _PARTIAL]
            if len(partial) == len(group):
                self._runs = [Fields(*line[:2], _COLUMNS, line.values) for line in partial]
                yield self._runs[0]
                continue
            summary = next(line.number for line in group if line not in partial)
            for line in group:
                values: Sequence[str] | RowError = line.values
                if line in partial:
                    values = RowError(f"partial run of job {line.values[0]}, which line {summary} sums up")
                elif len(line.values) < _WIDTH:
                    values = RowError(f"{len(line.values)} columns, fewer than {_WIDTH}")
                self._runs = [Fields(line.number, line.row, _COLUMNS, values)]
                yield self._runs[0]
        if 0 < widest < _WIDTH:
            raise TraceError(f"no row has more than {widest} columns between blanks, an swf trace has {_WIDTH}; is --format right?")

    def _rows(self, lines: Iterator[Line]) -> Iterator[_Line]:
        row = 0
        for number, line in lines:
            text = line.decode("utf-8", "replace").strip()
            if text.startswith(";"):
                self._header(number, text)
                continue
            row += 1
            yield _Line(number, row, text.split())

    def _header(self, number: int, text: str) -> None:
        name, _, value = text.lstrip("; \t").partition(":")
        if name.strip() != "UnixStartTime":
            return
        try:
            origin = int(value)
        except ValueError:
            raise TraceError(f"line {number}: UnixStartTime is not a whole number of seconds: {value.strip()!r}") from None
        # -1 means unknown in this format.
        self._origin = max(origin, 0) * SECOND

    def submit(self, fields: Fields) -> int:
        """Return UnixStartTime plus column 2 (microseconds)."""
        return self._origin + fields.seconds("submit time")

    def row(self, fields: Fields, submit: int) -> TraceRow:
        """Return the job: one pod with its processors as CPUs. A run time of -1 means that the end is unknown."""
        *earlier, last = self._runs
        runs: list[tuple[int, int]] = []
        for run in earlier:
            start = (runs[-1][1] if runs else submit) + run.seconds("wait time")
            runs.append((start, start + run.seconds("run time")))
        key = fields.key("job number")
        processors = last.count("allocated processors", least=1)
        number = last.whole("status")
        status = _STATUSES.get(number, _Status(None, "OutcomeUnknown" if number == -1 else f"Status{number}"))
        start = (runs[-1][1] if runs else submit) + last.seconds("wait time")
        without_end = last.number("run time") == -1
        user, queue = last.text("user"), last.text("queue")
        return TraceRow(
            line=fields.line,
            key=key,
            name=f"swf-{key}",
            submit=submit,
            start=start,
            end=start if without_end else start + last.seconds("run time"),
            phase="Terminated" if without_end or status.phase is None else status.phase,
            pods=(Requests(cpu_milli=processors * 1000),),
            queue="default" if queue == "-1" else queue,
            user="" if user == "-1" else user,
            reason=status.reason,
            without_end=without_end,
            exit_unknown=status.phase is None,
            earlier=runs,
        )
