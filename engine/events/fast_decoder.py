"""msgspec decoders of events' data; several times as fast as pydantic.

They reject data that break a bound; pydantic then decodes all rejected data again and explains the fault. They also reject unknown
fields, because the depth to which msgspec skips them depends on the caller's stack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final, TypeVar, get_args

from msgspec import MsgspecError
from msgspec.json import Decoder

from statemachines.value import Value

V = TypeVar("V", bound=Value)

REFUSED: Final = (MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors that a decoder raises."""


def has_any(hint: Any) -> bool:  # noqa: ANN401 - any annotation
    """Return whether a type contains arbitrary JSON, which msgspec and pydantic read and write differently (`1e+16`, `NaN`)."""
    if hint is Any:
        return True
    if isinstance(hint, type) and issubclass(hint, Value):
        return any(has_any(one.type) for one in fields(hint))
    return any(map(has_any, get_args(hint)))


def fast_decoder(cls: type[V]) -> Callable[[bytes], V] | None:
    """Return a function that reads a value from JSON; `None`: it contains arbitrary JSON."""
    return None if has_any(cls) else Decoder(cls).decode
