"""Read model of jobs: a row per job, per live attempt, and per change of the number of devices in use."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Sequence, Sized
from itertools import takewhile
from typing import Any, ClassVar, Final, cast

from engine.events import Data, Event, Topic
from engine.events.attempts import AttemptEvent
from engine.events.inputs import OTHER
from engine.events.job_state import Slot
from engine.events.jobs import JobOpened
from engine.events.outcomes import Accounted, RowRejected
from engine.history.claimed_names import Claimed
from engine.history.job_projection import JobFacts, JobLine, line_of
from engine.history.job_reference import NamedJob
from engine.history.listing import LISTED, Filter, in_order
from engine.history.summary import SUMMARISED, JobSums, summarised
from engine.projection.job_rows import (
    LARGEST,
    SCALARS,
    complete,
    job_row,
    live_row,
    read_attempt,
    read_ends,
    read_line,
    read_sums,
    read_use,
    stored,
    written,
)

_LINE: Final = ", ".join(("number", *SCALARS, "nodes", "ends", "parked", "last_end"))
_FACTS: Final = "begun, first_running, without_end"
_USED: Final = "gpu, share, cpu, unmetered"
_SUMS: Final = ", ".join((*JobSums._fields[:-1], _USED))
_LIVE: Final = "task, place, attempt, live.phase, live.reason, state FROM live"
_OF_LISTS: Final = frozenset(LISTED)
_OF_SUMS: Final = frozenset(SUMMARISED)
_FILTERED: Final = ("queue", "user", "tenant", "cluster", "namespace", "name")
_PARAMETERS: Final = 500
"""Maximum number of values in one query."""
_KEPT: Final = 20_000
"""Number of jobs kept in memory between two batches; about 1 KB each."""

_TABLES: Final = """
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY, -- in the order of the log
    id TEXT NOT NULL UNIQUE,
    cluster TEXT NOT NULL,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    managed INTEGER NOT NULL,
    queue TEXT NOT NULL,
    user TEXT NOT NULL,
    tenant TEXT NOT NULL,
    submitted INTEGER NOT NULL,
    phase TEXT NOT NULL,
    reason TEXT,
    since INTEGER NOT NULL,
    started INTEGER,
    attempts INTEGER NOT NULL,
    nodes TEXT NOT NULL, -- where attempts have been: [name, ...]
    ends TEXT NOT NULL, -- closed attempts: [[phase, reason, count], ...]
    parked INTEGER NOT NULL,
    begun INTEGER NOT NULL,
    first_running INTEGER,
    without_end INTEGER NOT NULL,
    last_end INTEGER,
    live INTEGER NOT NULL,
    gpu NOT NULL, -- billionths; resource times time, as text beyond 64 bits
    share NOT NULL,
    cpu NOT NULL,
    unmetered TEXT NOT NULL -- {resource: thousandths of its unit times time, ...}
);
CREATE INDEX jobs_by_name ON jobs (name);
CREATE TABLE live (
    job INTEGER NOT NULL,
    task TEXT NOT NULL,
    place INTEGER NOT NULL, -- index in the task
    attempt INTEGER NOT NULL,
    phase TEXT NOT NULL,
    reason TEXT,
    state TEXT NOT NULL, -- [requests, since, use before they changed]
    PRIMARY KEY (job, task, place, attempt)
) WITHOUT ROWID;
CREATE TABLE devices (job INTEGER NOT NULL, time INTEGER NOT NULL, change NOT NULL -- as `gpu`
);
CREATE TABLE claimed ( -- what is parked and no job, in order
    subject TEXT NOT NULL,
    state TEXT NOT NULL
);
CREATE TABLE totals (
    rejected INTEGER NOT NULL, -- rows of imports
    listed INTEGER NOT NULL, -- the latest recorded time of what the list is a fold of
    summarised INTEGER NOT NULL -- of what the summary is one of
);
INSERT INTO totals VALUES (0, 0, 0);
"""


class JobTables:
    """Tables of `job-events`; they give the results of the folds `Listing` and `Summary`, and resolve names."""

    NAME: ClassVar[str] = "jobs"
    VERSION: ClassVar[int] = 4
    TABLES: ClassVar[str] = _TABLES
    TOPICS: ClassVar[tuple[Topic, ...]] = ("job-events",)
    TYPES: ClassVar[Collection[str]] = _OF_LISTS | _OF_SUMS

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Use the connection of the projection."""
        self._connection: Final = connection
        self.forget()

    # --- following ------------------------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Drop cached state."""
        self._jobs: dict[str, tuple[int, JobFacts]] = {}
        self._claimed: Claimed | None = None
        self._next = 0
        self._settle()

    def _settle(self) -> None:
        """Reset the pending changes."""
        self._changed: dict[str, None] = {}
        self._slots: dict[tuple[int, Slot], JobFacts] = {}
        self._begun: list[int] = []
        """Row numbers of jobs that were reopened."""
        self._reclaimed = False
        self._rejected_rows = self._listed = self._summarised = 0

    def apply(self, event: Event[Data]) -> None:
        """Apply one event."""
        data, subject = event.data, event.subject
        if data.TYPE in _OF_LISTS:
            self._listed = max(self._listed, event.recordedtime)
        if data.TYPE in _OF_SUMS:
            self._summarised = max(self._summarised, event.recordedtime)
        if isinstance(data, RowRejected | Accounted):
            self._rejected_rows += isinstance(data, RowRejected)
            return
        known = self._jobs.get(subject) or self._load(subject)
        if isinstance(data, JobOpened):
            self._open(event, known)
        elif known is None:
            self._waiting().take(event)
            self._reclaimed = True
        else:
            number, job = known
            job.apply(data, event.time)
            self._changed[subject] = None
            if isinstance(data, AttemptEvent):
                self._slots[number, (data.task, data.index, data.attempt)] = job

    def _open(self, event: Event[Data], known: tuple[int, JobFacts] | None) -> None:
        if event.subject in self._waiting():
            self._waiting().opened(event.subject)
            self._reclaimed = True
        if known is None:
            number = self._next = (self._next or self._one("SELECT coalesce(max(number), 0) FROM jobs")) + 1
        else:
            number = known[0]
            self._begun.append(number)
            self._slots = {key: job for key, job in self._slots.items() if key[0] != number}
        self._jobs[event.subject] = number, JobFacts.begin(cast("Event[JobOpened]", event))
        self._changed[event.subject] = None

    def _load(self, subject: str) -> tuple[int, JobFacts] | None:
        row = self._connection.execute(f"SELECT {_LINE}, {_FACTS}, {_USED} FROM jobs WHERE id = ?", (subject,)).fetchone()  # noqa: S608  own names
        if row is None:
            return None
        number, *scalars, nodes, ends, parked, last_end, begun, first_running, without_end = row[:-4]
        job = JobFacts(*scalars)
        complete(job, nodes, ends, parked)
        job.without_end = bool(without_end)
        job.begun, job.first_running, job.last_end = begun, first_running, last_end
        job.use = read_use(row[-4:])
        job.open = dict(map(read_attempt, self._connection.execute(f"SELECT {_LIVE} WHERE job = ?", (number,))))
        self._jobs[subject] = number, job
        return number, job

    def _waiting(self) -> Claimed:
        if self._claimed is None:
            self._claimed = self._stored_claims()
        return self._claimed

    def write(self) -> None:
        """Write the pending changes."""
        run, many = self._connection.execute, self._connection.executemany
        for table in ("live", "devices"):
            many(f"DELETE FROM {table} WHERE job = ?", [(number,) for number in self._begun])  # noqa: S608  as above
        changed = [self._jobs[subject] for subject in self._changed]
        many(
            f"INSERT OR REPLACE INTO jobs VALUES ({','.join('?' * 28)})",  # noqa: S608  as above
            [job_row(*known) for known in changed],
        )
        kept = [(number, *slot, *live_row(job.open[slot])) for (number, slot), job in self._slots.items() if slot in job.open]
        many("INSERT OR REPLACE INTO live VALUES (?,?,?,?,?,?,?)", kept)
        gone = [(number, *slot) for (number, slot), job in self._slots.items() if slot not in job.open]
        many("DELETE FROM live WHERE job = ? AND task = ? AND place = ? AND attempt = ?", gone)
        many(
            "INSERT INTO devices VALUES (?,?,?)",
            [(number, time, stored(change)) for number, job in changed for time, change in job.devices],
        )
        for _, job in changed:
            job.devices.clear()
        if self._reclaimed:  # rewritten as a whole, in order: few jobs are parked before they are opened
            run("DELETE FROM claimed")
            many("INSERT INTO claimed VALUES (?,?)", [(subject, self._waiting().dump(subject)) for subject in self._waiting()])
        times = (self._rejected_rows, self._listed, self._summarised)
        run("UPDATE totals SET rejected = rejected + ?, listed = max(listed, ?), summarised = max(summarised, ?)", times)
        self._settle()
        if len(self._jobs) > _KEPT:
            self._jobs = {}

    # --- queries --------------------------------------------------------------------------------------------------------------

    def lines(self, wanted: Filter | None = None) -> list[JobLine]:
        """Return the jobs that match a filter, `in_order`."""
        wanted, now = wanted or Filter(), self._one("SELECT listed FROM totals")
        found = {row[0]: read_line(row, now) for row in self._select(f"SELECT {_LINE} FROM jobs", wanted)}  # noqa: S608  as above
        for number, *attempt in self._select(f"SELECT job, {_LIVE} JOIN jobs ON number = job", wanted):
            slot, live = read_attempt(attempt)
            found[number].open[slot] = live
        lines = [*found.values(), *self._waiting_lines(now)]
        return sorted(filter(wanted.passes, lines), key=in_order)

    def summary(self, *, include_other: bool = False, cluster: str | None = None) -> dict[str, Any]:
        """Return the summary (`summarised`).

        Args:
            include_other: count jobs of kind `Other` too.
            cluster: count only jobs of this cluster.
        """
        counted = Filter(cluster=cluster, other=include_other)
        ends: Counter[tuple[str, str | None]] = Counter()
        for kinds, jobs in self._select("SELECT ends, count(*) FROM jobs", counted, "GROUP BY ends"):
            for end, count in read_ends(kinds).items():
                ends[end] += count * jobs
        of_jobs = "JOIN jobs ON number = job"
        rows = self._select(f"SELECT cluster, queue, user, {_LIVE} {of_jobs}", counted)
        live = (((cluster, queue, user), read_attempt(attempt)[1]) for cluster, queue, user, *attempt in rows)
        jobs = map(read_sums, self._select(f"SELECT {_SUMS} FROM jobs", counted))  # noqa: S608  as above
        changes = self._select(f"SELECT time, change FROM devices {of_jobs}", counted)  # noqa: S608  as above
        devices = ((time, int(change)) for time, change in changes)
        now, rejected = (self._one(f"SELECT {name} FROM totals") for name in ("summarised", "rejected"))  # noqa: S608  as above
        return summarised(jobs, ends, live, devices, now, rejected)

    def ids(self, prefix: str) -> list[str]:
        """Return all ids with a prefix, of jobs and of parked subjects."""
        found: list[str] = []
        for table, column in (("jobs", "id"), ("claimed", "subject")):
            query = f"SELECT {column} FROM {table} WHERE {column} >= ? ORDER BY {column}"  # noqa: S608  as above
            rows = (name for (name,) in self._connection.execute(query, (_bound(prefix),)))
            found += takewhile(lambda name: name.startswith(prefix), rows)
        return found

    def named(self, names: frozenset[str]) -> Iterator[NamedJob]:
        """Yield the jobs with one of the names, in log order, then parked subjects."""
        query = "SELECT id, cluster, namespace, name, begun FROM jobs"
        rows = self._connection.execute(
            f"{query} WHERE name IN {_marks(names)} ORDER BY number",
            tuple(map(_bound, names)),
        )
        for job, cluster, namespace, name, begun in rows:
            yield NamedJob(job, cluster, namespace, name, begun, is_job=True)
        for line in self._waiting_lines(0):
            if line.name in names:
                yield NamedJob(line.id, line.cluster, line.namespace, line.name, line.submitted, is_job=False)

    def beginning(self, prefix: str) -> Iterator[NamedJob]:
        """Yield the jobs whose names have a prefix, by name."""
        query = "SELECT id, cluster, namespace, name, begun FROM jobs WHERE name >= ? AND substr(name, 1, ?) = ? ORDER BY name"
        for job, cluster, namespace, name, begun in self._connection.execute(query, (_bound(prefix), len(prefix), _bound(prefix))):
            yield NamedJob(job, cluster, namespace, name, begun, is_job=True)

    def names(self, ids: Sequence[str]) -> dict[str, tuple[str, str, str]]:
        """Return namespace, name and tenant by job id; unopened jobs are left out."""
        found: dict[str, tuple[str, str, str]] = {}
        for at in range(0, len(ids), _PARAMETERS):
            some = ids[at : at + _PARAMETERS]
            query = f"SELECT id, namespace, name, tenant FROM jobs WHERE id IN {_marks(some)}"  # noqa: S608  as above
            found |= {job: tuple(called) for job, *called in self._connection.execute(query, some)}
        return found

    def _select(self, what: str, wanted: Filter, behind: str = "") -> Iterator[Any]:
        """Select rows of jobs that may match a filter: nodes and reasons are matched as substrings, so some rows do not."""
        where: list[str] = []
        given: list[str | int] = []

        def only(condition: str, *values: str | int) -> None:
            where.append(condition)
            given.extend(values)

        for name in _FILTERED:
            if (value := getattr(wanted, name)) is not None:
                only(f"jobs.{name} = ?", _bound(value))
        if not wanted.other:
            only("jobs.kind <> ?", OTHER)
        if wanted.phases:
            only(f"jobs.phase IN {_marks(wanted.phases)}", *map(_bound, wanted.phases))
        if wanted.changed_since is not None:
            only("jobs.since >= ?", max(min(wanted.changed_since, LARGEST), -LARGEST))
        if wanted.node is not None:
            only("instr(jobs.nodes, ?)", _bound(written(wanted.node)))
        if wanted.reasons:
            reasons = sorted(map(_bound, wanted.reasons))
            ended = " OR ".join(["instr(jobs.ends, ?)"] * len(reasons))
            alive = f"jobs.number IN (SELECT job FROM live WHERE reason IN {_marks(reasons)})"  # noqa: S608  as above
            only(f"(jobs.reason IN {_marks(reasons)} OR {alive} OR {ended})", *reasons, *reasons, *map(written, reasons))
        conditions = f"WHERE {' AND '.join(where)}" if where else ""
        return self._connection.execute(f"{what} {conditions} {behind}", given)

    def _waiting_lines(self, now: int) -> Iterator[JobLine]:
        for claim in self._stored_claims().claims():
            line = line_of(*claim)
            line.now = now
            yield line

    def _stored_claims(self) -> Claimed:
        claimed = Claimed()
        for subject, state in self._connection.execute("SELECT subject, state FROM claimed ORDER BY rowid"):
            claimed.load(subject, state)
        return claimed

    def _one(self, query: str) -> int:
        (found,) = self._connection.execute(query).fetchone()
        return int(found)


def _bound(text: str) -> str:
    """Return a text as a SQLite parameter; one that is not valid Unicode, as command-line bytes may be, matches nothing."""
    return text.encode(errors="backslashreplace").decode()


def _marks(values: Sized) -> str:
    return f"({','.join('?' * len(values))})"
