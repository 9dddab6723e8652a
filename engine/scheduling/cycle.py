"""A round of one cluster as events: decisions, the phases of groups, and why jobs wait.

The round moves tasks of the model; what it has moved is put back before the first event, so that events alone change the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from engine.events import Data, Event
from engine.events.decisions import (
    AttemptKey,
    DecidedBound,
    DecidedEnqueued,
    DecidedEvicted,
    DecidedPipelined,
    DecidedUnschedulable,
    Placement,
)
from engine.events.scheduling import DecisionTimedOut, GroupPhase, GroupPhaseChanged, JobExplained, RoundEnded
from engine.events.times import SECOND, Micros
from engine.scheduling.actions import EVICTED_BY
from engine.scheduling.cluster.entities import Task
from engine.scheduling.cluster.job_records import Slot
from engine.scheduling.errors import PluginError
from engine.scheduling.notices.notice_controller import control_notices
from engine.scheduling.outcome import Outcome
from engine.scheduling.pending.explanations import NAMES, alike
from engine.scheduling.pending.reasons import Reason
from engine.scheduling.state.event_factory import EventFactory
from engine.scheduling.state.model_sync import sync_attempt, sync_job
from engine.scheduling.state.shard import ClusterState, State, TrackedJob

__all__ = ["given_up", "run_round", "timed_out"]

_AT_ONCE: Final = 250
"""Attempts that one decision may evict."""
_FAILED: Final = 100
"""Jobs on which plugins may fail in one round before it is given up."""
_OF_CLASSES: Final = frozenset({"predicate", "pod_predicate", "node_order", "batch_node_order"})
"""Extension points where plugins judge classes of pods."""
_AGAIN: Final = 60 * SECOND
"""After a round that was given up."""


@dataclass(slots=True)
class _Found:
    """What a round has found."""

    outcome: Outcome
    next: Micros | None
    memory: dict[str, dict[str, int]]
    phases: dict[str, GroupPhase] = field(default_factory=dict)
    """Job → phase of its group from now on."""
    said: dict[str, JobExplained] = field(default_factory=dict)
    """Job → why it waits, where that is to be told."""


def run_round(factory: EventFactory, cluster: ClusterState, limit: int) -> Iterator[Event[Any]]:
    """Run a round, and yield what it decides.

    Args:
        factory: makes the events of the timer.
        cluster: where.
        limit: how many attempts it gives nodes at most, but for a gang that is bound whole.
    """
    try:
        found = _search(factory.state, cluster, factory.now, limit)
    except PluginError as error:
        yield from given_up(factory, cluster, str(error))
        return
    ended = factory.ended(cluster, _summary(cluster, found))
    yield ended
    jobs = factory.state.jobs
    for ident, data in _decisions(factory.state, found, factory.now):
        yield factory.about(jobs[ident], data, ended.id)
    yield from control_notices(factory, cluster, found.outcome, ended.id)
    for ident, explained in _explained(factory.state, cluster, found):
        yield factory.about(jobs[ident], explained, ended.id)


def given_up(factory: EventFactory, cluster: ClusterState, error: str, *, follow_notices: bool = True) -> Iterator[Event[Any]]:
    """Yield that a round cannot be run; it is tried again in a minute, or when something changes.

    Args:
        factory: makes the events of the timer.
        cluster: where.
        error: what fails.
        follow_notices: whether notices follow their jobs and their time all the same; not where that may be what fails.
    """
    ended = factory.ended(cluster, _given_up(factory, cluster, error))
    yield ended
    if follow_notices:
        yield from control_notices(factory, cluster, None, ended.id)


def _given_up(factory: EventFactory, cluster: ClusterState, error: str) -> RoundEnded:
    cluster.pending_reasons.forget()
    pending, oldest = _pending(factory.state, cluster.explained)
    after, memory = factory.now + _AGAIN, cluster.scheduler.memory
    return RoundEnded(pending=pending, oldest=oldest, next=after, memory=memory, error=error)


def timed_out(factory: EventFactory, known: TrackedJob, decision: str) -> Iterator[Event[Any]]:
    """Yield that a decision was not answered."""
    yield factory.about(known, DecisionTimedOut(decision, known.head.open[decision].kind), decision)


def _search(state: State, cluster: ClusterState, now: Micros, limit: int) -> _Found:
    """Run the round, and put back what it has moved.

    If a plugin fails, it runs again without the jobs on which it does.

    Raises:
        PluginError: a plugin fails on no job in particular, or on too many.
    """
    scheduler, memory = cluster.scheduler, cluster.scheduler.memory
    waited = [state.jobs[ident] for ident, at in cluster.retries.items() if at <= now]
    if waited:  # what stands as their reasons may do so no more
        cluster.model.revision += 1
    failed: dict[str, Reason] = {}
    guarded = False
    while True:
        for known in waited:
            sync_job(state, known, now)
        for ident in failed:
            job = cluster.model.jobs[ident]
            job.held = True
            cluster.model.note(job)
        moved: Iterable[str] = state.jobs
        try:
            outcome = scheduler.round(now, limit, failed=failed, guarded=guarded)
            said: dict[str, JobExplained] = {}
            if not outcome.skipped:
                said = cluster.pending_reasons.find(outcome, now)
                scheduler.again = cluster.pending_reasons.again
            found = _Found(outcome, scheduler.next_change(now), scheduler.memory, said=said)
            changed = [*outcome.enqueued, *(job for job, _ in outcome.phases)]
            found.phases = {job.key: job.phase for job in changed}
            moved = {*failed, *(job.key for job in changed), *(task.job.key for task, _ in (*outcome.bound, *outcome.evicted))}
        except PluginError as error:
            cluster.pending_reasons.forget()
            new = _held_for(error, cluster) - failed.keys()
            if not new or len(failed) > _FAILED:
                raise
            failed |= dict.fromkeys(new, Reason("", "PluginFailed", error.plugin, message=str(error)))
        except Exception:
            cluster.pending_reasons.forget()
            if guarded:
                raise
            guarded = True  # which plugin fails on which job?
        else:
            return found
        finally:
            scheduler.memory = memory
            for known in waited:
                sync_job(state, known)
            for ident in moved:
                _put_back(state, cluster, state.jobs[ident])


def _held_for(error: PluginError, cluster: ClusterState) -> set[str]:
    """Return the jobs on which a plugin fails: the one that it was asked about, or all with a class of pods that it was."""
    job = cluster.model.jobs.get(error.job)
    if job is None or job.held:
        return set()
    if error.point not in _OF_CLASSES:
        return {job.key}
    classes = {task.pod_class for task in job.tasks.values()}
    return {
        other.key
        for pod_class in classes
        for other in cluster.model.jobs.values()
        if not other.held and any(task.pod_class is pod_class for task in other.tasks.values())
    }


def _put_back(state: State, cluster: ClusterState, known: TrackedJob) -> None:
    if known.group is not None and known.head.cluster == cluster.id:
        for attempt in known.attempts.values():
            sync_attempt(state, known, attempt)
        sync_job(state, known)


def _summary(cluster: ClusterState, found: _Found) -> RoundEnded:
    outcome, ran = found.outcome, cluster.scheduler.document
    return RoundEnded(
        len(outcome.enqueued),
        len(outcome.bound),
        len(outcome.pipelined),
        len(outcome.evicted),
        *((cluster.pending, cluster.oldest) if outcome.skipped else _waiting(outcome)),
        outcome.more,
        found.next,
        found.memory,
        configuration={} if ran == cluster.configuration else ran,
    )


def _waiting(outcome: Outcome) -> tuple[dict[str, int], dict[str, Micros]]:
    """Return what `_pending` does, of a round."""
    queues = sorted(outcome.waiting.items())
    return {queue: len(waiting) for queue, waiting in queues}, {queue: waiting.oldest for queue, waiting in queues}


def _pending(state: State, jobs: Iterable[str]) -> tuple[dict[str, int], dict[str, Micros]]:
    """Return queue → how many jobs wait in it, and queue → when the first of them was submitted."""
    submitted: dict[str, list[Micros]] = {}
    for ident in jobs:
        known = state.jobs[ident]
        if known.group is not None:
            submitted.setdefault(known.group.spec.queue, []).append(known.head.created)
    queues = sorted(submitted.items())
    return {queue: len(times) for queue, times in queues}, {queue: min(times) for queue, times in queues}


# --- decisions ------------------------------------------------------------------------------------------------------------------


def _slot(task: Task) -> Slot:
    return task.role, task.index, int(task.key.rpartition("/")[2])


def _decisions(state: State, found: _Found, now: Micros) -> Iterator[tuple[str, Data]]:
    """Yield decisions, each with its job: in the order of the round, where it has one."""
    outcome, jobs = found.outcome, state.jobs
    for ident, phase in sorted(found.phases.items()):
        if phase != jobs[ident].head.phase:
            yield ident, GroupPhaseChanged(phase, jobs[ident].head.phase)
    for job in [job for job in outcome.enqueued if not jobs[job.key].head.enqueued]:
        yield job.key, DecidedEnqueued(jobs[job.key].head.seen)
    for ident, placements in _by_job(outcome.bound).items():
        yield ident, DecidedBound(jobs[ident].head.seen, placements)
    for victims in _together(outcome):
        for at in range(0, len(victims), _AT_ONCE):
            yield victims[0][0].job.key, _eviction(state, outcome, victims[at : at + _AT_ONCE], now)
    for ident, placements in sorted(_by_job(outcome.pipelined).items()):
        if [(one.task, one.index, one.attempt, one.node) for one in placements] != jobs[ident].head.promised:
            yield ident, DecidedPipelined(jobs[ident].head.seen, placements)
    for job in sorted(outcome.unschedulable, key=lambda job: job.key):
        stopped = outcome.explained.get(job.key)
        if stopped is not None and stopped.code != "VictimsLeaving" and not alike(stopped.code, jobs[job.key].head.unschedulable):
            yield job.key, DecidedUnschedulable(jobs[job.key].head.seen, stopped.code, _of_nodes(stopped.nodes))


def _eviction(state: State, outcome: Outcome, victims: list[tuple[Task, str]], now: Micros) -> DecidedEvicted:
    """Return the decision about some pods of a job that are evicted for the same preemptor."""
    task, action = victims[0]
    preemptor = outcome.preemptors.get(task.key, "")
    claimant = state.jobs[preemptor].model if preemptor else None
    claims = [claim for victim, _ in victims for claim in outcome.claims.get(victim.key, ())]
    return DecidedEvicted(
        state.jobs[task.job.key].head.seen,
        EVICTED_BY[action],
        [AttemptKey(*_slot(victim)) for victim, _ in victims],
        preemptor,
        [Placement(*_slot(claimed), node) for claimed, node in claims],
        None if claimant is None else now + claimant.path[0].reservation,
    )


def _together(outcome: Outcome) -> Iterable[list[tuple[Task, str]]]:
    """Return evicted tasks, those together that one decision may be about."""
    groups: dict[tuple[str, str, str], list[tuple[Task, str]]] = {}
    for task, action in outcome.evicted:
        groups.setdefault((task.job.key, action, outcome.preemptors.get(task.key, "")), []).append((task, action))
    return groups.values()


def _by_job(places: Iterable[tuple[Task, str]]) -> dict[str, list[Placement]]:
    found: dict[str, list[Placement]] = {}
    for task, node in places:
        found.setdefault(task.job.key, []).append(Placement(*_slot(task), node))
    for placements in found.values():
        placements.sort(key=lambda one: (one.task, one.index, one.attempt))
    return found


def _of_nodes(nodes: dict[str, int]) -> str:
    words = [f"{count} {word}" for word, count in islice(nodes.items(), NAMES)]
    return f"no node takes its pods: {', '.join(words)}" if words else ""


# --- reasons --------------------------------------------------------------------------------------------------------------------


def _explained(state: State, cluster: ClusterState, found: _Found) -> Iterator[tuple[str, JobExplained]]:
    """Yield why jobs wait, where that has changed."""
    if found.outcome.skipped:
        return
    yield from found.said.items()
    admitted = {job.key for job in found.outcome.enqueued}  # the next round finds places for their pods, or why there are none
    for ident in cluster.pending_reasons.silent(found.outcome, cluster.explained):
        if not found.outcome.more and ident not in admitted and not state.jobs[ident].head.retry:
            yield ident, JobExplained()
