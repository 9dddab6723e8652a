"""Registration of event classes and of upcasters from old versions.

An event's data is a slotted dataclass, or a struct (`Value`) of a type that is written by the hundred thousand;
`@event("lahar.job.opened.v1", topic=…)` gives it its stable name. pydantic derives validation, JSON and JSON Schema from the
class. Upcasters lead from an older version to the next, one event to one event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Final, Literal, NotRequired, TypeVar, cast, dataclass_transform, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields as struct_fields
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from engine.events.bounds import FACT_BYTES

__all__ = [
    "INPUT_TOPICS",
    "SINGLE_TOPICS",
    "TYPES",
    "UPCASTERS",
    "Data",
    "Stability",
    "Topic",
    "adapter",
    "default_of",
    "event",
    "fields_adapter",
    "fields_of",
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


D = TypeVar("D", bound=type[Data])
C = TypeVar("C", bound=type[Any])
Upcaster = Callable[[dict[str, Any]], dict[str, Any]]

TYPES: Final[dict[str, type[Data]]] = {}
"""Current types: name → class."""

UPCASTERS: Final[dict[str, tuple[str, Upcaster]]] = {}
"""Historic types: name → (name of the next version, function from its data to the next version's data)."""

_ADAPTERS: Final[dict[type[Any], TypeAdapter[Any]]] = {}
_ABSENT: Final = (MISSING, NODEFAULT)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def event(name: str, *, topic: Topic, stability: Stability = "stable", largest: int = FACT_BYTES) -> Callable[[D], D]:
    """Register a class as the data of the event type `name`; an input of the type has at most `largest` bytes.

    Instances are immutable by type only (mypy sees them as frozen): a truly frozen dataclass costs five times as much to
    create, and millions are.
    """

    def register(cls: D) -> D:
        data = cls if issubclass(cls, Struct) else cast("D", dataclass(slots=True)(cls))
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


def fields_of(cls: type[Any]) -> tuple[Any, ...]:
    """Return the fields of a class of events' data."""
    return struct_fields(cls) if issubclass(cls, Struct) else fields(cls)


def default_of(one: Any) -> Any:  # noqa: ANN401  # a field's, of any type
    """Return the default of a field; `MISSING`: it is required."""
    if one.default_factory not in _ABSENT:
        return one.default_factory()
    return MISSING if one.default in _ABSENT else one.default


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
    found = {one.name: hints[one.name] if default_of(one) is MISSING else NotRequired[hints[one.name]] for one in fields_of(cls)}
    return TypeAdapter(TypedDict(cls.__name__, found))  # type: ignore[operator]  # of a class that is known at run time only
