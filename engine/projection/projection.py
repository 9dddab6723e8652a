"""Projection of a log: read models and their positions in the log, in one SQLite file.

A query first catches up with the log; `lahar run` and workers may follow it continuously. Rows and positions change in one
transaction, by one process at a time, so several followers never write twice. The file is dropped and rebuilt if it is from another
release or another log, damaged, behind the log's retention, or ahead of the log.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from json import JSONDecodeError
from pathlib import Path
from typing import Final, Self, TypeVar

from engine.events import UPCASTERS, decode
from engine.events.errors import EventError
from engine.history.errors import TokenError
from engine.history.token import Place, check, digest_of
from engine.log.errors import LogError
from engine.log.failures import BUSY_SECONDS
from engine.log.port import Partition, Record, SearchableLog
from engine.projection.file import delete_file, open_connection
from engine.projection.job_tables import JobTables
from engine.projection.read_model import ReadModel
from engine.projection.usage_tables import UsageTables

M = TypeVar("M")
T = TypeVar("T")

READ_MODELS: Final[tuple[type[ReadModel], ...]] = (JobTables, UsageTables)
"""Read models of a projection; a stage with lists of its own adds its tables here."""

_MOST: Final = 20_000
"""Events per transaction: about 0.2 s, during which other followers wait. With 5,000, each event takes a quarter longer, because a
job with events in two transactions is written twice."""

_FORM: Final = sha256("".join(f"{model.NAME}{model.VERSION}{model.TABLES}" for model in READ_MODELS).encode()).hexdigest()

_TOPICS: Final = tuple(dict.fromkeys(topic for model in READ_MODELS for topic in model.TOPICS))
_TYPES: Final = frozenset(kind for model in READ_MODELS for kind in model.TYPES)

_OWN: Final = """
CREATE TABLE form (
    digest TEXT NOT NULL, -- of what makes the tables
    recorded INTEGER NOT NULL -- time of the last event taken
);
CREATE TABLE places (
    topic TEXT NOT NULL, number INTEGER NOT NULL, next INTEGER NOT NULL, last INTEGER NOT NULL, mark TEXT NOT NULL,
    PRIMARY KEY (topic, number)
);
"""


_Places = dict[Partition, Place]

_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
"""SQLite's error codes for a damaged file, one of another kind, or unexpected tables."""


class Projection:
    """Reader and follower of the file. Not thread-safe; several, in any processes, may share the file."""

    def __init__(self, path: Path | None = None, *, patience: float = BUSY_SECONDS) -> None:
        """Open or create the file.

        Args:
            path: path from `place_of`; `None`, or an unusable file: in memory.
            patience: maximum wait for another follower's lock (seconds).
        """
        self._path: Final = path
        self._patience: Final = patience
        self._connect(path)

    def _connect(self, path: Path | None) -> None:
        self._connection = open_connection(path, self._patience)
        self._models: list[ReadModel] = [model(self._connection) for model in READ_MODELS]
        self._checked = False
        """True once the positions were checked against the log."""
        self._seen: _Places | None = None
        """Positions after this follower's last transaction, for which the models' caches are valid."""

    @property
    def is_kept(self) -> bool:
        """True if it is stored in a file."""
        return bool(self._connection.execute("PRAGMA database_list").fetchone()[2])

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(
        self,
        log: SearchableLog,
        model: Callable[[sqlite3.Connection], M],
        question: Callable[[M], T],
        *,
        behind: Callable[[int, Exception], object] | None = None,
    ) -> T:
        """Catch up with a log, and return the result of a query at its end.

        Args:
            log: log to follow; always the same one.
            model: read model to query.
            question: query, called in one read transaction; must not keep its argument.
            behind: called if the log cannot be read to its end, with the recorded time of the last applied event (microseconds) and
                the error; the result is then as of that time. `None`: the error is raised instead.

        Raises:
            LogError: the log cannot be read to its end.
            EventError: an event cannot be decoded.
        """

        def answer() -> T:
            try:
                while self._follow(log, _MOST):
                    pass
            except (LogError, EventError) as error:
                if behind is None:
                    raise
                behind(self._recorded(), error)
            self._connection.execute("BEGIN")
            try:
                return question(model(self._connection))
            finally:
                self._connection.execute("COMMIT")

        try:
            return self._sound(answer)
        except (sqlite3.Error, JSONDecodeError):
            # A full disk, or an outdated file that only others may write: the query then folds the log itself.
            self.close()
            self._connect(None)
            return answer()

    def follow(self, log: SearchableLog, most: int = _MOST) -> int:
        """Apply the next events of a log in one transaction; return their number.

        Args:
            log: log to follow; always the same one.
            most: maximum number of events.

        Raises:
            LogError: the log cannot be read at the next position.
            EventError: an event there cannot be decoded.
            sqlite3.Error: the file cannot be written; it is unchanged.
        """
        return self._sound(lambda: self._follow(log, most))

    def _sound(self, work: Callable[[], T]) -> T:
        """Run a function on the file; if the file is damaged, repeat it on a new one."""
        try:
            return work()
        except (sqlite3.DatabaseError, JSONDecodeError) as error:
            # An error without a code means an undecodable text.
            if self._path is None or getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF not in _DAMAGED:
                raise
        self.close()
        delete_file(self._path)
        self._connect(self._path)
        return work()

    # --- following ------------------------------------------------------------------------------------------------------------

    def _follow(self, log: SearchableLog, most: int) -> int:
        ends = {
            Partition(topic, number): log.end(Partition(topic, number))
            for topic in _TOPICS
            for number in range(log.partitions(topic))
        }
        places = self.positions()
        if places is not None and all(_next(places, at) == end for at, end in ends.items()) and self._fits(log, ends, places):
            return 0
        with self._transaction():
            places = self._continued(log, ends)
            last: dict[Partition, Record] = {}
            taken, trouble = 0, None
            try:
                for record in log.scan(_TOPICS, _names(), {partition: place.next for partition, place in places.items()}):
                    event = decode(record.message)
                    for model in self._models:
                        if event.data.TYPE in model.TYPES:
                            model.apply(event)
                    last[record.partition] = record
                    taken += 1
                    if taken == most:
                        break
            except (LogError, EventError) as error:
                trouble = error
            places |= {at: Place(record.offset + 1, record.offset, digest_of(record.message.id)) for at, record in last.items()}
            if taken < most and trouble is None:  # the remaining events are of other types
                places |= {at: _place(places, at)._replace(next=max(end, _next(places, at))) for at, end in ends.items() if end}
            for model in self._models:
                model.write()
            self._move(places, max((record.message.recordedtime for record in last.values()), default=0))
        self._seen = places
        if trouble is not None and not taken:
            raise trouble
        return taken

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            self._seen = None
            with suppress(sqlite3.Error):
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            raise

    def positions(self) -> _Places | None:
        """Return the file's positions; `None`: its tables have another form."""
        if not self._connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'form'").fetchone()[0]:
            return None
        if self._connection.execute("SELECT digest FROM form").fetchone() != (_FORM,):
            return None
        rows = self._connection.execute("SELECT topic, number, next, last, mark FROM places")
        return {Partition(topic, number): Place(*place) for topic, number, *place in rows}

    def _continued(self, log: SearchableLog, ends: Mapping[Partition, int]) -> _Places:
        """Return the positions to continue from; the file is emptied first if they are not of this log."""
        places = self.positions()
        if places is None or not self._fits(log, ends, places):
            self._empty()
            places, self._seen = {}, None
        if places != self._seen:
            for model in self._models:
                model.forget()
        return places

    def _fits(self, log: SearchableLog, ends: Mapping[Partition, int], places: _Places) -> bool:
        """Return true if these positions are of this log and can be continued."""
        if any(place.next > ends.get(at, -1) for at, place in places.items()):
            return False
        if not self._checked:
            try:
                for topic in _TOPICS:
                    check(log, topic, {at.number: place for at, place in places.items() if at.topic == topic})
            except TokenError:
                return False
            self._checked = True
        return True

    def _empty(self) -> None:
        """Drop all tables and create them again."""
        run = self._connection.execute
        for (name,) in run("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            run(f'DROP TABLE "{name}"')
        for tables in (_OWN, *(model.TABLES for model in READ_MODELS)):
            for statement in tables.split(";\n"):
                run(statement)
        run("INSERT INTO form VALUES (?, 0)", (_FORM,))

    def _move(self, places: _Places, recorded: int) -> None:
        rows = [(*at, *place) for at, place in places.items()]
        self._connection.executemany("INSERT OR REPLACE INTO places VALUES (?,?,?,?,?)", rows)
        self._connection.execute("UPDATE form SET recorded = max(recorded, ?)", (recorded,))

    def _recorded(self) -> int:
        (recorded,) = self._connection.execute("SELECT recorded FROM form").fetchone()
        return int(recorded)


def _place(places: Mapping[Partition, Place], partition: Partition) -> Place:
    return places.get(partition, Place(0))


def _next(places: Mapping[Partition, Place], partition: Partition) -> int:
    return _place(places, partition).next


def _names() -> set[str]:
    """Return the event types to read, including earlier names."""
    names = set(_TYPES)
    while older := {old for old, (new, _) in UPCASTERS.items() if new in names} - names:
        names |= older
    return names
