"""Pages of a job: a large job is stored in records of bounded size, and an event changes one or two of them.

Each table that grows with a job's replicas or inputs is split into pages. The first page of every table is part of the job's own
record, so a small job is one record; each further page is a record of its own. Attempts and tasks never change their index. In the
other tables a new entry goes to the newest page, so that reading the pages in order restores the order of insertion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from engine.lifecycle.job import Apart, Attempt, Job, Page, Table
from engine.lifecycle.tables import EMPTY, own
from statemachines.spec import JobSpec

SIZES: Final[dict[str, int]] = {
    "attempts": 32,
    "tasks": 16,
    "seen": 128,
    "fired": 128,
    "matched": 128,
    "timers": 32,
    "held": 16,
    "waiting": 16,
}
"""Entries per page. 32 attempts are about 9 KB, which an observation of a large job rewrites beside the job's own record."""

_TABLES: Final[tuple[Table, ...]] = ("seen", "fired", "matched", "timers", "held", "waiting")


# --- changes --------------------------------------------------------------------------------------------------------------


def append(job: Job, attempt: Attempt) -> None:
    """Append a new attempt."""
    attempt.place = len(job.attempts)
    job.attempts.append(attempt)
    change(job, attempt)


def change(job: Job, attempt: Attempt) -> None:
    """Mark the page of an attempt as changed."""
    page = attempt.place // SIZES["attempts"]
    if page:
        _note(job, "attempts", page)


def change_tasks(job: Job, names: Iterable[str]) -> None:
    """Mark the pages of tasks as changed."""
    if len(job.tasks) > SIZES["tasks"]:
        for page in {job.tasks[name].place // SIZES["tasks"] for name in names if name in job.tasks}:
            if page:
                _note(job, "tasks", page)


def change_spec(job: Job, spec: JobSpec) -> None:
    """Set the specification of a job."""
    if _is_large(job.spec) or _is_large(spec):
        _note(job, "spec", 1)
    job.spec = spec


def keep(job: Job, table: Table, key: str, value: Any, *, alone: bool = False) -> None:  # noqa: ANN401 - each table has its own
    """Append an entry to a table, unless it exists. `alone`: on a page of its own."""
    entries = _own(job, table)
    if key in entries:
        return
    entries[key] = value
    apart = job.apart.get(table) if job.apart else None
    if apart is None:
        if len(entries) <= SIZES[table] and not alone:
            return
        job.apart = job.apart or {}
        apart = job.apart[table] = Apart()
    if alone:
        apart.added += -apart.added % SIZES[table]
    page = 1 + apart.added // SIZES[table]
    apart.added += SIZES[table] if alone else 1
    apart.pages.setdefault(page, {})[key] = value
    apart.page_of[key] = page
    _note(job, table, page)


def discard(job: Job, table: Table, key: str) -> Any:  # noqa: ANN401 - as `keep`
    """Remove an entry from a table and return it; `None`: it does not exist."""
    entries = _own(job, table)
    value = entries.pop(key, None)
    apart = job.apart.get(table) if job.apart else None
    if apart is not None:
        page = apart.page_of.pop(key, 0)
        if page:
            del apart.pages[page][key]
            if not apart.pages[page]:
                del apart.pages[page]
            _note(job, table, page)
        if not entries:
            _join(job, table)
    return value


def clear(job: Job, table: Table) -> None:
    """Empty a table."""
    setattr(job, table, EMPTY)
    if job.apart and table in job.apart:
        for page in job.apart[table].pages:
            _note(job, table, page)
        _join(job, table)


def _own(job: Job, table: str) -> dict[str, Any]:
    entries: dict[str, Any] = own(getattr(job, table))
    setattr(job, table, entries)
    return entries


def _join(job: Job, table: Table) -> None:
    """Empty a table and remove its later pages."""
    assert job.apart is not None  # noqa: S101 - its callers have found the table in it
    del job.apart[table]
    job.apart = job.apart or None


def _note(job: Job, table: str, number: int) -> None:
    if job.changed is None:
        job.changed = {}
    job.changed[Page(table, number)] = None


# --- records --------------------------------------------------------------------------------------------------------------


def _is_large(spec: JobSpec) -> bool:
    """Return true if a specification has a record of its own; others have a few kilobytes."""
    rules = len(spec.policies) + len(spec.raise_rules) + sum(len(task.policies) for task in spec.tasks)
    return bool(spec.custom_events) or len(spec.tasks) + rules > SIZES["tasks"]


def first_page(job: Job) -> Job:
    """Return the content of the job's own record."""
    large = _is_large(job.spec)
    if not (large or job.apart) and len(job.attempts) <= SIZES["attempts"] and len(job.tasks) <= SIZES["tasks"]:
        return job
    head = replace(job, attempts=job.attempts[: SIZES["attempts"]], tasks=dict(islice(job.tasks.items(), SIZES["tasks"])))
    if large:
        head.spec = JobSpec()
    for table, apart in (job.apart or {}).items():
        entries: Mapping[str, Any] = getattr(job, table)
        few = islice(entries.items(), SIZES[table])  # the first page's entries come first, and are no more than these
        setattr(head, table, {key: value for key, value in few if key not in apart.page_of})
    return head


def later_pages(job: Job) -> Iterator[Page]:
    """Yield the pages that are records of their own."""
    if _is_large(job.spec):
        yield Page("spec", 1)
    for number in range(1, 1 + (len(job.tasks) - 1) // SIZES["tasks"]):
        yield Page("tasks", number)
    for number in range(1, 1 + (len(job.attempts) - 1) // SIZES["attempts"]):
        yield Page("attempts", number)
    for table in _TABLES:
        if job.apart and table in job.apart:
            for number in job.apart[table].pages:
                yield Page(table, number)


def later_page(job: Job, page: Page) -> Job | None:
    """Return one page as a job with only the fields of that page; `None`: the page does not exist."""
    table, number = page
    if table == "spec":
        return Job(job.id, spec=job.spec) if _is_large(job.spec) else None
    first = number * SIZES[table]
    if table == "attempts":
        attempts = job.attempts[first : first + SIZES[table]]
        return Job(job.id, attempts=attempts) if attempts else None
    if table == "tasks":
        tasks = dict(islice(job.tasks.items(), first, first + SIZES[table]))
        return Job(job.id, tasks=tasks) if tasks else None
    apart = job.apart.get(table) if job.apart else None  # type: ignore[call-overload]  # the tables that are left
    entries = apart.pages.get(number) if apart else None
    return Job(job.id, **{table: entries}) if entries else None


def join(job: Job, page: Page, part: Job) -> None:
    """Append a later page to a job; pages are joined in the order of their numbers."""
    table, number = page
    if table == "spec":
        job.spec = part.spec
    elif table == "attempts":
        job.attempts += part.attempts
    elif table == "tasks":
        job.tasks |= part.tasks
    else:
        assert job.apart is not None  # noqa: S101 - the record of the same moment names every table that has later pages
        entries: dict[str, Any] = getattr(part, table)
        _own(job, table).update(entries)
        apart = job.apart[table]  # type: ignore[index]  # one of the tables that are left
        apart.pages[number] = entries
        apart.page_of.update(dict.fromkeys(entries, number))
