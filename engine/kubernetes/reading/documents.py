"""Files and streams of Kubernetes objects, parsed one by one.

Accepted in any mixture: YAML documents, JSON, JSON Lines, concatenated pretty-printed JSON (`kubectl get -w -o json`), arrays
(successive versions of one object), Lists, watch envelopes, CloudEvents. An unreadable part becomes an item with its location, and
parsing continues after it; a part with a repeated key is unreadable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, BinaryIO, Final, Literal, NamedTuple, cast

from pydantic_core import from_json

from engine.events.bounds import OBJECT_BYTES, UNREADABLE
from engine.kubernetes.reading.fields import mapping, text
from engine.kubernetes.reading.object_splitter import Piece, Pieces
from engine.kubernetes.reading.positions import Positions
from engine.kubernetes.reading.yaml_values import RepeatedKeyError, UnreadableYamlError, read_yaml

Change = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
"""Event type of a watch."""

_CHANGES: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"})
_TABLE: Final = re.compile(r"(?:NAME|NAMESPACE|LAST SEEN) {2,}[A-Z]")
"""Header of a table printed by `kubectl get`."""
_AT: Final = re.compile(r" at line (\d+) column (\d+)$")
"""Location of a JSON fault within the parsed text."""
_MARKS: Final = frozenset({"kind", "apiVersion", "metadata", "spec", "status", "specversion"})
"""Fields of which an object has at least one."""


class Document(NamedTuple):
    """One parsed object."""

    line: int
    """Line on which its part of the stream begins, from 1; 0: not from a stream, `path` identifies it."""
    path: str
    """Path within that part, such as `items[3]`; empty: the whole part."""
    content: dict[str, Any]
    change: Change | None = None
    """Change in its watch envelope; `None`: it has no envelope."""
    positions: Positions | None = None
    """Positions of the fields in its file, if available."""

    def at(self, path: str) -> str:
        """Return the location of a field, such as `line 12, column 5`, or that of the object if it is unknown."""
        sought = self.path + ("." if self.path and not path.startswith("[") else "") + path
        found = None if self.positions is None or not path else self.positions.find(self.line, sought)
        return self.place if found is None else str(found)

    @property
    def kind(self) -> str | None:
        """Kind of the object; `Pod` for an object without kind that has `spec.containers`, as in old Lists."""
        return kind_of(self.content)

    @property
    def place(self) -> str:
        """Location, such as `line 12` or `line 1, items[3]`."""
        return _place(self.line, self.path)

    @property
    def of_list(self) -> tuple[int, str] | None:
        """List of the item; `None`: it is not an item of a List."""
        return _list_of(self.line, self.path)


class Unreadable(NamedTuple):
    """Bytes that are not an object."""

    line: int
    """Line of the fault, or the first line of its part of the stream."""
    path: str
    content: bytes
    """The bytes; for an item of a List, its JSON."""
    reason: str

    @property
    def place(self) -> str:
        """Location, such as `line 12` or `line 1, items[3]`."""
        return _place(self.line, self.path)

    @property
    def of_list(self) -> tuple[int, str] | None:
        """List of the item; `None`: it is not an item of a List."""
        return _list_of(self.line, self.path)


class DocumentReader:
    """Incremental parser of a stream.

    Args:
        largest: size at which an incomplete object is given up (bytes).
    """

    def __init__(self, largest: int = OBJECT_BYTES) -> None:
        self._pieces = Pieces(largest)
        self._unreadable = 0
        """Number of non-object entries in the current part."""
        self._held: list[Piece] = []
        """Items whose kind follows after them, with that of their List."""
        self._held_bytes = 0

    @property
    def in_list(self) -> bool:
        """True if further items of the last object's List may follow."""
        return self._pieces.in_list

    def feed(self, data: bytes) -> Iterator[Document | Unreadable]:
        """Yield the objects that these bytes complete: JSON at its last line, YAML at the begin of the next document.

        The iterator must be exhausted before the next call.
        """
        for piece in self._pieces.feed(data):
            yield from self._read(piece)

    def close(self) -> Iterator[Document | Unreadable]:
        """Yield the objects that the end of the stream completes."""
        for piece in self._pieces.close():
            yield from self._read(piece)

    def _read(self, piece: Piece) -> Iterator[Document | Unreadable]:
        """Yield the objects of a part; beyond `UNREADABLE` non-object entries of a List, the others are reported together."""
        if _lacks_kind(piece) and self._held_bytes + len(piece.content) <= OBJECT_BYTES:
            # As bytes, which need a tenth of the memory.
            self._held.append(piece._replace(value=None))
            self._held_bytes += len(piece.content)
            return
        held, self._held, self._held_bytes = self._held, [], 0
        read = (one._replace(value=from_json(one.content), fields=piece.fields) for one in held)
        for one in chain(read, (piece,)):
            for item in _all_items(one):
                self._unreadable += isinstance(item, Unreadable)
                if self._unreadable <= UNREADABLE or isinstance(item, Document):
                    yield item
        if piece.fields is None or piece.form in {"end", "garbage"}:
            if self._unreadable > UNREADABLE:
                more = f"{self._unreadable - UNREADABLE:,} more of its entries are no objects"
                yield Unreadable(piece.line, "", piece.content, more)
            self._unreadable = 0


def read_documents(content: bytes) -> list[Document | Unreadable]:
    """Return all objects of a file, in order. Never raises."""
    reader = DocumentReader(largest=len(content) + 1)
    return [*reader.feed(content), *reader.close()]


def read_stream(stream: BinaryIO, size: int = 65536) -> Iterator[Document | Unreadable]:
    """Yield the objects of a stream, each as soon as it is complete.

    Args:
        stream: a binary file; one with `read1`, such as `sys.stdin.buffer`, does not block for more than the available bytes.
        size: maximum number of bytes per read.

    Raises:
        OSError: a read fails.
    """
    read = cast("Any", getattr(stream, "read1", stream.read))
    reader = DocumentReader()
    while data := read(size):
        yield from reader.feed(data)
    yield from reader.close()


def kind_of(content: dict[str, Any]) -> str | None:
    """Return the kind of an object; `Pod` for one without kind that has `spec.containers`."""
    kind = text(content.get("kind"))
    if kind is None and isinstance(mapping(content.get("spec")).get("containers"), list):
        return "Pod"
    return kind


def _place(line: int, path: str) -> str:
    if not line:
        return path
    return f"line {line}, {path}" if path else f"line {line}"


def _list_of(line: int, path: str) -> tuple[int, str] | None:
    before, items, _ = path.partition("items[")
    return (line, before) if items else None


def _lacks_kind(piece: Piece) -> bool:
    """Return true if only the end of its List can determine an item's kind."""
    fields, value = piece.fields, piece.value
    if fields is None or "kind" in fields or not piece.path.startswith("items") or not isinstance(value, dict):
        return False
    return piece.form == "json" and kind_of(value) is None


def _all_items(piece: Piece) -> Iterator[Document | Unreadable]:
    if piece.form == "json":
        yield from _flatten(_of_list(piece.value, piece.fields or {}), piece, piece.path, None)
    elif piece.form == "garbage":
        yield Unreadable(piece.line, piece.path, piece.content, piece.fault)
    elif piece.form != "end":
        try:
            values = read_yaml(piece.content)
        except UnreadableYamlError as error:
            # JSON is YAML, so the YAML parser gives the line of a repeated key.
            is_json = bool(piece.fault) and not isinstance(error, RepeatedKeyError)
            yield _at_line(piece, _fault_of_json(piece.fault) if is_json else (error.fault, error.line))
            return
        for value in values:
            yield from _flatten(value, piece, piece.path, None)


def _fault_of_json(fault: str) -> tuple[str, int | None]:
    found = _AT.search(fault)
    return (fault, None) if found is None else (f"{fault[: found.start()]} (column {found[2]})", int(found[1]))


def _at_line(piece: Piece, fault: tuple[str, int | None]) -> Unreadable:
    """Return an unreadable part with the line of its fault; for an item of a List, only the line within the item is known."""
    reason, line = fault
    if line is None:
        return Unreadable(piece.line, piece.path, piece.content, reason)
    if piece.path:
        return Unreadable(piece.line, piece.path, piece.content, f"{reason} (line {line} of the item)")
    last = piece.content.rstrip().count(b"\n") + 1  # a premature end is behind its last line
    return Unreadable(piece.line + min(line, last) - 1, "", piece.content, reason)


def _flatten(value: object, piece: Piece, path: str, change: Change | None) -> Iterator[Document | Unreadable]:
    if isinstance(value, list):
        for number, entry in enumerate(value):
            yield from _flatten(entry, piece, f"{path}[{number}]", change)
        return
    if not isinstance(value, dict):
        yield _unreadable(value, piece, path, f"{_named(value)} is no object{_hint(value)}")
        return
    kind, items = value.get("kind"), value.get("items")
    if items is None and "items" in value and isinstance(kind, str) and kind.endswith("List"):
        items = []  # null, as Go encodes an empty list
    if isinstance(items, list) and (kind is None or (isinstance(kind, str) and kind.endswith("List"))):
        for number, entry in enumerate(items):
            yield from _flatten(_of_list(entry, value), piece, f"{path}.items[{number}]" if path else f"items[{number}]", change)
        return
    what = value.get("type")
    if isinstance(what, str) and what in _CHANGES and "object" in value and kind is None:
        yield from _flatten(value["object"], piece, f"{path}.object" if path else "object", cast("Change", what))
    elif change != "ERROR" and _MARKS.isdisjoint(value):
        yield _unreadable(value, piece, path, "no Kubernetes object: it has neither kind nor metadata nor spec nor status")
    else:
        yield Document(piece.line, path, value, change)


def _of_list(entry: object, fields: Mapping[str, Any]) -> object:
    """Return an item of a List with the kind and version of a typed List, whose items lack them."""
    kind = fields.get("kind")
    inner = kind[:-4] if isinstance(kind, str) else ""
    return {"kind": inner, "apiVersion": fields.get("apiVersion"), **entry} if inner and isinstance(entry, dict) else entry


def _unreadable(value: object, piece: Piece, path: str, reason: str) -> Unreadable:
    content = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace") if path else piece.content
    return Unreadable(piece.line, path, content, reason)


def _hint(value: object) -> str:
    """Return a remedy for a table that kubectl printed; otherwise an empty text."""
    is_table = isinstance(value, str) and _TABLE.match(value)
    return ": it is a table of kubectl; `-o json` prints the objects" if is_table else ""


def _named(value: object) -> str:
    if value is None:
        return "null"
    return "text" if isinstance(value, str) else "a boolean" if isinstance(value, bool) else "a number"
