"""The price book: prices of each meter over time, and what is charged at all.

It is given as an object of kind PriceBook with `lahar apply`. Prices are decimal numbers for one unit of a meter, so that every
amount is exact; prices per hour are divided once, when the book is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Annotated, Any, Final, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from engine.events.bounds import FAULTS, NAME_CHARACTERS
from engine.events.currencies import CURRENCIES
from engine.events.decimals import EXACT
from engine.events.fault_messages import message_of
from engine.events.times import SECOND, Micros, StatedMicros, format_time, parse_time
from engine.events.values import OddlyWritten

Meter = Literal["gpu_seconds", "cpu_seconds", "memory_byte_seconds", "weighted_seconds"]
"""What is measured. `weighted_seconds`: sum of the other meters' quantities times the weights of the price version."""

METERS: Final[tuple[Meter, ...]] = get_args(Meter)

ANY: Final = "*"
"""Every node type or GPU model without a price of its own."""

_PLAIN: Final = re.compile(r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
"""Form of a number that is given now; those in logs may have any that `Decimal` reads."""
_DIGITS: Final = 30
"""Digits of a price; products of a price, its multipliers and a quantity stay within `decimals.EXACT`."""
_FACTOR_DIGITS: Final = 12
_MULTIPLIERS: Final = 16
_VERSIONS: Final = 500
_RATES: Final = 2_000
_LONGEST: Final = 3_653 * 86_400 * SECOND
"""Of the times of a version: a stretch of use that is longer could not be stored."""
GIVEN: Final = {"given": True}
"""Context of the validation of what is given now: its numbers are plain digits, and its times texts, where a log has microseconds;
what stands in a log was taken by the rules of its time."""
_OF_THE_MACHINE: Final = ("localtime", "posixrules", "posix/", "right/")
"""Names, or beginnings of names, of zones that differ from machine to machine."""


def _has_more_than(digits: int, number: Decimal) -> bool:
    exponent = number.normalize(EXACT).as_tuple().exponent
    assert isinstance(exponent, int)  # noqa: S101 - it is finite
    return len(number.as_tuple().digits) > digits or abs(exponent) > digits


def _number(digits: int, instead: str = "") -> Any:  # noqa: ANN401 - an annotation
    def read(value: object, info: ValidationInfo) -> Decimal:
        if isinstance(value, float):
            raise ValueError(f"{value!r} is a binary number; write it in quotes, so that it is exact")  # noqa: TRY004 - for pydantic
        if isinstance(value, bool) or not isinstance(value, int | str | Decimal) or len(str(value)) > 2 * _DIGITS:
            raise ValueError("must be a decimal number in quotes")
        if info.context is GIVEN and isinstance(value, OddlyWritten):
            raise ValueError(f"is read by YAML as {value}; write its digits in quotes")
        try:
            number = Decimal(value)
        except InvalidOperation:
            raise ValueError(f"{value!r} is no decimal number") from None
        if not number.is_finite():
            raise ValueError(f"{value} is no finite number")
        if number < 0:
            raise ValueError(f"{value} must not be below zero{instead}")
        if info.context is GIVEN and not _PLAIN.fullmatch(str(value)):
            raise ValueError(f"{value!r} is not written as plain digits; write {number.copy_abs()}")
        if abs(number.adjusted()) > 2 * _DIGITS or _has_more_than(digits, number):
            raise ValueError(f"{value} has more than {digits} digits")
        return number

    return BeforeValidator(read)


Price = Annotated[Decimal, _number(_DIGITS)]
"""A decimal number, 0 or more, as text."""
_NO_CREDIT: Final = "; a credit is no price: charge less with the factor of a multiplier, or 0"
Rate = Annotated[Decimal, _number(_DIGITS, _NO_CREDIT)]
"""A price or weight of a book."""
Factor = Annotated[Decimal, _number(_FACTOR_DIGITS, _NO_CREDIT)]


def _moment(value: object, info: ValidationInfo) -> int:
    if isinstance(value, str):
        return parse_time(value)
    if isinstance(value, int) and not isinstance(value, bool) and info.context is not GIVEN:  # microseconds
        return value
    raise ValueError("must be a time such as '2026-01-01' or '2026-01-01T00:00:00Z', in quotes")


def _seconds(value: object, info: ValidationInfo) -> int:
    """Return seconds as whole microseconds."""
    number = _NUMBER(value, info) * SECOND
    if number > _LONGEST:
        raise ValueError(f"{value} s are more than ten years")
    if number != int(number):
        raise ValueError(f"{value} has parts of a microsecond")
    return int(number)


_NUMBER: Final = _number(_FACTOR_DIGITS).func
Moment = Annotated[StatedMicros, BeforeValidator(_moment)]
Seconds = Annotated[int, BeforeValidator(_seconds)]
Key = Annotated[str, Field(min_length=1, max_length=NAME_CHARACTERS)]
RateTable = dict[Meter, Annotated[dict[Key, Rate], Field(min_length=1, max_length=_RATES)]]
"""Meter → node type or GPU model → price; `*` is any other."""


class Specification(BaseModel):
    """Base of parts of objects: no unknown fields, no conversion of types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def rate_name(meter: Meter, node_type: str | None, gpu_model: str | None) -> str:
    """Return the most specific name under which a rate of a meter is looked up, for messages."""
    return next(_rate_names(meter, node_type, gpu_model), "nodes of unknown type")


def _rate_names(meter: Meter, node_type: str | None, gpu_model: str | None) -> Iterator[str]:
    """Yield the names under which a rate is looked up before `*`, most specific first; a GPU model names those of `gpu_seconds`."""
    if gpu_model and meter == "gpu_seconds":
        yield gpu_model
    if node_type:
        yield node_type


class Multiplier(Specification):
    """A factor on the price of matching usage. Exactly one of the other fields is given."""

    factor: Factor
    queue: Key | None = None
    tenant: Key | None = None
    priority_class: Key | None = None
    preemptible: bool | None = None

    @model_validator(mode="after")
    def _one(self) -> Multiplier:
        if sum(value is not None for value in (self.queue, self.tenant, self.priority_class, self.preemptible)) != 1:
            raise ValueError("a multiplier names exactly one of queue, tenant, priority_class, preemptible")
        return self

    @property
    def name(self) -> str:
        """Name in records: `queue=research`."""
        for name in ("queue", "tenant", "priority_class", "preemptible"):
            if (value := getattr(self, name)) is not None:
                return f"{name}={str(value).lower() if value is True or value is False else value}"
        raise AssertionError("one of them is given")


class PriceVersion(Specification):
    """The rules in force from a moment on, until the next version begins."""

    version: Key
    since: Moment = Field(alias="from")
    until: Moment | None = None
    """End, if no version follows at once; exclusive."""
    prices: RateTable = Field(default_factory=dict)
    weights: RateTable = Field(default_factory=dict)
    multipliers: tuple[Multiplier, ...] = Field(default=(), max_length=_MULTIPLIERS, strict=False)
    """Multipliers in the order in which they are applied and shown."""
    billable_from: Literal["bound", "running"] = "running"
    bill_queued: bool = False
    bill_reserved: bool = False
    """Charge the waiting time for which the place that a notice of preemption has freed is kept for the job."""
    bill_terminating: bool = True
    """Charge attempts that had run from the request of their deletion to the end."""
    increment_seconds: Seconds = 1
    """Increment of an attempt's charged time (microseconds here); 1 µs: exact."""
    minimum_seconds: Seconds = 0
    """Shortest charged time of an attempt (microseconds)."""
    round: Literal["up", "half_even"] = "up"
    """How an attempt's time is rounded to increments."""
    preempted_free_seconds: Seconds = 0
    """An attempt that is preempted within this time is free (microseconds)."""

    @model_validator(mode="after")
    def _sound(self) -> PriceVersion:
        if self.until is not None and self.until <= self.since:
            raise ValueError("'until' must lie behind 'from'")
        if self.increment_seconds < 1:
            raise ValueError("increment_seconds must be at least 0.000001")
        named = [multiplier.name for multiplier in self.multipliers]
        if len(set(named)) < len(named):
            raise ValueError("multipliers: each may be for another queue, tenant, priority_class or preemptible only")
        if "weighted_seconds" in self.weights:
            raise ValueError("weights are of the meters that are measured, not of weighted_seconds")
        return self

    def rate(
        self, table: Literal["prices", "weights"], meter: Meter, node_type: str | None, gpu_model: str | None
    ) -> Decimal | None:
        """Return a table's entry of a meter: by GPU model (for `gpu_seconds`), then node type, then `*`; `None`: none."""
        rates: dict[str, Decimal] | None = getattr(self, table).get(meter)
        if rates is None:
            return None
        for name in _rate_names(meter, node_type, gpu_model):
            if name in rates:
                return rates[name]
        return rates.get(ANY)

    @property
    def charged(self) -> list[Meter]:
        """Meters that have a price somewhere: of their own, or by their weight in weighted seconds with a price."""
        weighed = self.weights if "weighted_seconds" in self.prices else {}
        return [meter for meter in METERS if meter in self.prices or meter in weighed]

    def lacks_price(self, meter: Meter, node_type: str | None, gpu_model: str | None) -> bool:
        """Tell whether use of a meter there has no price, where it should have one.

        In a version that prices weighted seconds, a meter with a weight is charged by them; where they have no price, it is they
        that lack it. In a version that does not, they are measured only, and need none.
        """
        if self.rate("prices", meter, node_type, gpu_model) is not None:
            return False
        if meter == "weighted_seconds":
            return meter in self.prices and any(self.rate("weights", one, node_type, gpu_model) for one in self.weights)
        return "weighted_seconds" not in self.prices or self.rate("weights", meter, node_type, gpu_model) is None


class PriceBook(Specification):
    """The `spec` of a PriceBook."""

    currency: str
    """ISO 4217."""
    time_zone: str = "UTC"
    """Time zone of the invoiced calendar months; nothing else depends on it."""
    versions: tuple[PriceVersion, ...] = Field(max_length=_VERSIONS, strict=False)
    """At least one."""

    @field_validator("currency")
    @classmethod
    def _known_currency(cls, currency: str) -> str:
        if currency not in CURRENCIES:
            raise ValueError(f"{currency[:20]!r} is no code of ISO 4217, such as EUR")
        return currency

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, name: str) -> str:
        try:
            ZoneInfo("" if name.startswith(_OF_THE_MACHINE) else name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"{name[:100]!r} is no name of the IANA database, such as Europe/Berlin") from None
        return name

    @field_validator("versions")
    @classmethod
    def _apart(cls, versions: tuple[PriceVersion, ...]) -> tuple[PriceVersion, ...]:
        """Check that versions have names and times of their own."""
        if not versions:  # pydantic's own check counts those without a fault, and tells of a fault that is none
            raise ValueError("write at least one")
        names = [version.version for version in versions]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{name!r} stands there twice; leave one out, or give other rules another name")
        for earlier, later in pairwise(sorted(versions, key=lambda version: version.since)):
            if earlier.since == later.since or (earlier.until is not None and earlier.until > later.since):
                raise ValueError(
                    f"{earlier.version!r} and {later.version!r} overlap at {format_time(later.since)}; "
                    "let one end where the other begins"
                )
        return versions

    def in_force(self, moment: Micros) -> PriceVersion | None:
        """Return the version in force at a moment."""
        found = None
        for version in self.versions:
            if version.since <= moment and (found is None or version.since > found.since):
                found = version
        return None if found is None or (found.until is not None and moment >= found.until) else found


def read_book(spec: Mapping[str, Any], *, given: bool = False) -> tuple[PriceBook | None, list[tuple[str, str]]]:
    """Read the `spec` of a PriceBook; returns it, or its faults: path and message.

    Args:
        spec: the specification.
        given: it is given now, and not read from a log: numbers must be plain digits, and times texts.
    """
    try:
        return PriceBook.model_validate(spec, context=GIVEN if given else None), []
    except ValidationError as error:
        return None, faults_of(error, "spec", PriceBook, PriceVersion, Multiplier)


def faults_of(error: ValidationError, path: str, *parts: type[Specification]) -> list[tuple[str, str]]:
    """Return path and message of each fault below a path.

    Args:
        error: the faults.
        path: of the specification.
        parts: its types, whose fields may be meant by misspelt ones: that of the specification itself first.
    """
    return [
        (_path(path, fault["loc"]), message_of(fault, _fields(parts[:1] if len(fault["loc"]) == 1 else parts[1:] or parts)))
        for fault in error.errors()[:FAULTS]
    ]


def _fields(parts: tuple[type[Specification], ...]) -> list[str]:
    return [about.alias or name for part in parts for name, about in part.model_fields.items()]


def _path(path: str, places: tuple[int | str, ...]) -> str:
    for place in places:
        path += f"[{place}]" if isinstance(place, int) else "" if place == "[key]" else f".{place}"
    return path
