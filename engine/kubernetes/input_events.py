"""Changes of inputs before they are appended: for a pod's owners, its claims, its List."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from engine.events import Data, Event, EventError, Message, decode
from engine.events.inputs import PodDeleted, PodObserved


def event_of(message: Message) -> Event[Any] | None:
    """Return the event of an input; `None` if a value exceeds a bound, so that the shard makes a dead letter of it."""
    try:
        return decode(message)
    except EventError:
        return None


def pod_of(data: Data) -> PodObserved:
    """Return the pod of an input of topic `pods`."""
    return data.last if isinstance(data, PodDeleted) else cast("PodObserved", data)


def with_pod(data: Data, pod: PodObserved) -> Data:
    """Return the data of an input of topic `pods` with another pod."""
    return replace(data, last=pod) if isinstance(data, PodDeleted) else pod
