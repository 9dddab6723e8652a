"""msgspec decoders of events' data, made from the annotations that pydantic reads; twice as fast for an observation.

They reject data that break a bound; pydantic then decodes all rejected data again and explains the fault. They also reject unknown
fields, because the depth to which msgspec skips them depends on the caller's stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, GroupedMetadata, Le, MaxLen
from msgspec import Meta, MsgspecError, Struct, defstruct
from msgspec import field as struct_field
from msgspec.json import Decoder
from msgspec.structs import astuple
from pydantic.fields import FieldInfo

__all__ = ["REFUSED", "fast_decoder"]

C = TypeVar("C")

REFUSED: Final = (MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors that a decoder raises."""

_PLAIN: Final = {str, int, bool, NoneType}


class _UnknownTypeError(Exception):
    """Raised for a type that msgspec and pydantic read differently."""


def fast_decoder(cls: type[C]) -> Callable[[bytes], C] | None:
    """Return a function that reads an object of a struct or a dataclass from JSON.

    `None`: the class has fields other than strings, numbers, booleans, choices, parts, and lists and maps of these.
    """
    if issubclass(cls, Struct):
        return Decoder(cls).decode
    try:
        struct, make = _struct(cls)
    except _UnknownTypeError:
        return None
    read = Decoder(struct).decode
    return lambda content: make(read(content))


def _struct(cls: type[Any]) -> tuple[type[Struct], Callable[[Struct], Any]]:
    """Return the struct of a dataclass, and the function that makes an object of it from the struct."""
    hints = get_type_hints(cls, include_extras=True)
    found: list[tuple[str, Any, Any]] = []
    parts: list[tuple[int, Callable[[Struct], Any]]] = []
    for field in sorted(fields(cls), key=lambda field: bool(field.kw_only)):
        hint: Any = hints[field.name]
        default = {"default": field.default, "default_factory": field.default_factory}
        part = _part(hint)
        if part is None:
            kind = _converted(hint)
        else:
            made, make = _struct(part)
            parts.append((len(found), make))
            kind = made if hint is part else Union[made, None]  # noqa: UP007 - of a class that is known at run time only
            if default == {"default": MISSING, "default_factory": part}:
                default["default_factory"] = made
            elif default != {"default": None, "default_factory": MISSING}:  # the only defaults that a struct has as well
                raise _UnknownTypeError(hint)
        known: dict[str, Any] = {name: value for name, value in default.items() if value is not MISSING}
        found.append((field.name, kind, struct_field(**known)))
    named = [field.name for field in reversed(fields(cls)) if field.kw_only]

    struct = defstruct(cls.__name__, found, kw_only=True, forbid_unknown_fields=True)
    if not parts and not named:
        return struct, lambda read: cls(*astuple(read))

    def make_all(read: Struct) -> Any:  # noqa: ANN401 - of a class that is known at run time only
        values = list(astuple(read))
        for at, make in parts:
            if values[at] is not None:
                values[at] = make(values[at])
        if not named:
            return cls(*values)
        by_name = {}
        for name in named:  # a comprehension would be a call
            by_name[name] = values.pop()
        return cls(*values, **by_name)

    return struct, make_all


def _part(hint: Any) -> Any:  # noqa: ANN401 - any annotation
    """Return the class of a part, one that may be absent included; `None`: the annotation is of something else."""
    present = [member for member in get_args(hint) if member is not NoneType] if get_origin(hint) in {Union, UnionType} else [hint]
    return present[0] if len(present) == 1 and is_dataclass(present[0]) else None


def _converted(hint: Any) -> Any:  # noqa: ANN401 - any annotation
    origin = get_origin(hint)
    if origin is Annotated:
        base, *metadata = get_args(hint)
        bounds = dict(_bound(constraint) for item in metadata for constraint in _constraints(item))
        return Annotated[_converted(base), Meta(**bounds)] if bounds else _converted(base)
    if origin in {Union, UnionType}:
        return Union[tuple(map(_converted, get_args(hint)))]  # noqa: UP007 - of members that are known at run time only
    if origin in {dict, list}:
        return origin[tuple(map(_converted, get_args(hint)))]
    if hint in _PLAIN or origin is Literal:
        return hint
    raise _UnknownTypeError(hint)


def _constraints(item: object) -> Iterator[object]:
    if isinstance(item, Meta):
        return  # FieldInfo says the same
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
