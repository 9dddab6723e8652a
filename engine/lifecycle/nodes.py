"""Rules for facts about clusters: nodes that become silent, are deleted, or return."""

from __future__ import annotations

from typing import Literal

from engine.events import Data, Event
from engine.events.actions import TimerCancelled
from engine.events.attempts import AttemptChanged
from engine.events.inputs import NodeDeleted, NodeObserved
from engine.lifecycle import lost_pods
from engine.lifecycle.event_factory import Decision, EventFactory, Events
from engine.lifecycle.indexes import pods_on
from engine.lifecycle.state import ShardState


def acts_at_once(state: ShardState, event: Event[Data]) -> bool:
    """Return true if a fact of a cluster has consequences now, or for pods observed after it."""
    if isinstance(event.data, NodeDeleted):
        return True
    if not isinstance(event.data, NodeObserved):
        return False
    node = event.clusterid, event.data.name
    return event.data.ready == "Unknown" or node in state.awaited_on or node in state.on_node


def decide(factory: EventFactory, event: Event[Data]) -> Decision:
    """Decide one fact of a cluster, even if a job has the same id as its subject."""
    if isinstance(event.data, NodeObserved):
        if factory.state.facts.nodes.get((event.clusterid, event.data.name)) is not event.data:  # older than the absorbed one
            return "duplicate"
        follows = _seen(factory, event.clusterid, event.data)
    elif isinstance(event.data, NodeDeleted):
        if (event.clusterid, event.data.name) in factory.state.facts.nodes:  # a newer fact is known
            return "duplicate"
        follows = _gone(factory, event.clusterid, event.data.name)
    else:  # used by later decisions only
        return "unchanged"
    outcome: Literal["unchanged", "applied"] = "unchanged"
    for made in follows:
        yield made
        outcome = "applied"
    return outcome


def _seen(factory: EventFactory, cluster: str, node: NodeObserved) -> Events:
    """Mark the pods on a silent node as unknown, and revert that when the node reports again (table row 17)."""
    suspect = node.ready == "Unknown"
    for job_id in sorted(factory.state.awaited_on.get((cluster, node.name), ())):
        job = factory.state.jobs[job_id]
        part = factory.about(job)
        for timer in list(job.lost[node.name]):
            yield part.event(job, TimerCancelled(timer, f"node {node.name} is back"))
    for job_id in sorted(factory.state.on_node.get((cluster, node.name), ())):
        job = factory.state.jobs[job_id]
        part = factory.about(job)
        for attempt in [job.by_uid[uid] for uid in sorted(pods_on(factory.state, job, node.name))]:
            if attempt.phase not in {"Bound", "Running"} or (attempt.reason == "Suspect") == suspect:
                continue
            key = (attempt.task, attempt.index, attempt.number)
            reason = "Suspect" if suspect else "Starting" if attempt.phase == "Bound" else None
            yield part.event(job, AttemptChanged(*key, reason=reason, reason_changed=True, version=attempt.version))


def _gone(factory: EventFactory, cluster: str, name: str) -> Events:
    """Start the wait for pods of a deleted node, whose deletion may or may not be observed."""
    for job_id in sorted(factory.state.on_node.get((cluster, name), ())):
        job = factory.state.jobs[job_id]
        yield from lost_pods.wait_for_lost(factory.about(job), job, node=name)
