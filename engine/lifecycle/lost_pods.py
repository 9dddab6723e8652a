"""Lost pods: how long Lahar waits for a pod that is no longer observed, and what it infers when the wait expires.

A watch may miss a deletion, and a requested pod may never have been created. A timer bounds the wait for such a pod, and its
inference is an event. Later observations of the pod become late facts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.events import Event
from engine.events.actions import TimerCancelled, TimerSet
from engine.events.attempts import AttemptEnded
from engine.events.times import SECOND
from engine.kubernetes.observation.cluster_facts import NODE
from engine.lifecycle.closing import give_up
from engine.lifecycle.event_factory import EventFactory, Events
from engine.lifecycle.indexes import awaits_end, pods_on
from engine.lifecycle.job import Attempt, Job, Timer
from statemachines.vocabulary import TerminalPhase

SIGHT_WAIT: Final = 60 * SECOND
"""Time after which an unobserved pod that is no longer wanted counts as never created (microseconds)."""
LOSS_WAIT: Final = 600 * SECOND
"""Time after which an unobserved pod of a finished or deleted job, or of a deleted node, counts as lost (microseconds)."""


def wait_for_sight(factory: EventFactory, job: Job) -> Events:
    """Start the short wait for requested pods to be observed, or deleted ones to be gone, unless it is running."""
    yield from _wait_until(factory, job, factory.now + SIGHT_WAIT)


def wait_for_lost(factory: EventFactory, job: Job, *, node: str | None = None) -> Events:
    """Start the wait for a job's ending pods, or for the pods of a deleted node, unless it is running."""
    yield from _wait_until(factory, job, factory.now + LOSS_WAIT, node)


def wait_for_node(factory: EventFactory, job: Job, attempt: Attempt) -> Events:
    """Wait for a pod first observed after its node was deleted; cluster facts are read before pods."""
    if attempt.node is not None and (job.cluster, NODE, attempt.node) in factory.state.facts.deleted and awaits_end(job, attempt):
        yield from wait_for_lost(factory, job, node=attempt.node)


def _wait_until(factory: EventFactory, job: Job, due: int, node: str | None = None) -> Events:
    if not any(timer.due <= due for timer in job.lost.get(node, {}).values()):
        yield factory.event(job, TimerSet("lost", due, node=node, depth=factory.depth))


def stop_waiting(factory: EventFactory, job: Job, attempt: Attempt) -> Events:
    """Cancel the waits that an attempt's change makes unnecessary."""
    ends = job.finished is not None or job.phase == "Aborted"  # before that, no other attempt changes with this one
    nodes = list(job.lost) if ends else [node for node in dict.fromkeys((None, attempt.node)) if node in job.lost]
    over = [
        node for node in nodes if not (job.live or job.counts.terminating if node is None else pods_on(factory.state, job, node))
    ]
    for timer in [timer for node in over for timer in job.lost[node]]:
        yield factory.event(job, TimerCancelled(timer, "nothing is left to wait for"))


def _standing_on(factory: EventFactory, job: Job, node: str) -> list[Attempt]:
    return sorted((job.by_uid[uid] for uid in pods_on(factory.state, job, node)), key=lambda attempt: attempt.place)


def _is_seen_until(attempt: Attempt) -> int:
    """Return the time until which an attempt on a deleted node counts as observed (microseconds)."""
    return attempt.seen + LOSS_WAIT if attempt.live else 0


def lost(factory: EventFactory, job: Job, timer: Timer) -> Iterator[tuple[Attempt, str]]:
    """Yield the attempts whose wait has expired, with the reason: live ones, and closed ones whose object still exists."""
    if timer.node is not None:
        if (job.cluster, timer.node) not in factory.state.facts.nodes:  # otherwise it came back
            for attempt in _standing_on(factory, job, timer.node):
                if _is_seen_until(attempt) <= factory.now:
                    yield attempt, "NodeLost"
        return
    for attempt in job.attempts:
        due = _due(factory, job, attempt)
        if due is not None and due <= factory.now:
            yield attempt, "EndUnknown"


def unseen(factory: EventFactory, job: Job) -> list[Attempt]:
    """Return the attempts with an effect that was reported done but never observed; it is requested again.

    These are created pods that may be gone again, and deleted pods whose end may have been missed (the API server then answers "no
    such pod").
    """
    return [one for one in job.attempts if (due := _ask_again(factory, job, one)) is not None and due <= factory.now]


def wait_on(factory: EventFactory, job: Job, timer: Timer) -> Events:
    """Continue the wait for attempts that were not due when the timer fired."""
    if timer.node is not None:  # pods that are still observed
        dues = [due for one in _standing_on(factory, job, timer.node) if (due := _is_seen_until(one)) > factory.now]
        if dues and (job.cluster, timer.node) not in factory.state.facts.nodes:
            yield from _wait_until(factory, job, max(min(dues), factory.now + SIGHT_WAIT), timer.node)
        return
    dues = [due for one in job.attempts for due in (_due(factory, job, one), _ask_again(factory, job, one)) if due is not None]
    if dues:
        yield from _wait_until(factory, job, max(min(dues), factory.now + SIGHT_WAIT))


def _ask_again(factory: EventFactory, job: Job, attempt: Attempt) -> int | None:
    """Return the time at which an unobserved effect is requested again (microseconds); `None`: never."""
    if not job.managed:
        return None
    if attempt.object == "made" and attempt.kill is None:
        return _next(attempt.seen, SIGHT_WAIT, attempt.asked)
    if attempt.object not in {"made", "deleting"} or not awaits_end(job, attempt):
        return None
    since = max(attempt.killed, attempt.since, attempt.deadline or 0)
    return _next(since, LOSS_WAIT, factory.now if _is_silent(factory, job, attempt) else attempt.asked)


def _next(since: int, wait: int, last: int) -> int:
    """Return the end of the wait that begins at `last`, or at `since` if that is later.

    Each wait is as long as all before it together, so few of them cover a year. After a long stop, the engine fires every timer
    that came due meanwhile.
    """
    return max(since, last) + max(last - since, wait)


def _due(factory: EventFactory, job: Job, attempt: Attempt) -> int | None:
    """Return the time at which an unobserved attempt counts as lost (microseconds); `None`: never.

    No end is inferred from time alone while its node is silent or before its grace period is over, and a created pod does not count
    as gone while its job exists. A pod with another owner does not end with its job.
    """
    if attempt.owner is not None:
        return None
    if attempt.uid is None and attempt.live and attempt.object != "made":
        return None if attempt.kill is None else attempt.killed + SIGHT_WAIT
    ends = [time for time in (job.finished, job.object_deleted) if time is not None]
    if not ends or not awaits_end(job, attempt):
        return None
    since = max([*ends, attempt.deadline or 0])
    return _next(since, LOSS_WAIT, factory.now if _is_silent(factory, job, attempt) else since)


def _is_silent(factory: EventFactory, job: Job, attempt: Attempt) -> bool:
    node = factory.state.facts.nodes.get((job.cluster, attempt.node or ""))
    return node is not None and node.ready != "True"


def end_without_evidence(factory: EventFactory, job: Job, attempt: Attempt, lost: str) -> Event[AttemptEnded]:
    """Close an unobserved attempt with the reason of its requested deletion, otherwise as lost."""
    phase: TerminalPhase = "Lost" if attempt.kill is None else "Failed"
    reason = "NeverStarted" if attempt.uid is None else attempt.kill or lost
    return give_up(factory, job, attempt, phase, reason)
