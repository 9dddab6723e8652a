"""Identity claimed by held inputs for an unopened job, to find a parked job and check its grants."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pydantic_core import to_json

from engine.events import Data, Event, decode, from_cloudevent
from engine.events.inputs import JobDeleted, JobObserved, JobSubmitted, JobUpdated, PodDeleted, PodObserved
from engine.kubernetes.manifests.identity import read_identity
from engine.kubernetes.reading.identity import job_name

_NAMESPACED: Final = (PodObserved, JobObserved, JobDeleted)
LOCATED: Final = (*_NAMESPACED, JobSubmitted, JobUpdated)
"""Inputs with a namespace. (A tuple, because `isinstance` with a union builds the union on each call.)"""


class Claim(NamedTuple):
    """Identity that a job would have if its first input were decided."""

    cluster: str
    namespace: str
    name: str
    tenant: str
    kind: str = ""
    managed: bool = False


def claim_of(held: Event[Data]) -> Claim | None:
    """Return the identity that a held input would give its job; `None`: it opens no job."""
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


def namespace_of(data: Data) -> str | None:
    """Return the namespace of an input; `None`: it has none."""
    if isinstance(data, PodDeleted):
        data = data.last
    if isinstance(data, _NAMESPACED):
        return data.namespace
    return job_name(data.manifest)[0] if isinstance(data, JobSubmitted | JobUpdated) else None


def restore(held: dict[str, Any]) -> Event[Data]:
    """Return the event of a held input."""
    return decode(from_cloudevent(to_json(held), 0), bounded=False)
