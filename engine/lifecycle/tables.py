"""Tables of jobs and tasks, most of which stay empty: all empty ones share one table.

An empty dict needs 64 bytes, and a job has about 20 tables. The shared one is read-only: a table is a `Mapping`, so mypy finds
writes without `own`, and a write that mypy does not see raises `TypeError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")

EMPTY: Final[Mapping[Any, Any]] = MappingProxyType({})
"""The shared empty table."""


def empty() -> Mapping[Any, Any]:
    """Return `EMPTY`, the default of a table."""
    return EMPTY


def own(table: Mapping[K, V]) -> dict[K, V]:
    """Return a writable table: itself, or a new one to replace the shared empty one."""
    return table if isinstance(table, dict) else {}
