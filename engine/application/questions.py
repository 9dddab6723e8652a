"""Questions about all jobs, answered by the projection after it has caught up with the log."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TypeVar

from engine.application.errors import RequestError
from engine.events.errors import EventError
from engine.formatting import exact
from engine.history.job_reference import resolve, resolve_known
from engine.log.errors import LogError
from engine.log.port import SearchableLog
from engine.projection.file import place_of
from engine.projection.job_tables import JobTables
from engine.projection.projection import Projection
from engine.runtime.settings import Settings

Behind = Callable[[int, Exception], object]

M = TypeVar("M")
T = TypeVar("T")


class Questions:
    """Answers questions about a log from one projection, open until `close`; for one thread at a time."""

    def __init__(self, settings: Settings, source: SearchableLog) -> None:
        """Open nothing yet.

        Args:
            settings: name the log.
            source: the log.
        """
        self._settings = settings
        self._source = source
        self._projection: Projection | None = None
        self._behind: Behind | None = None

    def close(self) -> None:
        """Close the projection. Idempotent; another question opens it again."""
        if self._projection is not None:
            self._projection.close()
            self._projection = None

    def ask(self, model: Callable[[sqlite3.Connection], M], question: Callable[[M], T]) -> T:
        """Return the answer to a question, as of now; see `Projection.ask`.

        Raises:
            LogError: the log cannot be read to its end.
            EventError: an event cannot be read.
        """
        if self._projection is None:
            self._projection = Projection(place_of(self._settings.log, os.environ))
        return self._projection.ask(self._source, model, question, behind=self._behind)

    @contextmanager
    def partial(self, warn: Callable[[str], object]) -> Iterator[None]:
        """Answer questions of a `with` block as of the last record that can be read; see `Lahar.partial`."""
        troubles: list[Exception] = []

        def behind(recorded: int, error: Exception) -> None:
            if not recorded:
                raise error
            troubles.append(error)
            warn(f"the answer is as of {exact(recorded)}; the log cannot be read further")

        self._behind = behind
        try:
            yield
        finally:
            self._behind = None
        for error in troubles[-1:]:
            raise error

    def meant(self, given: str) -> str:
        """Return the id of the job that a reference means.

        Raises:
            RequestError: it is no text.
            NotFoundError: no job matches.
            AmbiguousError: a prefix matches several jobs, or jobs of several namespaces or clusters have the name.
            LogError: the log cannot be read to its end.
        """
        if not isinstance(given, str):
            raise RequestError(f"a job is meant by its id or namespace/name, not by {type(given).__name__!r}")
        try:
            return self.ask(JobTables, lambda jobs: resolve_known(jobs, given))
        except (LogError, EventError):  # the unreadable records may not concern names
            return resolve(self._source, given)


def meant(settings: Settings, source: SearchableLog, given: str) -> str:
    """Return the id of the job that a reference means; arguments and errors as in `Questions`."""
    with closing(Questions(settings, source)) as questions:
        return questions.meant(given)
