"""Pending reasons of requests that exceed a limit: for now, or for good."""

from __future__ import annotations

from collections.abc import Mapping

from engine.scheduling.cluster.amounts import missing
from engine.scheduling.cluster.entities import Job, Task
from engine.scheduling.cluster.queues import Queue
from engine.scheduling.pending.reasons import ReasonCode
from engine.scheduling.session import Session


def explain_limit(session: Session, job: Job, queue: Queue, task: Task) -> None:
    """Record that a task exceeds its queue's limit, with the missing amounts."""
    plugin, lacking = session.lacking(queue, task)
    if not queue.open:
        session.explain(job, "QueueNotOpen", plugin, queue.name, lacking)
    elif not explain_queue_too_small(session, job, queue, plugin, task.pod_class.request):
        session.explain(job, "QueueLimit", plugin, queue.name, lacking)


def explain_queue_too_small(session: Session, job: Job, queue: Queue, plugin: str, asked: Mapping[str, float]) -> bool:
    """Record that a job's request exceeds its empty queue or the empty cluster; return whether it does."""
    share = session.share_of(queue)
    return explain_too_small(session, job, "ClusterTooSmall", plugin, "", asked, session.total) or (
        share is not None and explain_too_small(session, job, "QueueTooSmall", plugin, queue.name, asked, share.limit)
    )


def explain_too_small(
    session: Session,
    job: Job,
    code: ReasonCode,
    plugin: str,
    subject: str,
    asked: Mapping[str, float],
    most: Mapping[str, float],
) -> bool:
    """Record that a request exceeds all resources, even if everything else ends; return whether it does.

    Args:
        session: the session.
        job: the job.
        code: the reason.
        plugin: plugin of the limit; empty: the action itself.
        subject: subject of the limit, as in `Reason`.
        asked: resource → requested amount.
        most: resource → amount while nothing is taken.
    """
    lacking = missing({}, asked.items(), most)
    if lacking:
        session.explain(job, code, plugin, subject, lacking, asked={name: asked[name] for name in lacking})
    return bool(lacking)
