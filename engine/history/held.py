"""What an input that is held says of a job that nothing has opened: it is parked, and has to be found all the same."""

from __future__ import annotations

import json
from typing import NamedTuple

from engine.events import Data, Event, decode, from_cloudevent
from engine.events.inputs import JobObserved, JobSubmitted, PodDeleted, PodObserved
from engine.events.jobs import InputParked
from engine.kubernetes.manifests import read_identity

__all__ = ["Claim", "claim_of"]


class Claim(NamedTuple):
    """What a job would be called if its first input could be decided on."""

    namespace: str
    name: str
    tenant: str
    kind: str = ""
    managed: bool = False


def claim_of(event: Event[InputParked]) -> Claim | None:
    """Return what an input that is held would call its job; `None`: it opens none."""
    held = decode(from_cloudevent(json.dumps(event.data.input).encode(), 0), bounded=False)
    data: Data = held.data.last if isinstance(held.data, PodDeleted) else held.data
    match data:
        case JobSubmitted():
            return Claim(*read_identity(data.manifest, held.id), managed=True)
        case PodObserved():
            return Claim(data.namespace, data.owner or data.name, data.tenant or data.namespace, data.kind, data.managed)
        case JobObserved():
            return Claim(data.namespace, data.name, data.tenant or data.namespace, data.kind)
        case _:
            return None
