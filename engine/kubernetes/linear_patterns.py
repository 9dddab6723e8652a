"""Regular expressions of users, matched in linear time.

Python's own engine tries alternatives one after the other: `^(a+)+$` takes 2^n steps. RE2 reads a text once; what only
backtracking can do (look-around, back-references) it refuses.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import re2

__all__ = ["compiled", "pattern_fault"]

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True
_OPTIONS.max_mem = 1 << 20  # bytes of one compiled pattern and its automaton

_UNICODE: Final = re.compile(r"(\\[^u])|\\u([0-9A-Fa-f]{4})", re.DOTALL)


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:  # noqa: ANN401 - RE2's binding has no types
    r"""Return a pattern that is ready to search; JavaScript's `\uXXXX` is read, as JSON Schema means its dialect.

    Raises:
        re2.error: it is no pattern, too large, or one that no linear-time matcher knows.
    """
    return re2.compile(_UNICODE.sub(lambda found: found[1] or f"\\x{{{found[2]}}}", pattern), _OPTIONS)


def pattern_fault(pattern: str) -> str | None:
    """Say why a pattern is refused, or `None`."""
    try:
        compiled(pattern)
    except re2.error as error:
        told = error.args[0] if error.args else ""
        told = told.decode(errors="replace") if isinstance(told, bytes) else str(told)
        return f"{told[:200]}; patterns are those of RE2, which match in linear time: no look-around, no back-references"
    except UnicodeEncodeError:
        return "it is not Unicode"
    return None
