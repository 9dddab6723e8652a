"""Checks of fields shared by many rules."""

from __future__ import annotations

from collections.abc import Iterator

from engine.events.outcomes import Fault


def at_least(value: int | None, least: int, path: str) -> Iterator[Fault]:
    """Yield a fault if a number is given and too small."""
    if value is not None and value < least:
        yield Fault(path, f"must be at least {least}")


def one_of(value: str | None, allowed: tuple[str, ...], path: str) -> Iterator[Fault]:
    """Yield a fault if a text is not in a list of allowed values; as in Go, an empty text counts as not given."""
    if value and value not in allowed:
        yield Fault(path, f"must be {' or '.join(allowed)}")
