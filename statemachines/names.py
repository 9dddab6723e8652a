"""Names of closed vocabularies as people give them: a misspelt one is refused with the nearest that there is."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Final

from statemachines.errors import UnknownNameError

_LISTED: Final = 12
"""Names listed in an error where none is near."""
_LIKELY: Final = 0.75
_MISSPELT: Final = 0.85
_LONGEST: Final = 100
"""Characters compared."""


def nearest(given: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the known name that a text resembles most, whatever its case; `None`: it resembles none.

    Args:
        given: the text.
        known: the names.
        likeness: least ratio of characters that agree, from 0 to 1.
    """
    by_fold = {name.casefold(): name for name in sorted(known)}
    found = get_close_matches(given[:_LONGEST].casefold(), by_fold, 1, likeness)
    return by_fold[found[0]] if found else None


def hint(given: str, known: Iterable[str]) -> str:
    """Return the end of a message that names the nearest known name; empty: there is none near."""
    near = nearest(given, known)
    return "" if near is None else f"; did you mean {near}?"


def must_not_be_misspelt(what: str, given: Iterable[str], known: Collection[str]) -> None:
    """Check names of an open vocabulary: those that are almost one of its known names are refused.

    Raises:
        UnknownNameError: one is.
    """
    for name in sorted(set(given) - set(known)):
        if (near := nearest(name, known, _MISSPELT)) is not None:
            raise UnknownNameError(what, name, f"did you mean {near}?")


def must_be_known(what: str, given: Iterable[str], known: Collection[str]) -> None:
    """Check names of a closed vocabulary.

    Args:
        what: what they are, for the error: `phase`.
        given: the names.
        known: the vocabulary.

    Raises:
        UnknownNameError: one is not in it.
    """
    for name in sorted(set(given) - set(known)):
        near = nearest(name, known, _LIKELY)
        if near is not None:
            raise UnknownNameError(what, name, f"did you mean {near}?")
        shown = sorted(known)
        more = f", … ({len(shown)} in all)" if len(shown) > _LISTED else ""
        raise UnknownNameError(what, name, f"write one of {', '.join(shown[:_LISTED])}{more}")
