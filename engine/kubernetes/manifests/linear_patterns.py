"""Regular expressions of users, matched in linear time.

Python's engine backtracks: `^(a+)+$` takes 2^n steps. RE2 reads a text once and rejects what needs backtracking (look-around,
back-references).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import re2

from engine.events.bounds import SCHEMA_PATTERN_CHARACTERS, SCHEMA_PATTERN_INSTRUCTIONS

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True
_OPTIONS.max_mem = 1 << 20  # bytes of one compiled pattern and its automaton

_TOO_LARGE: Final = (
    f"the patterns of a job's schemas may have {SCHEMA_PATTERN_INSTRUCTIONS:,} instructions of RE2 together: "
    r"make repeats such as {1,1000} or classes such as \pL fewer"
)

_UNICODE: Final = re.compile(r"(\\[^u])|\\u([0-9A-Fa-f]{4})", re.DOTALL)


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:  # noqa: ANN401 - RE2's binding has no types
    r"""Return a compiled pattern; JavaScript's `\uXXXX` is supported, as in JSON Schema's dialect.

    Raises:
        re2.error: the pattern is invalid, too large, or not matchable in linear time.
    """
    return re2.compile(_UNICODE.sub(lambda found: found[1] or f"\\x{{{found[2]}}}", pattern), _OPTIONS)


class PatternBudget:
    r"""Cost limit of all patterns of one job: 400 patterns of thirty `\pL` each would take 7 s to compile."""

    __slots__ = ("_characters", "_instructions")

    def __init__(self) -> None:
        self._characters = SCHEMA_PATTERN_CHARACTERS
        self._instructions = SCHEMA_PATTERN_INSTRUCTIONS

    def fault(self, pattern: str) -> str | None:
        """Return the reason to reject a pattern, or `None`. Beyond the budget it is rejected without being compiled."""
        self._characters -= len(pattern)
        if self._characters < 0:
            return f"the patterns of a job's schemas may have {SCHEMA_PATTERN_CHARACTERS:,} characters together"
        if self._instructions < 0:
            return _TOO_LARGE
        try:
            self._instructions -= compiled(pattern).programsize
        except re2.error as error:
            told = error.args[0] if error.args else ""
            told = told.decode(errors="replace") if isinstance(told, bytes) else str(told)
            if "too large" in told:  # compiled up to the limit, which costs the rest of the budget
                self._instructions = -1
            return f"{told[:200]}; patterns are those of RE2, which match in linear time: no look-around, no back-references"
        except UnicodeEncodeError:
            return "it is not Unicode"
        return _TOO_LARGE if self._instructions < 0 else None
