"""Characters that steer a terminal or the direction of a text, and how JSON writes them as escapes; text that is none."""

from __future__ import annotations

from typing import Final

CONTROLS: Final = (*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""Controls of terminals, ends of lines, and controls of the direction of writing."""
_AS_JSON: Final = {code: f"\\u{code:04x}" for code in CONTROLS if code != ord("\n")}


def visible_line(text: str) -> str:
    """Return lines without controls: in JSON they are written as escapes, which mean the same."""
    return text if text.isprintable() else text.translate(_AS_JSON)


def must_be_text(what: str, given: str) -> None:
    """Check that a text can be written as UTF-8: bytes of the command line that are none become halves of surrogate pairs.

    Args:
        what: name of the argument, for the error.
        given: text to check.

    Raises:
        ValueError: the text cannot be written as UTF-8.
    """
    if any("\ud800" <= character <= "\udfff" for character in given):
        raise ValueError(f"{what} {given!r} is no UTF-8 text")


def must_not_be_empty(what: str, given: str) -> None:
    """Check a text that may be left out: an empty one names nothing.

    Args:
        what: name of the argument, for the error.
        given: text to check.

    Raises:
        ValueError: the text is empty.
    """
    if not given:
        raise ValueError(f"{what} is empty: leave it out, or name one")
