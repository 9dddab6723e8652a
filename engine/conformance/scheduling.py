"""Kinds of cases about scheduling, each run by the sessions and rules that scheduling itself runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from engine.conformance.cluster import VolcanoArguments, read_cluster, read_job, read_tiers, read_time
from engine.conformance.content import Content
from engine.scheduling.actions.backfill import best_effort_tasks
from engine.scheduling.actions.shuffle import shuffled
from engine.scheduling.cluster.amounts import read_amounts
from engine.scheduling.configuration import Configuration, PluginOption
from engine.scheduling.placement import Placement
from engine.scheduling.plugins.capacity import queue_share
from engine.scheduling.plugins.gang import only_terminating
from engine.scheduling.scheduler import Scheduler, phase_at_end
from engine.scheduling.session import Session


def _action(case: Content) -> dict[str, Any]:
    """Run one session of actions."""
    if case.get("hypernodes"):
        raise ValueError("hypernodes: not supported; network-topology-aware is neutral without them")
    cluster = read_cluster(case)
    scheduler = Scheduler(cluster, read_tiers(case))
    session, placement = scheduler.open(read_time(case))
    scheduler.run(session, placement)
    outcome = session.outcome
    pipelined: dict[str, list[str]] = {}
    for job in cluster.jobs.values():
        for task in job.with_status("Pipelined").values():
            pipelined.setdefault(job.key, []).append(task.node.name if task.node is not None else "")
    evicted = [task.key for task, _ in outcome.evicted]
    return {
        "binds": {task.key: node for task, node in outcome.bound},
        "bind_count": len(outcome.bound),
        "evicted": evicted,
        "evict_count": len(evicted),
        "pipelined": pipelined,
        "phases": {job.key: job.phase for job in cluster.jobs.values()},
        "reason": {key: reason.code for key, reason in outcome.reasons.items()},
    }


def _open(case: Content) -> tuple[Session, Placement]:
    """Open a session with the one plugin that a case is about, all of its switches on."""
    option = PluginOption(case["plugin"], arguments=VolcanoArguments(case.get("arguments") or {}))
    return Scheduler(read_cluster(case), Configuration((), ((option,),))).open(read_time(case))


def _scores(session: Session, placement: Placement) -> dict[str, dict[str, float]]:
    names = [node.name for node in session.cluster.table.nodes]
    return {
        task.key: dict(zip(names, placement.scores(task).tolist(), strict=True))
        for job in session.cluster.jobs.values()
        for task in job.tasks.values()
    }


def _node_score(case: Content) -> dict[str, Any]:
    """Score all nodes for all pods."""
    return {"scores": _scores(*_open(case))}


def _enqueueable(case: Content) -> dict[str, Any]:
    """Return whether the groups are admitted."""
    session, _ = _open(case)
    session.begin("enqueue")
    jobs = list(session.cluster.jobs.values())
    if case["plugin"] == "overcommit":
        for job in jobs:
            session.job_enqueued(job)
    return {"enqueueable": all(session.job_enqueueable(job) for job in jobs)}


def _queue_share(case: Content) -> dict[str, Any]:
    """Calculate the share of a queue."""
    return {"share": queue_share(read_amounts(case.get("deserved") or {}), read_amounts(case.get("allocated") or {}))}


def _backfill_order(case: Content) -> dict[str, Any]:
    """Return the order in which best-effort pods are placed."""
    session, _ = Scheduler(read_cluster(case), read_tiers(case)).open(read_time(case))
    return {"order": [task.key.partition("/")[2] for task in best_effort_tasks(session)]}


def _podgroup_phase(case: Content) -> dict[str, Any]:
    """Return the phase of a group at the end of a session."""
    job = read_job(case.get("tasks") or (), case.get("min_member") or 0, case.get("current_phase") or "")
    return {"phase": phase_at_end(job, unschedulable=bool(case.get("unschedulable_condition_this_session")))}


def _gang_skip(case: Content) -> dict[str, Any]:
    """Return whether a gang is not Unschedulable because it lacks releasing tasks only."""
    return {"skip": only_terminating(read_job(case.get("tasks") or (), case.get("min_available") or 0))}


def _tdm_predicate_score(case: Content) -> dict[str, Any]:
    """Return the nodes that pass tdm's predicate for every pod, and the scores."""
    session, placement = _open(case)
    tasks = [task for job in session.cluster.jobs.values() for task in job.tasks.values()]
    nodes = session.cluster.table.nodes
    return {
        "feasible_nodes": [node.name for node in nodes if all(placement.passes(task, node) for task in tasks)],
        "scores": _scores(session, placement),
    }


def _tdm_victims(case: Content) -> dict[str, Any]:
    """Return how many pods tdm evicts; if its period has not elapsed, it evicted just before."""
    session, _ = _open(case)
    if case.get("evict_period_elapsed") is False:
        shuffled(session)
    return {"victim_count": len(shuffled(session))}


SCHEDULING_KINDS: Final[Mapping[str, Callable[[Content], dict[str, Any]]]] = {
    "action": _action,
    "node_score": _node_score,
    "enqueueable": _enqueueable,
    "queue_share": _queue_share,
    "backfill_order": _backfill_order,
    "podgroup_phase": _podgroup_phase,
    "gang_skip_unschedulable_condition": _gang_skip,
    "tdm_predicate_score": _tdm_predicate_score,
    "tdm_victims": _tdm_victims,
}
"""Function that runs a case by the rules, by kind of case."""
