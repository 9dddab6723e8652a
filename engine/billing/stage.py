"""The billing stage: what follows for the bill from job events, facts of the cluster, and the marks of the clock.

Everything is absorbed first; `decide` then compares what stands recorded of the attempts that an input is about with what should
stand by all that is known now (`runs`, `corrections`), and writes the difference.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import islice
from typing import Any, Final, Literal

from engine.billing import fold, persist
from engine.billing.calendar import floor_hour
from engine.billing.persist import known_of
from engine.billing.state import Attempt, Known, State
from engine.billing.turn import STAGE, Turn
from engine.events import Data, Event, NotKeptError, Topic
from engine.events.billing import UsageFailed, UsageRecorded, UsageReviewed, UsageWithdrawn
from engine.events.times import Micros

__all__ = ["STAGE", "BillingStage"]

_AT_ONCE: Final = 64
"""Attempts that a timer looks at: some 2 ms."""

Events = Generator[Event[Data], None, None]


class BillingStage:
    """The stage as the processor runs it (`engine.processor.stage.Stage`)."""

    name: Final = STAGE
    state_version: Final = 1
    inputs: Final[tuple[tuple[Topic, Literal["own", "all"]], ...]] = (("cluster", "all"), ("job-events", "own"))
    outputs: Final[tuple[Topic, ...]] = ("billing", "dead-letters")

    def initial(self) -> State:
        """Return the state of a shard that has taken nothing."""
        return State()

    # --- the three functions --------------------------------------------------------------------------------------------------

    def decide(
        self, state: State, event: Event[Data], now: Micros
    ) -> Generator[Event[Data], None, Literal["applied", "unchanged"]]:
        """Say what an input changes on the bill; it has been absorbed."""
        outcome: Literal["applied", "unchanged"] = "unchanged"
        for ident, ordinal in state.changed:
            known = known_of(state, ident)
            if known is not None:
                for made in Turn(state, known, now, event.id).corrections(known.attempts[ordinal]):
                    yield made
                    outcome = "applied"
        return outcome

    def fire(self, state: State, now: Micros, error: str | None = None) -> Events:
        """Record what is open up to an hour mark, or go on with a review."""
        if error is not None:
            yield from self.drop(state, now, error)
            return
        mark, review = fold.mark_due(state), self._review_due(state)
        if mark is not None and (review is None or mark <= review):
            yield from _record_open(state, mark, now)
        elif (job := fold.first_review(state)) is not None and job.review_at == review:
            turn = Turn(state, state.jobs[job.id], now)
            begin, attempts = turn.known.job.review, turn.known.attempts
            for attempt in attempts[begin : begin + _AT_ONCE]:
                yield from turn.corrections(attempt)
            yield turn.reviewed(begin + _AT_ONCE if begin + _AT_ONCE < len(attempts) else -1)
        elif (ident := fold.first_sweep(state)) is not None and (known := known_of(state, ident)) is not None:
            turn = Turn(state, known, now)
            if len(known.attempts) > _AT_ONCE:
                yield turn.reviewed(0)
            else:
                for attempt in known.attempts:
                    yield from turn.corrections(attempt)
            yield turn.reviewed(-1, sweep=state.sweeps)

    def drop(self, state: State, now: Micros, error: str) -> Events:  # noqa: ARG002 - as the protocol says
        """Pass over what the earliest timer is about: it is recorded with what comes later."""
        mark, review = fold.mark_due(state), self._review_due(state)
        if mark is not None and (review is None or mark <= review):
            for known, attempt in _open_at(state, mark):
                yield Turn(state, known, now).passed(attempt, mark)
        elif (job := fold.first_review(state)) is not None and job.review_at == review:
            yield Turn(state, state.jobs[job.id], now).reviewed(-1)
        elif (ident := fold.first_sweep(state)) is not None and (gone := known_of(state, ident)) is not None:
            yield Turn(state, gone, now).reviewed(-1, sweep=state.sweeps)

    def timer(self, state: State) -> str:
        """Name the timer that fires next."""
        mark, review = fold.mark_due(state), self._review_due(state)
        if mark is not None and (review is None or mark <= review):
            return f"hour/{mark}"
        return f"review/{review}"

    def due(self, state: State) -> Micros | None:
        """Return when the earliest timer fires (microseconds), or `None`."""
        mark, review = fold.mark_due(state), self._review_due(state)
        return review if mark is None else mark if review is None else min(mark, review)

    def unfinished(self, state: State) -> Micros | None:
        """Return when reviews go on (microseconds), or `None`."""
        return self._review_due(state)

    def _review_due(self, state: State) -> Micros | None:
        job, sweep = fold.first_review(state), None if fold.first_sweep(state) is None else state.sweep_at
        if job is None:
            return sweep
        return job.review_at if sweep is None else min(job.review_at, sweep)

    # --- the rest of the protocol ---------------------------------------------------------------------------------------------

    evolve = staticmethod(fold.evolve)
    absorb = staticmethod(fold.absorb)

    def absorbs(self, topic: Topic) -> bool:
        """Tell whether inputs of the topic are absorbed: all are."""
        return any(topic == name for name, _ in self.inputs)

    def park(self, state: State, event: Event[Data], now: Micros, error: str) -> Any:  # noqa: ANN401, ARG002 - as the protocol says
        """Refuse to keep an input: it was absorbed.

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
        known, data = known_of(state, event.subject), event.data
        if known is not None and known.job.written < event.sequence:
            return False
        # Where the job is gone, all that followed about it is, too; how far a review of all has come is no part of it.
        sweep = data.sweep if isinstance(data, UsageReviewed) else None
        return sweep is None or sweep != state.sweeps or state.sweep is None or event.subject <= state.sweep

    def touched(self, state: State) -> list[str]:
        """Return the records changed since the last call."""
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


def _open_at(state: State, mark: Micros) -> list[tuple[Known, Attempt]]:
    """Return the first attempts that are to be recorded at an hour mark."""
    due = state.marks[mark]
    found: list[tuple[Known, Attempt]] = []
    for ident, ordinal in islice(due.waiting, due.place, None):
        known = state.jobs.get(ident)
        if known is not None and ordinal < len(known.attempts) and known.attempts[ordinal].due == mark:
            found.append((known, known.attempts[ordinal]))
            if len(found) == _AT_ONCE:
                break
    return found


def _record_open(state: State, mark: Micros, now: Micros) -> Events:
    until = max(mark, floor_hour(now))
    for known, attempt in _open_at(state, mark):
        turn = Turn(state, known, now)
        yield from turn.corrections(attempt, until)
        if attempt.due == mark:
            yield turn.passed(attempt, until)
