"""Who may speak for a job: the producer of an input, by its cluster and by the grants that the cluster was given.

Grants are objects on `cluster`, so what they were when an input was decided on is part of the history. A cluster without a grant
lets everybody speak for everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from engine.events import Data, Event
from engine.events.inputs import CommandIssued, CustomEventRaised, EffectReported, JobDeleted, JobSubmitted, JobUpdated
from engine.lifecycle.belonging import is_elsewhere
from engine.lifecycle.indexes import refused_key
from engine.lifecycle.state import Job, ShardState

__all__ = ["asked", "may_not_speak", "objection", "was_refused"]

_EVERY: Final = "*"
_ASKING: Final = (CommandIssued, CustomEventRaised, EffectReported, JobUpdated, JobDeleted)


def was_refused(job: Job, event: Event[Data]) -> bool:
    """Tell whether an input was refused before: of somebody who may not speak for the job, or of what was no job then."""
    data = event.data
    return isinstance(data, (*_ASKING, JobSubmitted)) and refused_key(data.principal, event.id) in job.seen


def objection(state: ShardState, job: Job, event: Event[Data]) -> str | None:
    """Say why what somebody asks of a job does not count; `None`: it does, or the job is not known."""
    data = event.data
    if not isinstance(data, _ASKING) or not job.opened:
        return None
    if is_elsewhere(job, event.clusterid):
        return f"the job is of {_called(job.cluster)}, not of {_called(event.clusterid)}"
    if isinstance(data, JobDeleted) and not job.managed:
        return None  # somebody saw that an object is gone
    return may_not_speak(state, data.principal, job.cluster, job.namespace, job.tenant)


def may_not_speak(state: ShardState, principal: str, cluster: str, namespace: str, tenant: str) -> str | None:
    """Say why a principal may not speak for a namespace and a tenant; `None`: it may.

    Args:
        state: the shard, which knows the grants.
        principal: who; empty: not known, which only a grant for everybody covers.
        cluster: of the job; empty: not named, which a Grant of any cluster closes to all that no Grant without a cluster covers.
        namespace: of the job.
        tenant: of the job.
    """
    grants = [(where, spec) for where, spec in _grants(state) if where == cluster or not cluster]
    if not grants or any(where == cluster and _covers(spec, principal, namespace, tenant) for where, spec in grants):
        return None
    who = repr(principal) if principal else "a producer without a principal"
    whose = f"namespace {namespace}" + (f" and tenant {tenant}" if tenant != namespace else "")
    return f"{who} may not speak for {whose}: no Grant of {_called(cluster)} says so"


def _called(cluster: str) -> str:
    return f"cluster {cluster}" if cluster else "a cluster that is not named"


def _grants(state: ShardState) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return ((cluster, applied.spec) for (cluster, kind, _), applied in state.facts.objects.items() if kind == "Grant")


def _covers(grant: Mapping[str, Any], principal: str, namespace: str, tenant: str) -> bool:
    """Tell whether a grant covers a job.

    A namespace alone covers the tenant of that name, which a job has unless a label says otherwise; a tenant alone every namespace.
    """
    namespaces, tenants = grant.get("namespaces"), grant.get("tenants")
    return (
        _names(grant.get("principals"), principal)
        and (namespaces is None or _names(namespaces, namespace))
        and (tenant == namespace if tenants is None else _names(tenants, tenant))
        and not (namespaces is None and tenants is None)
    )


def _names(names: Any, name: str) -> bool:  # noqa: ANN401 - as it stands in the log
    return isinstance(names, list) and (_EVERY in names or (name != "" and name in names))


_NAMES: Final[dict[type[Data], str]] = {
    JobSubmitted: "submit",
    JobUpdated: "update",
    JobDeleted: "delete",
    EffectReported: "report",
}


def asked(data: Data) -> tuple[str, str]:
    """Return what an input asks for, and who asks as it says itself."""
    if isinstance(data, CommandIssued):
        return data.action, data.by
    if isinstance(data, CustomEventRaised):
        return data.event, data.by
    return _NAMES[type(data)], ""
