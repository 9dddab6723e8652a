"""Reports on callbacks, as inputs.

A failed delivery is an input of its job, so the job's history shows it. The disabling or resuming of a receiver belongs to no job:
the receiver is the subject, so these reports are ordered and outlive the job, which may be parked or forgotten. The receiver is
also the subject of a failed delivery about a budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.effects.notice import Notice, Told
from engine.events import Data, Event, Message, encode
from engine.events.ids import digest
from engine.events.inputs import EffectReported

SOURCE = "lahar/effects"


def delivery_id(name: str, event: str) -> str:
    """Return the id of a delivery of an event to a receiver; the same for every attempt."""
    return digest(f"callback\x1f{name}\x1f{event}".encode())


@dataclass(slots=True, frozen=True)
class Stop:
    """Delivery for which a receiver is disabled until a resume."""

    job: str
    """Job of the delivery; empty for reports about the receiver alone, and about budgets."""
    cluster: str
    effect: str
    """Id of the delivery."""
    message: str = ""
    """Error message."""

    @classmethod
    def at(cls, name: str, notice: Told, message: str) -> Stop:
        """Return the stop of a receiver at a notice."""
        job = notice.job if isinstance(notice, Notice) else ""
        return cls(job, notice.cluster, delivery_id(name, notice.id), message)


def report(
    name: str, stop: Stop, outcome: Literal["failed", "disabled", "resumed"], now: int, cause: str = "", principal: str = ""
) -> Message:
    """Return the input that reports the outcome of a delivery, or the state of its receiver.

    Args:
        name: name of the receiver.
        stop: the delivery, and its failure.
        outcome: `failed`: the delivery is given up for now; `disabled`, `resumed`: the receiver.
        now: current time (microseconds).
        cause: id of the event to deliver; empty for a person's request.
        principal: principal of the report.
    """
    data = EffectReported(stop.effect, outcome, name, stop.message, principal=principal)
    subject = stop.job if outcome == "failed" and stop.job else f"callback/{name}"
    # A delivery may be disabled again after a resume; only the time distinguishes these reports.
    identity = digest(f"report\x1f{stop.effect}\x1f{outcome}\x1f{now}".encode())
    event: Event[Data] = Event(identity, SOURCE, data.TYPE, subject, now, now, 0, subject, cause, stop.cluster, data)
    return encode(event)
