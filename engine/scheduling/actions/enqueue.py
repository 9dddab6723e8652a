"""Enqueue: let pending jobs in, so that later actions try to place their pods."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TypeAlias

from engine.scheduling.cluster.entities import Job
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.ordering import Ordered
from engine.scheduling.pending.queue import EquivalenceClass
from engine.scheduling.placement import Placement
from engine.scheduling.session import Session

__all__ = ["admit", "enqueue"]

_Next: TypeAlias = tuple[tuple[object, ...], Job, EquivalenceClass | None]
"""Its place in the queue, a job, and its kind; `None`: it is asked for itself."""


def enqueue(session: Session, placement: Placement) -> None:
    """Ask for each pending job whether it is let in; one of each queue in turn.

    Volcano: a job without minimum resources is let in at once; one that is refused does not hold up those behind it. So is a
    privileged one, for which there is room once others have been given notice. Whoever is behind a refused job of the same kind is
    refused, too, and is asked again only for the figures, once others have been let in meanwhile.
    """
    del placement
    session.begin("enqueue")
    waiting: dict[str, list[_Next]] = {}
    for name in sorted(session.pending_queue.asking):
        job = session.pending_queue.others[name]
        if job.phase in {"", "Pending"} and not job.held:
            if job.path:
                waiting.setdefault(job.queue, []).append((session.job_key(job), job, None))
            else:
                session.explain(job, "QueueNotFound", subject=job.queue)
    for kind in session.pending_queue:
        waiting.setdefault(kind.queue, []).append((session.job_key(kind.first), kind.first, kind))
    # No list is reordered meanwhile: keys grow with what is placed, and nothing is placed here.
    for found in waiting.values():
        heapify(found)
    queues: Ordered[Queue] = Ordered(session.cluster, session.queue_key, [session.cluster.queues[name] for name in waiting])
    refused: dict[str, list[tuple[tuple[object, ...], EquivalenceClass]]] = {}
    while queues:
        queue = queues.pop()
        while waiting[queue.name]:
            key, job, of = heappop(waiting[queue.name])
            if job.min_resources is None or session.is_privileged(job) or session.job_enqueueable(job):
                session.job_enqueued(job)  # before it has claims of its own, or it would count twice
                admit(session, job)
                again = refused.pop(queue.name, [])
                if of is not None:
                    again.append((key[:-2], of))
                for order, other in again:
                    at = other.before((job.created, job.key))
                    if order == key[:-2] and at < len(other.members):
                        created, name, following = other.members[at]
                        heappush(waiting[queue.name], ((*order, created, name), following, other))
                queues.push(queue)
                break
            # Nothing has changed: the queue is still the first.
            if job.key not in session.outcome.explained:
                session.explain(job, "Waiting", subject=queue.name)
            if of is not None:
                session.outcome.refuse(of, job)
                refused.setdefault(queue.name, []).append((key[:-2], of))


def admit(session: Session, job: Job) -> None:
    """Let a job in."""
    job.phase = "Inqueue"
    session.cluster.note(job)
    session.pending_queue.take_out(job)
    session.outcome.enqueued.append(job)
