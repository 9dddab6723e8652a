"""Registration of event classes and of upcasters from old versions.

An event's data is a `Value`; `@event("lahar.job.opened.v1", topic=…)` gives it its stable name. msgspec reads and writes it,
pydantic validates input and derives JSON Schema from the same class. Upcasters lead from an older version to the next, one event
to one event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, Literal, TypeVar

from pydantic import TypeAdapter

from engine.events.bounds import FACT_BYTES
from statemachines.value import Value

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


class Data(Value):
    """Base of every event's data."""

    TYPE: ClassVar[str]
    """Stable name with version, never a Python path."""
    TOPIC: ClassVar[Topic]
    """Topic on which the event is written."""
    STABILITY: ClassVar[Stability]
    LARGEST: ClassVar[int]
    """Most bytes of the data as JSON of an input of this type; unused for the engine's own events."""


D = TypeVar("D", bound=type[Data])
Upcaster = Callable[[dict[str, Any]], dict[str, Any]]

TYPES: Final[dict[str, type[Data]]] = {}
"""Current types: name → class."""

UPCASTERS: Final[dict[str, tuple[str, Upcaster]]] = {}
"""Historic types: name → (name of the next version, function from its data to the next version's data)."""

_ADAPTERS: Final[dict[type[Any], TypeAdapter[Any]]] = {}


def event(name: str, *, topic: Topic, stability: Stability = "stable", largest: int = FACT_BYTES) -> Callable[[D], D]:
    """Register a class as the data of the event type `name`; an input of the type has at most `largest` bytes."""

    def register(cls: D) -> D:
        cls.TYPE, cls.TOPIC, cls.STABILITY, cls.LARGEST = name, topic, stability, largest
        TYPES[name] = cls
        return cls

    return register


def upcaster(old: str, new: str) -> Callable[[Upcaster], Upcaster]:
    """Register the function from data of type `old` to data of type `new` (rule 9: id, sequence and time stay)."""

    def register(function: Upcaster) -> Upcaster:
        UPCASTERS[old] = (new, function)
        return function

    return register


def adapter(cls: type[Any]) -> TypeAdapter[Any]:
    """Return pydantic's adapter of a class. It ignores unknown fields, so that a later addition to a version is read."""
    found = _ADAPTERS.get(cls)
    if found is None:
        found = _ADAPTERS[cls] = TypeAdapter(cls)
    return found
