"""The normal form of a trace's row, and how the text of a row's fields is read.

Every format turns its rows into `TraceRow`; what follows from one is the same for all of them (`facts`).
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

__all__ = ["BadRow", "CsvFormat", "Fields", "TraceFormat", "TraceRow", "csv_fields", "read_rows", "split"]

MAX_PODS: Final = 100_000
"""A row that asks for more pods than any cluster runs makes no sense."""

_MOST: Final = 10**12
"""A row that counts more of anything than this makes no sense either; sums of such counts would grow without bound."""

_LATEST: Final = parse_time("9999-12-31T23:59:59Z")
"""The last moment that RFC 3339 can write."""

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]*)?([eE][+-]?[0-9]{1,2})?", re.ASCII)


@dataclass(slots=True)
class TraceRow:
    """One job of a trace: `len(pods)` pods that start and end together. Times are microseconds."""

    line: int
    """Line of the file, the first being 1."""
    key: str
    """What identifies the row within its file."""
    name: str
    submit: int
    start: int | None
    """Start of its last run; `None`: it never ran."""
    end: int
    phase: Literal["Completed", "Failed", "Terminated"]
    pods: Sequence[Requests]
    queue: str = "default"
    user: str = ""
    tenant: str = ""
    """No trace tells one (`with_tenants`)."""
    reason: str | None = None
    """How it ended, where the trace says more than the phase does."""
    without_end: bool = False
    """The trace knows no run time: the job starts and ends at once."""
    exit_unknown: bool = False
    """The trace does not record how its pods ended; `phase` is Terminated."""
    earlier: Sequence[tuple[int, int]] = ()
    """Start and end of each run before the last one, after which it was swapped out to go on later."""


@dataclass(slots=True)
class BadRow:
    """A row that makes no sense."""

    line: int
    time: int
    """When it was submitted; if that cannot be read, when the row before it was."""
    reason: str


class Fields:
    """The fields of one row by name. Each reader says in its error which field is wrong, and what it holds."""

    __slots__ = ("_names", "_values", "line", "row")

    def __init__(self, line: int, row: int, names: Mapping[str, int], values: Sequence[str] | RowError) -> None:
        self.line = line
        self.row = row
        """Number of the row, from 1, the header not counted."""
        self._names = names
        self._values = values

    def text(self, name: str) -> str:
        """Return a field without surrounding blanks; it may be empty.

        Raises:
            RowError: the row as a whole could not be split into fields, or the field is too long.
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
            RowError: it is empty.
        """
        text = self.text(name)
        if not text:
            raise RowError(f"{name} is empty")
        return text

    def number(self, name: str) -> Decimal:
        """Return a number.

        Raises:
            RowError: the field is empty or no decimal number.
        """
        text = self.text(name)
        if not _NUMBER.fullmatch(text):
            raise RowError(f"{name} is empty" if not text else f"{name} is not a number: {text[:40]!r}")
        return Decimal(text)

    def whole(self, name: str) -> int:
        """Return a whole number, which may be negative.

        Raises:
            RowError: the field is empty or no whole number.
        """
        number = self.number(name)
        if number != number.to_integral_value():
            raise RowError(f"{name} is not a whole number: {self.text(name)[:40]!r}")
        return int(number)

    def count(self, name: str, least: int = 0) -> int:
        """Return a whole number of things.

        Raises:
            RowError: the field is empty, no whole number, less than `least`, or more than any cluster has.
        """
        count = self.whole(name)
        if count < least:
            raise RowError(f"{name} is {count}, less than {least}")
        if count > _MOST:
            raise RowError(f"{name} is more than any cluster has: {self.text(name)[:40]}")
        return count

    def seconds(self, name: str) -> int:
        """Return a length of time given in seconds, in microseconds.

        Raises:
            RowError: the field is empty, no number, or negative.
        """
        seconds = self.number(name)
        if seconds < 0:
            raise RowError(f"{name} is negative: {self.text(name)[:40]}")
        return int((seconds * SECOND).to_integral_value())


class TraceFormat(Protocol):
    """How one kind of trace is read. An instance reads one file."""

    def fields(self, lines: Iterator[Line]) -> Iterator[Fields]:
        """Yield the rows of the file.

        Raises:
            TraceError: the header is not this format's.
        """

    def submit(self, fields: Fields) -> int:
        """Return when the row's job was submitted (microseconds). Called once for each row, in order.

        Raises:
            RowError: the file does not say.
        """

    def row(self, fields: Fields, submit: int) -> TraceRow:
        """Return the row in normal form.

        Raises:
            RowError: it makes no sense.
        """


def read_rows(trace: TraceFormat, lines: Iterator[Line]) -> Iterator[TraceRow | BadRow]:
    """Yield every row of a trace, those that make no sense included.

    Raises:
        TraceError: the header is not the format's, or the file cannot be read.
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
    """Base of the formats whose file has a header line and commas between the fields."""

    NAME: ClassVar[str]
    COLUMNS: ClassVar[Sequence[str]]
    """Columns that the header must name, in any order; others may stand beside them."""

    def __init__(self, columns: Mapping[str, str] = MappingProxyType({})) -> None:
        """Prepare to read one file.

        Args:
            columns: column of the format → its name in the file, where they differ.

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
    """Yield the rows of a file with a header line and commas between the fields.

    Each line is read by itself, so that a stray quote spoils no other line.

    Args:
        lines: the file.
        source_format: name of the format, for the error.
        columns: those that the header must name, in any order; others may stand beside them.
        names: column → its name in the header, where they differ.

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
    """Divide a number of things among `parts`; where that leaves a rest, the first ones take one more."""
    each, rest = divmod(total, parts)
    return [each + 1] * rest + [each] * (parts - rest)


def with_tenants(rows: Iterable[TraceRow | BadRow], tenants: int) -> list[TraceRow | BadRow]:
    """Spread the jobs of a trace over tenants, which no trace tells: user modulo their number.

    A user that is no number, and the job's name where there is no user, counts by its CRC-32.
    """
    return [
        replace(row, tenant=f"tenant-{_number(row.user or row.name) % tenants}") if isinstance(row, TraceRow) else row
        for row in rows
    ]


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and text.isascii() else crc32(text.encode())
