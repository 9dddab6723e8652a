"""Records as the billing stage makes them, by its own code, from runs that are chosen here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from engine.billing.book import Book
from engine.billing.calendar import HOUR, month_of
from engine.billing.event_factory import EventFactory
from engine.billing.exports.seller import Seller
from engine.billing.records import Record, records_of
from engine.billing.state import Attempt, Job, JobAccount, Point, Run, Size, State, Terms
from engine.events import Event
from engine.events.billing import Reversed, UsageRecorded
from engine.events.prices import PriceBook, PriceVersion
from engine.events.times import SECOND, parse_time

OCTOBER = parse_time("2026-10-05T08:30:00Z")
TERMS = Terms("acme", "vision", "research", "ann", "ml", "Job", "train", (("team", "a"),), None, False)
SELLER = Seller("Example GmbH", "gpu-west", "EUR", "Europe/Berlin")
PRICES = PriceVersion.model_validate(
    {
        "version": "2026-10",
        "from": "2026-10-01",
        "prices": {
            "gpu_seconds": {"A100": "0.000833333333", "*": "0.0004"},
            "cpu_seconds": {"*": "0.0000111"},
            "weighted_seconds": {"*": "0.000001"},
        },
        "weights": {"cpu_seconds": {"*": "1"}, "memory_byte_seconds": {"*": "0.000000000232830643"}},
        "multipliers": [{"preemptible": True, "factor": "0.35"}, {"queue": "research", "factor": "0.8"}],
    }
)


def run(**given: Any) -> Run:
    """Return 90 minutes on two GPUs, but for what is given."""
    start = given.pop("start", OCTOBER)
    end = given.pop("end", start + HOUR + HOUR // 2)
    usual: dict[str, Any] = {
        "record": "usage",
        "length": end - start,
        "kind": "running",
        "begun": "e1",
        "ended": "e2",
        "size": Size(4_000, 2**34, 2),
        "terms": 0,
        "node": "node-1",
        "node_type": "p4d",
        "gpu_model": "A100",
        "price_version": None,
        "month": month_of(start, SELLER.time_zone).name,
        "worth": "useful",
        "free": False,
        "inferred_start": False,
        "inferred_end": False,
    }
    return Run(start=start, end=end, **usual | given)


def recorded(
    one: Run, terms: Terms = TERMS, rules: PriceVersion | None = PRICES, *, uid: str = "uid-1", closed: Sequence[str] = ()
) -> Event[UsageRecorded]:
    """Return the event of a run when some months are closed; without rules there is no price book."""
    return _event(one, terms, rules, uid, closed, one.length, None)


def taken_back(one: Run, terms: Terms = TERMS, rules: PriceVersion | None = PRICES, *, uid: str = "uid-1") -> Event[UsageRecorded]:
    """Return the reversal of a run whose month is closed."""
    return _event(one, terms, rules, uid, (one.month,), -one.length, Reversed(one.record, one.month, one.revision))


def _event(
    one: Run, terms: Terms, rules: PriceVersion | None, uid: str, closed: Sequence[str], length: int, reverses: Reversed | None
) -> Event[UsageRecorded]:
    """Return what the stage writes of a run."""
    book = Book()
    if rules is not None:
        book = Book.of(PriceBook(currency="EUR", time_zone=SELLER.time_zone, versions=(rules,)), {})
    priced = replace(one, price_version=None if rules is None else rules.version)
    state = State(book=book, periods=dict.fromkeys(closed, "closing"))
    factory = EventFactory(state, JobAccount(Job(f"job-{uid}", "west", terms=[terms]), []), one.end)
    attempt = Attempt("worker", 0, 1, 0, uid, Point(one.start, one.begun), [])
    data = factory.recorded(attempt, priced, one.revision + (reverses is not None), length, reverses)
    return factory.event(data, one.end, one.begun)


def records(*events: Event[UsageRecorded]) -> list[Record]:
    """Return their records."""
    return [record for event in events for record in records_of(event)]


def sample() -> list[Record]:
    """Return one record at least of every kind that there is."""
    spot = Terms("acme", "", "batch", "", "ml", "Job", 'say "hi", twice', (("note", 'a,b\r\n"c"'), ("é", "ü")), "low", True)
    nobody = Terms("", "", "", "", "default", "Job", "alone", (), None, False)
    late = run(start=OCTOBER + 30 * 24 * HOUR, end=OCTOBER + 30 * 24 * HOUR + 10_000, worth="failed", inferred_end=True)
    short = run(start=OCTOBER + 5 * SECOND, end=OCTOBER + 5 * SECOND + 10_000, size=Size(500, 0, 0), node_type=None, gpu_model=None)
    return records(
        recorded(run()),
        recorded(run(worth="preempted", free=True, node_type="a/b c", gpu_model=None), spot, uid="uid-2"),
        recorded(run(record="excess", start=OCTOBER + HOUR, end=OCTOBER + HOUR + HOUR // 2, length=1_800 * SECOND), uid="uid-3"),
        recorded(short, nobody, None, uid="uid-4"),
        recorded(run(kind="terminating", size=Size(1, 1, 0), worth="restarted"), uid="uid-5"),
        taken_back(run(), uid="uid-1"),
        recorded(run(end=OCTOBER + HOUR, revision=1), uid="uid-1", closed=["2026-10"]),
        recorded(late, uid="uid-6"),
    )


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(["", " ", ",", '"', "\r", "a\nb", "=1+1"])
_NAMES = st.none() | _TEXTS
_FACTORS = st.sampled_from(["0", "0.35", "1", "2", "1.00000000001"])
_PRICES = st.sampled_from(["0", "1", "0.1", "0.000833333333333333333333333333", "123456.789"])


@st.composite
def _versions(draw: st.DrawFn) -> PriceVersion:
    """Return a price version: some meters have a price, some a weight."""
    meters = ("gpu_seconds", "cpu_seconds", "memory_byte_seconds", "weighted_seconds")
    rates = {meter: {"*": draw(_PRICES)} for meter in meters if draw(st.booleans())}
    weights = {meter: {"*": draw(_PRICES)} for meter in meters[:3] if draw(st.booleans())}
    multipliers = [{"tenant": "a", "factor": draw(_FACTORS)}, {"preemptible": True, "factor": draw(_FACTORS)}]
    return PriceVersion.model_validate(
        {"version": "2026-10", "from": "2026-01-01", "prices": rates, "weights": weights, "multipliers": multipliers}
    )


@st.composite
def _events(draw: st.DrawFn, rules: PriceVersion, number: int) -> Event[UsageRecorded]:
    tenant = draw(st.sampled_from(["a", "b", ""]) | _TEXTS)
    labels = tuple(sorted(draw(st.dictionaries(_TEXTS, _TEXTS, max_size=2)).items()))
    terms = Terms(
        tenant, draw(_TEXTS), draw(_TEXTS), draw(_TEXTS), "ns", "Job", draw(_TEXTS), labels, draw(_NAMES), draw(st.booleans())
    )
    start = OCTOBER + draw(st.integers(0, 60 * 24 * HOUR))
    length = draw(st.sampled_from([1, 10_000, HOUR]) | st.integers(1, 5 * HOUR))
    excess = draw(st.booleans())
    if excess:
        length = min(length, HOUR - start % HOUR)
    one = run(
        record="excess" if excess else "usage",
        start=start,
        end=start + length,
        length=draw(st.integers(1, HOUR)) if excess else length,
        size=Size(draw(st.integers(0, 10_000)), draw(st.integers(0, 2**40)), draw(st.integers(0, 8))),
        node=draw(_NAMES),
        node_type=draw(_NAMES),
        gpu_model=draw(_NAMES),
        worth=draw(st.sampled_from(["useful", "failed", "preempted", "restarted"])),
        free=draw(st.booleans()),
    )
    priced = rules if draw(st.booleans()) else None
    uid = f"uid-{number}"
    if draw(st.booleans()):
        return taken_back(one, terms, priced, uid=uid)
    return recorded(one, terms, priced, uid=uid, closed=draw(st.sampled_from([(), ("2026-10",), ("2026-10", "2026-11")])))


@st.composite
def any_records(draw: st.DrawFn) -> list[Record]:
    """Return records of a few runs, all priced by one book or by none."""
    rules = draw(_versions())
    return records(*(draw(_events(rules, number)) for number in range(draw(st.integers(0, 4)))))
