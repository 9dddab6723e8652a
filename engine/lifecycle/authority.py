"""Authority over jobs: whether the producer of an input may act on a job, by its cluster and that cluster's grants.

Grants are objects on `cluster`, so the grants in force at each decision are part of the history. In a cluster without grants every
principal may act on every job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from engine.events import Data, Event
from engine.events.inputs import CommandIssued, CustomEventRaised, EffectReported, JobDeleted, JobUpdated
from engine.lifecycle.claims import Claim, claim_of
from engine.lifecycle.job import Job
from engine.lifecycle.state import ShardState

_EVERY: Final = "*"
Asking = CommandIssued | CustomEventRaised | EffectReported | JobUpdated | JobDeleted
_ASKING: Final = (CommandIssued, CustomEventRaised, EffectReported, JobUpdated, JobDeleted)


class _Granted(NamedTuple):
    """Jobs on which one grant allows its principals to act."""

    namespaces: frozenset[str] | None
    tenants: frozenset[str] | None


def objection(state: ShardState, job: Job, event: Event[Data]) -> str | None:
    """Return the reason to refuse a request about a job; `None`: it is allowed, or the job is unknown."""
    data = event.data
    if not isinstance(data, _ASKING):
        return None
    if isinstance(data, CommandIssued) and data.action == "Discard":
        return _objection_to_discard(state, data.principal)
    # An unopened job has no owner yet: any of its held inputs may open it.
    why: str | None = None
    granted = _granted(state, data.principal, event.clusterid)
    for whose in [job] if job.opened else job.claims:
        why = _objection(granted, whose, event, data)
        if why is None:
            return None
    return why


def _objection_to_discard(state: ShardState, principal: str) -> str | None:
    """Return the reason to refuse discarding dead letters: their owner is unknown, so a grant for all namespaces is required."""
    whys = (denial(state, principal, cluster, _EVERY, _EVERY) for cluster in sorted({where for where, _ in _grants(state)}))
    return next(filter(None, whys), None)


def _objection(granted: Sequence[_Granted] | None, whose: Job | Claim, event: Event[Data], data: Asking) -> str | None:
    if whose.cluster != event.clusterid:
        return f"the job is of {_called(whose.cluster)}, not of {_called(event.clusterid)}"
    if isinstance(data, JobDeleted) and not whose.managed:
        return None  # a deletion observed by a watch
    return _uncovered(granted, data.principal, whose.cluster, whose.namespace, whose.tenant)


def objection_to_submission(state: ShardState, event: Event[Any]) -> str | None:
    """Return the reason to refuse a submission; `None`: it is allowed."""
    claim = claim_of(event)
    return None if claim is None else denial(state, event.data.principal, claim.cluster, claim.namespace, claim.tenant)


def denial(state: ShardState, principal: str, cluster: str, namespace: str, tenant: str) -> str | None:
    """Return the reason why a principal may not act on a namespace and a tenant; `None`: it may.

    Args:
        state: the shard with the grants.
        principal: the principal; empty: unknown, covered only by a grant for `"*"`.
        cluster: cluster of the job; empty: none. If any cluster has a Grant, only a Grant without a cluster covers an empty one.
        namespace: namespace of the job.
        tenant: tenant of the job.
    """
    return _uncovered(_granted(state, principal, cluster), principal, cluster, namespace, tenant)


def _granted(state: ShardState, principal: str, cluster: str) -> Sequence[_Granted] | None:
    """Return the grants of a cluster for a principal; `None`: it has no grants, so every principal may act on every job."""
    grants = [(where, spec) for where, spec in _grants(state) if where == cluster or not cluster]
    if not grants:
        return None
    own = (spec for where, spec in grants if where == cluster and _covers(_names(spec, "principals"), principal))
    return [_Granted(_names(spec, "namespaces"), _names(spec, "tenants")) for spec in own]


def _uncovered(granted: Sequence[_Granted] | None, principal: str, cluster: str, namespace: str, tenant: str) -> str | None:
    if granted is None or any(_allows(grant, namespace, tenant) for grant in granted):
        return None
    who = repr(principal) if principal else "a producer without a principal"
    whose = f"namespace {namespace}" + (f" and tenant {tenant}" if tenant != namespace else "")
    return f"{who} may not speak for {whose}: no Grant of {_called(cluster)} says so"


def _called(cluster: str) -> str:
    return f"cluster {cluster}" if cluster else "a cluster that is not named"


def _grants(state: ShardState) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return ((cluster, applied.spec) for (cluster, kind, _), applied in state.facts.objects.items() if kind == "Grant")


def _allows(grant: _Granted, namespace: str, tenant: str) -> bool:
    """Return true if a grant covers a job.

    A grant with only a namespace covers the tenant of the same name (a job's tenant without a label); a grant with only a tenant
    covers every namespace.
    """
    namespaces, tenants = grant
    return (
        (namespaces is None or _covers(namespaces, namespace))
        and (tenant == namespace if tenants is None else _covers(tenants, tenant))
        and not (namespaces is None and tenants is None)
    )


def _names(spec: Mapping[str, Any], field: str) -> frozenset[str] | None:
    """Return the names in a field of a grant, whatever its type; `None`: the field is absent."""
    names = spec.get(field)
    if isinstance(names, list):
        return frozenset(name for name in names if isinstance(name, str))
    return None if names is None else frozenset()


def _covers(names: frozenset[str] | None, name: str) -> bool:
    return names is not None and (_EVERY in names or (name != "" and name in names))
