"""Status of the registered callbacks, read from the log, for processes other than the one that calls them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.effects.dispatcher import cursor_name, partitions_of
from engine.effects.receiver import Receiver
from engine.events import decode
from engine.events.actions import EffectSettled
from engine.events.inputs import EffectReported
from engine.log.port import Log, SearchableLog
from statemachines.callbacks import BudgetSelector, Selector


@dataclass(slots=True, frozen=True)
class Failure:
    """A failed delivery."""

    time: int
    """Time at which the delivery was given up (microseconds)."""
    message: str
    """Error message."""


@dataclass(slots=True)
class StoredStatus:
    """Status of one callback, as recorded in the log."""

    name: str
    origin: str
    """Location of its declaration: `module:name`."""
    selector: Selector | BudgetSelector
    lag: int
    """Number of offsets between its cursor and the end of its partitions."""
    stops: set[str] = field(default_factory=set)
    """Ids of failed deliveries for which it is disabled until a resume."""
    failure: Failure | None = None
    """Last delivery given up; `None`: none. A failure that is still retried is not in the log."""

    @property
    def disabled(self) -> bool:
        """True if the callback is disabled until a resume."""
        return bool(self.stops)


def stored_statuses(log: SearchableLog, receivers: Iterable[Receiver]) -> list[StoredStatus]:
    """Return the status of each receiver, in the order given. Writes nothing.

    Raises:
        LogDamagedError: a record does not match its checksum.
    """
    found = {receiver.name: _status_of(log, receiver) for receiver in receivers}
    # A report counts before it is processed; its settled event repeats it later, in the same order.
    for record in log.scan(("jobs", "job-events"), {EffectReported.TYPE, EffectSettled.TYPE}):
        event = decode(record.message)
        data = event.data
        if not isinstance(data, EffectReported | EffectSettled) or (standing := found.get(data.name)) is None:
            continue
        if data.outcome == "disabled":
            standing.stops.add(data.effect)
        elif data.outcome == "resumed":
            standing.stops.discard(data.effect)
        elif data.outcome == "failed":
            standing.failure = Failure(event.time, data.message)
    return list(found.values())


def _status_of(log: Log, receiver: Receiver) -> StoredStatus:
    cursor = log.cursor(cursor_name(receiver.name))
    lag = sum(max(log.end(partition) - cursor.get(partition, 0), 0) for partition in partitions_of(log, receiver.selector))
    return StoredStatus(receiver.name, receiver.origin, receiver.selector, lag)
