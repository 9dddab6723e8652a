"""Splitter of a byte stream into objects, for chunks of any size.

JSON Lines, pretty-printed JSON objects (`kubectl get -w -o json`), arrays, YAML documents and any mixture: a line that begins with
`{` or `[` begins a piece of JSON, which ends where its brackets balance; anything else begins a YAML document, which ends at `---`,
`...`, or the next line that begins with a bracket. Other text up to the next line at which an object can begin is returned as
garbage, so that a broken object affects only itself.

A large or broken JSON List or array is split into its items, each returned as soon as it is complete: memory stays bounded by one
item, and the readable items are kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

from pydantic_core import from_json, to_json

from engine.events.bounds import LIST_BYTES, OBJECT_BYTES, VALUES
from engine.kubernetes.reading.brackets import Brackets
from engine.kubernetes.reading.list_items import ENDS_EARLY, ListItems, NoListError

Form = Literal["json", "flow", "yaml", "garbage", "end"]
"""`flow`: balanced brackets that are not JSON, or JSON with a repeated key, perhaps YAML in flow style. `yaml`: to be parsed as
YAML. `end`: the rest of a List behind its items."""


class Piece(NamedTuple):
    """Bytes of one item."""

    line: int
    """Line of the first byte, from 1."""
    content: bytes
    form: Form
    value: object = None
    """Decoded value, if it is JSON."""
    fault: str = ""
    """Reason why it is not JSON, or not readable at all."""
    path: str = ""
    """Path in a split List, such as `items[3]`; empty: not an item."""
    fields: dict[str, Any] | None = None
    """Fields of that List besides its items: those before them, at the `end` all."""


_BRACKET_LINE: Final = re.compile(rb"\n[{}\[\]]")
_NEXT_OBJECT: Final = re.compile(rb"\n(?=[{\[]|---[ \t\r\n])")
_NEXT_DOCUMENT: Final = re.compile(rb"\n(?=[{\[]|(?:---|\.\.\.)[ \t\r\n])")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class TooManyValuesError(ValueError):
    """Raised when a piece of JSON may have more values than the bound."""


def _value(content: bytes) -> object:
    """Return the value of a piece of JSON.

    Raises:
        TooManyValuesError: its brackets and commas, including those in strings, allow more than `VALUES` values.
        ValueError: it is not JSON, or has a repeated key.
    """
    if len(content) > VALUES and content.count(b",") + content.count(b"[") + content.count(b"{") > VALUES:
        raise TooManyValuesError(f"more than {VALUES:,} values")
    value = from_json(content, allow_inf_nan=False)
    # A lost value also removes the quotes of its key, unless escaped quotes compensate.
    if content.count(b'"') != to_json(value).count(b'"') or b"\\u0022" in content:
        _WITH_UNIQUE_KEYS.decode(content.decode())
    return value


class _RepeatedError(ValueError):
    """Raised for JSON with a repeated key."""


def _must_be_unique(pairs: Sequence[tuple[str, object]]) -> None:
    keys: set[str] = set()
    for key, _ in pairs:
        if key in keys:
            raise _RepeatedError(f"the key {key[:80]!r} stands there twice")
        keys.add(key)


_WITH_UNIQUE_KEYS: Final = json.JSONDecoder(object_pairs_hook=_must_be_unique)


class Pieces:
    """Splitter of a stream; the pieces do not depend on the sizes of the chunks.

    Args:
        largest: size at which an incomplete object is given up (bytes).
    """

    def __init__(self, largest: int = OBJECT_BYTES) -> None:
        self._largest = largest
        self._buffer = bytearray()
        self._line = 1
        self._form: Form | None = None
        """Form of the item at the start of the buffer; `None`: unknown yet."""
        self._fault = ""
        self._searched = 0
        """Position up to which the buffer has no boundary."""
        self._brackets = Brackets()
        self._list: ListItems | None = None
        """List that is being split."""
        self._list_line = 1
        self._part_of: tuple[str, dict[str, Any] | None] = "", None
        self._whole = False
        """True if the buffer begins with a large value that cannot be split."""
        self._begun = False
        self._ended = False

    @property
    def in_list(self) -> bool:
        """True while a List is being split."""
        return self._list is not None

    def feed(self, data: bytes) -> Iterator[Piece]:
        """Add bytes and yield the pieces that they complete. The iterator must be exhausted before the next call."""
        self._buffer += data
        if not self._begun:
            if len(self._buffer) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(self._buffer):
                return
            self._begun = True
            if self._buffer.startswith(_BYTE_ORDER_MARK):
                del self._buffer[: len(_BYTE_ORDER_MARK)]
        yield from self._split(final=False)

    def close(self) -> Iterator[Piece]:
        """Yield the remaining pieces at the end of the stream."""
        self._ended = True
        # With a line end, the last piece is complete.
        yield from self.feed(b"\n")
        yield from self._split(final=True)

    def _split(self, *, final: bool) -> Iterator[Piece]:
        while self._buffer:
            before = len(self._buffer), self._form, self._list
            piece = None
            if self._form is None and self._list is None:
                self._begin()
            if self._list is not None:
                piece = self._part(self._list)
            elif self._form == "json":
                piece = self._json(final=final)
            elif self._form is not None:
                piece = self._until(_NEXT_DOCUMENT if self._form == "yaml" else _NEXT_OBJECT, final=final)
            if piece is not None:
                yield piece
            elif (len(self._buffer), self._form, self._list) == before:
                if len(self._buffer) <= self._largest:
                    return
                self._form, self._list = "garbage", None
                self._fault = f"larger than {self._largest} bytes; --output-watch-events prints the objects of a List one by one"
                yield self._cut(len(self._buffer))

    def _begin(self) -> None:
        """Skip lines between objects and determine the next form."""
        buffer = self._buffer
        while (end := buffer.find(b"\n", self._searched)) >= 0:
            self._searched = 0
            line = bytes(buffer[:end]).strip()
            # A comma is left over from an array that was split.
            if line and line not in {b"---", b"...", b","} and line[0] not in b"#%":
                self._form = "json" if line[0] in b"{[" else "yaml"
                return
            self._drop(end + 1)
        self._searched = len(buffer)
        if len(buffer) > LIST_BYTES and buffer[:LIST_BYTES].lstrip().startswith((b"{", b"[")):
            self._form, self._searched = "json", 0

    def _json(self, *, final: bool) -> Piece | None:
        """Return the piece of JSON at the start of the buffer, if it is complete."""
        buffer = self._buffer
        # The decision to split must not depend on the number of bytes available.
        most = len(buffer) if self._whole else min(len(buffer), LIST_BYTES)
        if not self._brackets.scanned:
            # Nearly always an object is one line, or ends with the next line that begins with a bracket.
            ends = [buffer.find(b"\n")]
            if (bracket := _BRACKET_LINE.search(buffer, self._searched)) is not None:
                ends.append(buffer.find(b"\n", bracket.end()))
            else:
                self._searched = max(0, len(buffer) - 1)
            for end in ends:
                if 0 < end <= most and buffer[:end].rstrip().endswith((b"}", b"]")):
                    content = bytes(buffer[:end])
                    try:
                        value = _value(content)
                    except ValueError:
                        continue
                    return self._cut(end, value)
        self._searched = 0
        if most < len(buffer) and not self._take_apart():
            self._whole = True
        if self._list is not None:
            return None
        end = self._brackets.end(buffer, buffer.rfind(b"\n") + 1, ended=self._ended)
        if end > 0:
            return self._balanced(end)
        if (end < 0 or final) and not self._take_apart():
            self._form, self._fault = "garbage", "brackets or quotes that do not match" if end else ENDS_EARLY
            self._searched = max(0, self._brackets.too_deep - 1)
        return None

    def _balanced(self, end: int) -> Piece | None:
        """Return the piece up to the balancing bracket; `None` for a List with a repeated key, which must be split."""
        value: object = None
        try:
            value = _value(bytes(self._buffer[:end]))
        except TooManyValuesError as error:
            self._form, self._fault = "garbage", str(error)
        except ValueError as error:
            if isinstance(error, _RepeatedError) and self._list is None and self._take_apart():
                return None
            self._form, self._fault = "flow", f"not JSON: {error}"
        return self._cut(end, value)

    def _take_apart(self) -> bool:
        """Start to split the List at the start of the buffer; return false if there is none."""
        try:
            self._list = ListItems(self._buffer)
        except NoListError:
            return False
        self._list_line = self._line
        self._drop(self._list.length)
        return True

    def _part(self, items: ListItems) -> Piece | None:
        """Return the next item of a List, the rest behind its items, or its unreadable part."""
        self._drop(items.skip(self._buffer))
        place = f"{items.path}[{items.count}]"
        end = items.end(self._buffer, ended=self._ended)
        if items.fault:
            self._form, self._fault, self._list = "garbage", items.fault, None
            self._searched = max(0, items.too_deep - 1)
        elif items.over:
            self._form, self._list = "end", None
        elif end:
            self._form = "json"
        self._part_of = place, items.fields
        return self._balanced(end) if self._form == "json" else self._cut(end) if end else None

    def _until(self, boundary: re.Pattern[bytes], *, final: bool) -> Piece | None:
        found = boundary.search(self._buffer, self._searched)
        if found is not None:
            return self._cut(found.start() + 1)
        if final:
            return self._cut(len(self._buffer))
        self._searched = max(0, len(self._buffer) - 5)
        return None

    def _cut(self, end: int, value: object = None) -> Piece:
        form = self._form or "garbage"
        line = self._list_line if self._list is not None else self._line
        piece = Piece(line, bytes(self._buffer[:end]), form, value, self._fault, *self._part_of)
        self._drop(end)
        return piece

    def _drop(self, end: int) -> None:
        self._line += self._buffer.count(b"\n", 0, end)
        del self._buffer[:end]
        self._form, self._fault = None, ""
        self._part_of = "", None
        self._searched = 0
        self._brackets = Brackets()
        self._whole = False
