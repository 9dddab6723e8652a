"""Items of a JSON List or array, one by one."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from pydantic_core import from_json

from engine.events.bounds import LIST_BYTES, UNREADABLE
from engine.kubernetes.reading.brackets import Brackets

ENDS_EARLY: Final = "ends in the middle of an object"
_MISMATCH: Final = "brackets or quotes that do not match"

_HEAD: Final = re.compile(
    rb'(\{(?:\s*"(?:apiVersion|kind)"\s*:\s*"[^"\\\r\n]*"\s*,|\s*"metadata"\s*:\s*\{[^{}]*\}\s*,)*)\s*"items"\s*:\s*\[|\['
)
"""Start of a List up to its items, as servers and kubectl write it."""
_BETWEEN: Final = re.compile(rb"[\s,]*")
_USUAL_BYTES: Final = 64 << 10
"""Maximum size of an item that the standard library parses at once; larger ones are scanned token by token (bytes)."""
_DECODER: Final = json.JSONDecoder()


class NoListError(ValueError):
    """Raised when a value is not a List that can be split; it is parsed as a whole."""


class ListItems:
    """Splitter of a List into its items, for chunks of any size.

    Attributes:
        length: number of bytes before the items.
        path: field with the items, `items`; empty for an array.
        fields: its other fields as far as read; complete once `over`.
        count: items so far.
        over: the List was read to its end.
        fault: reason why the rest is unreadable.
        too_deep: position up to which the buffer is nested too deep.
    """

    def __init__(self, buffer: bytearray) -> None:
        """Parse the start of the List.

        Raises:
            NoListError: the first `LIST_BYTES` of the buffer are not the start of a List.
        """
        head = _HEAD.match(buffer, 0, LIST_BYTES)
        if head is None:
            raise NoListError
        self.length = head.end()
        self.path = "items" if head[1] else ""
        self.fields: dict[str, Any] = _fields((head[1] or b"{").rstrip().rstrip(b",") + b"}")
        if not str(self.fields.get("kind", "List")).endswith("List"):
            raise NoListError
        self.count = 0
        self.over = False
        self.fault = ""
        self._brackets = Brackets(json=True)
        self.too_deep = 0
        self._others = 0
        self._behind = False
        """True once all items were taken; the fields after them were not read yet."""

    def skip(self, buffer: bytearray) -> int:
        """Return the number of bytes before the next item, one less if it has not begun, because a stream may end there."""
        if self._behind or self._brackets.scanned:
            return 0
        found = _BETWEEN.match(buffer)
        between = 0 if found is None else found.end()
        return between - (between == len(buffer))

    def end(self, buffer: bytearray, *, ended: bool) -> int:
        """Return the end of the next item, or of the whole List if that makes it `over`; 0 if it is incomplete or has a `fault`.

        Args:
            buffer: bytes from the item's start.
            ended: the stream has ended; the last byte is the end of a line.
        """
        if not self._behind and buffer[0] in b" \t\r\n,":
            self.fault = ENDS_EARLY if ended else ""
            return 0
        if not self._behind and buffer.startswith(b"]"):
            if not self.path:
                self.over = True
                return 1
            self._behind = True
            self._brackets = Brackets(b"{", json=True)
            self._brackets.scanned = 1
        end = 0 if self._behind or self._brackets.scanned else _usual_end(buffer)
        end = end or self._brackets.end(buffer, len(buffer), ended=ended)
        if self._behind and end > 0:
            try:
                self.fields = self.fields | _fields(b"{" + bytes(buffer[1:end]).lstrip().removeprefix(b","))
                self.over = True
            except NoListError:
                end = -1
        elif end > 0:
            self.count += 1
            self._brackets = Brackets(json=True)
            self._others += buffer[0] not in b"{["
            if self._others > UNREADABLE:
                self.fault = f"more than {UNREADABLE:,} of its entries are no objects"
        if end < 0 or (ended and not end):
            self.fault, self.too_deep = _MISMATCH if end else ENDS_EARLY, self._brackets.too_deep
        return 0 if self.fault else end


def _fields(content: bytes) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = from_json(content, allow_inf_nan=False)
    except ValueError:
        raise NoListError from None
    return fields


def _usual_end(buffer: bytearray) -> int:
    """Return the end of the value at the start of the buffer; 0 if it is large, incomplete, or not JSON."""
    if buffer[0] not in b"{[":
        return 0
    try:
        # Its brackets and quotes determine its end, whatever its other bytes are.
        return _DECODER.raw_decode(buffer[:_USUAL_BYTES].decode("latin-1"))[1]
    except (ValueError, RecursionError):
        return 0
