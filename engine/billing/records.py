"""Records: one slice and one meter each, with its own id; the lines of exports and the unit for billing systems.

A recorded run has a slice in each hour that it touches (`lahar.usage.recorded`). Splitting it on reading keeps the log small: a
month in one state is one event and 720 slices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from hashlib import blake2b
from typing import Any, Final

from msgspec.structs import replace

from engine.billing.calendar import next_hour
from engine.billing.corrections import cut
from engine.billing.tariff import cost, quantity
from engine.events import Event
from engine.events.billing import Charge, UsageRecorded
from engine.events.decimals import plain
from engine.events.prices import Meter
from engine.events.times import Micros, format_time

UNITS: Final[dict[Meter, str]] = {
    "gpu_seconds": "GPU-Seconds",
    "cpu_seconds": "vCPU-Seconds",
    "memory_byte_seconds": "Byte-Seconds",
    "weighted_seconds": "Weighted-Seconds",
}
"""Unit of each meter."""


@dataclass(frozen=True, slots=True)
class Record:
    """Line of a bill."""

    id: str
    run: UsageRecorded
    """Fields common to all records of the run."""
    job: str
    cluster: str
    charge: Charge
    """Meter, size, price."""
    start: Micros
    end: Micros
    quantity: Decimal
    amount: Decimal
    inferred: bool
    events: tuple[str, ...]
    """Ids of the job events that start the slice, and end it if one does."""
    reverses: str | None = None
    """Id of the reversed record; `None`: not a reversal."""


def record_id(record: str, meter: str, uid: str, start: Micros, begun: str, revision: int) -> str:
    """Return the id of a record from its identity, independent of the time of writing."""
    return blake2b(f"{record}\x1f{meter}\x1f{uid}\x1f{start}\x1f{begun}\x1f{revision}".encode(), digest_size=16).hexdigest()


def clipped(data: UsageRecorded, start: Micros, end: Micros) -> UsageRecorded:
    """Return the part of a run between two slice boundaries; its quantities and amounts stay those of the whole run."""
    if (start, end) == (data.start, data.end):
        return data
    part = replace(data, **cut(data, start, end))
    return part if data.reverses is None else replace(part, length=-part.length)


def records_of(event: Event[UsageRecorded]) -> Iterator[Record]:
    """Yield the records of a run by slice, and within a slice by meter."""
    data = event.data
    whole = data.record == "excess" or (data.reverses is not None and data.reverses.record == "excess")
    sign = -1 if data.reverses is not None else 1
    # The last slice and an excess may have the same start, and both may be reversed.
    name = "reversal/excess" if data.reverses is not None and data.reverses.record == "excess" else data.record
    start = data.start
    while start < data.end:
        end = data.end if whole else min(next_hour(start), data.end)
        length = data.length if whole else sign * (end - start)
        first, last = start == data.start, end == data.end
        events = (data.begun, data.ended) if last and data.ended is not None else (data.begun,)
        for charge in data.charges:
            used = quantity(Decimal(charge.size), length)
            given = (charge.meter, data.uid, start, data.begun)
            yield Record(
                record_id(name, *given, data.revision),
                data,
                event.subject,
                event.clusterid,
                charge,
                start,
                end,
                used,
                cost(charge.price, used),
                (first and data.inferred_start) or (last and data.inferred_end),
                events,
                None if data.reverses is None else record_id(data.reverses.record, *given, data.reverses.revision),
            )
        start = end


def json_of(record: Record) -> dict[str, Any]:
    """Return the JSON of a record (`lahar billing export --format jsonl`)."""
    run, charge = record.run, record.charge
    return {
        "id": record.id,
        "record": run.record,
        "meter": charge.meter,
        "quantity": plain(record.quantity),
        "unit": UNITS[charge.meter],
        "amount": plain(record.amount),
        "currency": run.currency,
        "tenant": run.tenant,
        "project": run.project or None,
        "queue": run.queue or None,
        "user": run.user or None,
        "job": record.job,
        "attempt": run.attempt,
        "task": run.task,
        "replica": run.index,
        "node_type": run.node_type,
        "gpu_model": run.gpu_model,
        "start": format_time(record.start),
        "end": format_time(record.end),
        "kind": run.kind,
        "class": run.worth,
        "price_version": run.price_version,
        "inferred": record.inferred,
        "revision": run.revision,
        "reverses": record.reverses,
        "events": list(record.events),
    }
