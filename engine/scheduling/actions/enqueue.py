"""Enqueue: let pending jobs in, so that later actions try to place their pods."""

from __future__ import annotations

from engine.scheduling.model.entities import Job
from engine.scheduling.model.queues import Queue
from engine.scheduling.ordering import Ordered
from engine.scheduling.placement import Placement
from engine.scheduling.session import Session

__all__ = ["enqueue", "let_in"]


def enqueue(session: Session, placement: Placement) -> None:
    """Ask for each pending job whether it is let in; one of each queue in turn.

    Volcano: a job without minimum resources is let in at once; one that is refused does not hold up those behind it. So is a
    privileged one, for which there is room once others have been given notice.
    """
    del placement
    session.begin("enqueue")
    waiting: dict[str, list[Job]] = {}
    for job in session.cluster.jobs.values():
        if job.phase in {"", "Pending"} and not job.held:
            if job.path:
                waiting.setdefault(job.queue, []).append(job)
            else:
                session.explain(job, "QueueNotFound", subject=job.queue)
    # No list is reordered meanwhile: keys grow with what is placed, and nothing is placed here.
    jobs = {name: sorted(found, key=session.job_key, reverse=True) for name, found in waiting.items()}
    queues: Ordered[Queue] = Ordered(session.queue_key, [session.cluster.queues[name] for name in jobs])
    while queues:
        queue = queues.pop()
        if not jobs[queue.name]:
            continue
        job = jobs[queue.name].pop()
        if job.min_resources is None or session.is_privileged(job) or session.job_enqueueable(job):
            let_in(session, job)
            session.job_enqueued(job)
        elif job.key not in session.outcome.reasons:
            session.explain(job, "Waiting", subject=queue.name)
        queues.push(queue)


def let_in(session: Session, job: Job) -> None:
    """Let a job in."""
    job.phase = "Inqueue"
    session.cluster.touched[job.key] = job
    session.cluster.revision += 1
    session.outcome.enqueued.append(job)
