"""Backfill: place best-effort pods."""

from __future__ import annotations

from engine.scheduling.actions.allocate import explain_refusal
from engine.scheduling.cluster.entities import Job, Task
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.ordering import Ordered
from engine.scheduling.placement import Placement
from engine.scheduling.session import Session
from engine.scheduling.statement import Statement


def backfill(session: Session, placement: Placement) -> None:
    """Place best-effort pods one by one, each on its best node, whatever the state of its gang.

    Volcano: pipelined ones are placed again.
    """
    session.begin("backfill")
    for task in best_effort_tasks(session):
        statement = Statement(session)
        if task.status == "Pipelined":
            session.cluster.move(task, "Pending", None)
        best = placement.best(task)
        if best is None:
            explain_refusal(session, placement, task.job, task)
            continue
        node, at_once = best
        if session.outcome.bound_of.get(task.job.key, 0) >= session.sizes.most(task.job):
            session.explain(task.job, "Waiting", subject=task.job.queue)
        elif at_once:
            statement.allocate(task, node)
            statement.commit()


def best_effort_tasks(session: Session) -> list[Task]:
    """Return the tasks to backfill, in the order of queues, jobs and tasks."""
    waiting: dict[str, list[Job]] = {}
    for job in session.schedulable(lambda job: job.waiting_best_effort or job.with_status("Pipelined")):
        waiting.setdefault(job.queue, []).append(job)
    found: list[Task] = []
    queues: Ordered[Queue] = Ordered(session.cluster, session.queue_key, [session.cluster.queues[name] for name in waiting])
    while queues:
        jobs: Ordered[Job] = Ordered(session.cluster, session.job_key, waiting[queues.pop().name])
        while jobs:
            job = jobs.pop()
            found += session.in_order(
                task
                for status in ("Pending", "Pipelined")
                for task in job.with_status(status).values()
                if task.pod_class.best_effort and not task.pod_class.shape.scheduling_gates
            )
    return found
