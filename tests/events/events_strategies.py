"""Hypothesis strategies for events: any value that the fields of a class allow."""

from dataclasses import fields
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from engine.events import TYPES, Event
from engine.events.times import EARLIEST, LATEST
from engine.events.values import JsonObject
from engine.events.vocabulary import Data

TEXT = st.text(max_size=12)
NAMES = st.text(min_size=1, max_size=12)
MOMENTS = st.integers(EARLIEST, LATEST)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
JSON_OBJECTS = st.dictionaries(TEXT, JSON, max_size=3)


def of_type(hint: Any) -> st.SearchStrategy[Any]:
    """Values of an annotation."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint == JsonObject:
        return JSON_OBJECTS
    if origin is Annotated and arguments[0] is int:
        return _numbers(arguments[1])
    if origin is Annotated:  # texts and mappings of bounded size
        return of_type(arguments[0])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, UnionType):
        return st.one_of([st.none() if argument is NoneType else of_type(argument) for argument in arguments])
    if origin is list:
        return st.lists(of_type(arguments[0]), max_size=2)
    if origin is tuple:
        each = st.lists(of_type(arguments[0]), max_size=2).map(tuple)
        return each if arguments[-1] is ... else st.tuples(*map(of_type, arguments))
    if origin is dict:
        return JSON_OBJECTS if arguments[1] is Any else st.dictionaries(TEXT, of_type(arguments[1]), max_size=2)
    simple = {str: TEXT, int: st.integers(), bool: st.booleans()}
    return simple[hint] if hint in simple else instances(hint)


def _numbers(field: Any) -> st.SearchStrategy[int]:
    """Whole numbers within the bounds of a field."""
    marks = getattr(field, "metadata", (field,))
    bounds = {name: getattr(one, name) for one in marks for name in ("ge", "le") if getattr(one, name, None) is not None}
    return st.integers(bounds.get("ge", EARLIEST), bounds.get("le", LATEST))


def names_of(cls: type[Any]) -> list[str]:
    """Names of the fields of a value."""
    return [field.name for field in fields(cls)]


def instances(cls: type[Any]) -> st.SearchStrategy[Any]:
    """Instances of a value."""
    hints = get_type_hints(cls, include_extras=True)
    return st.builds(cls, **{name: of_type(hints[name]) for name in names_of(cls)})


def events(*names: str) -> st.SearchStrategy[Event[Data]]:
    """Events of these types, or of any."""
    data = st.sampled_from(names or sorted(TYPES)).flatmap(lambda name: instances(TYPES[name]))
    return data.flatmap(
        lambda made: st.builds(
            Event,
            id=NAMES,
            source=NAMES,
            type=st.just(made.TYPE),
            subject=TEXT,
            time=MOMENTS,
            recordedtime=MOMENTS,
            sequence=st.integers(0, 2**63 - 1),
            correlationid=TEXT,
            causationid=TEXT,
            clusterid=TEXT,
            data=st.just(made),
        )
    )
