"""msgspec decoders of events' data, made of the annotations that pydantic reads: an observation costs them half as much.

They refuse what breaks a bound, and pydantic says why: it is asked again about all that they refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NotRequired, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, GroupedMetadata, Le, MaxLen
from msgspec import Meta, MsgspecError
from msgspec.json import Decoder
from pydantic.fields import FieldInfo
from typing_extensions import TypedDict

__all__ = ["REFUSED", "fast_decoder"]

REFUSED: Final = (MsgspecError, UnicodeDecodeError, RecursionError)
"""What a decoder raises."""

_PLAIN: Final = {str, int, bool, NoneType}


class _UnknownTypeError(Exception):
    """Raised when msgspec would read a type otherwise than pydantic does."""


def fast_decoder(cls: type[Any]) -> Callable[[bytes], dict[str, Any]] | None:
    """Return a function that reads the fields of a dataclass from JSON, for its constructor; those that are absent have defaults.

    `None`: the class has fields of other types than strings, numbers, truth values, choices, and parts with no others.
    """
    hints = get_type_hints(cls, include_extras=True)
    parts = [(field.name, hints[field.name]) for field in fields(cls) if is_dataclass(hints[field.name])]
    try:
        read: Callable[[bytes], dict[str, Any]] = Decoder(_mapping(cls, dict(parts))).decode
    except _UnknownTypeError:
        return None

    def read_parts(content: bytes) -> dict[str, Any]:
        values = read(content)
        for name, part in parts:
            if name in values:
                values[name] = part(**values[name])
        return values

    return read_parts if parts else read


def _mapping(cls: type[Any], parts: dict[str, Any]) -> Any:  # noqa: ANN401 - a type that is known at run time only
    """Return what a dataclass looks like in JSON; of its parts in turn, which have none."""
    hints = get_type_hints(cls, include_extras=True)
    found = {}
    for field in fields(cls):
        hint = hints[field.name]
        kept = _mapping(hint, {}) if field.name in parts else _converted(hint)
        found[field.name] = kept if _is_required(field) else NotRequired[kept]
    return TypedDict(cls.__name__, found)  # type: ignore[operator]  # as above


def _is_required(field: Field[Any]) -> bool:
    return field.default is field.default_factory is MISSING


def _converted(hint: Any) -> Any:  # noqa: ANN401 - any annotation
    origin = get_origin(hint)
    if origin is Annotated:
        base, *metadata = get_args(hint)
        bounds = dict(_bound(constraint) for item in metadata for constraint in _constraints(item))
        return Annotated[_converted(base), Meta(**bounds)] if bounds else _converted(base)
    if origin in {Union, UnionType}:
        return Union[tuple(map(_converted, get_args(hint)))]  # noqa: UP007 - of members that are known at run time only
    if hint in _PLAIN or origin is Literal:
        return hint
    raise _UnknownTypeError(hint)


def _constraints(item: object) -> Iterator[object]:
    if isinstance(item, FieldInfo):
        for inner in item.metadata:
            yield from _constraints(inner)
    elif isinstance(item, GroupedMetadata):
        yield from item
    else:
        yield item


def _bound(constraint: object) -> tuple[str, Any]:
    match constraint:
        case Ge(ge):
            return "ge", ge
        case Le(le):
            return "le", le
        case MaxLen(most):
            return "max_length", most
        case _:
            raise _UnknownTypeError(constraint)
