"""Read model of billing: valid runs, including reversals, and attempts that could not be charged."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, cast

from engine.events import Data, Event, Topic, decode, encode
from engine.events.billing import UsageFailed, UsageRecorded, UsageWithdrawn
from engine.events.envelope import Message
from engine.events.inputs import OTHER

if TYPE_CHECKING:
    from engine.billing.records import Record

_TABLES: Final = """
CREATE TABLE usage (
    job TEXT NOT NULL,
    task TEXT NOT NULL,
    place INTEGER NOT NULL, -- index in the task
    attempt INTEGER NOT NULL,
    record TEXT NOT NULL,
    start INTEGER NOT NULL, -- of what stands of it
    finish INTEGER NOT NULL,
    period TEXT NOT NULL,
    sequence INTEGER NOT NULL, -- of the event
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL, -- of the job
    cluster TEXT NOT NULL,
    id TEXT NOT NULL, -- of the event
    recorded INTEGER NOT NULL,
    data BLOB NOT NULL -- of the event
);
CREATE INDEX usage_in_order ON usage (period, start, job, task, place, attempt, record, sequence, finish);
CREATE INDEX usage_by_attempt ON usage (job, task, place, attempt);
CREATE TABLE failed (
    job TEXT NOT NULL,
    task TEXT NOT NULL,
    place INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    error TEXT NOT NULL,
    PRIMARY KEY (job, task, place, attempt)
) WITHOUT ROWID
"""

_START, _FINISH = 5, 6
_COLUMNS: Final = 15
_ORDER: Final = "ORDER BY period, start, job, task, place, attempt, record, sequence, finish"


class RunFilter(NamedTuple):
    """Conditions on runs; `None` matches all."""

    period: str | None = None
    tenant: str | None = None
    job: str | None = None
    other: bool = False
    """Include jobs of kind `Other` (services)."""


class Failure(NamedTuple):
    """Attempt whose usage could not be charged."""

    job: str
    task: str
    place: int
    """Index in the task."""
    attempt: int
    error: str


class UsageTables:
    """Tables of `billing`."""

    NAME: ClassVar[str] = "usage"
    VERSION: ClassVar[int] = 2
    TABLES: ClassVar[str] = _TABLES
    TOPICS: ClassVar[tuple[Topic, ...]] = ("billing",)
    TYPES: ClassVar[Collection[str]] = frozenset({UsageRecorded.TYPE, UsageWithdrawn.TYPE, UsageFailed.TYPE})

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Use the connection of the projection."""
        self._connection: Final = connection
        self._new: list[tuple[Any, ...]] = []
        self._failed: bool | None = None
        """True if an attempt could not be charged; `None`: unknown."""

    # --- following ------------------------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Drop cached state."""
        self._new = []
        self._failed = None

    def apply(self, event: Event[Data]) -> None:
        """Apply one event."""
        data = event.data
        if isinstance(data, UsageRecorded):
            self._charged(event.subject, data)
            message = encode(event)
            self._new.append(
                (
                    event.subject,
                    data.task,
                    data.index,
                    data.attempt,
                    data.record,
                    data.start,
                    data.end,
                    data.period,
                    event.sequence,
                    data.tenant,
                    data.job_kind,
                    event.clusterid,
                    event.id,
                    event.recordedtime,
                    message.data,
                )
            )
        elif isinstance(data, UsageWithdrawn):
            self._charged(event.subject, data)
            self.write()
            self._withdraw(event.subject, data)
        elif isinstance(data, UsageFailed):
            self._failed = True
            values = (event.subject, data.task, data.index, data.attempt, data.tenant, data.job_kind, data.error)
            self._connection.execute("INSERT OR REPLACE INTO failed VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def _charged(self, job: str, data: UsageRecorded | UsageWithdrawn) -> None:
        """Remove an attempt from those that could not be charged."""
        run = self._connection.execute
        if self._failed is None:
            self._failed = run("SELECT 1 FROM failed LIMIT 1").fetchone() is not None
        if self._failed:
            attempt = (job, data.task, data.index, data.attempt)
            run("DELETE FROM failed WHERE job = ? AND task = ? AND place = ? AND attempt = ?", attempt)

    def _withdraw(self, job: str, data: UsageWithdrawn) -> None:
        """Remove the withdrawn part of runs, and keep the parts before and after it."""
        run = self._connection.execute
        where = "job = ? AND task = ? AND place = ? AND attempt = ? AND record = ? AND period = ? AND start < ? AND finish > ?"
        values = (job, data.task, data.index, data.attempt, data.record, data.period, data.end, data.start)
        rows = run(f"SELECT rowid, * FROM usage WHERE {where}", values).fetchall()  # noqa: S608 - own names
        for rowid, *row in rows:
            run("DELETE FROM usage WHERE rowid = ?", (rowid,))
            start, finish = row[_START], row[_FINISH]
            for begin, end in ((start, data.start), (data.end, finish)):
                if data.record == "usage" and begin < end:
                    self._insert([(*row[:5], begin, end, *row[7:])])

    def write(self) -> None:
        """Write the pending changes."""
        self._insert(self._new)
        self._new = []

    def _insert(self, rows: list[tuple[Any, ...]]) -> None:
        self._connection.executemany(f"INSERT INTO usage VALUES ({','.join('?' * _COLUMNS)})", rows)  # noqa: S608 - as above

    # --- queries --------------------------------------------------------------------------------------------------------------

    def periods(self) -> list[str]:
        """Return the months whose invoices have entries."""
        return [period for (period,) in self._connection.execute("SELECT DISTINCT period FROM usage ORDER BY period")]

    def runs(self, wanted: RunFilter) -> Iterator[Event[UsageRecorded]]:
        """Yield the valid runs in the order of exports, which is always the same for one log."""
        from engine.billing.records import clipped  # noqa: PLC0415 - a list of jobs does not need billing

        conditions, given = _conditions(wanted)
        for row in self._connection.execute(f"SELECT * FROM usage {conditions} {_ORDER}", given):  # noqa: S608 - as above
            event = _event(row)
            yield replace(event, data=clipped(event.data, row[_START], row[_FINISH]))

    def failures(self, wanted: RunFilter, most: int) -> tuple[int, list[Failure]]:
        """Return the number of attempts that could not be charged, and the first of them; they have no month.

        Args:
            wanted: filter, without its month.
            most: maximum number of attempts to return.
        """
        conditions, given = _conditions(wanted._replace(period=None))
        run = self._connection.execute
        (count,) = run(f"SELECT COUNT(*) FROM failed {conditions}", given).fetchone()  # noqa: S608 - as above
        columns = "job, task, place, attempt, error"
        rows = run(f"SELECT {columns} FROM failed {conditions} ORDER BY {columns} LIMIT ?", (*given, most))  # noqa: S608
        return count, [Failure(*row) for row in rows]

    def records(self, wanted: RunFilter) -> Iterator[Record]:
        """Yield the records of these runs."""
        from engine.billing.records import records_of  # noqa: PLC0415 - as above

        for event in self.runs(wanted):
            yield from records_of(event)


def _conditions(wanted: RunFilter) -> tuple[str, list[str]]:
    """Return the SQL condition of a filter, and its values."""
    where, given = ([], []) if wanted.other else (["kind <> ?"], [OTHER])
    for name in ("period", "tenant", "job"):
        if (value := getattr(wanted, name)) is not None:
            where.append(f"{name} = ?")
            given.append(value)
    return f"WHERE {' AND '.join(where)}" if where else "", given


def _event(row: tuple[Any, ...]) -> Event[UsageRecorded]:
    """Return the event of a run, before what was withdrawn of it is cut off."""
    job, _, _, _, _, _, finish, _, sequence, _, _, cluster, ident, recorded, content = row
    message = Message(job, ident, "lahar/billing", UsageRecorded.TYPE, job, finish, recorded, sequence, job, "", cluster, content)
    return cast("Event[UsageRecorded]", decode(message, bounded=False))
