"""Reports on callbacks, as inputs.

That a delivery failed is an input of its job, so that the job's history shows it. That a receiver is disabled or resumed belongs to
no job: its subject is the receiver, so that these reports are in order and outlive the job, which may be parked or forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.effects.notice import Notice
from engine.events import Data, Event, Message, encode
from engine.events.ids import digest
from engine.events.inputs import EffectReported

__all__ = ["SOURCE", "Stop", "delivery_id", "report"]

SOURCE = "lahar/effects"


def delivery_id(name: str, event: str) -> str:
    """Return the id of telling a receiver of an event; the same for every attempt."""
    return digest(f"callback\x1f{name}\x1f{event}".encode())


@dataclass(slots=True, frozen=True)
class Stop:
    """Where a disabled receiver waits for its resume."""

    job: str
    """Whose delivery it is; empty where the receiver alone matters."""
    cluster: str
    effect: str
    """Id of the delivery."""
    message: str = ""
    """Why."""

    @classmethod
    def at(cls, name: str, notice: Notice, message: str) -> Stop:
        """Return the stop of a receiver at a notice."""
        return cls(notice.job, notice.cluster, delivery_id(name, notice.id), message)


def report(
    name: str, stop: Stop, outcome: Literal["failed", "disabled", "resumed"], now: int, cause: str = "", principal: str = ""
) -> Message:
    """Return the input that reports the outcome of a delivery or its receiver's state.

    Args:
        name: of the receiver.
        stop: where it stands, and why.
        outcome: `failed`: the delivery is given up for now; `disabled`, `resumed`: the receiver.
        now: the time (microseconds).
        cause: id of the event that was to be told; empty where a person asked.
        principal: who says so.
    """
    data = EffectReported(stop.effect, outcome, name, stop.message, principal=principal)
    subject = stop.job if outcome == "failed" else f"callback/{name}"
    # The same delivery may be disabled again after a resume: only the time tells these reports apart.
    identity = digest(f"report\x1f{stop.effect}\x1f{outcome}\x1f{now}".encode())
    event: Event[Data] = Event(identity, SOURCE, data.TYPE, subject, now, now, 0, subject, cause, stop.cluster, data)
    return encode(event)
