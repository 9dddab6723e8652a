"""Registration of event classes and of upcasters from old versions.

An event's data is a slotted dataclass, or a struct (`Compact`) of a type that is written by the hundred thousand;
`@event("lahar.job.opened.v1", topic=…)` gives it its stable name. pydantic derives validation, JSON and JSON Schema from the
class. Upcasters lead from an older version to the next, one event to one event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, make_dataclass
from inspect import get_annotations
from typing import Any, ClassVar, Final, Literal, NotRequired, TypeVar, cast, dataclass_transform, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields as struct_fields
from pydantic import GetCoreSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_after_validator_function
from typing_extensions import TypedDict

from engine.events.bounds import FACT_BYTES

__all__ = [
    "INPUT_TOPICS",
    "SINGLE_TOPICS",
    "TYPES",
    "UPCASTERS",
    "Compact",
    "Data",
    "Stability",
    "Topic",
    "adapter",
    "dataclass_of",
    "event",
    "fields_adapter",
    "part",
    "upcaster",
]

Topic = Literal[
    "pods",
    "jobs",
    "cluster",
    "job-events",
    "decisions",
    "preemptions",
    "scheduling",
    "billing",
    "budgets",
    "dead-letters",
    "snapshots",
]
"""Writers of events."""

INPUT_TOPICS: Final[frozenset[Topic]] = frozenset({"pods", "jobs", "cluster"})
"""Topics written by producers outside the engine. Their events have no sequence, and the appender may set their times."""

SINGLE_TOPICS: Final[frozenset[Topic]] = frozenset({"cluster", "scheduling", "budgets"})
"""Topics with one partition each, whatever the others have."""

Stability = Literal["stable", "operational"]
"""`stable`: fields are only added within a version. `operational`: may change with a release; not for subscribers."""


class Data:
    """Base of every event's data."""

    __slots__ = ()

    TYPE: ClassVar[str]
    """Stable name with version, never a Python path."""
    TOPIC: ClassVar[Topic]
    """Topic on which the event is written."""
    STABILITY: ClassVar[Stability]
    LARGEST: ClassVar[int]
    """Most bytes of the data as JSON of an input of this type; unused for the engine's own events."""


class Compact(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """Base of data that msgspec makes, writes and reads: a record of a use in a third of the time that a dataclass takes.

    JSON lacks what *is* the default. So a class with any other default than `None`, a Boolean, 0, an empty text or collection puts
    the default in the place of an equal value (`__post_init__`). Bounds stand in the annotations for both libraries
    (`engine.events.values`).
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        def converted(read: object) -> Compact:
            return cls(*(getattr(read, name) for name in cls.__struct_fields__))

        return no_info_after_validator_function(converted, handler(dataclass_of(cls)))


D = TypeVar("D", bound=type[Data])
C = TypeVar("C", bound=type[Any])
Upcaster = Callable[[dict[str, Any]], dict[str, Any]]

TYPES: Final[dict[str, type[Data]]] = {}
"""Current types: name → class."""

UPCASTERS: Final[dict[str, tuple[str, Upcaster]]] = {}
"""Historic types: name → (name of the next version, function from its data to the next version's data)."""

_ADAPTERS: Final[dict[type[Any], TypeAdapter[Any]]] = {}
_DATACLASSES: Final[dict[type[Any], type[Any]]] = {}


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def event(name: str, *, topic: Topic, stability: Stability = "stable", largest: int = FACT_BYTES) -> Callable[[D], D]:
    """Register a class as the data of the event type `name`; an input of the type has at most `largest` bytes.

    Instances are immutable by type only (mypy sees them as frozen): a truly frozen dataclass costs five times as much to
    create, and millions are.
    """

    def register(cls: D) -> D:
        data = cls if issubclass(cls, Compact) else cast("D", dataclass(slots=True)(cls))
        data.TYPE, data.TOPIC, data.STABILITY, data.LARGEST = name, topic, stability, largest
        TYPES[name] = data
        return data

    return register


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def part(cls: C) -> C:
    """Make a class a part of events' data: a slotted dataclass, immutable by type like events."""
    return cast("C", dataclass(slots=True)(cls))


def upcaster(old: str, new: str) -> Callable[[Upcaster], Upcaster]:
    """Register the function from data of type `old` to data of type `new` (rule 9: id, sequence and time stay)."""

    def register(function: Upcaster) -> Upcaster:
        UPCASTERS[old] = (new, function)
        return function

    return register


def dataclass_of(cls: type[Any]) -> type[Any]:
    """Return the dataclass with the fields of a class of events' data; a dataclass is its own."""
    if is_dataclass(cls):
        return cls
    found = _DATACLASSES.get(cls)
    if found is None:
        found = _DATACLASSES[cls] = _described(cls)
    return found


def _described(cls: type[Struct]) -> type[Any]:
    hints, own = get_type_hints(cls, include_extras=True), get_annotations(cls)
    made: list[tuple[str, Any, Any]] = []
    for one in struct_fields(cls):
        if one.name in own:
            stated = {"default": one.default, "default_factory": one.default_factory}
            known: dict[str, Any] = {name: value for name, value in stated.items() if value is not NODEFAULT}
            made.append((one.name, hints[one.name], field(**known)))
    bases = tuple(dataclass_of(base) for base in cls.__bases__ if issubclass(base, Compact) and base is not Compact)
    names = {"__doc__": cls.__doc__, "__module__": cls.__module__}
    return make_dataclass(cls.__name__, made, bases=bases, namespace=names, slots=True)


def adapter(cls: type[Any]) -> TypeAdapter[Any]:
    """Return pydantic's adapter of a class. It ignores unknown fields, so that a later addition to a version is read."""
    found = _ADAPTERS.get(cls)
    if found is None:
        found = _ADAPTERS[cls] = TypeAdapter(cls)
    return found


def fields_adapter(cls: type[Data]) -> TypeAdapter[dict[str, Any]]:
    """Return pydantic's adapter of a class's fields, as a dict for its constructor; absent ones have defaults.

    `adapter` fills a slotted object attribute by attribute, which takes a fifth longer than both steps together.
    """
    hints = get_type_hints(cls, include_extras=True)
    found = {
        one.name: hints[one.name] if one.default is one.default_factory is MISSING else NotRequired[hints[one.name]]
        for one in fields(dataclass_of(cls))
    }
    return TypeAdapter(TypedDict(cls.__name__, found))  # type: ignore[operator]  # of a class that is known at run time only
