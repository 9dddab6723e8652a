"""What is known of nodes, and the jobs that wait to know something of one."""

from __future__ import annotations

from typing import Final

from engine.billing.persist import known_of, node_record
from engine.billing.state import Attempt, Job, Node, NodeFact, State
from engine.billing.timers import review
from engine.events import Event
from engine.events.inputs import NodeDeleted, NodeObserved
from engine.events.times import SECOND

__all__ = ["await_node", "forget_nodes", "node_gone", "node_observed"]

_UNKNOWN: Final = 64
"""Nodes that a job waits to know of by name."""
_ANY: Final = "*"
_GONE: Final = 400 * 86_400 * SECOND
"""How long a node that is gone is remembered."""


def await_node(state: State, job: Job, attempt: Attempt) -> None:
    """Note that nothing is known of an attempt's node."""
    if attempt.node is None or (job.cluster, attempt.node) in state.nodes or attempt.node in job.unknown or _ANY in job.unknown:
        return
    name = attempt.node if len(job.unknown) < _UNKNOWN else _ANY
    job.unknown = [*job.unknown, name]
    state.unknown.setdefault((job.cluster, name), {})[job.id] = None


def _no_longer_unknown(state: State, job: Job, node: str) -> None:
    jobs = state.unknown.get((job.cluster, node))
    if jobs is not None:
        jobs.pop(job.id, None)
        if not jobs:
            del state.unknown[job.cluster, node]


def forget_nodes(state: State, job: Job) -> None:
    """Note that a job waits for none any more."""
    for node in job.unknown:
        _no_longer_unknown(state, job, node)


def node_observed(state: State, event: Event[NodeObserved]) -> None:
    """Take what a node is, and have the jobs reviewed that wait to know it."""
    data, place = event.data, (event.clusterid, event.data.name)
    node = state.nodes.get(place)
    if node is None:
        node = state.nodes[place] = Node()
    elif node.gone is not None:
        node.gone = None
        state.touched[node_record(place)] = None
    fact = NodeFact(event.time, data.type, data.gpu_model)
    before = next((known for known in reversed(node.facts) if known.since <= fact.since), None)
    if before is None or (before.node_type, before.gpu_model) != (fact.node_type, fact.gpu_model):
        if fact not in node.facts:
            node.facts = sorted([*node.facts, fact], key=lambda known: known.since)[-_UNKNOWN:]
        state.touched[node_record(place)] = None
    for name in (data.name, _ANY):
        for ident in list(state.unknown.get((event.clusterid, name), ())):
            known = known_of(state, ident)
            if known is None:
                continue
            if name != _ANY:  # what a job waits for without naming it may be another node
                known.job.unknown = [node for node in known.job.unknown if node != name]
                _no_longer_unknown(state, known.job, name)
            review(state, known, event.recordedtime)


def node_gone(state: State, event: Event[NodeDeleted]) -> None:
    """Take that a node's object is gone, and forget those that have been gone for long."""
    place = (event.clusterid, event.data.name)
    node = state.nodes.pop(place, None)
    if node is not None:
        node.gone = event.recordedtime
        state.nodes[place] = node
        state.touched[node_record(place)] = None
    for other, known in list(state.nodes.items()):
        if known.gone is None:
            continue
        if known.gone + _GONE > event.recordedtime:
            break
        del state.nodes[other]
        state.touched[node_record(other)] = None
