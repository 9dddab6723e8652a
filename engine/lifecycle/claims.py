"""What an input that is held says of a job that nothing has opened: it is parked, and has to be found and guarded all the same."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from engine.events import Data, Event, decode, from_cloudevent
from engine.events.inputs import JobObserved, JobSubmitted, PodDeleted, PodObserved
from engine.kubernetes.manifests import read_identity

__all__ = ["Claim", "claim_of", "restore"]


class Claim(NamedTuple):
    """What a job would be called if its first input could be decided on."""

    cluster: str
    namespace: str
    name: str
    tenant: str
    kind: str = ""
    managed: bool = False


def claim_of(held: Event[Data]) -> Claim | None:
    """Return what an input that is held would call its job; `None`: it opens none."""
    data: Data = held.data.last if isinstance(held.data, PodDeleted) else held.data
    cluster = held.clusterid
    match data:
        case JobSubmitted():
            return Claim(cluster, *read_identity(data.manifest, held.id), managed=True)
        case PodObserved():
            name, tenant = data.owner or data.name, data.tenant or data.namespace
            return Claim(cluster, data.namespace, name, tenant, data.kind, data.managed)
        case JobObserved():
            return Claim(cluster, data.namespace, data.name, data.tenant or data.namespace, data.kind)
        case _:
            return None


def restore(held: dict[str, Any]) -> Event[Data]:
    """Return the input that was kept."""
    return decode(from_cloudevent(json.dumps(held).encode(), 0), bounded=False)
