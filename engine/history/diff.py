"""Differences between two states of a job, field by field, at all three levels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from engine.history.view import JobView


class Change(NamedTuple):
    """A field that differs."""

    path: str
    """Path such as `phase`, `tasks.worker.phase`, `attempts.worker[2]#1.exit_code`."""
    before: Any
    """Value before; `None`: did not exist."""
    after: Any
    """Value after; `None`: no longer exists."""


_BOOKKEEPING = frozenset({"sequence"})


def diff(before: JobView | None, after: JobView | None) -> list[Change]:
    """Return the differences between two states of a job, in the order of the job's document.

    A new or removed task, attempt or timer gives one change for each of its non-empty fields.
    """
    old, new = (None if view is None else view.document() for view in (before, after))
    return [change for change in diff_documents(old, new) if change.path not in _BOOKKEEPING]


def diff_documents(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[Change]:
    """Return the differences between two documents: maps are compared key by key, other values as a whole.

    Args:
        before: the older one; `None`: did not exist.
        after: the newer one; `None`: no longer exists.
    """
    return list(_differences("", before, after))


def _differences(path: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Iterator[Change]:
    for key in dict.fromkeys((*(before or ()), *(after or ()))):
        place = f"{path}.{key}" if path else key
        old, new = (None if side is None else side.get(key) for side in (before, after))
        if isinstance(old, Mapping) or isinstance(new, Mapping):
            yield from _differences(place, old, new)
        elif old != new and (old or new or (before is not None and after is not None)):
            yield Change(place, old, new)
