"""Scheduling cycle (a round) of one cluster, as events.

1. Begin a transaction over the model: jobs whose pause is over are schedulable in it, jobs on which a plugin failed are held.
2. Open a session: plugins prepare.
3. Run the configured actions, in order.
4. Close the session: promises, phases of groups, reasons of pending jobs. The transaction is discarded: only events change state.
5. Emit events: the round, its decisions, records of notices, pending reasons. Each is applied before the next is made.

Steps 2 to 4 are `Scheduler.round`; where a plugin fails on a job, steps 1 to 4 run again without that job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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
from engine.scheduling.outcome import Outcome
from engine.scheduling.pending.explanations import NAMES, alike
from engine.scheduling.pending.reasons import Reason
from engine.scheduling.preemption.notice_controller import control_notices
from engine.scheduling.state.event_factory import EventFactory
from engine.scheduling.state.shard import ClusterState, State, TrackedJob

_AT_ONCE: Final = 250
"""Greatest number of attempts that one decision evicts."""
_FAILED: Final = 100
"""Number of jobs on which plugins may fail before the round is given up."""
_OF_CLASSES: Final = frozenset({"predicate", "pod_predicate", "node_order", "batch_node_order"})
"""Extension points that receive a pod class, not a job."""
_AGAIN: Final = 60 * SECOND
"""Delay of the next round after one that was given up."""


@dataclass(slots=True)
class _Result:
    """Result of a round, before it becomes events."""

    outcome: Outcome
    next: Micros | None
    """Time at which a round may decide differently without a change (microseconds); `None`: never."""
    memory: dict[str, dict[str, int]]
    """Memory of plugins after the round, by plugin."""
    phases: dict[str, GroupPhase]
    """New phases of pod groups, by job."""
    reasons: dict[str, JobExplained]
    """Pending reasons to publish, by job."""


def run_round(factory: EventFactory, cluster: ClusterState, limit: int) -> Iterator[Event[Any]]:
    """Run a round, and yield its events.

    Args:
        factory: makes the events of the timer.
        cluster: cluster of the round.
        limit: greatest number of attempts bound or evicted; a gang bound whole may exceed it.
    """
    try:
        result = _decide(factory.state, cluster, factory.now, limit)  # steps 1 to 4
    except PluginError as error:
        yield from given_up(factory, cluster, str(error))
        return
    jobs = factory.state.jobs
    ended = factory.ended(cluster, _summary(cluster, result))
    yield ended
    for ident, data in _decisions(factory.state, result, factory.now):
        yield factory.about(jobs[ident], data, ended.id)
    yield from control_notices(factory, cluster, result.outcome, ended.id)
    for ident, reason in _reasons(factory.state, cluster, result):
        yield factory.about(jobs[ident], reason, ended.id)


def given_up(factory: EventFactory, cluster: ClusterState, error: str, *, follow_notices: bool = True) -> Iterator[Event[Any]]:
    """Yield the record of a round that failed; the next one is due in a minute, or when something changes.

    Args:
        factory: makes the events of the timer.
        cluster: cluster of the round.
        error: message of the failure.
        follow_notices: control open notices all the same; `False` where they may be the failure.
    """
    cluster.pending_reasons.forget()
    pending, oldest = _pending(factory.state, cluster.explained)
    after, memory = factory.now + _AGAIN, cluster.scheduler.memory
    ended = factory.ended(cluster, RoundEnded(pending=pending, oldest=oldest, next=after, memory=memory, error=error))
    yield ended
    if follow_notices:
        yield from control_notices(factory, cluster, None, ended.id)


def timed_out(factory: EventFactory, job: TrackedJob, decision: str) -> Iterator[Event[Any]]:
    """Yield the record of a decision without an answer in time."""
    yield factory.about(job, DecisionTimedOut(decision, job.head.open[decision].kind), decision)


# --- steps 1 to 4 ---------------------------------------------------------------------------------------------------------------


def _decide(state: State, cluster: ClusterState, now: Micros, limit: int) -> _Result:
    """Run sessions until no plugin fails, each without the jobs on which an earlier one failed.

    Raises:
        PluginError: a plugin fails on no job in particular, or on too many.
    """
    memory = cluster.scheduler.memory
    if any(at <= now for at in cluster.retries.values()):  # reasons of jobs that go on may be outdated
        cluster.model.revision += 1
    failed: dict[str, Reason] = {}
    guarded = False
    while True:
        with cluster.model.transaction():
            try:
                return _run_session(state, cluster, now, limit, failed, guarded=guarded)
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
                guarded = True  # find the plugin and the job
            finally:
                cluster.scheduler.memory = memory


def _run_session(
    state: State, cluster: ClusterState, now: Micros, limit: int, failed: dict[str, Reason], *, guarded: bool
) -> _Result:
    scheduler, model = cluster.scheduler, cluster.model
    for ident, at in cluster.retries.items():
        if at <= now:
            head = state.jobs[ident].head
            model.pause(model.jobs[ident], held=head.is_held(now), backing_off=head.preemption_backoff > now)
    for ident in failed:
        model.pause(model.jobs[ident], held=True, backing_off=model.jobs[ident].backing_off)
    outcome = scheduler.round(now, limit, failed=failed, guarded=guarded)
    reasons: dict[str, JobExplained] = {}
    if not outcome.skipped:
        reasons = cluster.pending_reasons.find(outcome, now)
        scheduler.again = cluster.pending_reasons.again
    phases = {job.key: job.phase for job in (*outcome.enqueued, *(job for job, _ in outcome.phases))}
    return _Result(outcome, scheduler.next_change(now), scheduler.memory, phases, reasons)


def _held_for(error: PluginError, cluster: ClusterState) -> set[str]:
    """Return the jobs on which a plugin fails: its argument, or all jobs with a pod class of that job."""
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


# --- step 5: the round ----------------------------------------------------------------------------------------------------------


def _summary(cluster: ClusterState, result: _Result) -> RoundEnded:
    outcome, ran = result.outcome, cluster.scheduler.document
    return RoundEnded(
        len(outcome.enqueued),
        len(outcome.bound),
        len(outcome.pipelined),
        len(outcome.evicted),
        *((cluster.pending, cluster.oldest) if outcome.skipped else _waiting(outcome)),
        outcome.more,
        result.next,
        result.memory,
        configuration={} if ran == cluster.configuration else ran,
    )


def _waiting(outcome: Outcome) -> tuple[dict[str, int], dict[str, Micros]]:
    """Return the same as `_pending`, from the outcome of a round."""
    queues = sorted(outcome.waiting.items())
    return {queue: len(waiting) for queue, waiting in queues}, {queue: waiting.oldest for queue, waiting in queues}


def _pending(state: State, jobs: Iterable[str]) -> tuple[dict[str, int], dict[str, Micros]]:
    """Return by queue the number of pending jobs, and the submission time of the oldest."""
    submitted: dict[str, list[Micros]] = {}
    for ident in jobs:
        job = state.jobs[ident]
        if job.group is not None:
            submitted.setdefault(job.group.spec.queue, []).append(job.head.created)
    queues = sorted(submitted.items())
    return {queue: len(times) for queue, times in queues}, {queue: min(times) for queue, times in queues}


# --- step 5: decisions ----------------------------------------------------------------------------------------------------------


def _slot(task: Task) -> Slot:
    return task.role, task.index, int(task.key.rpartition("/")[2])


def _decisions(state: State, result: _Result, now: Micros) -> Iterator[tuple[str, Data]]:
    """Yield decisions with their jobs, in the order of the round where that matters."""
    outcome, jobs = result.outcome, state.jobs
    for ident, phase in sorted(result.phases.items()):
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
    """Return the decision that evicts pods of one job for one preemptor."""
    task, action = victims[0]
    preemptor = outcome.preemptors.get(task.key, "")
    claimant = state.jobs[preemptor] if preemptor else None
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
    """Return evicted tasks, grouped by job, action and preemptor: the unit of a decision."""
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


# --- step 5: pending reasons ----------------------------------------------------------------------------------------------------


def _reasons(state: State, cluster: ClusterState, result: _Result) -> Iterator[tuple[str, JobExplained]]:
    """Yield changed pending reasons with their jobs."""
    if result.outcome.skipped:
        return
    yield from result.reasons.items()
    admitted = {job.key for job in result.outcome.enqueued}  # the next round places their pods, or finds the reason why not
    for ident in cluster.pending_reasons.silent(result.outcome, cluster.explained):
        if not result.outcome.more and ident not in admitted and not state.jobs[ident].head.retry:
            yield ident, JobExplained()
