"""Status of the registered callbacks, read from the log, beside the process that calls them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.effects.dispatcher import cursor_name
from engine.effects.receiver import Receiver
from engine.events import decode
from engine.events.inputs import EffectReported
from engine.events.jobs import EffectSettled
from engine.log.port import Log, Partition, SearchableLog
from statemachines.callbacks import Selector

__all__ = ["Failure", "Standing", "standings"]


@dataclass(slots=True, frozen=True)
class Failure:
    """A failed delivery."""

    time: int
    """When it was given up (microseconds)."""
    message: str
    """Why."""


@dataclass(slots=True)
class Standing:
    """One callback."""

    name: str
    origin: str
    """Where it is declared: `module:name`."""
    selector: Selector
    lag: int
    """Offsets between its cursor and the end of the job events."""
    stops: set[str] = field(default_factory=set)
    """Deliveries at which it waits for a resume."""
    failure: Failure | None = None
    """The last delivery that was given up; `None`: none ever was. A failure that is still tried again is not in the log."""

    @property
    def disabled(self) -> bool:
        """Whether it waits for a resume."""
        return bool(self.stops)


def standings(log: SearchableLog, receivers: Iterable[Receiver]) -> list[Standing]:
    """Return the status of each receiver, in the order given. Nothing is written.

    Raises:
        LogDamagedError: something in the log does not match its checksum.
    """
    ends = {
        partition: log.end(partition)
        for partition in (Partition("job-events", number) for number in range(log.partitions("job-events")))
    }
    found = {receiver.name: _standing(log, receiver, ends) for receiver in receivers}
    # A report counts before it is processed: each says the same once more when it is settled, in the same order.
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


def _standing(log: Log, receiver: Receiver, ends: dict[Partition, int]) -> Standing:
    cursor = log.cursor(cursor_name(receiver.name))
    lag = sum(max(end - cursor.get(partition, 0), 0) for partition, end in ends.items())
    return Standing(receiver.name, receiver.origin, receiver.selector, lag)
