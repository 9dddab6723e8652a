"""Rows of the read model of jobs: lines, live attempts and sums as SQLite stores them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from functools import _lru_cache_wrapper, lru_cache
from operator import attrgetter
from typing import Any, Final, TypeVar

from engine.events.job_state import Slot
from engine.history.job_projection import Ends, JobFacts, JobLine
from engine.history.resource_use import LiveAttempt, Use
from engine.history.summary import JobSums
from statemachines.spec import Requests

T = TypeVar("T")

SCALARS: Final = tuple(field.name for field in fields(JobLine))[:15]
"""Text and number fields of a line: all but its open attempts, nodes and ends."""
LARGEST: Final = 2**63 - 1
"""Largest integer that SQLite stores as a number."""
_SCALAR: Final = attrgetter(*SCALARS)
_USE: Final = attrgetter(*(field.name for field in fields(Use)))
_REQUESTS: Final = attrgetter(*(field.name for field in fields(Requests)))
_SHORT: Final = 500
"""Maximum length of a list whose parsed form is cached (characters)."""


def job_row(number: int, job: JobFacts) -> tuple[Any, ...]:
    """Return the row of a job, in the order of the table's columns."""
    use = job.use
    facts = (job.parked, job.begun, job.first_running, job.without_end, job.last_end, len(job.open))
    return (
        number,
        *_SCALAR(job),
        _short(_written_nodes, frozenset(job.nodes)),
        _short(_written_ends, tuple(job.ends.items())),
        *facts,
        *map(stored, (use.gpu, use.share, use.cpu)),
        json.dumps(use.unmetered),
    )


def stored(number: int) -> int | str:
    """Return an integer as SQLite stores it: as text beyond 64 bits."""
    return number if -LARGEST <= number <= LARGEST else str(number)


def read_use(columns: Sequence[Any]) -> Use:
    """Return the use that four columns hold."""
    gpu, share, cpu, unmetered = columns
    return Use(int(gpu), int(share), int(cpu), {} if unmetered == "{}" else json.loads(unmetered))


def written(content: object) -> str:
    """Return content as JSON, as it is stored and searched."""
    return json.dumps(content, ensure_ascii=False)


def _short(cached: _lru_cache_wrapper[T], value: Any, most: int = 4) -> T:  # noqa: ANN401  the argument of the function
    """Return a function's result, cached for short values only: long ones are growing lists that rarely repeat."""
    return cached(value) if len(value) <= most else cached.__wrapped__(value)


@lru_cache(1_000)
def _written_nodes(nodes: frozenset[str]) -> str:
    return written(sorted(nodes))


@lru_cache(1_000)
def _written_ends(ends: tuple[tuple[tuple[str, str | None], int], ...]) -> str:
    return written([(*end, count) for end, count in ends])


def read_line(row: tuple[Any, ...], now: int) -> JobLine:
    """Return the line of a job from its row, without its open attempts."""
    _, *scalars, nodes, ends, parked, last_end = row
    line = JobLine(*scalars)
    complete(line, nodes, ends, parked)
    line.now, line.last_end = now, last_end
    return line


def complete(line: JobLine, nodes: str, ends: str, parked: int) -> None:
    """Set the fields of a line that SQLite stores in another form."""
    line.managed, line.parked = bool(line.managed), bool(parked)
    line.nodes, line.ends = set(_short(_read, nodes, _SHORT)), read_ends(ends)


def read_ends(text: str) -> Ends:
    """Return the ends of attempts from their column."""
    return {(phase, reason): count for phase, reason, count in _short(_read, text, _SHORT)}


@lru_cache(1_000)
def _read(text: str) -> tuple[Any, ...]:
    return tuple(json.loads(text))


def live_row(attempt: LiveAttempt) -> tuple[str, str | None, str]:
    """Return the columns of a live attempt."""
    state = (_REQUESTS(attempt.requests), attempt.since, _USE(attempt.before))
    return attempt.phase, attempt.reason, json.dumps(state)


def read_attempt(row: Sequence[Any]) -> tuple[Slot, LiveAttempt]:
    """Return a live attempt and its slot from its row."""
    task, index, attempt, phase, reason, state = row
    requests, since, before = json.loads(state)
    return (task, index, attempt), LiveAttempt(Requests(*requests), phase, reason, since, Use(*before))


def read_sums(row: tuple[Any, ...]) -> JobSums:
    """Return sums over jobs from a row of them."""
    return JobSums._make((*row[:-4], read_use(row[-4:])))
