"""The read model of billing: effective runs, reversals included."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple

from engine.billing.records import Record, clipped, records_of
from engine.events import Data, Event, Topic, decode, encode
from engine.events.billing import UsageRecorded, UsageWithdrawn
from engine.events.envelope import Message
from engine.events.inputs import OTHER

__all__ = ["RunFilter", "UsageTables"]

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
CREATE INDEX usage_by_attempt ON usage (job, task, place, attempt)
"""

_COLUMNS: Final = 15
_ORDER: Final = "ORDER BY period, start, job, task, place, attempt, record, sequence, finish"


class RunFilter(NamedTuple):
    """Conditions on runs; `None` matches all."""

    period: str | None = None
    tenant: str | None = None
    job: str | None = None
    other: bool = False
    """Include jobs of kind `Other` (services, single pods)."""


class UsageTables:
    """Follows `billing`."""

    NAME: ClassVar[str] = "usage"
    VERSION: ClassVar[int] = 1
    TABLES: ClassVar[str] = _TABLES
    TOPICS: ClassVar[tuple[Topic, ...]] = ("billing",)
    TYPES: ClassVar[Collection[str]] = frozenset({UsageRecorded.TYPE, UsageWithdrawn.TYPE})

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Use the connection of the projection."""
        self._connection: Final = connection
        self._new: list[tuple[Any, ...]] = []

    # --- following ------------------------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Drop cached state."""
        self._new = []

    def apply(self, event: Event[Data]) -> None:
        """Apply one event."""
        data = event.data
        if isinstance(data, UsageRecorded):
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
            self.write()
            self._withdraw(event.subject, data)

    def _withdraw(self, job: str, data: UsageWithdrawn) -> None:
        """Remove the withdrawn part of runs, and keep the parts before and after it."""
        run = self._connection.execute
        where = "job = ? AND task = ? AND place = ? AND attempt = ? AND record = ? AND period = ? AND start < ? AND finish > ?"
        values = (job, data.task, data.index, data.attempt, data.record, data.period, data.end, data.start)
        rows = run(f"SELECT rowid, * FROM usage WHERE {where}", values).fetchall()  # noqa: S608 - own names
        for rowid, *row in rows:
            run("DELETE FROM usage WHERE rowid = ?", (rowid,))
            start, finish = row[5], row[6]
            for begin, end in ((start, data.start), (data.end, finish)):
                if data.record == "usage" and begin < end:
                    self._insert([(*row[:5], begin, end, *row[7:])])

    def write(self) -> None:
        """Write the pending changes."""
        self._insert(self._new)
        self._new = []

    def _insert(self, rows: list[tuple[Any, ...]]) -> None:
        self._connection.executemany(f"INSERT INTO usage VALUES ({','.join('?' * _COLUMNS)})", rows)  # noqa: S608 - as above

    # --- answers --------------------------------------------------------------------------------------------------------------

    def periods(self) -> list[str]:
        """Return the months whose invoices have entries."""
        return [period for (period,) in self._connection.execute("SELECT DISTINCT period FROM usage ORDER BY period")]

    def runs(self, wanted: RunFilter) -> Iterator[Event[UsageRecorded]]:
        """Yield the effective runs, in the order of exports: always the same for one log."""
        where, given = ([], []) if wanted.other else (["kind <> ?"], [OTHER])
        for name in ("period", "tenant", "job"):
            if (value := getattr(wanted, name)) is not None:
                where.append(f"{name} = ?")
                given.append(value)
        conditions = f"WHERE {' AND '.join(where)}" if where else ""
        for row in self._connection.execute(f"SELECT * FROM usage {conditions} {_ORDER}", given):  # noqa: S608 - as above
            yield _event(row)

    def records(self, wanted: RunFilter) -> Iterator[Record]:
        """Yield the records of these runs."""
        for event in self.runs(wanted):
            yield from records_of(event)


def _event(row: tuple[Any, ...]) -> Event[UsageRecorded]:
    job, _, _, _, _, start, finish, _, sequence, _, _, cluster, ident, recorded, content = row
    message = Message(job, ident, "lahar/billing", UsageRecorded.TYPE, job, finish, recorded, sequence, job, "", cluster, content)
    event: Event[Any] = decode(message, bounded=False)
    return replace(event, data=clipped(event.data, start, finish))
