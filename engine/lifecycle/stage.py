"""Lifecycle stage: decides the events of each input, by job.

`decide` routes an input to the rule of its kind and returns its outcome; `fire` does the same for timers. `managed_jobs` has the
rules of managed jobs, `observed_jobs` those of observed ones; both process pods with `observed_pods`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop
from typing import Any, Final

from engine.events import Data, Event, NotKeptError, Topic
from engine.events.actions import EffectRequested, TimerFired
from engine.events.attempts import AttemptLateFact
from engine.events.bounds import REPLICAS
from engine.events.decisions import DecisionRefused
from engine.events.ids import timer_fired_id
from engine.events.inputs import CommandIssued, PodDeleted
from engine.events.jobs import JobForgotten
from engine.events.outcomes import (
    Anomaly,
    CommandRefused,
    DeadLettered,
    InputOrphaned,
    InputParked,
    JobParked,
    JobRejected,
    RowRejected,
)
from engine.events.times import SECOND
from engine.kubernetes.reading.accelerators import BUILT_IN, Accelerators
from engine.lifecycle import (
    INPUTS,
    held_inputs,
    idle_jobs,
    inputs,
    managed_jobs,
    nodes,
    observed_jobs,
    ownership,
    persist,
    pod_inputs,
    refused_inputs,
)
from engine.lifecycle.errors import InvariantError
from engine.lifecycle.event_factory import SOURCE, STAGE, Decision, EventFactory, Events, arrival
from engine.lifecycle.evolve import absorb, evolve, head, peek
from engine.lifecycle.job import Job, Timer
from engine.lifecycle.state import ShardState
from statemachines.vocabulary import FINISHED_JOB_PHASES

FORGET_AFTER: Final = 30 * 86_400 * SECOND
"""Default time for which a finished job is kept in the state (microseconds)."""
ORPHAN_WAIT: Final = 60 * SECOND
"""Default time for which a pod waits for the managed job that it names (microseconds)."""

UNKNOWN_IDS: Final = 10_000
"""Default maximum number of ids per shard that are no job."""

_OUTCOMES: Final[dict[type[Data], str | None]] = {
    TimerFired: None,
    JobForgotten: None,
    DeadLettered: "dead",
    JobParked: "parked",
    InputParked: "parked",
    InputOrphaned: "waiting",
    JobRejected: "rejected",
    RowRejected: "rejected",
    CommandRefused: "refused",
    DecisionRefused: "refused",
    AttemptLateFact: "late",
    Anomaly: "anomalous",
}


class LifecycleStage:
    """Lifecycle stage (`engine.processor.stage.Stage`)."""

    name: Final = STAGE
    state_version: Final = 11
    inputs: Final = INPUTS
    outputs: Final[tuple[Topic, ...]] = ("job-events", "dead-letters")
    exact: Final = ()

    def __init__(
        self,
        *,
        forget_after: int = FORGET_AFTER,
        orphan_wait: int = ORPHAN_WAIT,
        unknown_ids: int = UNKNOWN_IDS,
        max_replicas: int = REPLICAS,
        services: Iterable[str] = (),
        accelerators: Accelerators = BUILT_IN,
    ) -> None:
        """Configure the stage.

        Args:
            forget_after: time for which a finished job, or an id that is no job, is kept (microseconds); at least the retention of
                the inputs. An aborted job is kept 335 days longer.
            orphan_wait: time for which a pod waits for the managed job that it names (microseconds).
            unknown_ids: maximum number of ids that are no job (rejected submissions, refused commands); the oldest is forgotten
                first.
            max_replicas: maximum number of replicas of a job.
            services: further kinds whose pods are services (`SERVICE_KINDS` has the others).
            accelerators: table of the resources that are GPUs, for pods of managed jobs.
        """
        self.unknown_ids = unknown_ids
        self.max_replicas = max_replicas
        self.services = frozenset(services)
        self.accelerators = accelerators
        self.forget_after = forget_after
        self.orphan_wait = orphan_wait

    def initial(self) -> ShardState:
        """Return the state of a shard without inputs."""
        return ShardState(self.forget_after, self.orphan_wait, self.max_replicas, self.services, self.accelerators)

    # --- the three functions ---------------------------------------------------------------------------------------------

    def decide(self, state: ShardState, event: Event[Data], now: int) -> Decision:
        """Yield the events of an input; return its outcome."""
        if event.data.TOPIC == "cluster":
            return (yield from nodes.decide(EventFactory(state, event.id, now, event.clusterid, arrival(event, now)), event))
        job = ownership.job_of(state, event)
        if event.id in job.seen or (job.id != event.subject and _was_taken(peek(state, event.subject), event)):
            return "duplicate"
        factory = _begin(state, event, job, now)
        outcome = yield from inputs.decide(factory, job, event)
        if not factory.index:
            return inputs.settled(outcome, made=False)
        _check(job)
        return outcome

    def in_turn(self, state: ShardState, event: Event[Data]) -> bool:
        """Return true if a fact of a cluster must wait for earlier inputs: pods on its node may have ended before."""
        return nodes.acts_at_once(state, event)

    def fire(self, state: ShardState, now: int, error: str | None = None) -> Events:
        """Fire the earliest timer, which is due at or before `now`; with `error`, park its job instead.

        Timers of a job that is parked or has held inputs are paused.
        """
        yield from self._fire(state, now, lambda factory, job, timer: self._act(factory, job, timer, error))

    def drop(self, state: ShardState, now: int, error: str) -> Events:
        """Drop the earliest timer because its job could not be parked either; an anomaly of the job records the reason.

        An idle job that is due to be forgotten has no timer to drop; it is forgotten, which needs only the head of its record.
        """
        yield from self._fire(state, now, lambda factory, job, timer: _give_up(factory, job, timer, error))

    def timer(self, state: ShardState) -> str:
        """Return the id of the next timer."""
        forgotten = self._forgotten_first(state)
        return state.timers[0][1] if forgotten is None else head(state, forgotten[1]).closing

    evolve = staticmethod(evolve)
    absorb = staticmethod(absorb)

    def absorbs(self, topic: Topic) -> bool:
        """Return true if inputs of the topic are absorbed."""
        return topic == "cluster"

    def fires_at(self, state: ShardState, due: int, horizon: int) -> int:  # noqa: ARG002 - as the protocol says
        """Return the due time of the earliest timer (microseconds)."""
        return due

    def due(self, state: ShardState) -> int | None:
        """Return the due time of the earliest timer (microseconds), or `None`."""
        timers = state.timers
        while timers:
            _, timer_id, job_id = timers[0]
            job = state.jobs.get(job_id)
            if job is not None and timer_id in job.timers:
                break
            heappop(timers)
        forgotten = self._next_forgotten(state) if state.finished else None
        if not timers:
            return None if forgotten is None else forgotten[0]
        return timers[0][0] if forgotten is None else min(timers[0][0], forgotten[0])

    def unfinished(self, state: ShardState) -> int | None:
        """Return when the next step of a large job is due (microseconds), or `None`."""
        return min(state.steps.values(), default=None)

    # --- the rest of the protocol -----------------------------------------------------------------------------------------

    def park(self, state: ShardState, event: Event[Data], now: int, error: str) -> Decision:
        """Park the job of an input that could not be decided.

        Raises:
            NotKeptError: it is a fact of a cluster, not about a job; or the job's limit of held inputs is reached.
        """
        if event.data.TOPIC == "cluster":
            raise NotKeptError(f"the cluster's fact {event.type} about {event.subject!r} could not be decided on: {error}")
        job = ownership.job_of(state, event)
        factory = _begin(state, event, job, now)
        if isinstance(event.data, CommandIssued) and event.data.action == "Unpark":  # a held Unpark could never be released
            part, principal = (factory, None) if job.opened else (factory.about(job), event.data.principal)
            yield part.event(job, CommandRefused("Unpark", f"nothing is released: {error}", event.data.by, principal))
            return "refused"
        yield from held_inputs.park(factory, job, event, error)
        return "parked"

    def outcome(self, event: Event[Data]) -> Any:  # noqa: ANN401 - one of engine.processor.stage.Outcome, which a stage may not import
        """Return the outcome of an input from its first event; `None` if a timer caused the event."""
        return _OUTCOMES.get(type(event.data), "applied")

    def contains(self, state: ShardState, event: Event[Data]) -> bool:
        """Return true if the state already includes an event of the stage's own output."""
        ident = event.subject
        known = head(state, ident)
        if isinstance(event.data, JobForgotten):
            gone = ident in state.forgotten or state.forgotten.sequence(ident) >= event.sequence
            # If the job's record, or a later one of the same id, still exists, all later events are applied again.
            return gone and ident not in state.jobs and ident not in state.closed
        if known.sequence >= event.sequence or (not known.opened and ident in state.forgotten):
            return True
        # A forgotten job's record may be removed before that of its id is written; then only its `job.forgotten` is new.
        return not known.sequence and event.sequence > 1

    def touched(self, state: ShardState) -> list[str]:
        """Return the records changed since the last call."""
        changed = list(state.touched)
        state.touched.clear()
        return changed

    def dump(self, state: ShardState, record: str) -> bytes | None:
        """Return the canonical content of a record; `None`: its subject was removed."""
        return persist.dump(state, record)

    def load(self, state: ShardState, records: Iterable[tuple[str, bytes]]) -> None:
        """Restore records into an initial state."""
        persist.load(state, records)

    def parked(self, state: ShardState) -> Iterable[str]:
        """Return the ids of the parked jobs."""
        return (ident for ident, job in state.jobs.items() if job.parked)

    def records(self, state: ShardState) -> Iterable[str]:
        """Return the names of all records."""
        return persist.records(state)

    def subject(self, record: str) -> str:
        """Return the subject of a record; a large job has several records."""
        return persist.subject_of(record)

    # --- timers -----------------------------------------------------------------------------------------------------------

    def _next_forgotten(self, state: ShardState) -> tuple[int, str] | None:
        """Return when the next job is forgotten, and its id; `None`: none is idle."""
        if len(state.unknown_ids) > self.unknown_ids:
            return state.oldest_unknown_ids.first(state, idle_jobs.unknown_id_of)
        if not state.finished:
            return None
        finished = state.finished.first(state, idle_jobs.rest_of)
        return None if finished is None else (finished[0] + self.forget_after, finished[1])

    def _forgotten_first(self, state: ShardState) -> tuple[int, str] | None:
        """Return the result of `_next_forgotten` if it is due before the earliest timer; otherwise `None`."""
        forgotten = self._next_forgotten(state)
        return forgotten if forgotten is not None and (not state.timers or forgotten < state.timers[0][:2]) else None

    def _forget(self, state: ShardState, due: int, job_id: str, now: int) -> Events:
        job = head(state, job_id)
        yield Event(
            timer_fired_id(STAGE, job.closing),
            SOURCE,
            JobForgotten.TYPE,
            job_id,
            due,
            now,
            job.sequence + 1,
            job_id,
            job.closing,
            job.cluster,
            JobForgotten(job.rested if job.finished is None else job.finished, opened=job.opened > 0),
        )

    def _fire(self, state: ShardState, now: int, act: Callable[[EventFactory, Job, Timer], Events]) -> Events:
        """Fire the earliest timer and act on it, or forget a job that is due earlier."""
        self.due(state)  # drops cancelled timers
        forgotten = self._forgotten_first(state)
        if forgotten is not None:
            yield from self._forget(state, *forgotten, now)
            return
        factory, job, timer = _take_timer(state, now)
        yield _timer_fired(factory, job, timer)
        yield from act(factory, job, timer)

    def _act(self, factory: EventFactory, job: Job, timer: Timer, error: str | None) -> Events:
        if error is not None:
            yield factory.event(job, JobParked(error))
        if job.parked or (job.held and timer.kind != "step"):  # a held input may cancel it
            yield held_inputs.set_again(factory, job, timer)
            return
        factory.depth = timer.depth
        yield from self._on_timer(factory, job, timer)
        _check(job)

    def _on_timer(self, factory: EventFactory, job: Job, timer: Timer) -> Events:
        if timer.kind == "orphan_wait":
            event = held_inputs.first_owned(job)
            if event is not None:  # its controller has the same job
                factory.cluster = event.clusterid
                yield from observed_jobs.open_from_pod(
                    factory, job, event.data.last if isinstance(event.data, PodDeleted) else event.data
                )
            yield from inputs.release(factory, job, "waiting", in_vain=True)
        elif timer.kind == "step":
            yield from inputs.go_on(factory, job, timer)
        elif timer.kind == "ttl":
            yield factory.event(job, EffectRequested("delete_job"))
        elif timer.kind == "lost":
            yield from pod_inputs.give_up_lost(factory, job, timer)
        else:
            yield from managed_jobs.on_timer(factory, job, timer)


def _was_taken(named: Job, event: Event[Data]) -> bool:
    """Return true if the job that an input names processed it, before the pod moved or before the wait for its controller ended."""
    return event.id in named.seen or refused_inputs.was_released(named, event)


def _begin(state: ShardState, event: Event[Data], job: Job, now: int) -> EventFactory:
    """Create the event factory of an input about a job."""
    factory = EventFactory(state, event.id, now, event.clusterid, arrival(event, now))
    return factory if job.id == event.subject else factory.about(job)


def _take_timer(state: ShardState, now: int) -> tuple[EventFactory, Job, Timer]:
    """Take the earliest pending timer, and create its event factory."""
    _, timer_id, job_id = heappop(state.timers)
    job = peek(state, job_id)
    return EventFactory(state, timer_fired_id(STAGE, timer_id), now, job.cluster), job, job.timers[timer_id]


def _give_up(factory: EventFactory, job: Job, timer: Timer, error: str) -> Events:
    yield factory.event(job, Anomaly(f"the timer {timer.kind} was given up: {error}"))


def _timer_fired(factory: EventFactory, job: Job, timer: Timer) -> Event[TimerFired]:
    """Return the first event of a due timer, `timer.fired`: it removes the timer."""
    data = TimerFired(timer.id)
    return Event(
        factory.root, SOURCE, TimerFired.TYPE, job.id, timer.due, factory.now, job.sequence + 1, job.id, timer.id, job.cluster, data
    )


def _check(job: Job) -> None:
    """Check the invariants of a job.

    Raises:
        InvariantError: a counter is negative, or a finished phase has no time; the processor parks the job.
    """
    counts = job.counts
    if min(counts.pending, counts.running, counts.succeeded, counts.failed, counts.terminating, job.live) < 0:
        raise InvariantError(job.id, f"negative counters: {counts}, {job.live} live")
    if job.opened and (job.finished is not None) != (job.phase in FINISHED_JOB_PHASES):
        raise InvariantError(job.id, f"phase {job.phase} with finished {job.finished}")
