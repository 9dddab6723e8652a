"""Price books: the one in force, and what is wrong with one that is to be, or changes with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from engine.application.errors import RequestError
from engine.application.places import Place
from engine.billing.absorb import absorb
from engine.billing.book import Book, next_book
from engine.billing.state import State
from engine.events import Data, Event
from engine.events.inputs import NodeObserved, ObjectApplied
from engine.events.outcomes import Fault
from engine.events.prices import METERS, PriceVersion, rate_name, read_book
from engine.events.times import Micros
from engine.formatting import exact
from engine.history.diff import Change
from engine.kubernetes.observation.cluster_facts import ClusterFacts


class PriceBooks:
    """The price book in force, by the rules of the billing stage: of whatever name and cluster, the last one that it could take."""

    def __init__(self) -> None:
        """Know of no book yet."""
        self._state = State()
        self.name = ""
        """Of the object; empty: there is none."""

    @property
    def book(self) -> Book:
        """The book in force."""
        return self._state.book

    def absorb(self, event: Event[Data]) -> bool:
        """Apply one fact of the cluster; return whether it changed the book: no if it is repeated, or has faults."""
        data, before = event.data, self._state.book
        if not isinstance(data, ObjectApplied):
            return False
        absorb(self._state, event)
        if self._state.book is before:
            return False
        self.name = data.name
        return True

    def replace(self, event: Event[Data], given: ObjectApplied, place: Place) -> list[str]:
        """Apply a book that differs from the one in force; return what to warn of.

        Args:
            event: the fact, with `given` in it.
            given: the PriceBook.
            place: where it stands, for messages.

        Raises:
            ValueError: it changes prices that were already charged, or the billing stage would take the fact for a repeated one.
        """
        made, faults = next_book(self.book, given.spec, event.recordedtime)
        if made is None:
            raise RequestError(f"{place.at(faults[0][0])}: {'; '.join(f'{path}: {message}' for path, message in faults)}")
        before = self.name
        if not self.absorb(event):
            at = exact(event.recordedtime)
            raise RequestError(f"{place}: was applied at {at} already, and another price book after it; apply it at another time")
        if before in {"", given.name}:
            return []
        return [f"{place}: replaces PriceBook {before}: a log has one price book, whatever its name"]


def spec_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `spec` of an object of kind PriceBook.

    Raises:
        ValueError: it is another object.
    """
    spec = manifest.get("spec")
    if manifest.get("kind") != "PriceBook" or not isinstance(spec, Mapping):
        raise RequestError(f"{manifest.get('kind') or 'an object without `kind`'} is no PriceBook with a `spec`")
    return dict(spec)


def book_of(facts: Iterable[Event[Data]]) -> Book:
    """Return the price book that is in force after some facts of the cluster."""
    books = PriceBooks()
    for event in facts:
        books.absorb(event)
    return books.book


def check_book(spec: Mapping[str, Any], facts: Iterable[Event[Data]], now: Micros) -> tuple[Book | None, list[Fault]]:
    """Check a price book: its form, what may not change, and that each kind of node has a price.

    Args:
        spec: of the PriceBook.
        facts: of the cluster; none: only the form is checked.
        now: when it would be applied (microseconds).

    Returns:
        The book, unless it cannot be applied; its faults.
    """
    if faults := read_book(spec, given=True)[1]:
        return None, [Fault(*fault) for fault in faults]
    books, nodes = PriceBooks(), ClusterFacts()
    for event in facts:
        books.absorb(event)
        nodes.absorb(event)
    book, faults = next_book(books.book, spec, now)
    if book is None:
        return None, [Fault(*fault) for fault in faults]
    return book, list(unpriced_nodes(book, nodes, now))


def unpriced_nodes(book: Book, facts: ClusterFacts, now: Micros) -> Iterator[Fault]:
    """Yield the kinds of nodes for which a version in force, now or later, has no price of a meter that it charges elsewhere.

    `gpu_seconds` are not asked of nodes without GPUs, nor weighted seconds of GPUs alone: nothing there can use any.
    """
    nodes = facts.nodes.values()
    kinds = sorted({(node.type, node.gpu_model) for node in nodes}, key=str)
    with_gpus = {(node.type, node.gpu_model) for node in nodes if _may_have_gpus(node)}
    for version, meter in [(one, meter) for one in _coming(book, now) for meter in one.charged]:
        of_gpus = meter == "gpu_seconds" or (meter == "weighted_seconds" and version.weights.keys() <= {"gpu_seconds"})
        lacking = [
            rate_name(meter, kind, model)
            for kind, model in kinds
            if not (of_gpus and (kind, model) not in with_gpus) and version.lacks_price(meter, kind, model)
        ]
        for name in dict.fromkeys(lacking):
            yield Fault(f"spec.versions ({version.version}).prices.{meter}", f"has no price for {name}")


def _may_have_gpus(node: NodeObserved) -> bool:
    """Tell whether a node has GPUs, or its capacity is not known."""
    return node.gpu > 0 or node.gpu_model is not None or node.cpu_milli == 0


def unpriced_meters(book: Book, now: Micros) -> Iterator[Fault]:
    """Yield the versions in force, now or later, that leave meters without any price, which may be meant."""
    for version in _coming(book, now):
        if left := [meter for meter in METERS if meter not in ("weighted_seconds", *version.charged)]:
            path = f"spec.versions ({version.version}).prices"
            yield Fault(path, f"has no {', '.join(left)}: such use is recorded with the amount 0 and listed as unpriced")


def unpriced_times(book: Book, now: Micros) -> Iterator[Fault]:
    """Yield the gaps between versions that end after now, which may be meant."""
    for begin, end, version in zip(book.cuts, book.cuts[1:], book.versions, strict=False):
        if version is None and end > now:
            gap = f"none is in force from {exact(begin)} to {exact(end)}"
            yield Fault("spec.versions", f"{gap}: use in that time is recorded with the amount 0 and listed as unpriced")


def _coming(book: Book, now: Micros) -> list[PriceVersion]:
    """Return the versions in force now or later."""
    current, _ = book.at(now)
    return [version for version in book.names.values() if version is current or version.since > now]


def diff_books(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Return what differs between two price books, version by version and field by field, as it is written there.

    `0.50` and `0.5`, other writings of a time, and a default that is written out or left out are the same.

    Args:
        before: `spec` of the one in force; empty: there is none.
        after: `spec` of the new one, without faults.
    """
    old, new = _fields(before), _fields(after)
    pairs = [(path, old.get(path, _NOTHING), new.get(path, _NOTHING)) for path in {**old, **new}]
    return [
        Change(path, was.written, now.written)
        for path, was, now in pairs
        if was.value != now.value and (was.written, now.written) != (None, None)
    ]


class _Field(NamedTuple):
    """A field of a book."""

    value: object
    """Parsed value."""
    written: object
    """Value as written in the book; `None`: the book leaves it out."""


_NOTHING: Final = _Field(None, None)


def _fields(spec: Mapping[str, Any]) -> dict[str, _Field]:
    """Return path → field of a book, with the versions by name and the multipliers of each by their place."""
    book, _ = read_book(spec)
    if book is None:
        return {}
    found = {name: _Field(getattr(book, name), spec.get(name)) for name in ("currency", "time_zone")}
    for version, written in zip(book.versions, spec["versions"], strict=True):
        found |= {f"versions.{version.version}.{path}": field for path, field in _of_version(version, written)}
    return found


def _of_version(version: PriceVersion, written: Mapping[str, Any]) -> Iterator[tuple[str, _Field]]:
    for attribute, about in PriceVersion.model_fields.items():
        name, value = about.alias or attribute, getattr(version, attribute)
        if attribute in {"prices", "weights"}:
            for meter, rates in value.items():
                yield from ((f"{name}.{meter}.{key}", _Field(rate, written[name][meter][key])) for key, rate in rates.items())
        elif attribute == "multipliers":
            for place, (one, given) in enumerate(zip(value, written.get(name, ()), strict=True), start=1):
                yield f"{name}.{place}", _Field((one.name, one.factor), f"{one.name} x {given['factor']}")
        elif attribute != "version":
            yield name, _Field(value, written.get(name))
