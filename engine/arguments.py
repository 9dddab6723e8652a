"""Arguments of Python programs, checked against the annotations of what is called: a wrong type is one error with a sentence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, wraps
from inspect import Parameter, isfunction, signature
from io import TextIOBase
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, BinaryIO, Final, Literal, ParamSpec, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from engine.controls import must_be_text, must_not_be_empty
from statemachines.errors import LaharError

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

_NAMES: Final[Mapping[object, str]] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    NoneType: "None",
    BinaryIO: "a file open for bytes ('wb')",
}
_SEVERAL: Final[Mapping[object, str]] = {str: "texts", int: "whole numbers"}
_ANY: Final = (Any, object)


class RequestError(LaharError, ValueError):
    """Raised when an argument cannot be used: it has the wrong type, names nothing that exists, or breaks a rule."""


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of each call of a function before it runs.

    A text is no list of texts, a bool no number. Vocabularies (`Literal`) are checked for their type only: the function refuses a
    misspelt name with the nearest one. Iterables are not read.

    The function raises:
        RequestError: an argument has another type than its annotation, or a text is no UTF-8.
        TypeError: as any call: the number of arguments is wrong, or a keyword unknown.
    """
    shape = signature(function)

    @cache
    def annotations() -> dict[str, Any]:  # at the first call: some name classes that are defined below
        given = {name: wanted for name, wanted in function.__annotations__.items() if name != "return"}
        return get_type_hints(SimpleNamespace(__annotations__=given), function.__globals__)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in shape.bind(*args, **kwargs).arguments.items():
            if (wanted := annotations().get(name)) is not None:
                if shape.parameters[name].kind is Parameter.VAR_POSITIONAL:
                    for number, one in enumerate(value, start=1):
                        must_fit(f"{name.removesuffix('s')} {number}", one, wanted)
                else:
                    must_fit(name, value, wanted)
        return function(*args, **kwargs)

    return call


def checked_methods(cls: C) -> C:
    """Check the arguments of each call of a public method of a class; see `checked`."""
    for name, method in list(vars(cls).items()):
        if isfunction(method) and not name.startswith("_"):
            setattr(cls, name, checked(method))
    return cls


def must_fit(name: str, value: object, wanted: object) -> None:
    """Check a value against an annotation.

    Args:
        name: of the argument, for the error.
        value: the argument.
        wanted: its annotation.

    Raises:
        RequestError: it has another type, a text in it is no UTF-8, or it is an empty text and may be left out.
    """
    if not _fits(value, wanted):
        raise RequestError(f"{name} must be {_described(wanted)}, not {_type_of(value)}")
    try:
        if isinstance(value, str) and NoneType in get_args(wanted):
            must_not_be_empty(name, value)
        for text in _texts(value):
            must_be_text(name, text)
    except ValueError as error:
        raise RequestError(str(error)) from None


def set_of_texts(name: str, given: object) -> frozenset[str]:
    """Return a text, or a collection of texts, as a set.

    Args:
        name: of the argument, for the error.
        given: the argument.

    Raises:
        RequestError: it is neither.
    """
    must_fit(name, given, str | Collection[str])
    return frozenset({given} if isinstance(given, str) else cast("Collection[str]", given))


def _fits(value: object, wanted: object) -> bool:
    origin, parts = get_origin(wanted), get_args(wanted)
    if wanted in _ANY or isinstance(wanted, TypeVar):
        return True
    if origin is Annotated:
        return _fits(value, parts[0])
    if origin in {Union, UnionType}:
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return isinstance(value, tuple({type(part) for part in parts}))
    if wanted is BinaryIO:
        return callable(getattr(value, "write", None)) and not isinstance(value, TextIOBase)
    if wanted in {int, float} and isinstance(value, bool):
        return False
    if wanted is float:
        return isinstance(value, int | float)
    kind = origin or wanted
    if not isinstance(kind, type):
        return True
    kinds = (kind, set, frozenset) if kind is Sequence else kind
    if not isinstance(value, kinds) or (origin is not None and isinstance(value, str | bytes)):
        return False
    if kind is Iterable:
        return True  # to read it here would be to take its items
    if isinstance(value, Mapping):
        return len(parts) != 2 or all(_fits(key, parts[0]) and _fits(one, parts[1]) for key, one in value.items())
    return not isinstance(value, Collection) or not parts or all(_fits(one, parts[0]) for one in value)


def _described(wanted: object) -> str:
    origin, parts = get_origin(wanted), get_args(wanted)
    if origin is Annotated:
        return _described(parts[0])
    if origin in {Union, UnionType}:
        return " or ".join(_described(part) for part in sorted(parts, key=lambda part: part is NoneType))
    if origin is Literal:
        return _described(type(parts[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a dict" if not parts or parts[1] in _ANY else f"a dict of {_several(parts[0])} to {_several(parts[1])}"
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return f"a list of {_several(parts[0])}"
    return _NAMES.get(wanted) or f"a {getattr(wanted, '__name__', wanted)}"


def _several(wanted: object) -> str:
    parts = get_args(wanted) if get_origin(wanted) in {Union, UnionType} else (wanted,)
    return " or ".join(_SEVERAL.get(part) or f"{_described(part).removeprefix('a ')}s" for part in parts)


def _type_of(value: object) -> str:
    """Return the type of a value; with those of its items, as one of them may be what is wrong."""
    items: Iterable[object] = ()
    if isinstance(value, Mapping):
        items = (*value, *value.values())
    elif isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes):
        items = value
    inner = sorted({repr(type(item).__name__) for item in items})
    return repr(type(value).__name__) + (f" of {', '.join(inner)}" if inner else "")


def _texts(value: object) -> Iterable[str]:
    """Yield the strings of a value: itself, its items, or the keys and values of a mapping."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for pair in value.items() for text in pair if isinstance(text, str))
    elif isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes):
        yield from (text for text in value if isinstance(text, str))
