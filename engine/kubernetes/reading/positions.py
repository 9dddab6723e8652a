"""Positions of fields in a file: line and column for the path of a fault."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import yaml

from engine.kubernetes.reading.shapes import child

_BUDGET: Final = 32 << 20
"""Maximum number of bytes parsed again for the positions of one file's faults."""
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Position(NamedTuple):
    """Line and column of a field, from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class _Open:
    """Collection that has not ended."""

    __slots__ = ("is_mapping", "key", "number", "path")

    def __init__(self, path: str | None, *, is_mapping: bool) -> None:
        self.path = path
        """Path of the collection; `None`: it does not contain the field."""
        self.is_mapping = is_mapping
        self.key: tuple[str, Position] | None = None
        self.number = 0


class Positions:
    """Search for fields in the bytes of a YAML or JSON file."""

    def __init__(self, content: bytes) -> None:
        """Store the content; nothing is parsed yet."""
        self._content: Final = content
        self._left = _BUDGET

    def find(self, line: int, path: str) -> Position | None:
        """Return the position of a field, or of the innermost existing field around it; `None` if it cannot be found.

        Args:
            line: first line of its document, from 1.
            path: path of the field, such as `spec.tasks[0].replicas`.
        """
        rest = self._content.split(b"\n", line - 1)[-1]
        self._left -= len(rest)
        if self._left < 0:
            return None
        try:
            found = _deepest(rest, path)
        except (yaml.YAMLError, UnicodeError):
            return None
        return None if found is None else Position(found.line + line - 1, found.column)


def _deepest(content: bytes, sought: str) -> Position | None:
    """Return the position of a field of the first document, or of the innermost field around it."""
    open_, best = list[_Open](), None
    loader = _Loader(content)
    while loader.check_event():
        event = loader.get_event()
        if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            if open_.pop().path == sought or not open_:
                return best
            continue
        mark: Any = event.start_mark  # libyaml's events all have one
        if not isinstance(event, yaml.NodeEvent):
            continue
        position = Position(mark.line + 1, mark.column + 1)
        within = open_[-1] if open_ else None
        if within is not None and within.is_mapping and within.key is None:
            within.key = getattr(event, "value", ""), position
            if isinstance(event, yaml.CollectionStartEvent):
                open_.append(_Open(None, is_mapping=isinstance(event, yaml.MappingStartEvent)))
            continue
        paths, position = _entry(within, position)
        path = next((one for one in paths if _leads_to(one, sought)), None)
        if path:
            best = position
            if path == sought:
                return best
        if isinstance(event, yaml.CollectionStartEvent):
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            if path and is_mapping and _leads_to(f"{path}[0]", sought):
                path = f"{path}[0]"  # one object may stand for a list of one
            open_.append(_Open(path, is_mapping=is_mapping))
    return best


def _entry(within: _Open | None, position: Position) -> tuple[tuple[str, ...], Position]:
    """Return the possible paths of the next value of a collection, and its position; in a mapping, that of its key."""
    if within is None:
        return ("",), position
    if not within.is_mapping:
        within.number += 1
        return () if within.path is None else (f"{within.path}[{within.number - 1}]",), position
    key, at = within.key or ("", position)
    within.key = None
    if within.path is None:
        return (), at
    return (child(within.path, key), f"{within.path}.{key}" if within.path else key), at


def _leads_to(path: str, sought: str) -> bool:
    return not path or sought == path or (sought.startswith(path) and sought[len(path)] in ".[ ")
