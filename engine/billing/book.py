"""Current price book: its versions by time, and checks of changes.

A version is immutable once it is in force: a later book must agree with everything charged before. Its name is never reused for
other rules, because an attempt may end, by a clock that is ahead, in a version that is not in force yet. A later book may price a
period without a version, which leads to corrections.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from engine.billing.calendar import month_of
from engine.billing.tariff import Tariff
from engine.events import Event
from engine.events.billing import SegmentKind
from engine.events.inputs import ObjectApplied
from engine.events.prices import PriceBook, PriceVersion, read_book
from engine.events.times import Micros, format_time

NO_PRICES: Final = PriceVersion.model_validate({"version": "-", "from": 0})
"""Rules without a price book: running and terminating time is recorded, and nothing has a price."""


@dataclass(slots=True)
class Book:
    """All price versions by time."""

    book: PriceBook | None = None
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Specification as applied."""
    time_zone: str = "UTC"
    """Time zone of the billing periods."""
    names: dict[str, PriceVersion] = field(default_factory=dict)
    cuts: list[Micros] = field(default_factory=list)
    """Times at which the version in force changes, ascending."""
    versions: list[PriceVersion | None] = field(default_factory=list)
    """Version in force from the cut with the same index; `None`: none."""
    unbilled: frozenset[SegmentKind] = frozenset({"queued", "reserved", "bound"})
    """Kinds of usage that no version bills."""
    factors: dict[object, tuple[dict[str, str], tuple[tuple[str, str], ...]]] = field(default_factory=dict, compare=False)
    """Cache of factors by payer (`engine.billing.charges`)."""
    tariffs: dict[object, Tariff] = field(default_factory=dict, compare=False)
    """Cache of tariffs by price version, shape and factors."""
    _asked: tuple[Micros, Micros, tuple[str | None, str] | None] = field(default=(0, -1, None), init=False, compare=False)
    """Last arguments and result of `in_force`: an hour mark repeats them for all attempts."""

    @classmethod
    def of(cls, book: PriceBook, spec: Mapping[str, Any]) -> Book:
        """Index an applied book."""
        made = cls(book, spec, book.time_zone, {version.version: version for version in book.versions})
        made.unbilled = frozenset(kind for kind in made.unbilled if not any(bills(version, kind) for version in book.versions))
        ordered = sorted(book.versions, key=lambda version: version.since)
        for place, version in enumerate(ordered):
            made.cuts.append(version.since)
            made.versions.append(version)
            following = ordered[place + 1].since if place + 1 < len(ordered) else None
            if version.until is not None and version.until != following:
                made.cuts.append(version.until)
                made.versions.append(None)
        return made

    def at(self, moment: Micros) -> tuple[PriceVersion | None, Micros | None]:
        """Return the version in force at a time, and the end of its validity; `None`: no version, no end."""
        place = bisect_right(self.cuts, moment)
        version = self.versions[place - 1] if place else None
        return version, self.cuts[place] if place < len(self.cuts) else None

    def rules(self, version: str | None) -> PriceVersion:
        """Return the rules of a version; `None`: the rules without a price book."""
        return NO_PRICES if version is None else self.names[version]

    def in_force(self, begin: Micros, until: Micros) -> tuple[str | None, str] | None:
        """Return the price version and the month that are valid for a whole period; `None` if one of them changes within it."""
        if self._asked[0] != begin or self._asked[1] != until:
            version, cut = self.at(begin)
            month = month_of(begin, self.time_zone)
            lasts = until <= month.end and (cut is None or until <= cut)
            self._asked = begin, until, (None if version is None else version.version, month.name) if lasts else None
        return self._asked[2]


def bills(version: PriceVersion, kind: SegmentKind) -> bool:
    """Return true if a price version bills usage of a kind; for `terminating` that of attempts that have run."""
    match kind:
        case "queued":
            return version.bill_queued
        case "reserved":
            return version.bill_reserved
        case "bound":
            return version.billable_from == "bound"
        case "running":
            return True
        case "terminating":
            return version.bill_terminating


def applied(known: Book, event: Event[Any]) -> Book | None:
    """Return the book after a fact of the cluster; `None`: unchanged, or the fact gives an invalid book."""
    data = event.data
    if not isinstance(data, ObjectApplied) or data.kind != "PriceBook" or data.spec == known.spec:
        return None
    return next_book(known, data.spec, event.recordedtime)[0]


def next_book(known: Book, spec: Mapping[str, Any], recorded: Micros) -> tuple[Book | None, list[tuple[str, str]]]:
    """Parse the `spec` of a PriceBook that replaces another; return it, or its faults as path and message.

    Args:
        known: current book.
        spec: new specification.
        recorded: time of its application (microseconds).
    """
    book, faults = read_book(spec)
    if book is None:
        return None, faults
    faults = _changed_rules(known, book, recorded)
    return (None, faults) if faults else (Book.of(book, spec), [])


def _changed_rules(known: Book, book: PriceBook, recorded: Micros) -> list[tuple[str, str]]:
    """Return the faults of a new book that changes rules already in force."""
    before = known.book
    if before is None:
        return []
    faults = [
        (
            f"spec.{name}",
            f"is {getattr(book, name)}, but {getattr(before, name)} in the book in force; keep that: a log has one for all time",
        )
        for name in ("currency", "time_zone")
        if getattr(before, name) != getattr(book, name)
    ]
    made = Book.of(book, {})
    for cut in sorted({*known.cuts, *made.cuts}):
        old, _ = known.at(cut)
        new, _ = made.at(cut)
        if old is not None and cut <= recorded and (new is None or _rules(new) != _rules(old)):
            faults.append(_changed_at(cut, old, new, book.versions, recorded))
            break
    faults += [
        (
            f"spec.versions[{place}]",
            f"{version.version!r} has other rules than the version of that name before; give it another name",
        )
        for place, (name, version) in enumerate(made.names.items())
        if not faults and name in known.names and _rules(known.names[name]) != _rules(version)
    ]
    return faults


def _changed_at(
    cut: Micros, old: PriceVersion, new: PriceVersion | None, versions: Sequence[PriceVersion], recorded: Micros
) -> tuple[str, str]:
    """Return the fault of a book that changes the version in force at a time.

    Args:
        cut: first time with a change, at most `recorded`.
        old: version in force then.
        new: version that the new book has then; `None`: none.
        versions: versions of the new book.
        recorded: time of its application.
    """
    later, was = f"after {format_time(recorded)}", f"was in force from {format_time(old.since)} on"
    place, kept = next(((place, one) for place, one in enumerate(versions) if one.version == old.version), (0, None))
    if kept is None:
        return "spec.versions", f"{old.version!r} is left out, but {was}; keep it, and add one that begins {later}"
    path = f"spec.versions[{place}]"
    if _rules(kept) != _rules(old):
        return path, f"{old.version!r} has other rules, but {was}; keep them, and add a version of another name that begins {later}"
    if kept.since > cut:
        return f"{path}.from", f"{old.version!r} begins at {format_time(kept.since)}, but {was}; let it begin then"
    if new is None:
        end = later if old.until is None or old.until > recorded else f"at {format_time(old.until)}"
        return f"{path}.until", f"{old.version!r} ends at {format_time(cut)}, but was in force then; let it end {end}"
    path = f"spec.versions[{versions.index(new)}].from"
    return path, f"{new.version!r} begins at {format_time(new.since)}, but {old.version!r} {was}; let it begin {later}"


def _rules(version: PriceVersion) -> PriceVersion:
    """Return a version without begin and end."""
    return version.model_copy(update={"since": 0, "until": None})
