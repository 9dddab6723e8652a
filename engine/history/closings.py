"""Closings of months: requested in the log, and effective once every billing shard has read them."""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.billing.absorb import absorb
from engine.billing.calendar import Month, month_named
from engine.billing.stage import STAGE, BillingStage
from engine.billing.state import State
from engine.events.billing import PeriodClosed
from engine.events.inputs import ObjectApplied
from engine.events.times import Micros
from engine.history.reading import cluster_records
from engine.log.port import Partition, SearchableLog, ShardId
from engine.log.shard_inputs import extended
from engine.processor.partitions import input_partitions, shard_count

_STAGE: Final = BillingStage()
_CLUSTER: Final = Partition("cluster", 0)


class Closing(NamedTuple):
    """Event that closes a month."""

    recorded: Micros
    """Recorded time (microseconds)."""
    taken: bool
    """True if every billing shard has read it: the month is closed, and its invoices and exports are final."""
    month: Month
    """Boundaries of the month at its closing, in the time zone of the price book in force then."""


def closings(log: SearchableLog) -> dict[str, Closing]:
    """Return the closing by month, by the rules of the billing stage: one before the month's end has no effect.

    Raises:
        LogError: the log cannot be read.
    """
    state, found = State(), dict[str, tuple[Micros, int, Month]]()
    for record, event in cluster_records(log, {ObjectApplied.TYPE, PeriodClosed.TYPE}):
        absorb(state, event)
        for period in state.periods.keys() - found.keys():
            month = month_named(period, state.book.time_zone)
            assert month is not None  # noqa: S101 - the stage has read the name
            found[period] = event.recordedtime, record.offset, month
    taken = min((_positions(log, number)[_CLUSTER] for number in range(shard_count(log, _STAGE))), default=0) if found else 0
    return {period: Closing(recorded, offset < taken, month) for period, (recorded, offset, month) in sorted(found.items())}


def _positions(log: SearchableLog, number: int) -> dict[Partition, int]:
    """Return the offset of the first record that a billing shard has not read, by input partition."""
    inputs, view = input_partitions(log, _STAGE, number), log.look(ShardId(STAGE, number))
    return dict(zip(inputs, extended(() if view is None else view.position.vector, len(inputs)), strict=True))


def is_behind(log: SearchableLog, moment: Micros) -> bool:
    """Return true if billing has unread job events from before a time (microseconds).

    A closing is read before waiting job events, so their usage in the month would be on later invoices, and an attempt whose end is
    among them would be charged up to the closing.

    Raises:
        LogError: the log cannot be read.
    """
    start = {place: at for number in range(shard_count(log, _STAGE)) for place, at in _positions(log, number).items()}
    return any(record.message.time < moment for record in log.scan(("job-events",), start=start))
