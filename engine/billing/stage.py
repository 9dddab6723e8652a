"""The billing stage: usage records from job events, cluster facts and hour marks.

Each input is absorbed first; `decide` then compares the recorded runs of its attempts with the runs that follow from everything
known now (`runs`, `corrections`), and writes the difference.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Final, Literal

from engine.billing import absorb, evolve, forgetting, nodes, persist, timers
from engine.billing.calendar import floor_hour
from engine.billing.persist import account_of
from engine.billing.state import Attempt, JobAccount, State
from engine.billing.turn import STAGE, Turn
from engine.events import Data, Event, NotKeptError, Topic
from engine.events.billing import UsageFailed, UsageRecorded, UsageReviewed, UsageWithdrawn
from engine.events.ids import digest
from engine.events.times import Micros

__all__ = ["STAGE", "BillingStage"]

_AT_ONCE: Final = 64
"""Attempts that one timer event records or reviews: some 2 ms."""
_A_STEP: Final = 4 * _AT_ONCE
"""Events after which it leaves the other attempts to the next one: an attempt may have many runs."""

Events = Generator[Event[Data], None, None]

_Timer = tuple[Micros, Literal["hour", "review", "sweep", "node", "forget"], str, str]
"""When it fires, its kind, its job (empty: several), and its node."""


class BillingStage:
    """The stage as the processor runs it (`engine.processor.stage.Stage`)."""

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
                for made in Turn(state, account, now, event.id).corrections(account.attempts[ordinal]):
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
            turn = Turn(state, state.jobs[ident], now)
            begin, attempts = turn.account.job.review, turn.account.attempts
            done = yield from _correct(turn, attempts[begin : begin + _AT_ONCE])
            yield turn.reviewed(begin + done if begin + done < len(attempts) else -1)
        elif kind == "node":
            yield from _review_of_node(state, ident, node, now)
        elif (account := account_of(state, ident)) is not None:
            turn = Turn(state, account, now)
            if kind == "forget":
                yield turn.reviewed(-1, forgotten=True)
                return
            if len(account.attempts) > _AT_ONCE:
                yield Turn(state, account, now, state.sweep_cause).reviewed(0)  # the event of the book asks for the steps to come
            else:
                for attempt in account.attempts:
                    yield from turn.corrections(attempt)
            yield turn.reviewed(-1, sweep=state.sweeps)

    def drop(self, state: State, now: Micros, error: str) -> Events:  # noqa: ARG002 - as the protocol says
        """Skip the earliest timer's attempts; their next correction records them."""
        if (first := _first(state)) is None:
            return
        time, kind, ident, node = first
        if kind == "hour":
            for account, attempt in _open_at(state, time):
                yield Turn(state, account, now).passed(attempt, time)
        elif kind == "review":
            yield Turn(state, state.jobs[ident], now).reviewed(-1)
        elif (passed := account_of(state, ident)) is not None:
            turn = Turn(state, passed, now)
            if kind == "forget":
                yield turn.reviewed(-1, forgotten=True)
            else:
                yield _behind_node(turn, node) if node else turn.reviewed(-1, sweep=state.sweeps)

    def timer(self, state: State) -> str:
        """Name the timer that fires next: its kind, its time, and a digest of where it begins; no two in one batch are alike."""
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
        """Tell whether inputs of the topic are absorbed: those of all input topics are."""
        return any(topic == name for name, _ in self.inputs)

    def park(self, state: State, event: Event[Data], now: Micros, error: str) -> Any:  # noqa: ANN401, ARG002 - as the protocol says
        """Refuse to park an input: it was absorbed.

        Raises:
            NotKeptError: always.
        """
        raise NotKeptError(f"nothing is billed for {event.type} of {event.subject!r}: {error}")

    def outcome(self, event: Event[Data]) -> Any:  # noqa: ANN401 - one of engine.processor.stage.Outcome, which a stage may not import
        """Return the outcome that the first event of an input stands for; `None`: a timer caused it."""
        data = event.data
        timed = isinstance(data, UsageReviewed) or (isinstance(data, UsageRecorded | UsageWithdrawn | UsageFailed) and data.at_mark)
        return None if timed else "applied"

    def contains(self, state: State, event: Event[Data]) -> bool:
        """Tell whether the state already holds an event of the stage's own output."""
        account, data = account_of(state, event.subject), event.data
        if account is not None and account.job.written < event.sequence:
            return False
        # Of a forgotten job only the progress of reviews of other jobs can be new.
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
        """Return nothing: no job is parked."""
        return ()


# --- timers ---------------------------------------------------------------------------------------------------------------------


def _timers(state: State) -> Iterator[_Timer]:
    """Yield the first timer of each kind; of two at one time, the one yielded first fires first."""
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
        turn, before = Turn(state, account, now), account.job.written
        yield from turn.corrections(attempt, until)
        if attempt.due == mark:
            yield turn.passed(attempt, until)
        if (made := made + account.job.written - before) > _A_STEP:
            break
    persist.pack_last(state, unpacked)


def _correct(turn: Turn, attempts: Sequence[Attempt]) -> Generator[Event[Data], None, int]:
    """Review attempts of a job up to the length of a step; return how many."""
    before = turn.account.job.written
    for done, attempt in enumerate(attempts, 1):
        yield from turn.corrections(attempt)
        if turn.account.job.written - before > _A_STEP:
            return done
    return len(attempts)


def _review_of_node(state: State, ident: str, node: str, now: Micros) -> Events:
    """Review a job's attempts that were on a node."""
    if (account := account_of(state, ident)) is None:
        return
    turn, begin = Turn(state, account, now), _begin_on_node(state, account, node)
    found = [attempt for attempt in islice(account.attempts, begin, None) if attempt.node == node]
    done = yield from _correct(turn, found[:_AT_ONCE])
    yield _behind_node(turn, node, found[done].ordinal if len(found) > done else -1)


def _begin_on_node(state: State, account: JobAccount, node: str) -> int:
    """Return the ordinal of a job's attempt with which the review of a node's jobs begins or goes on."""
    reviewed = state.nodes[account.job.cluster, node].review
    return reviewed.next if reviewed is not None and reviewed.job == account.job.id else 0


def _behind_node(turn: Turn, node: str, next_: int = -1) -> Event[Any]:
    """Return the progress of a node's review: past a job, or up to one of its attempts."""
    place = (turn.account.job.cluster, node)
    last = next_ < 0 and nodes.is_last(turn.state, place)
    return turn.reviewed(next_, sweep=turn.state.nodes[place].reviews, node=node, last=last)
