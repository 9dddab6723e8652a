"""Enqueue: admit pending jobs, so that later actions place their pods."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TypeAlias

from engine.scheduling.cluster.entities import Job
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.ordering import Ordered
from engine.scheduling.pending.queue import EquivalenceClass
from engine.scheduling.placement import Placement
from engine.scheduling.session import Session

_Next: TypeAlias = tuple[tuple[object, ...], Job, EquivalenceClass | None]
"""Order key, job, and its equivalence class; `None`: the job is examined on its own."""


def enqueue(session: Session, placement: Placement) -> None:
    """Ask plugins to admit each pending job, one of each queue in turn.

    Volcano: a job without minimum resources is admitted at once; a refused job does not block those behind it. A privileged job
    is admitted too: it gets room once notices are executed. A refusal holds for all later jobs of the class, which are asked
    again only for the missing amounts, after other jobs were admitted.
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
    # Order keys grow only with placements, and none is made here: no list is reordered.
    for found in waiting.values():
        heapify(found)
    queues: Ordered[Queue] = Ordered(session.cluster, session.queue_key, [session.cluster.queues[name] for name in waiting])
    refused: dict[str, list[tuple[tuple[object, ...], EquivalenceClass]]] = {}
    while queues:
        queue = queues.pop()
        while waiting[queue.name]:
            key, job, of = heappop(waiting[queue.name])
            if job.min_resources is None or session.is_privileged(job) or session.job_enqueueable(job):
                session.job_enqueued(job)  # before its inqueue resources count, or they would count twice
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
            # Nothing has changed, so the queue is still the first.
            if job.key not in session.outcome.explained:
                session.explain(job, "Waiting", subject=queue.name)
            if of is not None:
                session.outcome.refuse(of, job)
                refused.setdefault(queue.name, []).append((key[:-2], of))


def admit(session: Session, job: Job) -> None:
    """Admit a job: its group is Inqueue, and its minimum resources count."""
    session.cluster.set_phase(job, "Inqueue")
    session.pending_queue.take_out(job)
    session.outcome.enqueued.append(job)
