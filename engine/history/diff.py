"""What changed between two moments, field by field, at all three levels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from engine.history.view import JobView

__all__ = ["Change", "diff", "diff_documents"]


class Change(NamedTuple):
    """One field that differs."""

    path: str
    """`phase`, `tasks.worker.phase`, `attempts.worker[2]#1.exit_code`."""
    before: Any
    """`None`: it was not there."""
    after: Any
    """`None`: it is gone."""


_BOOKKEEPING = frozenset({"sequence"})


def diff(before: JobView | None, after: JobView | None) -> list[Change]:
    """Return what differs between two states of a job, in the order of the job's document.

    A task, attempt or timer that is new or gone gives one change for each of its fields that says something.
    """
    old, new = (None if view is None else view.document() for view in (before, after))
    return [change for change in diff_documents(old, new) if change.path not in _BOOKKEEPING]


def diff_documents(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[Change]:
    """Return what differs between two documents; maps are compared key by key, everything else as a whole.

    Args:
        before: the older one; `None`: there was none.
        after: the newer one; `None`: it is gone.
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
