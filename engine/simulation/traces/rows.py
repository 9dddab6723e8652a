"""Common form of a trace row, and parsing of its fields.

Every format converts its rows to `TraceRow`, so `facts` handles all formats alike.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from types import MappingProxyType
from typing import ClassVar, Final, Literal, Protocol
from zlib import crc32

from engine.events.bounds import NAME_CHARACTERS
from engine.events.times import SECOND, parse_time
from engine.simulation.errors import RowError, TraceError
from engine.simulation.traces.files import Line
from statemachines.spec import Requests

MAX_PODS: Final = 100_000
"""Maximum number of pods of a row."""

_MOST: Final = 10**12
"""Maximum of any count in a row; a bound for sums of counts."""

_LATEST: Final = parse_time("9999-12-31T23:59:59Z")
"""Latest time that RFC 3339 can express."""

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]*)?([eE][+-]?[0-9]{1,2})?", re.ASCII)


@dataclass(slots=True)
class TraceRow:
    """One job of a trace: `len(pods)` pods that start and end together. Times are microseconds."""

    line: int
    """Line in the file, from 1."""
    key: str
    """Identifier of the row within its file."""
    name: str
    submit: int
    start: int | None
    """Start of its last run; `None` if it never ran."""
    end: int
    phase: Literal["Completed", "Failed", "Terminated"]
    pods: Sequence[Requests]
    queue: str = "default"
    user: str = ""
    tenant: str = ""
    """Tenant; empty, because no trace has one (see `with_tenants`)."""
    reason: str | None = None
    """End reason, where the trace has more than the phase."""
    without_end: bool = False
    """True if the trace has no run time; the job then starts and ends at once."""
    exit_unknown: bool = False
    """True if the trace does not record how its pods ended; `phase` is Terminated."""
    earlier: Sequence[tuple[int, int]] = ()
    """Start and end of each earlier run, after which the job was swapped out to continue later."""


@dataclass(slots=True)
class BadRow:
    """An invalid row."""

    line: int
    time: int
    """Time of submission (microseconds); if it is unreadable, that of the row before."""
    reason: str


class Fields:
    """Fields of one row by name. Each parser's error names the field and its content."""

    __slots__ = ("_names", "_values", "line", "row")

    def __init__(self, line: int, row: int, names: Mapping[str, int], values: Sequence[str] | RowError) -> None:
        self.line = line
        self.row = row
        """Row number, from 1, without the header."""
        self._names = names
        self._values = values

    def text(self, name: str) -> str:
        """Return a field without surrounding blanks; it may be empty.

        Raises:
            RowError: the row could not be split into fields, or the field is too long.
        """
        if isinstance(self._values, RowError):
            raise self._values
        text = self._values[self._names[name]].strip()
        if len(text) > NAME_CHARACTERS:
            raise RowError(f"{name} has more than {NAME_CHARACTERS} characters")
        return text

    def key(self, name: str) -> str:
        """Return a field that identifies the row.

        Raises:
            RowError: the field is empty.
        """
        text = self.text(name)
        if not text:
            raise RowError(f"{name} is empty")
        return text

    def number(self, name: str) -> Decimal:
        """Return a decimal number.

        Raises:
            RowError: the field is empty or not a decimal number.
        """
        text = self.text(name)
        if not _NUMBER.fullmatch(text):
            raise RowError(f"{name} is empty" if not text else f"{name} is not a number: {text[:40]!r}")
        return Decimal(text)

    def whole(self, name: str) -> int:
        """Return an integer, which may be negative.

        Raises:
            RowError: the field is empty or not an integer.
        """
        number = self.number(name)
        if number != number.to_integral_value():
            raise RowError(f"{name} is not a whole number: {self.text(name)[:40]!r}")
        return int(number)

    def count(self, name: str, least: int = 0) -> int:
        """Return a count.

        Raises:
            RowError: the field is empty, not an integer, less than `least`, or more than 10¹².
        """
        count = self.whole(name)
        if count < least:
            raise RowError(f"{name} is {count}, less than {least}")
        if count > _MOST:
            raise RowError(f"{name} is more than any cluster has: {self.text(name)[:40]}")
        return count

    def seconds(self, name: str) -> int:
        """Return a duration that is given in seconds, in microseconds.

        Raises:
            RowError: the field is empty, not a number, or negative.
        """
        seconds = self.number(name)
        if seconds < 0:
            raise RowError(f"{name} is negative: {self.text(name)[:40]}")
        return int((seconds * SECOND).to_integral_value())


class TraceFormat(Protocol):
    """Parser of one trace format; an instance reads one file."""

    def fields(self, lines: Iterator[Line]) -> Iterator[Fields]:
        """Yield the rows of the file.

        Raises:
            TraceError: the header does not match the format.
        """

    def submit(self, fields: Fields) -> int:
        """Return the submission time of the row's job (microseconds). Called once for each row, in order.

        Raises:
            RowError: the field is missing or invalid.
        """

    def row(self, fields: Fields, submit: int) -> TraceRow:
        """Return the row in the common form.

        Raises:
            RowError: the row is invalid.
        """


def read_rows(trace: TraceFormat, lines: Iterator[Line]) -> Iterator[TraceRow | BadRow]:
    """Yield every row of a trace, including invalid ones.

    Raises:
        TraceError: the header does not match the format, or the file cannot be read.
    """
    time = 0
    first: dict[str, int] = {}
    for fields in trace.fields(lines):
        try:
            time = _within_calendar(trace.submit(fields), "submit time")
            row = trace.row(fields, time)
            _check(row)
            if row.key in first:
                raise RowError(f"row key {row.key[:40]!r} was used before, in line {first[row.key]}")  # noqa: TRY301 - one handler
        except RowError as error:
            yield BadRow(fields.line, time, str(error))
            continue
        first[row.key] = row.line
        yield row


def _within_calendar(time: int, what: str) -> int:
    if not 0 <= time <= _LATEST:
        raise RowError(f"{what} lies outside the years 1970 to 9999")
    return time


def _check(row: TraceRow) -> None:
    first = row.earlier[0][0] if row.earlier else row.start
    if first is not None and first < row.submit:
        raise RowError("it starts before it is submitted")
    if row.end < (row.submit if row.start is None else row.start):
        raise RowError("it ends before it starts")
    _within_calendar(row.end, "end")


class CsvFormat:
    """Base of the formats with a header line and comma-separated fields."""

    NAME: ClassVar[str]
    COLUMNS: ClassVar[Sequence[str]]
    """Columns that the header must have, in any order; further columns are ignored."""

    def __init__(self, columns: Mapping[str, str] = MappingProxyType({})) -> None:
        """Prepare to read one file.

        Args:
            columns: name in the file by column of the format, where they differ.

        Raises:
            TraceError: the format has no such column.
        """
        self._columns = columns
        if unknown := [name for name in columns if name not in self.COLUMNS]:
            raise TraceError(f"format {self.NAME} has no column {unknown[0]!r}; it has {', '.join(self.COLUMNS)}")

    def fields(self, lines: Iterator[Line]) -> Iterator[Fields]:
        """Yield the rows of the file; see `csv_fields`."""
        return csv_fields(lines, self.NAME, self.COLUMNS, self._columns)


def csv_fields(
    lines: Iterator[Line], source_format: str, columns: Sequence[str], names: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Fields]:
    """Yield the rows of a CSV file with a header line.

    Each line is parsed on its own, so that a stray quote affects no other line.

    Args:
        lines: lines of the file.
        source_format: name of the format, for errors.
        columns: columns that the header must have, in any order; further columns are ignored.
        names: name in the header by column, where they differ.

    Raises:
        TraceError: the file is empty or its header lacks a column.
    """
    named = {column: names.get(column, column) for column in columns}
    wanted = f"the header of format {source_format} names {','.join(named.values())}; is --format right?"
    head = next(lines, None)
    if head is None:
        raise TraceError(f"the file is empty; {wanted}")
    header = _split(head[1])
    places = {} if isinstance(header, RowError) else {name.strip(): place for place, name in enumerate(header)}
    if missing := [name for name in named.values() if name not in places]:
        raise TraceError(f"line {head[0]}: no column {', '.join(missing)}; {wanted}")
    found = {column: places[name] for column, name in named.items()}
    width = len(header) if not isinstance(header, RowError) else 0
    for row, (number, line) in enumerate(lines, start=1):
        values = _split(line)
        if not isinstance(values, RowError) and len(values) != width:
            values = RowError(f"{len(values)} fields where the header has {width}")
        yield Fields(number, row, found, values)


def _split(line: bytes) -> list[str] | RowError:
    try:
        return next(csv.reader([line.decode()], strict=True))
    except UnicodeDecodeError:
        return RowError("the line is not UTF-8")
    except csv.Error as error:
        return RowError(f"the line is not CSV: {error}")


def split(total: int, parts: int) -> list[int]:
    """Divide a total into `parts`; the first parts are larger by one if there is a remainder."""
    each, rest = divmod(total, parts)
    return [each + 1] * rest + [each] * (parts - rest)


def with_tenants(rows: Iterable[TraceRow | BadRow], tenants: int) -> list[TraceRow | BadRow]:
    """Assign the jobs of a trace to tenants, because no trace has them: user modulo the number of tenants.

    A user that is not a number counts by its CRC-32; a job without a user by that of its name.
    """
    return [
        replace(row, tenant=f"tenant-{_number(row.user or row.name) % tenants}") if isinstance(row, TraceRow) else row
        for row in rows
    ]


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and text.isascii() else crc32(text.encode())
