"""Billing stage: usage records from job events, cluster facts and hour marks.

Each input is absorbed first; `decide` then compares the recorded runs of its attempts with the runs that follow from the current
state (`usage_segments`, `corrections`), and writes the difference.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Final, Literal

from engine.billing import absorb, evolve, forgetting, nodes, persist, timers
from engine.billing.calendar import floor_hour
from engine.billing.event_factory import STAGE, EventFactory
from engine.billing.persist import account_of
from engine.billing.state import Attempt, JobAccount, State
from engine.events import Data, Event, NotKeptError, Topic
from engine.events.billing import UsageFailed, UsageRecorded, UsageReviewed, UsageWithdrawn
from engine.events.ids import digest
from engine.events.times import Micros

__all__ = ["STAGE", "BillingStage"]

_AT_ONCE: Final = 64
"""Maximum number of attempts that one timer event records or reviews: about 2 ms."""
_A_STEP: Final = 4 * _AT_ONCE
"""Number of events after which a timer event leaves further attempts to the next one, because an attempt may have many runs."""

Events = Generator[Event[Data], None, None]

_Timer = tuple[Micros, Literal["hour", "review", "sweep", "node", "forget"], str, str]
"""Due time, kind, job (empty: several), and node."""


class BillingStage:
    """Billing stage (`engine.processor.stage.Stage`)."""

    name: Final = STAGE
    state_version: Final = 9
    inputs: Final[tuple[tuple[Topic, Literal["own", "all"]], ...]] = (("cluster", "all"), ("job-events", "own"))
    outputs: Final[tuple[Topic, ...]] = ("billing", "dead-letters")
    exact: Final = (persist.BOOK,)

    def initial(self) -> State:
        """Return the state of a new shard."""
        return State()

    # --- the three functions --------------------------------------------------------------------------------------------------

    def decide(
        self, state: State, event: Event[Data], now: Micros
    ) -> Generator[Event[Data], None, Literal["applied", "unchanged"]]:
        """Yield the corrections that follow from an absorbed input."""
        outcome: Literal["applied", "unchanged"] = "unchanged"
        for ident, ordinal in state.changed:
            account = account_of(state, ident)
            if account is not None:
                for made in EventFactory(state, account, now, event.id).corrections(account.attempts[ordinal]):
                    yield made
                    outcome = "applied"
        return outcome

    def fire(self, state: State, now: Micros, error: str | None = None) -> Events:
        """Record open attempts up to an hour mark, or continue a review."""
        if error is not None:
            yield from self.drop(state, now, error)
            return
        if (first := _first(state)) is None:
            return
        time, kind, ident, node = first
        if kind == "hour":
            yield from _record_open(state, time, now)
        elif kind == "review":
            factory = EventFactory(state, state.jobs[ident], now)
            begin, attempts = factory.account.job.review, factory.account.attempts
            done = yield from _correct(factory, attempts[begin : begin + _AT_ONCE])
            yield factory.reviewed(begin + done if begin + done < len(attempts) else -1)
        elif kind == "node":
            yield from _review_of_node(state, ident, node, now)
        elif (account := account_of(state, ident)) is not None:
            factory = EventFactory(state, account, now)
            if kind == "forget":
                yield factory.reviewed(-1, forgotten=True)
                return
            if len(account.attempts) > _AT_ONCE:
                yield EventFactory(state, account, now, state.sweep_cause).reviewed(0)  # its cause is the price book's event
            else:
                for attempt in account.attempts:
                    yield from factory.corrections(attempt)
            yield factory.reviewed(-1, sweep=state.sweeps)

    def drop(self, state: State, now: Micros, error: str) -> Events:  # noqa: ARG002 - as the protocol says
        """Skip the earliest timer's attempts; their next correction records them."""
        if (first := _first(state)) is None:
            return
        time, kind, ident, node = first
        if kind == "hour":
            for account, attempt in _open_at(state, time):
                yield EventFactory(state, account, now).passed(attempt, time)
        elif kind == "review":
            yield EventFactory(state, state.jobs[ident], now).reviewed(-1)
        elif (passed := account_of(state, ident)) is not None:
            factory = EventFactory(state, passed, now)
            if kind == "forget":
                yield factory.reviewed(-1, forgotten=True)
            else:
                yield _behind_node(factory, node) if node else factory.reviewed(-1, sweep=state.sweeps)

    def timer(self, state: State) -> str:
        """Return the id of the next timer: kind, time, and a digest of its first attempt; unique within a batch."""
        if (first := _first(state)) is None:
            return ""
        time, kind, ident, node = first
        place: tuple[object, ...] = (ident, node)
        if kind == "hour":
            place = next(iter(state.marks[time]))
        elif (account := account_of(state, ident)) is not None:
            place = (*place, _begin_on_node(state, account, node) if node else account.job.review)
        return f"{kind}/{time}/{digest(repr(place).encode())}"

    def due(self, state: State) -> Micros | None:
        """Return when the earliest timer fires (microseconds), or `None`."""
        return min((time for time, *_ in _timers(state)), default=None)

    def fires_at(self, state: State, due: Micros, horizon: Micros) -> Micros:
        """Return when the earliest timer fires; hour marks up to the horizon fire together at the last of them."""
        return max(floor_hour(horizon), due) if due == timers.mark_due(state) else due

    def unfinished(self, state: State) -> Micros | None:
        """Return when the next review step is due (microseconds), or `None`."""
        return min((time for time, kind, *_ in _timers(state) if kind != "hour"), default=None)

    # --- the rest of the protocol ---------------------------------------------------------------------------------------------

    evolve = staticmethod(evolve.evolve)
    absorb = staticmethod(absorb.absorb)

    def absorbs(self, topic: Topic) -> bool:
        """Return true for all input topics: every input is absorbed."""
        return any(topic == name for name, _ in self.inputs)

    def park(self, state: State, event: Event[Data], now: Micros, error: str) -> Any:  # noqa: ANN401, ARG002 - as the protocol says
        """Reject the parking of an input, because it was absorbed.

        Raises:
            NotKeptError: always.
        """
        raise NotKeptError(f"nothing is billed for {event.type} of {event.subject!r}: {error}")

    def outcome(self, event: Event[Data]) -> Any:  # noqa: ANN401 - one of engine.processor.stage.Outcome, which a stage may not import
        """Return the outcome of an input from its first event; `None` if a timer caused the event."""
        data = event.data
        timed = isinstance(data, UsageReviewed) or (isinstance(data, UsageRecorded | UsageWithdrawn | UsageFailed) and data.at_mark)
        return None if timed else "applied"

    def contains(self, state: State, event: Event[Data]) -> bool:
        """Return true if the state already includes an event of the stage's own output."""
        account, data = account_of(state, event.subject), event.data
        if account is not None and account.job.written < event.sequence:
            return False
        # For a forgotten job, only the progress of reviews of other jobs can be new.
        if isinstance(data, UsageReviewed) and data.node is not None:
            return nodes.has_come_to(state, (event.clusterid, data.node), event.subject, data)
        sweep = data.sweep if isinstance(data, UsageReviewed) else None
        return sweep is None or (sweep, event.subject) <= state.swept

    def touched(self, state: State) -> list[str]:
        """Return the records changed since the last call, and pack idle jobs."""
        persist.pack_idle(state)
        changed = list(state.touched)
        state.touched.clear()
        return changed

    dump = staticmethod(persist.dump)
    load = staticmethod(persist.load)
    records = staticmethod(persist.records)
    subject = staticmethod(persist.subject_of)

    def parked(self, state: State) -> Iterable[str]:  # noqa: ARG002 - as the protocol says
        """Return nothing, because jobs are never parked."""
        return ()


# --- timers ---------------------------------------------------------------------------------------------------------------------


def _timers(state: State) -> Iterator[_Timer]:
    """Yield the first timer of each kind; at equal times, the one yielded first fires first."""
    if (mark := timers.mark_due(state)) is not None:
        yield mark, "hour", "", ""
    if (job := timers.first_review(state)) is not None:
        yield job.review_at, "review", job.id, ""
    if (ident := timers.first_sweep(state)) is not None:
        yield state.sweep_at, "sweep", ident, ""
    if (found := nodes.first_node_review(state)) is not None:
        at, (_, node), of = found
        yield at, "node", of, node
    if (oldest := forgetting.first_superfluous(state)) is not None:
        yield oldest[0], "forget", oldest[1], ""


def _first(state: State) -> _Timer | None:
    return min(_timers(state), key=itemgetter(0), default=None)


def _open_at(state: State, mark: Micros) -> list[tuple[JobAccount, Attempt]]:
    """Return the next attempts to record at an hour mark."""
    found: list[tuple[JobAccount, Attempt]] = []
    for job, ordinal in islice(state.marks[mark], _AT_ONCE):
        if (account := account_of(state, job)) is not None:
            found.append((account, account.attempts[ordinal]))
    return found


def _record_open(state: State, mark: Micros, now: Micros) -> Events:
    until, unpacked, made = max(mark, floor_hour(now)), len(state.recent), 0
    for account, attempt in _open_at(state, mark):
        factory, before = EventFactory(state, account, now), account.job.written
        yield from factory.corrections(attempt, until)
        if attempt.due == mark:
            yield factory.passed(attempt, until)
        if (made := made + account.job.written - before) > _A_STEP:
            break
    persist.pack_last(state, unpacked)


def _correct(factory: EventFactory, attempts: Sequence[Attempt]) -> Generator[Event[Data], None, int]:
    """Review attempts of a job up to the size of a step; return their number."""
    before = factory.account.job.written
    for done, attempt in enumerate(attempts, 1):
        yield from factory.corrections(attempt)
        if factory.account.job.written - before > _A_STEP:
            return done
    return len(attempts)


def _review_of_node(state: State, ident: str, node: str, now: Micros) -> Events:
    """Review a job's attempts on a node."""
    if (account := account_of(state, ident)) is None:
        return
    factory, begin = EventFactory(state, account, now), _begin_on_node(state, account, node)
    found = [attempt for attempt in islice(account.attempts, begin, None) if attempt.node == node]
    done = yield from _correct(factory, found[:_AT_ONCE])
    yield _behind_node(factory, node, found[done].ordinal if len(found) > done else -1)


def _begin_on_node(state: State, account: JobAccount, node: str) -> int:
    """Return the ordinal of the attempt at which a node's review of a job continues."""
    reviewed = state.nodes[account.job.cluster, node].review
    return reviewed.next if reviewed is not None and reviewed.job == account.job.id else 0


def _behind_node(factory: EventFactory, node: str, next_: int = -1) -> Event[Any]:
    """Return the event with the progress of a node's review: behind a job, or up to one of its attempts."""
    place = (factory.account.job.cluster, node)
    last = next_ < 0 and nodes.is_last(factory.state, place)
    return factory.reviewed(next_, sweep=factory.state.nodes[place].reviews, node=node, last=last)
