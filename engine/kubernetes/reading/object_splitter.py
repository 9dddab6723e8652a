"""Where one object ends and the next begins, in bytes that come as they please.

JSON Lines, pretty-printed JSON one object after the other (`kubectl get -w -o json`), arrays, YAML documents and any mixture:
a line that begins with `{` or `[` begins a piece of JSON, which ends where its brackets balance; anything else begins a YAML
document, which ends at `---`, `...`, or the next line that begins with a bracket. What is neither is handed out as garbage up
to the next line at which an object can begin, so one broken object costs only itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from pydantic_core import from_json

from engine.events.bounds import OBJECT_BYTES, VALUES

__all__ = ["Form", "Piece", "Pieces"]


Form = Literal["json", "flow", "yaml", "garbage"]
"""`flow`: brackets that balance but are no JSON, so perhaps YAML in flow style. `yaml`: to be read as YAML."""


class Piece(NamedTuple):
    """Bytes that belong together."""

    line: int
    """Line of the first byte, from 1."""
    content: bytes
    form: Form
    value: object = None
    """The value, where it is JSON."""
    fault: str = ""
    """Why it is no JSON, or nothing at all."""


# The second kind of string is YAML's: its brackets do not count either.
_TOKEN: Final = re.compile(rb'"[^"\\\r\n]*(?:\\.[^"\\\r\n]*)*"|\'[^\'\r\n]*\'|[{}\[\]:,"]|[^\s{}\[\]:,"]+')
_BRACKET_LINE: Final = re.compile(rb"\n[{}\[\]]")
_NEXT_OBJECT: Final = re.compile(rb"\n(?=[{\[]|---[ \t\r\n])")
_NEXT_DOCUMENT: Final = re.compile(rb"\n(?=[{\[]|(?:---|\.\.\.)[ \t\r\n])")
_CLOSES: Final = {ord("}"): ord("{"), ord("]"): ord("[")}
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_DEEPEST: Final = 200
"""Levels of nesting; the JSON parser reads no more."""


class TooManyValuesError(ValueError):
    """Raised when a piece of JSON may hold more values than the bound."""


def _value(content: bytes) -> object:
    """Return the value of a piece of JSON.

    Raises:
        TooManyValuesError: by its brackets and commas, those in strings included, it may hold more than `VALUES` values.
        ValueError: it is no JSON.
    """
    if len(content) > VALUES and content.count(b",") + content.count(b"[") + content.count(b"{") > VALUES:
        raise TooManyValuesError(f"more than {VALUES:,} values")
    return from_json(content, allow_inf_nan=False)


class Pieces:
    """Splits a stream; whatever the sizes of the chunks fed, the pieces are the same.

    Args:
        largest: bytes after which an object that does not end is given up.
    """

    def __init__(self, largest: int = OBJECT_BYTES) -> None:
        self._largest = largest
        self._buffer = bytearray()
        self._line = 1
        self._form: Form | None = None
        """What the buffer begins with; `None`: not known yet."""
        self._fault = ""
        self._searched = 0
        """Up to here the buffer holds no boundary."""
        self._scanned = 0
        self._open = bytearray()
        """Brackets open at `_scanned`."""
        self._previous = 0
        """First byte of the token before `_scanned`; 0: none."""
        self._begun = False

    def feed(self, data: bytes) -> Iterator[Piece]:
        """Take more bytes and yield the pieces that they complete. To be exhausted before the next call."""
        self._buffer += data
        if not self._begun:
            if len(self._buffer) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(self._buffer):
                return
            self._begun = True
            if self._buffer.startswith(_BYTE_ORDER_MARK):
                del self._buffer[: len(_BYTE_ORDER_MARK)]
        yield from self._split(final=False)

    def close(self) -> Iterator[Piece]:
        """Yield what is left when no more bytes come."""
        # With the line ended, what stands at the end of the stream is complete.
        yield from self.feed(b"\n")
        yield from self._split(final=True)

    def _split(self, *, final: bool) -> Iterator[Piece]:
        while self._buffer:
            before = len(self._buffer), self._form
            piece = None
            if self._form is None:
                self._begin()
            if self._form == "json":
                piece = self._json(final=final)
            elif self._form is not None:
                piece = self._until(_NEXT_DOCUMENT if self._form == "yaml" else _NEXT_OBJECT, final=final)
            if piece is not None:
                yield piece
            elif (len(self._buffer), self._form) == before:
                if len(self._buffer) <= self._largest:
                    return
                self._form = "garbage"
                self._fault = f"larger than {self._largest} bytes; --output-watch-events prints the objects of a List one by one"
                yield self._cut(len(self._buffer))

    def _begin(self) -> None:
        """Skip lines that mean nothing between objects and find out what stands next."""
        buffer = self._buffer
        while (end := buffer.find(b"\n", self._searched)) >= 0:
            self._searched = 0
            line = bytes(buffer[:end]).strip()
            # A comma is what stays of an array that had to be taken apart.
            if line and line not in {b"---", b"...", b","} and line[0] not in b"#%":
                self._form = "json" if line[0] in b"{[" else "yaml"
                return
            self._drop(end + 1)
        self._searched = len(buffer)

    def _json(self, *, final: bool) -> Piece | None:
        """Return the piece of JSON at the start of the buffer, if it is complete."""
        buffer = self._buffer
        if not self._scanned:
            # Almost always an object is one line, or ends with the next line that begins with a bracket.
            ends = [buffer.find(b"\n")]
            if (bracket := _BRACKET_LINE.search(buffer, self._searched)) is not None:
                ends.append(buffer.find(b"\n", bracket.end()))
            else:
                self._searched = max(0, len(buffer) - 1)
            for end in ends:
                if end > 0 and buffer[:end].rstrip().endswith((b"}", b"]")):
                    content = bytes(buffer[:end])
                    try:
                        value = _value(content)
                    except ValueError:
                        continue
                    return self._cut(end, value)
        end = self._scan()
        if end > 0:
            content = bytes(buffer[:end])
            try:
                value = _value(content)
            except TooManyValuesError as error:
                self._form, self._fault = "garbage", str(error)
                return self._cut(end)
            except ValueError as error:
                self._form, self._fault = "flow", f"not JSON: {error}"
                return self._cut(end)
            return self._cut(end, value)
        if end < 0 or final:
            self._form, self._fault = "garbage", "brackets or quotes that do not match" if end < 0 else "ends in the middle"
        return None

    def _scan(self) -> int:
        """Go on through complete lines; return where the value ends, 0 if it has not, -1 if it can no longer be JSON."""
        buffer, stack, previous = self._buffer, self._open, self._previous
        stop = buffer.rfind(b"\n") + 1
        self._searched = 0
        for token in _TOKEN.finditer(buffer, self._scanned, stop):
            first = buffer[token.start()]
            if first in b"{[":
                follows = not previous or previous in b":[" or (previous == 44 and stack[-1:] == b"[")
                if not follows:
                    return -1
                if len(stack) == _DEEPEST:
                    self._searched = token.start() - 1  # all that came before is too deep as well
                    return -1
                stack.append(first)
            elif first in _CLOSES:
                if stack.pop() != _CLOSES[first]:
                    return -1
                if not stack:
                    return token.end()
            elif first == 34 and token.end() - token.start() == 1:
                return -1
            previous = first
        self._previous, self._scanned = previous, stop
        return 0

    def _until(self, boundary: re.Pattern[bytes], *, final: bool) -> Piece | None:
        found = boundary.search(self._buffer, self._searched)
        if found is not None:
            return self._cut(found.start() + 1)
        if final:
            return self._cut(len(self._buffer))
        self._searched = max(0, len(self._buffer) - 5)
        return None

    def _cut(self, end: int, value: object = None) -> Piece:
        piece = Piece(self._line, bytes(self._buffer[:end]), self._form or "garbage", value, self._fault)
        self._drop(end)
        return piece

    def _drop(self, end: int) -> None:
        self._line += self._buffer.count(b"\n", 0, end)
        del self._buffer[:end]
        self._form, self._fault = None, ""
        self._searched = self._scanned = self._previous = 0
        self._open.clear()
