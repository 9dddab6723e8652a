"""Excerpts of messages from schedulers, kubelets and programs, and their comparison."""

from __future__ import annotations

import re
from typing import Final

from engine.events.bounds import MESSAGE_BYTES
from engine.events.ids import digest

LONGEST: Final = 2 * MESSAGE_BYTES + 40
"""Bytes of an excerpt, including the mark of the omitted middle."""
_DIGIT: Final = re.compile(r"\d")
_PUNCTUATION: Final = ".,;:"


def excerpt(message: str) -> str:
    """Return a short message unchanged, else its beginning and end with the size of the omitted middle.

    It is cut between Unicode characters; lone surrogates become `?`. An excerpt is its own excerpt.
    """
    message = message.strip()
    if message.isascii() and len(message) <= LONGEST:
        return message
    content = message.encode("utf-8", "replace")
    if len(content) <= LONGEST:
        return content.decode()
    first = content[:MESSAGE_BYTES].decode("utf-8", "ignore").rstrip()
    last = content[-MESSAGE_BYTES:].decode("utf-8", "ignore").lstrip()
    return f"{first} [… {len(content) - 2 * MESSAGE_BYTES:,} bytes …] {last}"


def gist(message: str) -> str:
    """Return a digest that is equal for messages that differ in their numbers only; empty for no message.

    It covers the set of words without digits: a scheduler sorts its reasons by their numbers of nodes, and a kubelet names the
    seconds that it waits.
    """
    if not message:
        return ""
    words = {word.strip(_PUNCTUATION) for word in message.split()}
    return digest(" ".join(sorted(word for word in words if not _DIGIT.search(word))).encode())[:16]
