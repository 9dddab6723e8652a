"""Scheduling stage: admission, placement and preemption of jobs, decided in rounds, and the reasons of pending jobs.

It has one shard, since jobs of all partitions share the nodes. It absorbs its inputs, and decides when a timer fires: a round is
due at the next whole second after a change, or when time alone may change the results of plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import partial
from heapq import heappop
from typing import Any, Final, Literal

from engine.events import Data, Event, NotKeptError, Topic
from engine.events.preemptions import NoticeRecord
from engine.events.scheduling import RoundEnded
from engine.events.times import Micros
from engine.scheduling import absorb, evolve, snapshot_codec
from engine.scheduling.cluster.notices import number_of
from engine.scheduling.configuration import DEFAULT, Configuration
from engine.scheduling.cycle import given_up, run_round, timed_out
from engine.scheduling.metrics import metrics
from engine.scheduling.scheduler import Scheduler
from engine.scheduling.session import Plugin
from engine.scheduling.state.event_factory import STAGE, EventFactory
from engine.scheduling.state.shard import ClusterState, State, TrackedJob

__all__ = ["ROUND_LIMIT", "STAGE", "SchedulingStage"]

ROUND_LIMIT: Final = 2_000
"""Greatest number of attempts bound in one round; a gang bound whole may exceed it."""

Events = Generator[Event[Data], None, None]


class SchedulingStage:
    """Stage in the form that the processor runs (`engine.processor.stage.Stage`)."""

    name: Final = STAGE
    state_version: Final = 7
    inputs: Final[tuple[tuple[Topic, Literal["own", "all"]], ...]] = (("cluster", "all"), ("job-events", "all"))
    outputs: Final[tuple[Topic, ...]] = ("scheduling", "decisions", "preemptions", "dead-letters")
    exact: Final = ()

    def __init__(
        self,
        configuration: Configuration = DEFAULT,
        plugins: Mapping[str, type[Plugin]] | None = None,
        *,
        round_limit: int = ROUND_LIMIT,
        stopwatch: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Check the configuration.

        Args:
            configuration: actions and plugins.
            plugins: plugins of third parties, by name.
            round_limit: greatest number of attempts bound in one round; a gang bound whole may exceed it.
            stopwatch: clock in seconds, for the metric of time by action only; by default no time passes.

        Raises:
            ConfigurationError: an action, a plugin or an argument is not known, or two plugins do not go together.
        """
        Scheduler.must_be_right(configuration, plugins)
        self._scheduler = partial(Scheduler, configuration=configuration, more=plugins, stopwatch=stopwatch)
        self._limit = round_limit
        self.configuration: Final = configuration

    def initial(self) -> State:
        """Return the state of a shard without inputs."""
        return State(self._scheduler)

    # --- the three functions --------------------------------------------------------------------------------------------------

    def decide(self, state: State, event: Event[Data], now: Micros) -> Generator[Event[Data], None, Literal["unchanged"]]:  # noqa: ARG002
        """Yield no events: inputs are absorbed, and rounds decide."""
        yield from ()
        return "unchanged"

    evolve = staticmethod(evolve.evolve)

    def due(self, state: State) -> Micros | None:
        """Return when the earliest timer fires (microseconds), or `None`."""
        first = _first(state)
        return None if first is None else first[0]

    def fire(self, state: State, now: Micros, error: str | None = None) -> Events:
        """Run a round, or record the time-out of a decision."""
        a_round = partial(run_round, limit=self._limit) if error is None else partial(given_up, error=error)
        yield from self._fire(state, now, a_round)

    def drop(self, state: State, now: Micros, error: str) -> Events:
        """Record the failure of the earliest timer; notices wait for the next round, since they may be the cause."""
        yield from self._fire(state, now, partial(given_up, error=error, follow_notices=False))

    @staticmethod
    def _fire(state: State, now: Micros, a_round: Callable[[EventFactory, ClusterState], Iterator[Event[Any]]]) -> Events:
        first = _first(state)
        if first is None:
            return
        time, what, late = first
        if isinstance(what, TrackedJob):
            yield from timed_out(EventFactory(state, now, time), what, late)
        else:  # a change that needed no round by itself may have requested one long ago
            yield from a_round(EventFactory(state, now, max(time, what.newest)), what)

    def timer(self, state: State) -> str:
        """Return the name of the timer that fires next."""
        first = _first(state)
        if first is None:
            return ""
        _, what, late = first
        return f"round/{what.id}/{what.rounds + 1}" if isinstance(what, ClusterState) else f"answer/{late}"

    def fires_at(self, state: State, due: Micros, horizon: Micros) -> Micros:  # noqa: ARG002 - as the protocol says, here and below
        """Return when a timer is due."""
        return due

    def unfinished(self, state: State) -> Micros | None:
        """Return the time of the earliest round that a change requests (microseconds), or `None`."""
        return min((at for cluster in state.clusters.values() if (at := cluster.pressing()) is not None), default=None)

    # --- the rest of the protocol ---------------------------------------------------------------------------------------------

    absorb = staticmethod(absorb.absorb)

    def absorbs(self, topic: Topic) -> bool:
        """Return whether inputs of the topic are absorbed: all are."""
        return any(topic == name for name, _ in self.inputs)

    def park(self, state: State, event: Event[Data], now: Micros, error: str) -> Any:  # noqa: ANN401, ARG002
        """Refuse to park an input: it was absorbed.

        Raises:
            NotKeptError: always.
        """
        raise NotKeptError(f"nothing is scheduled for {event.type} of {event.subject!r}: {error}")

    def contains(self, state: State, event: Event[Data]) -> bool:
        """Return whether the state includes an event of this stage."""
        if isinstance(event.data, RoundEnded):
            return event.sequence <= state.rounds(event.subject)
        if isinstance(event.data, NoticeRecord):
            cluster = state.clusters.get(event.clusterid)
            notice = None if cluster is None else cluster.model.notices.get(event.subject)
            if notice is not None:
                return event.sequence <= notice.written
            return number_of(event.subject) <= state.notices(event.clusterid)  # it is over, or new
        job = state.jobs.get(event.subject)
        if job is None:  # it is over: events about it change nothing
            return True
        return event.sequence <= (job.head.written if event.data.TOPIC == "decisions" else job.head.noted)

    def touched(self, state: State) -> list[str]:
        """Return the records changed since the last call."""
        changed = list(state.touched)
        state.touched.clear()
        return changed

    def outcome(self, event: Event[Data]) -> None:  # noqa: ARG002
        """Return nothing: timers cause all events."""
        return

    def subject(self, record: str) -> str:  # noqa: ARG002
        """Return the one subject that all records are of."""
        return STAGE

    figures = staticmethod(metrics)
    dump = staticmethod(snapshot_codec.dump)
    load = staticmethod(snapshot_codec.load)
    records = staticmethod(snapshot_codec.records)

    def parked(self, state: State) -> Iterable[str]:  # noqa: ARG002
        """Return nothing: no job is parked here."""
        return ()


# --- timers ---------------------------------------------------------------------------------------------------------------------

_Timer = tuple[Micros, ClusterState | TrackedJob, str]
"""Time; cluster of a round, or job of an unanswered decision; id of that decision."""


def _first(state: State) -> _Timer | None:
    """Return the timer that fires first; on ties a late decision, then the first cluster by name."""
    late, due = _late(state), state.first_round()
    return late if due is None or (late is not None and late[0] <= due[0]) else (*due, "")


def _late(state: State) -> _Timer | None:
    """Return the unanswered decision with the earliest deadline; answered ones are dropped from the heap."""
    while state.unanswered:
        due, ident, decision = state.unanswered[0]
        job = state.jobs.get(ident)
        asked = None if job is None else job.head.open.get(decision)
        if job is not None and asked is not None and not asked.late:
            return due, job, decision
        heappop(state.unanswered)
    return None
