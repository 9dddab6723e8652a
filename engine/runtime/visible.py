"""Escapes control characters, line ends and changes of text direction in answers: tenants choose names and reasons."""

from __future__ import annotations

from typing import Final

from rich.text import Text

__all__ = ["visible", "visible_line", "visible_text"]

_CODES: Final = (*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""Controls of terminals, ends of lines, and controls of the direction of writing."""
_VISIBLE: Final = {code: repr(chr(code))[1:-1] for code in _CODES}
_AS_JSON: Final = {code: f"\\u{code:04x}" for code in _CODES if code != ord("\n")}


def visible(text: str) -> str:
    """Return a text for people as one line without controls: each is shown as Python writes it."""
    return text if text.isprintable() else text.translate(_VISIBLE)


def visible_line(text: str) -> str:
    """Return what goes out as it is, without controls: in JSON they are written as escapes, which mean the same."""
    return text if text.isprintable() else text.translate(_AS_JSON)


def visible_text(text: Text) -> Text:
    """Return a styled text as one line without controls."""
    if text.plain.isprintable():
        return text
    shown = text.blank_copy()
    at = 0
    for end in sorted({len(text), *(edge for span in text.spans for edge in (span.start, span.end))}):
        part = text[at:end]
        shown.append(visible(part.plain), part.spans[0].style if part.spans else None)
        at = end
    return shown
