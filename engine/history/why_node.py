"""Why, for a node: its state, the pods on it, and how earlier pods ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from engine.events import Data, Event
from engine.events.attempts import AttemptBound
from engine.events.inputs import NodeDeleted, NodeObserved
from engine.formatting import agree, moment, plural
from engine.history.errors import NotFoundError, only_one
from engine.history.explanation import Explanation
from engine.history.fold import fold
from engine.history.reading import cluster_facts, job_events
from engine.history.replicas import GROUPS, Group, by_urgency, grouped, refusals
from engine.history.view import JobView
from engine.kubernetes.observation.cluster_facts import ClusterFacts
from engine.log.port import Searchable


def why_node(log: Searchable, node: str, cluster: str | None = None) -> Explanation:
    """Describe a node, its pods, and how earlier attempts ended there.

    Args:
        log: the log to search.
        node: name of the node.
        cluster: its cluster; needed if several clusters have a node of that name.

    Raises:
        NotFoundError: the log does not mention it.
        AmbiguousError: several clusters have it.
    """
    facts = ClusterFacts()
    known: dict[str, int] = {}
    for fact in cluster_facts(log):
        if isinstance(fact.data, NodeObserved | NodeDeleted) and fact.data.name == node and facts.absorb(fact):
            known[fact.clusterid] = fact.time
    jobs: dict[str, str] = {}
    for event in job_events(log, {AttemptBound.TYPE}):
        if isinstance(event.data, AttemptBound) and event.data.node == node:
            jobs[event.subject] = event.clusterid
    clusters = sorted(name for name in {*known, *jobs.values()} if cluster in {None, name})
    if not clusters:
        raise NotFoundError("node", node if cluster is None else f"{cluster}/{node}")
    home = only_one("node", node, clusters)
    standing, ended = _groups(log, node, {job for job, place in jobs.items() if place == home})
    fine = Counter(group.phase for group in ended for _ in group.indexes)["Succeeded"]
    bad = sorted(
        (group for group in ended if group.phase != "Succeeded"), key=lambda group: -max(one.since for one in group.attempts)
    )
    details = _sentences(standing, "more pod", "there; `lahar job list` shows the jobs")
    details += [f"{plural(fine, 'attempt')} {agree('has', fine)} succeeded there."] if fine else []
    details += _sentences(bad, "more attempt", "ended badly there before")
    pods = sum(len(group.indexes) for group in standing)
    state = _state(facts, home, node, known.get(home))
    headline = f"Node {node} of cluster {home} {state}; {plural(pods, 'pod')} {agree('is', pods or 2)} there."
    shown = standing[:GROUPS] + bad[:GROUPS]
    return Explanation(headline, details, replicas=shown, advice=_advice(facts, home, node))


def _sentences(groups: list[Group], rest: str, where: str) -> list[str]:
    said = [group.sentence() for group in groups[:GROUPS]]
    if len(groups) > GROUPS:
        said.append(f"{plural(sum(len(group.indexes) for group in groups[GROUPS:]), rest)} {where}.")
    return said


def _groups(log: Searchable, node: str, jobs: set[str]) -> tuple[list[Group], list[Group]]:
    """Return the groups of open attempts on a node, most urgent first, and those of closed ones."""
    events: dict[str, list[Event[Data]]] = {job: [] for job in jobs}
    for event in job_events(log) if jobs else ():
        if event.subject in events:
            events[event.subject].append(event)
    standing: list[Group] = []
    ended: list[Group] = []
    for history in events.values():
        job = fold(history)
        if job is not None:
            there = [attempt for attempt in job.attempts.values() if attempt.node == node]
            refused = refusals(history)
            standing += _of(job, grouped(job, [one for one in there if one.ended is None], refused))
            ended += _of(job, grouped(job, [one for one in there if one.ended is not None], {}))
    return by_urgency(standing), ended


def _of(job: JobView, groups: Iterable[Group]) -> list[Group]:
    found = list(groups)
    for group in found:
        group.job = f"{job.namespace}/{job.name}"
    return found


def _state(facts: ClusterFacts, cluster: str, node: str, since: int | None) -> str:
    known = facts.node(cluster, node)
    if since is None:
        return "was never observed itself"
    if not isinstance(known, NodeObserved):
        return f"was deleted at {moment(since)}"
    ready = {"True": "is ready", "False": "is not ready", "Unknown": "is silent (Ready=Unknown)"}[known.ready]
    return ready + (", takes no new pods" if known.unschedulable else "") + f" as of {moment(since)}"


def _advice(facts: ClusterFacts, cluster: str, node: str) -> list[str]:
    known = facts.node(cluster, node)
    if isinstance(known, NodeObserved) and known.ready != "True":
        return [f"it is {'silent' if known.ready == 'Unknown' else 'not ready'}: look at its kubelet, network and disks"]
    return []
