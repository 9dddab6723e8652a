"""Search for the end of a JSON value, token by token, for chunks of any size."""

from __future__ import annotations

import re
from typing import Final

# The second kind of string is YAML's, whose brackets do not count either.
_TOKEN: Final = re.compile(rb'"[^"\\\r\n]*(?:\\.[^"\\\r\n]*)*"|\'[^\'\r\n]*\'|[{}\[\]:,"]|[^\s{}\[\]:,"]+')
_LINE_END: Final = re.compile(rb"[\r\n]")
_CLOSES: Final = {ord("}"): ord("{"), ord("]"): ord("[")}
_QUOTE: Final = ord('"')
_DEEPEST: Final = 200
"""Maximum nesting, that of the JSON parser."""


class Brackets:
    """Scanner of a value from its start; each byte is scanned a bounded number of times.

    Args:
        opened: open brackets before it; the value ends when they are closed.
        json: text in single quotes, which JSON does not have, ends the search.
    """

    def __init__(self, opened: bytes = b"", *, json: bool = False) -> None:
        self._json = json
        self._open = bytearray(opened)
        self._previous = _QUOTE if opened else 0
        """First byte of the token before `scanned`; 0: none."""
        self.scanned = 0
        self._enough = 0
        """Number of bytes below which an incomplete token is still incomplete."""
        self.too_deep = 0
        """Position up to which brackets are nested too deep."""

    def end(self, buffer: bytearray, stop: int, *, ended: bool) -> int:
        """Return the end of the value; 0 if it is not complete before `stop`, -1 if it cannot be JSON.

        Args:
            buffer: bytes from the value's start, more than in the last call.
            stop: number of bytes to scan.
            ended: the stream has ended; the last byte is the end of a line.
        """
        if stop < self._enough and not ended:
            return 0
        stack, previous = self._open, self._previous
        for token in _TOKEN.finditer(buffer, self.scanned, stop):
            start, end = token.span()
            first = buffer[start]
            if first in b"{[":
                follows = not previous or previous in b":[" or (previous == 44 and stack[-1:] == b"[")
                if not follows:
                    return -1
                if len(stack) == _DEEPEST:
                    self.too_deep = start
                    return -1
                stack.append(first)
            elif first in _CLOSES:
                if not stack or stack.pop() != _CLOSES[first]:
                    return -1
                if not stack:
                    return end
            elif (end == stop and first not in b":,") or (first == _QUOTE and end - start == 1):
                if _LINE_END.search(buffer, start, stop - ended) is not None:
                    return -1
                self._previous, self.scanned, self._enough = previous, start, 2 * stop - start
                return 0
            elif first == ord("'") and self._json:
                return -1
            elif not stack:
                return end
            previous = first
        self._previous, self.scanned = previous, stop
        return 0
