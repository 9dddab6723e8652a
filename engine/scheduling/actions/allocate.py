"""Allocate: place the pods of admitted jobs, a gang whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, cast

from engine.scheduling.actions.enqueue import admit
from engine.scheduling.cluster.entities import Job, Node, PodClass, Task
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.cluster.sub_groups import SubGroups
from engine.scheduling.limits import explain_limit, explain_too_small
from engine.scheduling.ordering import Ordered
from engine.scheduling.pending.reasons import Reason, ReasonCode
from engine.scheduling.placement import Placement
from engine.scheduling.preemption.hopeless_searches import HopelessSearches
from engine.scheduling.session import Session
from engine.scheduling.statement import Statement

_ENDING: Final = frozenset(
    {"InsufficientResource", "HostPort", "PodAffinity", "PodAntiAffinity", "TopologySpread", "RevocableZone"}
)
"""Node reasons that end when pods leave or hours change."""

_Refused: TypeAlias = dict[tuple[PodClass, str, str], tuple[int, Reason]]
"""Class, namespace and role of pods that no node takes → revision of the cluster, reason."""


def allocate(session: Session, placement: Placement) -> None:
    """Place pods of the first queue's first job until it is ready, then choose the first queue and job again.

    Volcano: an overused queue is skipped for the rest of the action; a ready job is queued again with its remaining tasks, so
    queues share at the granularity of gangs. Jobs for which a notice has reserved nodes come before all others.
    """
    session.begin("allocate")
    if "enqueue" not in session.configuration.actions:
        for _, job in sorted(session.cluster.jobs.items()):
            if job.phase in {"", "Pending"} and not job.held:
                admit(session, job)
    waiting: dict[str, list[Job]] = {}
    for job in session.schedulable(lambda job: job.with_status("Pending")):
        waiting.setdefault(job.queue, []).append(job)
    kept = _keep_all_claims(session, placement)
    _place_reserved(session, placement, waiting, kept)
    _place_claimants(session, placement, waiting, kept)
    jobs = {name: Ordered(session.cluster, session.job_key, found) for name, found in waiting.items()}
    queues: Ordered[Queue] = Ordered(session.cluster, session.queue_key, [session.cluster.queues[name] for name in jobs])
    left: dict[str, list[list[Task]]] = {}
    refused: _Refused = {}
    hopeless = HopelessSearches(session)
    while queues:
        if session.at_limit():
            return
        queue = queues.pop()
        if session.overused(queue):
            for job in waiting[queue.name]:
                if job.with_status("Pending"):
                    session.explain(job, "QueueOverused", subject=queue.name)
            continue
        moved = len(session.cluster.moved)
        while jobs[queue.name]:
            job = jobs[queue.name].pop()
            if job.key not in left:
                if is_hopeless(session, placement, queue, job, refused) or hopeless.includes(job):
                    continue
                left[job.key] = _pending(session, job)
            decided = session.decided
            if left[job.key] and _place(session, placement, queue, job, left[job.key]) and left[job.key]:
                jobs[queue.name].push(job)
            if session.decided == decided:
                hopeless.add(job)
            if len(session.cluster.moved) > moved:  # otherwise the queue is still the first
                queues.push(queue)
                break


def is_hopeless(session: Session, placement: Placement, queue: Queue, job: Job, refused: _Refused) -> bool:
    """Return whether no node takes any of a job's pods, all of one class, and record the reason.

    A shortcut for `_place` at a tenth of its cost: most pending jobs of an overloaded cluster are such. Only the first pod is
    examined.
    """
    tasks = [*job.with_status("Pending").values()]
    if not tasks or job.sub_groups is not None or job.key in session.failed_roles:
        return False
    task, pod_class = tasks[0], tasks[0].pod_class
    if pod_class.shape.scheduling_gates or pod_class.best_effort:
        return False
    if len(tasks) > 1 and any(other.pod_class is not pod_class or other.role != task.role for other in tasks):
        return False
    if not session.allocatable(queue, task):
        if len(tasks) > 1:  # a plugin may answer for each pod on its own
            return False
        explain_limit(session, job, queue, task)
        return True
    if _cluster_too_small(session, job):
        return True
    kind, revision = (pod_class, job.namespace, task.role), session.cluster.revision
    at, reason = refused.get(kind, (-1, None))
    if reason is not None and at == revision:
        session.outcome.explained[job.key] = reason
        return True
    if placement.best(task) is not None:
        return False
    explain_refusal(session, placement, job, task)
    refused[kind] = (revision, session.outcome.explained[job.key])
    return True


def _pending(session: Session, job: Job) -> list[list[Task]]:
    """Return a job's tasks to place, by sub-group, tasks without one last; each list ends with its first task."""
    found = []
    for task in job.with_status("Pending").values():
        if task.pod_class.shape.scheduling_gates:
            session.explain(job, "SchedulingGated", subject=task.role)
        elif not task.pod_class.best_effort:
            found.append(task)
    groups: dict[str, list[Task]] = {}
    for task in session.in_order(found):
        groups.setdefault(task.sub_group, []).append(task)
    return [groups[key][::-1] for key in sorted(groups, key=lambda key: not key)][::-1]


def _place(session: Session, placement: Placement, queue: Queue, job: Job, groups: list[list[Task]]) -> bool:
    """Place a job's tasks until it is ready, then commit; keep promised nodes if plugins permit, otherwise discard.

    Returns whether the job is ready.

    Args:
        session: the session.
        placement: finds nodes.
        queue: the job's queue.
        job: the job.
        groups: its remaining tasks, at least one; tried ones are removed.
    """
    statement = Statement(session)
    if job.sub_groups is not None:
        refused = _place_sub_groups(session, placement, queue, job, job.sub_groups, groups, statement)
    else:
        failed = session.failed_roles.setdefault(job.key, set())
        refused = _place_tasks(session, placement, queue, job, groups[-1], statement, failed, lambda: session.job_ready(job))
        if not groups[-1]:
            groups.pop()
    ready = session.job_ready(job)
    _explain(session, placement, job, refused, ready=ready, placed=len(statement))
    if ready and len(statement) > session.sizes.most(job) - session.outcome.bound_of.get(job.key, 0):
        too_large = len(statement) > session.sizes.most(job)
        statement.discard()
        if too_large:
            session.explain_size(job)
        else:  # continued in the next round
            session.explain(job, "Waiting", subject=queue.name)
        return False
    if ready:
        statement.commit()
    elif session.job_pipelined(job):
        statement.keep()
    else:
        statement.discard()
    return ready


def _place_reserved(session: Session, placement: Placement, waiting: dict[str, list[Job]], kept: dict[str, Statement]) -> None:
    """Place the jobs for which notices have reserved nodes, and reserve what they cannot take yet.

    Nodes freed by immediate evictions are reserved before.
    """
    for job in session.cluster.with_reservations():
        if job in waiting.get(job.queue, ()):
            if job.key in kept:
                kept[job.key].discard()
            if pending := _pending(session, job):
                _place(session, placement, job.path[0], job, pending)
            if job.key in kept:
                kept[job.key] = _keep_claims(session, placement, job)
        if job.key not in session.failed:
            _keep_place(session, placement, job)


def _keep_place(session: Session, placement: Placement, job: Job) -> None:
    """Reserve what a gang still needs until the end of the session.

    The gang may be held after a failed binding, or some of its nodes may be gone.
    """
    kept = Statement(session)
    for task in session.in_order(job.with_status("Pending").values()):
        if not session.job_starving(job):
            break
        best = None if task.pod_class.best_effort or task.pod_class.shape.scheduling_gates else placement.best(task)
        if best is not None:
            kept.pipeline(task, best[0])
    session.at_end.append(kept.discard)


def _place_claimants(session: Session, placement: Placement, waiting: dict[str, list[Job]], kept: dict[str, Statement]) -> None:
    """Place the pods for which others were evicted, and reserve the nodes that are not free yet."""
    claimants = {key: session.cluster.jobs[key] for key in kept}
    ready = {job.key for jobs in waiting.values() for job in jobs}
    for key, places in kept.items():
        if key not in ready:
            session.at_end.append(places.discard)
            continue
        job = claimants[key]
        claimed = job.claims.keys() & job.with_status("Pipelined").keys()
        places.discard()
        groups = [[task for task in group if task.key in claimed] for group in _pending(session, job)]
        groups = [group for group in groups if group]
        while groups and _place(session, placement, job.path[0], job, groups):
            pass
        session.at_end.append(_keep_claims(session, placement, job).discard)
    if kept and not ready <= kept.keys():  # the reservation ends with its time
        session.look_again(min(place.until for job in claimants.values() for place in job.claims.values()))


def _keep_all_claims(session: Session, placement: Placement) -> dict[str, Statement]:
    """Reserve the nodes of all jobs for which others were evicted, by job, except in overused queues.

    All are reserved before any is used, so no job takes another's. A held job's nodes are reserved too: it may be pausing after
    a failed binding.
    """
    claimants = [session.cluster.jobs[key] for key in sorted(session.cluster.claimants - session.failed.keys())]
    return {job.key: _keep_claims(session, placement, job) for job in claimants if job.path and not session.overused(job.path[0])}


def _keep_claims(session: Session, placement: Placement, job: Job) -> Statement:
    """Pipeline pods to their reserved nodes, where these still suit the pods and their queue.

    Resources taken from another queue are kept as long as the queue may reclaim. Resources that the queue held before are kept
    within its limit, whatever it deserves: otherwise its pods would have been evicted in favour of other queues.
    """
    kept, queue = Statement(session), job.path[0]
    for task in session.in_order(job.with_status("Pending").values()):
        node = _claimed_node(session, placement, task)
        if node is not None and (session.allocatable if job.claims[task.key].own else session.preemptive)(queue, task):
            kept.pipeline(task, node)
    return kept


def _best(session: Session, placement: Placement, task: Task) -> tuple[Node, bool] | None:
    """Return the best node with room now, else the task's reserved node, else the best node that will have room."""
    best, claimed = placement.best(task), _claimed_node(session, placement, task)
    return best if claimed is None or (best is not None and best[1]) else (claimed, False)


def _claimed_node(session: Session, placement: Placement, task: Task) -> Node | None:
    """Return the reserved node of a task if it has or will have room."""
    place = task.job.claims.get(task.key)
    node = None if place is None or place.until <= session.now else session.cluster.nodes.get(place.node)
    return node if node is not None and placement.passes(task, node) and placement.room(task, node) else None


def _place_tasks(
    session: Session,
    placement: Placement,
    queue: Queue,
    job: Job,
    tasks: list[Task],
    statement: Statement,
    failed: set[str],
    enough: Callable[[], bool],
) -> Task | None:
    """Place tasks until `enough`; return a task that found no node, or `None`.

    Args:
        session: the session.
        placement: finds nodes.
        queue: the job's queue.
        job: the job.
        tasks: remaining tasks; tried ones are removed.
        statement: takes the moves.
        failed: roles of tasks that found no node; they are skipped, and new ones are added.
        enough: whether to stop.
    """
    refused: Task | None = None
    limited: Task | None = None
    while tasks:
        task = tasks.pop()
        if not session.allocatable(queue, task):
            limited = limited or task
            continue
        if task.role and task.role in failed:
            continue
        best = _best(session, placement, task)
        if best is None:
            failed.add(task.role)
            refused = task
            if not may_still_be_ready(job, failed):
                break
            continue
        node, at_once = best
        if at_once:
            statement.allocate(task, node)
        else:
            statement.pipeline(task, node)
        if enough():
            break
    if limited is not None:
        explain_limit(session, job, queue, limited)
    return refused


def _place_sub_groups(
    session: Session,
    placement: Placement,
    queue: Queue,
    job: Job,
    needs: SubGroups,
    groups: list[list[Task]],
    statement: Statement,
) -> Task | None:
    """Place a job's sub-groups in turn, each whole or not at all, until the job is ready; tasks without one come last."""
    refused: Task | None = None
    for at in range(len(groups) - 1, -1, -1):
        tasks = groups[at]
        key, own = tasks[-1].sub_group, Statement(session)
        needed = needs.needed(key)

        def whole(key: str = key, own: Statement = own, needed: int = needed) -> bool:
            return len(own) >= needed if key else session.job_ready(job)

        found = _place_tasks(session, placement, queue, job, tasks, own, set(), whole)
        refused = refused or found
        if not tasks:
            del groups[at]
        if whole() or not key:
            statement.merge(own)
        else:
            own.discard()
        if session.job_ready(job):
            break
    return refused


def _explain(session: Session, placement: Placement, job: Job, refused: Task | None, *, ready: bool, placed: int) -> None:
    """Record why a task found no node: the reason of most nodes, and the missing amounts."""
    if refused is not None:
        if not _cluster_too_small(session, job):
            explain_refusal(session, placement, job, refused, "GangNotComplete" if placed and not ready else None)
    elif not job.with_status("Pending"):
        session.outcome.explained.pop(job.key, None)


def _cluster_too_small(session: Session, job: Job) -> bool:
    """Record that a job's gang exceeds an empty cluster; return whether it does."""
    return explain_too_small(session, job, "ClusterTooSmall", "", "", job.min_resources or {}, session.total)


def explain_refusal(session: Session, placement: Placement, job: Job, task: Task, code: ReasonCode | None = None) -> None:
    """Record why no node takes a task: the reason of most nodes, unless `code` is given.

    `NodeTooSmall` is the reason only if no other node could take the task once pods end.
    """
    nodes, missing = placement.refusals(task)
    words = {word: word.partition("/")[0] for word in nodes}
    if not _ENDING.isdisjoint(words.values()):
        words = {word: reason for word, reason in words.items() if reason != "NodeTooSmall"}
    most = words[max(words, key=nodes.__getitem__)] if words else "InsufficientResource"
    if most == "NodeTooSmall":
        asked = {name: task.pod_class.request[name] for name in missing}
        session.explain(job, "NodeTooSmall", subject=task.role, missing=missing, nodes=nodes, asked=asked)
    else:
        session.explain(job, code or cast("ReasonCode", most), subject=task.role, missing=missing, nodes=nodes)


def may_still_be_ready(job: Job, failed: set[str]) -> bool:
    """Return whether a job can become ready although tasks of some roles found no node (Volcano `NeedContinueAllocating`).

    If its minimum is below the sum of the roles' minima, other roles must have enough tasks; otherwise each failed role must
    have its minimum already.
    """
    if job.min_member < job.role_minimum_total:
        lost = sum(job.role_pending.get(role, 0) for role in failed)
        return job.ready + len(job.with_status("Pending")) - lost >= job.min_member
    return all(job.role_ready.get(role, 0) >= job.role_minimum.get(role, 0) for role in failed)
