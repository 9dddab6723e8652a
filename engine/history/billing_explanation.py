"""Explanation of a record: every number of its sum and the events behind it, so that it can be recomputed by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from engine.billing.corrections import voided
from engine.billing.evolve import run_of
from engine.billing.invoice import Invoice
from engine.billing.records import UNITS, Record, json_of
from engine.billing.state import Run
from engine.billing.tariff import quantity
from engine.events import Data, Event, decode
from engine.events.attempts import AttemptChanged, AttemptEnded, AttemptStarted
from engine.events.billing import UsageRecorded, UsageWithdrawn
from engine.events.decimals import plain
from engine.events.inputs import NodeObserved, ObjectApplied
from engine.events.prices import METERS, Meter, PriceVersion
from engine.events.times import Micros, format_time
from engine.formatting import exact, moment, plural
from engine.history.reading import events_of
from engine.history.record_events import cause_of, end_of, events_behind, node_fact, slot_of, terms_behind
from engine.history.sentences import describe
from engine.log.port import Searchable

_ONE: Final = Decimal(1)


class Weighting(NamedTuple):
    """Part of a weighted unit: `size` of a meter times its `weight`."""

    meter: Meter
    size: Decimal
    weight: Decimal


class Stretch(NamedTuple):
    """Usage that counts towards the increments and the minimum of an attempt."""

    kind: str
    start: Micros
    end: Micros
    events: tuple[str, ...]
    """Ids of the job events that start and end it."""

    @property
    def length(self) -> int:
        """Length (microseconds)."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Excess:
    """Explanation of why an attempt is charged longer, or shorter, than it was used."""

    used: tuple[Stretch, ...]
    """All usage of the attempt when the excess was recorded."""
    added: int
    """Time added by increments and minimum (microseconds); below zero if rounded down."""
    rules: PriceVersion | None
    """Price version with increments and minimum; `None`: the log lacks it."""

    @property
    def length(self) -> int:
        """Length of the usage (microseconds)."""
        return sum(stretch.length for stretch in self.used)

    def document(self) -> dict[str, Any]:
        """Return its JSON; times in seconds, as text."""
        rules = self.rules
        return {
            "used": [
                {
                    "kind": one.kind,
                    "start": format_time(one.start),
                    "end": format_time(one.end),
                    "seconds": _seconds(one.length),
                    "events": list(one.events),
                }
                for one in self.used
            ],
            "used_seconds": _seconds(self.length),
            "increment_seconds": None if rules is None else _seconds(rules.increment_seconds),
            "round": None if rules is None else rules.round,
            "minimum_seconds": None if rules is None else _seconds(rules.minimum_seconds),
            "charged_seconds": _seconds(self.length + self.added),
        }


@dataclass(frozen=True, slots=True)
class RecordExplanation:
    """A record with every number of its sum."""

    record: Record
    seconds: Decimal
    """Charged time; below zero in a reversal."""
    list_price: Decimal | None
    """Price of a unit before the factors; `None`: unknown."""
    weights: tuple[Weighting, ...]
    """Composition of a unit, for a record of `weighted_seconds`."""
    excess: Excess | None
    """Excess, for an excess record or its reversal."""
    cause: Event[Data] | None
    """Cause of a reversal, absorbed after the month was closed; `None` if unknown."""
    node: Event[Data] | None
    """Fact with type and GPU model of the node; `None`: both are unknown, or no single fact has both."""
    events: tuple[Event[Data], ...]
    """Events behind it: the requests of the pod, then the start and end of the usage."""
    terms: dict[str, tuple[Event[Data], dict[str, object]]]
    """Events that set the job's tenant, queue and other terms, by id, each with the terms that it set."""
    end: Event[AttemptEnded] | None
    """End of the attempt, which determined the record's class; `None`: the record is `reserved`, or no end was known."""
    book: Event[Data] | None
    """Price book that put its price version in force for that time; `None`: it has none."""

    def document(self) -> dict[str, Any]:
        """Return its JSON: the record's, with the numbers of its sum."""
        charge = self.record.charge
        return json_of(self.record) | {
            "seconds": plain(self.seconds),
            "size": charge.size,
            "weights": {one.meter: {"size": plain(one.size), "weight": plain(one.weight)} for one in self.weights} or None,
            "list_price": None if self.list_price is None else plain(self.list_price),
            "factors": self.record.run.factors,
            "price": charge.price,
            "excess": None if self.excess is None else self.excess.document(),
            "cause": None if self.cause is None else self.cause.id,
            "node": self.record.run.node,
            "node_fact": None if self.node is None else self.node.id,
            "class_reason": None if self.end is None else self.end.data.reason,
            "class_event": None if self.end is None else self.end.id,
            "terms_events": list(self.terms),
            "price_book": None if self.book is None else self.book.id,
        }

    def sources(self) -> Iterator[tuple[Event[Data], str]]:
        """Yield all events behind it by time, each with its description."""
        also = (one for one in (self.book, self.node, self.end) if one is not None)
        found = {event.id: event for event in (*(event for event, _ in self.terms.values()), *self.events, *also)}
        for event in sorted(found.values(), key=lambda event: event.time):
            _, given = self.terms.get(event.id, (event, {}))
            said = ", ".join(f"{name.replace('_', ' ')} {_term(value)}" for name, value in given.items())
            yield event, f"{told(event)}; {said}" if said else told(event)

    def sentences(self) -> Iterator[str]:
        """Yield the lines of the sum, from the attempt to the amount."""
        record, run, charge = self.record, self.record.run, self.record.charge
        kind = "" if run.record == "usage" else f", {run.record}"
        yield f"{run.namespace}/{run.job_name} {run.task}[{run.index}] attempt {run.attempt}: {run.kind}{kind}"
        if run.reverses is not None:
            yield f"takes back {run.reverses.record} {record.reverses} of the invoice of {run.reverses.period}"
        if self.weights:
            parts = " + ".join(f"{plain(one.size)} x {plain(one.weight)} ({one.meter})" for one in self.weights)
            yield f"{parts} = {charge.size} weighted units"
        if self.excess is None:
            interval = f"{exact(record.start)} to {exact(record.end)}: "
        else:
            yield from _excess_sentences(self.excess)
            interval = ""
        yield f"{interval}{plain(self.seconds)} s x {charge.size} = {plain(record.quantity)} {UNITS[charge.meter]}"
        yield self._amount()
        yield f"class {run.worth}{self._class()}"

    def _class(self) -> str:
        if self.end is None:
            return ": no end was known when it was recorded" if self.record.run.worth == "useful" else ""
        ended = self.end.data
        return f": the attempt ended {ended.phase}{'' if ended.reason is None else f', {ended.reason}'}"

    def _amount(self) -> str:
        run, price = self.record.run, self.record.charge.price
        if price is None:
            return "no price is known for it"
        where = (("GPU model", run.gpu_model), ("node type", run.node_type))
        named = ", ".join(f"{what} {name}" for what, name in (("price version", run.price_version), *where) if name is not None)
        amount = f"{plain(self.record.amount)} {run.currency} ({named})"
        if self.list_price is None:
            return f"x {price} {run.currency}, all factors included = {amount}"
        factors = "".join(f" x {factor} ({name})" for name, factor in run.factors.items())
        return f"x {plain(self.list_price)} {run.currency}{factors} = {amount}"


@dataclass(frozen=True, slots=True)
class AdjustmentExplanation:
    """Rounding adjustment of an invoice."""

    invoice: Invoice

    def document(self) -> dict[str, Any]:
        """Return its JSON."""
        one = self.invoice
        return {
            "id": one.adjustment_id,
            "record": "adjustment",
            "invoice": one.id,
            "tenant": one.tenant,
            "period": one.period,
            "other": one.other,
            "jobs": one.jobs,
            "sum": plain(one.total.amount),
            "total": one.paid,
            "amount": plain(one.adjustment),
            "currency": one.currency,
        }

    def sentences(self) -> Iterator[str]:
        """Yield the lines of the rounding, from the invoice to the amount."""
        one = self.invoice
        yield f"adjustment of invoice {one.id}: {one.tenant}, {one.period}{', with jobs of kind Other' if one.other else ''}"
        exact, paid = f"{plain(one.total.amount)} {one.currency}", f"{one.paid} {one.currency}"
        yield f"its records of {plural(one.jobs, 'job')} cost {exact}; rounded half to even: {paid}"
        yield f"{one.paid} - {plain(one.total.amount)} = {plain(one.adjustment)} {one.currency}"


def _excess_sentences(excess: Excess) -> Iterator[str]:
    for one in excess.used:
        yield f"{one.kind} {exact(one.start)} to {exact(one.end)}: {_seconds(one.length)} s"
    rules = excess.rules
    terms = [] if rules is None else [f"increments of {_seconds(rules.increment_seconds)} s, {_ROUND[rules.round]}"]
    if rules is not None and rules.minimum_seconds:
        terms.append(f"at least {_seconds(rules.minimum_seconds)} s")
    charged = _seconds(excess.length + excess.added)
    by = f" ({', '.join(terms)})" if terms else ""
    yield f"the attempt is charged for {charged} s{by}: {charged} s - {_seconds(excess.length)} s = {_seconds(excess.added)} s"


_ROUND: Final = {"up": "rounded up", "half_even": "rounded half to even"}


def _seconds(length: int) -> str:
    return plain(quantity(_ONE, length))


def explain_record(
    log: Searchable,
    record: Record,
    source: Event[UsageRecorded],
    original: Event[UsageRecorded] | None,
    rules: PriceVersion | None,
    book: Event[Data] | None,
) -> RecordExplanation:
    """Explain a record.

    Args:
        log: log to search.
        record: record to explain.
        source: run of the record.
        original: run that a reversal voids; `None`: not a reversal.
        rules: price version of the record.
        book: price book that put this version in force for that time.

    Raises:
        LogError: the log cannot be read to its end.
    """
    run, charge, job = record.run, record.charge, events_of(log, record.job)
    excess = cause = None
    if original is not None:
        cause = cause_of(log, job, source)
    first = source if original is None else original
    if first.data.record == "excess":
        excess = Excess(tuple(_used(log, first)), first.data.length, rules)
    named = {ident for stretch in (() if excess is None else excess.used) for ident in stretch.events}
    return RecordExplanation(
        record,
        record.quantity / Decimal(charge.size),
        list_price(record, rules),
        tuple(_weights(run, rules)) if charge.meter == "weighted_seconds" and rules is not None else (),
        excess,
        cause,
        node_fact(log, job, first),
        tuple(events_behind(job, record, named)),
        terms_behind(job, first),
        end_of(job, first),
        book,
    )


def list_price(record: Record, rules: PriceVersion | None) -> Decimal | None:
    """Return the price of a unit of a record before all factors, by its price version; `None`: unknown."""
    run = record.run
    return None if rules is None else rules.rate("prices", record.charge.meter, run.node_type, run.gpu_model)


def _term(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value or "none")


def told(event: Event[Data]) -> str:
    """Return the description of an event behind a record, with its meaning for the bill."""
    data = event.data
    if isinstance(data, ObjectApplied):
        return f"{data.kind} {data.name} was applied at {moment(event.time)}"
    if isinstance(data, NodeObserved):
        kind = f"{data.type or 'unknown'}, GPU model {data.gpu_model or 'unknown'}"
        return f"node {data.name} was observed at {moment(event.time)}: type {kind}"
    requests = data.requests if isinstance(data, AttemptStarted | AttemptChanged) else None
    if requests is None:
        return describe(event)
    cores = plain(Decimal(requests.cpu_milli).scaleb(-3))
    return f"{describe(event)}; it requests {plural(requests.gpus, 'GPU')}, {cores} cores, {plural(requests.memory_bytes, 'byte')}"


def _weights(run: UsageRecorded, rules: PriceVersion) -> Iterator[Weighting]:
    sizes = {charge.meter: Decimal(charge.size) for charge in run.charges}
    for meter in METERS:
        weight = rules.rate("weights", meter, run.node_type, run.gpu_model)
        if weight is not None and meter in sizes:
            yield Weighting(meter, sizes[meter], weight)


def _used(log: Searchable, excess: Event[UsageRecorded]) -> Iterator[Stretch]:
    """Yield the charged usage of an attempt when its excess was recorded, without reserved resources."""
    runs: list[Run] = []
    for record in log.records_of(excess.subject, ("billing",)):
        data = decode(record.message, bounded=False).data
        if not isinstance(data, UsageRecorded | UsageWithdrawn) or slot_of(data) != slot_of(excess.data):
            continue
        if (left := voided(runs, data)) is not None:
            runs = left
        elif isinstance(data, UsageRecorded):
            runs.append(run_of(data))
        if record.message.id == excess.id:
            break
    used = sorted((run for run in runs if run.record == "usage" and run.kind != "reserved"), key=lambda run: run.start)
    joined: list[Run] = []
    for run in used:
        if joined and (joined[-1].kind, joined[-1].end, joined[-1].begun) == (run.kind, run.start, run.begun):
            joined[-1] = replace(joined[-1], end=run.end, ended=run.ended)
        else:
            joined.append(run)
    for run in joined:
        yield Stretch(run.kind, run.start, run.end, (run.begun,) if run.ended is None else (run.begun, run.ended))
