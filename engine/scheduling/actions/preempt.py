"""Preempt: in a queue jobs of higher priority replace pods of others; in a job tasks of higher priority replace its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.scheduling.cluster.entities import Job, Node, PodClass, Status, Task
from engine.scheduling.cluster.queues import PreemptionMode, Queue
from engine.scheduling.ordering import Ordered
from engine.scheduling.placement import Placement
from engine.scheduling.preemption.dry_run import best_dry_run
from engine.scheduling.preemption.evictable import Evictable
from engine.scheduling.preemption.give_notice import give_notice
from engine.scheduling.preemption.hopeless_searches import HopelessSearches
from engine.scheduling.preemption.victims import evictable, make_room, may_preempt, starving, victims_on
from engine.scheduling.session import Session
from engine.scheduling.statement import Statement

_EVICTABLE: Final[tuple[Status, ...]] = ("Running", "Bound")


def preempt(session: Session, placement: Placement) -> None:
    """Preempt for starving jobs, in the mode of their queue: pods at once, whole jobs after a notice, or none.

    Volcano: between jobs a statement is committed if the whole job is pipelined; within a job after each task, until one fails.
    Argument `enableTopologyAwarePreemption`: dry runs choose the node with the least important victims.
    """
    dry_run = session.begin("preempt").truth("enableTopologyAwarePreemption", default=False)
    waiting = starving(session)
    _preempt_at_once(session, placement, _queues_that(session, waiting, "immediate"), dry_run=dry_run)
    if not session.outcome.more:
        give_notice(session, placement, _queues_that(session, waiting, "notice"))


def _queues_that(session: Session, waiting: dict[str, list[Job]], preemption: PreemptionMode) -> dict[str, list[Job]]:
    queues = session.cluster.queues
    return {name: jobs for name, jobs in waiting.items() if queues[name].preemption == preemption}


def _preempt_at_once(session: Session, placement: Placement, waiting: dict[str, list[Job]], *, dry_run: bool) -> None:
    if not waiting:
        return
    search = _Search(session, placement, dry_run=dry_run)
    running, hopeless = _running(session), HopelessSearches(session)
    queues: Ordered[Queue] = Ordered(session.cluster, session.queue_key, [session.cluster.queues[name] for name in waiting])
    while queues:
        queue = queues.pop()
        jobs: Ordered[Job] = Ordered(session.cluster, session.job_key, waiting[queue.name])
        others = Evictable.of(session.cluster.table, running.get(queue.name, ()))
        while jobs:
            if session.at_limit():
                return
            job = jobs.pop()
            if not hopeless.includes(job) and not _preempt_others(search, queue, job, others):
                hopeless.add(job)
        for job in waiting[queue.name]:
            _preempt_own(search, queue, job)


@dataclass(slots=True, frozen=True)
class _Search:
    """Arguments of a search for nodes and victims."""

    session: Session
    placement: Placement
    dry_run: bool


def _running(session: Session) -> dict[str, list[Task]]:
    """Return evictable running pods, by queue."""
    found: dict[str, list[Task]] = {}
    for job in session.pending_queue.others.values():
        found.setdefault(job.queue, []).extend(evictable(session, [job], *_EVICTABLE))
    return found


def _preemptors(session: Session, job: Job) -> list[Task]:
    """Return a job's pending tasks that may preempt, in reverse order."""
    found = [task for task in job.with_status("Pending").values() if may_preempt(task)]
    found.sort(key=session.task_key, reverse=True)
    return found


def _preempt_others(search: _Search, queue: Queue, job: Job, others: Evictable) -> bool:
    """Preempt other jobs of the queue until a job is pipelined whole, or discard; return whether there were victims."""
    session = search.session
    statement = Statement(session)
    tasks = _preemptors(session, job)
    hopeless: set[PodClass] = set()

    while tasks and session.job_starving(job):
        task = tasks.pop()
        moves = None if task.pod_class in hopeless else _make_room(search, queue, task, others, own=False)
        if moves is None:
            hopeless.add(task.pod_class)
        else:
            statement.merge(moves)
    found = len(statement) > 0
    if session.job_pipelined(job):
        statement.commit()
    else:
        statement.discard()
        found = False
        if job.key not in session.outcome.explained:  # the reason of allocate is more specific
            session.explain(job, "NoVictims", subject=queue.name)
    return found


def _preempt_own(search: _Search, queue: Queue, job: Job) -> None:
    """Preempt a job's own tasks for those of higher priority."""
    if not job.count(*_EVICTABLE):
        return
    own = Evictable.of(search.session.cluster.table, evictable(search.session, [job], *_EVICTABLE))
    tasks = _preemptors(search.session, job)
    while tasks:
        moves = _make_room(search, queue, tasks.pop(), own, own=True)
        if moves is None:
            break
        moves.commit()


def _make_room(search: _Search, queue: Queue, task: Task, among: Evictable, *, own: bool) -> Statement | None:
    """Find a node and victims for a task, in its own job or in others; return the moves made, or `None`."""
    session, placement = search.session, search.placement
    _, lacking = session.lacking(queue, task)

    def victims(node: Node) -> list[Task] | None:
        candidates = [
            victim
            for victim in among.on(node)
            if victim.status in _EVICTABLE
            and (victim.pod_class.best_effort or not task.pod_class.best_effort)
            and (victim.job is task.job) is own
        ]
        return victims_on(session, "preemptable", task, node, candidates, lacking)

    nodes = among.worth_trying(session, "preemptable", task, placement.resolvable(task), lacking)
    if search.dry_run:
        return best_dry_run(session, placement, queue, task, [(node, found) for node in nodes if (found := victims(node))])

    def enough(node: Node) -> bool:
        return session.allocatable(queue, task) and placement.room(task, node) and placement.passes(task, node)

    return make_room(session, task, nodes, victims, enough)
