"""Files and streams of Kubernetes objects, read one by one.

Accepted in any mixture: YAML documents, JSON, JSON Lines, concatenated pretty-printed JSON (`kubectl get -w -o json`), arrays
(successive versions of one object), Lists, watch envelopes, CloudEvents. An unreadable piece is an item of its own, with its place,
and reading continues after it; one in which a key stands twice is unreadable.
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

__all__ = ["Change", "Document", "DocumentReader", "Unreadable", "kind_of", "read_documents", "read_stream"]

Change = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
"""Event type of a watch."""

_CHANGES: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"})
_TABLE: Final = re.compile(r"(?:NAME|NAMESPACE|LAST SEEN) {2,}[A-Z]")
"""Headings of a table of `kubectl get`."""
_AT: Final = re.compile(r" at line (\d+) column (\d+)$")
"""Where a fault of JSON is, within what was read."""
_MARKS: Final = frozenset({"kind", "apiVersion", "metadata", "spec", "status", "specversion"})
"""An object has at least one of these fields."""


class Document(NamedTuple):
    """One object as it was read."""

    line: int
    """Line on which its piece of the stream begins, from 1; 0: it was not read from a stream, and `path` says which it is."""
    path: str
    """Path within that piece, `items[3]`; empty: the whole piece."""
    content: dict[str, Any]
    change: Change | None = None
    """From its watch envelope; `None`: it stands for itself."""
    positions: Positions | None = None
    """Of the fields of its file, if that is kept."""

    def at(self, path: str) -> str:
        """Return the place of a field: `line 12, column 5`, or that of the object where it is not known."""
        sought = self.path + ("." if self.path and not path.startswith("[") else "") + path
        found = None if self.positions is None or not path else self.positions.find(self.line, sought)
        return self.place if found is None else str(found)

    @property
    def kind(self) -> str | None:
        """The object's kind; `Pod` where none is given and it has `spec.containers`, as old Lists leave it out."""
        return kind_of(self.content)

    @property
    def place(self) -> str:
        """`line 12`, `line 1, items[3]`."""
        return _place(self.line, self.path)

    @property
    def of_list(self) -> tuple[int, str] | None:
        """The List that it is an item of; `None`: it stands by itself."""
        return _list_of(self.line, self.path)


class Unreadable(NamedTuple):
    """Bytes that are no object."""

    line: int
    """Line of the fault, or that on which its piece of the stream begins."""
    path: str
    content: bytes
    """What stood there; of a part of a larger piece, its JSON."""
    reason: str

    @property
    def place(self) -> str:
        """`line 12`, `line 1, items[3]`."""
        return _place(self.line, self.path)

    @property
    def of_list(self) -> tuple[int, str] | None:
        """The List that it is an item of; `None`: it stands by itself."""
        return _list_of(self.line, self.path)


class DocumentReader:
    """Reads a stream as it arrives.

    Args:
        largest: bytes after which an object that does not end is given up.
    """

    def __init__(self, largest: int = OBJECT_BYTES) -> None:
        self._pieces = Pieces(largest)
        self._unreadable = 0
        """Entries of what is being read that are no objects."""
        self._held: list[Piece] = []
        """Items whose kind stands behind them, with that of their List."""
        self._held_bytes = 0

    @property
    def in_list(self) -> bool:
        """More items may follow of the List that the last object stood in."""
        return self._pieces.in_list

    def feed(self, data: bytes) -> Iterator[Document | Unreadable]:
        """Yield the objects that these bytes complete: JSON as soon as its last line is there, YAML when the next begins.

        To be exhausted before the next call.
        """
        for piece in self._pieces.feed(data):
            yield from self._read(piece)

    def close(self) -> Iterator[Document | Unreadable]:
        """Yield what the end of the stream completes."""
        for piece in self._pieces.close():
            yield from self._read(piece)

    def _read(self, piece: Piece) -> Iterator[Document | Unreadable]:
        """Yield what a piece holds; of a List, behind `UNREADABLE` entries that are no objects, the others are told together."""
        if _lacks_kind(piece) and self._held_bytes + len(piece.content) <= OBJECT_BYTES:
            # As bytes, which take a tenth of the memory.
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
    """Return all objects of a file, in order. Raises nothing, whatever the bytes."""
    reader = DocumentReader(largest=len(content) + 1)
    return [*reader.feed(content), *reader.close()]


def read_stream(stream: BinaryIO, size: int = 65536) -> Iterator[Document | Unreadable]:
    """Yield the objects of a stream, each as soon as it is complete.

    Args:
        stream: a binary file; one with `read1`, as `sys.stdin.buffer` has, does not wait for more than there is.
        size: most bytes read at a time.

    Raises:
        OSError: reading fails; nothing else, whatever the bytes.
    """
    read = cast("Any", getattr(stream, "read1", stream.read))
    reader = DocumentReader()
    while data := read(size):
        yield from reader.feed(data)
    yield from reader.close()


def kind_of(content: dict[str, Any]) -> str | None:
    """Return the kind of an object, `Pod` where none is given and it has `spec.containers`."""
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
    """Return whether only the end of its List may say what an item is."""
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
            # JSON is YAML, and so a repeated key has a line there, too.
            is_json = bool(piece.fault) and not isinstance(error, RepeatedKeyError)
            yield _at_line(piece, _fault_of_json(piece.fault) if is_json else (error.fault, error.line))
            return
        for value in values:
            yield from _flatten(value, piece, piece.path, None)


def _fault_of_json(fault: str) -> tuple[str, int | None]:
    found = _AT.search(fault)
    return (fault, None) if found is None else (f"{fault[: found.start()]} (column {found[2]})", int(found[1]))


def _at_line(piece: Piece, fault: tuple[str, int | None]) -> Unreadable:
    """Return a piece that cannot be read, with the line of its fault; of an item of a List only that within the item is known."""
    reason, line = fault
    if line is None:
        return Unreadable(piece.line, piece.path, piece.content, reason)
    if piece.path:
        return Unreadable(piece.line, piece.path, piece.content, f"{reason} (line {line} of the item)")
    last = piece.content.rstrip().count(b"\n") + 1  # what ends too early is missing behind its last line
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
        items = []  # Go writes an empty list so
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
    """Return an item of a List with these fields: of a typed one it carries neither kind nor version."""
    kind = fields.get("kind")
    inner = kind[:-4] if isinstance(kind, str) else ""
    return {"kind": inner, "apiVersion": fields.get("apiVersion"), **entry} if inner and isinstance(entry, dict) else entry


def _unreadable(value: object, piece: Piece, path: str, reason: str) -> Unreadable:
    content = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace") if path else piece.content
    return Unreadable(piece.line, path, content, reason)


def _hint(value: object) -> str:
    """Return a remedy for a text that kubectl printed for people; else nothing."""
    is_table = isinstance(value, str) and _TABLE.match(value)
    return ": it is a table of kubectl; `-o json` prints the objects" if is_table else ""


def _named(value: object) -> str:
    if value is None:
        return "null"
    return "text" if isinstance(value, str) else "a boolean" if isinstance(value, bool) else "a number"
