"""Escaping of control characters, line ends and changes of text direction in output, because tenants choose names and reasons."""

from __future__ import annotations

from typing import Final

from rich.text import Text

from engine.controls import CONTROLS

_VISIBLE: Final = {code: repr(chr(code))[1:-1] for code in CONTROLS}


def visible(text: str) -> str:
    """Return a text as one line, with control characters escaped as in Python."""
    return text if text.isprintable() else text.translate(_VISIBLE)


def visible_text(text: Text) -> Text:
    """Return a styled text as one line, with control characters escaped."""
    if text.plain.isprintable():
        return text
    shown = text.blank_copy()
    at = 0
    for end in sorted({len(text), *(edge for span in text.spans for edge in (span.start, span.end))}):
        part = text[at:end]
        shown.append(visible(part.plain), part.spans[0].style if part.spans else None)
        at = end
    return shown
