"""Opening and closing of queues, with those below them, as Volcano does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, Literal

from engine.application.apply import AppliedObject, apply_parts, part_of
from engine.application.feed import Feed
from engine.events.jobs import JobOpened
from engine.history.errors import only_one
from engine.history.reading import cluster_facts, job_events
from engine.kubernetes.manifests.queue_rules import CLOSED_BY_PARENT, HIERARCHY, HIERARCHY_WEIGHTS, ROOT
from engine.kubernetes.manifests.volcano_defaults import DEFAULT_QUEUE
from engine.kubernetes.observation.cluster_facts import ClusterFacts
from engine.kubernetes.reading.documents import Document
from engine.log.port import SearchableLog
from statemachines.errors import LaharError

_OPEN: Final = frozenset({"", "Open"})
_STATED: Final = {"closedByParent": CLOSED_BY_PARENT, "hierarchy": HIERARCHY, "hierarchyWeights": HIERARCHY_WEIGHTS}
"""Fields of the fact that an object states by annotation."""

Specs = Mapping[str, dict[str, Any]]


class QueueStateError(LaharError, ValueError):
    """Raised when a queue cannot be opened or closed."""


def change_queue_state(
    feed: Feed,
    log: SearchableLog,
    name: str,
    state: Literal["Open", "Closed"],
    recorded: int,
    *,
    cluster: str | None = None,
    warn: Callable[[str], object],
) -> list[AppliedObject]:
    """Open or close a queue: it is applied again as it stands, with this state.

    Volcano: with a queue those below it close; they are marked, and open with it again. Below a closed queue none opens. The root
    cannot be closed. A closed queue whose jobs are not all over is Closing.

    Args:
        feed: appends to the log.
        log: the same log.
        name: of the queue.
        state: what is wanted.
        recorded: recorded time (microseconds).
        cluster: its cluster; `None`: the one that has a queue of this name.
        warn: called with each warning.

    Returns:
        The queue, then those below it that change with it. The queue is `unchanged` if it has that state.

    Raises:
        NotFoundError: there is no such queue.
        AmbiguousError: several clusters have one, and none is named.
        QueueStateError: the root is to be closed, or the queue above is closed.
    """
    clusters = _queues(log)
    has = [one for one in clusters if cluster in {None, one} and name in clusters[one]]
    found = only_one("queue", name, has, chain.from_iterable(clusters.values()))
    queues = clusters[found]
    if state == "Closed":
        if name == ROOT:
            raise QueueStateError("queue root cannot be closed: all others are below it; close those")
        change = {one: one != name for one in _branch(name, queues, _is_open) if _is_open(queues[one])}
    else:
        parent = queues[name].get("parent") or ROOT
        if not _is_open(queues.get(parent, {})):
            raise QueueStateError(f"queue {name} cannot be opened: queue {parent} above it is closed; open that first")
        marked = _branch(name, queues, lambda spec: not _is_open(spec) and bool(spec.get("closedByParent")))
        change = {one: False for one in marked if not _is_open(queues[one])}
    parts = [
        part_of(found, "", Document(0, f"queue {one}", _manifest(one, queues[one], state, marked=by_parent)), recorded)
        for one, by_parent in change.items()
    ]
    applied = apply_parts(feed, log, found, parts, recorded, strict=False, warn=warn) if parts else []
    return applied if name in change else [AppliedObject("Queue", name, "unchanged"), *applied]


def _queues(log: SearchableLog) -> dict[str, dict[str, dict[str, Any]]]:
    """Return cluster → queue → its specification; each cluster, known by facts or jobs, has the queues root and default."""
    facts = ClusterFacts()
    clusters = {event.clusterid for event in job_events(log, {JobOpened.TYPE})}
    for event in cluster_facts(log):
        facts.absorb(event)
        clusters.add(event.clusterid)
    found: dict[str, dict[str, dict[str, Any]]] = {cluster: {ROOT: {}, DEFAULT_QUEUE: {}} for cluster in sorted(clusters)}
    for (cluster, kind, name), given in facts.objects.items():
        if kind == "Queue":
            found[cluster][name] = given.spec
    return found


def _is_open(spec: Mapping[str, Any]) -> bool:
    return (spec.get("state") or "") in _OPEN


def _branch(name: str, queues: Specs, goes_down: Callable[[Mapping[str, Any]], bool]) -> Iterator[str]:
    """Yield a queue, and those below it as far as the condition holds of each."""
    found = [name]
    for above in found:  # it grows as it goes
        yield above
        below = [one for one, spec in sorted(queues.items()) if (spec.get("parent") or ROOT) == above and goes_down(spec)]
        found += [one for one in below if one not in found]


def _manifest(name: str, spec: Mapping[str, Any], state: str, *, marked: bool) -> dict[str, Any]:
    """Return the object that gives this specification, but for its state and mark."""
    stated = {_STATED[field]: value for field, value in spec.items() if field in _STATED and field != "closedByParent"}
    if marked:
        stated[CLOSED_BY_PARENT] = "true"
    kept = {field: value for field, value in spec.items() if field not in _STATED}
    return {"kind": "Queue", "metadata": {"name": name, "annotations": stated}, "spec": {**kept, "state": state}}
