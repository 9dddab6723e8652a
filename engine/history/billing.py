"""The bill beside the truth: what does not follow from the job events, and what is still open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from engine.billing.absorb import absorb
from engine.billing.charges import charges_of, factors_of
from engine.billing.corrections import difference
from engine.billing.evolve import evolve, run_of
from engine.billing.persist import known_of
from engine.billing.runs import runs_of
from engine.billing.state import Attempt, Known, Run, State
from engine.billing.turn import Turn
from engine.events import Data, Event, decode
from engine.events.billing import Charge, Usage, UsageFailed, UsageRecorded
from engine.events.jobs import JobForgotten
from engine.events.times import Micros, format_time
from engine.log.port import Searchable

__all__ = ["Finding", "check_billing", "quote"]


class Finding(NamedTuple):
    """Where the bill is not what follows from the job events."""

    job: str
    attempt: str
    """`worker[2] attempt 1`"""
    what: str

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return self._asdict()


def check_billing(log: Searchable) -> Iterator[Finding]:
    """Recompute the bill from job events and facts of the cluster, and yield where what was recorded differs.

    Every recorded charge is computed again, every attempt's runs are derived again and compared with what stands, closed months
    included. Of open attempts what was recorded of them is checked.

    Raises:
        LogError: the log cannot be read to its end.
    """
    state = _facts(log)
    for event in _events(log, "billing"):
        yield from _check_event(state, event)
        evolve(state, event)
    for ident in sorted(state.ids()):
        if (known := known_of(state, ident)) is not None:
            for attempt in known.attempts:
                yield from _check_attempt(state, known, attempt)


def quote(log: Searchable, until: Micros) -> Iterator[Event[UsageRecorded]]:
    """Yield what open attempts have used up to a moment and what is not recorded of it yet, as the stage would record it.

    Args:
        log: is folded from its beginning.
        until: the moment (microseconds).

    Raises:
        LogError: the log cannot be read to its end.
    """
    state = _facts(log)
    for event in _events(log, "billing"):
        evolve(state, event)
    for ident in sorted(state.ids()):
        if (known := known_of(state, ident)) is None or not known.job.open:
            continue
        turn = Turn(state, known, until)
        for attempt in known.attempts:
            if attempt.end is None:
                made = turn.corrections(attempt, max(until, attempt.marked))
                yield from (event for event in made if isinstance(event.data, UsageRecorded))


def _facts(log: Searchable) -> State:
    """Return what a billing shard knows that has taken all shards' job events and forgets nothing."""
    state = State()
    for event in _events(log, "cluster", "job-events"):
        if not isinstance(event.data, JobForgotten):
            absorb(state, event)
    state.touched.clear()
    return state


def _events(log: Searchable, *topics: Any) -> Iterator[Event[Data]]:  # noqa: ANN401 - topics
    for record in log.scan(topics):
        yield decode(record.message, bounded=False)


def _check_event(state: State, event: Event[Data]) -> Iterator[Finding]:
    data = event.data
    if not isinstance(data, Usage):
        return
    place = f"{data.task}[{data.index}] attempt {data.attempt}"
    known = known_of(state, event.subject)
    if known is None:
        yield Finding(event.subject, place, f"{event.type} {event.id}: no job event speaks of the job")
        return
    if event.sequence != known.job.written + 1:
        yield Finding(event.subject, place, f"{event.id} has sequence {event.sequence} behind {known.job.written}")
    if isinstance(data, UsageFailed) or not isinstance(data, UsageRecorded):
        return
    run = run_of(data)
    if run.price_version is not None and run.price_version not in state.book.names:
        yield Finding(event.subject, place, f"{event.id} is priced by {run.price_version!r}, which the price book lacks")
    elif run.terms >= len(known.job.terms):
        yield Finding(event.subject, place, f"{event.id} names terms of the job that no event gives")
    elif (charges := _charges(state, known, run, data.length)) != data.charges:
        yield Finding(event.subject, place, f"{event.id} charges {_told(data.charges)}; that would be {_told(charges)}")


def _charges(state: State, known: Known, run: Run, length: int) -> list[Charge]:
    rules = None if run.price_version is None else state.book.names[run.price_version]
    return charges_of(rules, run, length, factors_of(rules, known.job.terms[run.terms], run), state.book.charges)


def _told(charges: Iterable[Charge]) -> str:
    return ", ".join(f"{charge.meter} {charge.quantity} x {charge.price} = {charge.amount}" for charge in charges) or "nothing"


def _check_attempt(state: State, known: Known, attempt: Attempt) -> Iterator[Finding]:
    node = None if attempt.node is None else state.nodes.get((known.job.cluster, attempt.node))
    place = f"{attempt.task}[{attempt.index}] attempt {attempt.number}"
    try:
        wanted = runs_of(attempt, known.job.since, () if node is None else node.facts, state.book, attempt.marked)
    except ValueError as error:
        yield Finding(known.job.id, place, f"cannot be charged: {error}")
        return
    void, missing = difference(attempt.recorded, wanted, state.periods.__contains__)
    for run in void:
        yield Finding(known.job.id, place, f"recorded, but does not follow: {_stretch(run)}")
    for run in missing:
        yield Finding(known.job.id, place, f"follows, but is not recorded: {_stretch(run)}")


def _stretch(run: Run) -> str:
    return f"{run.record} {run.kind} from {format_time(run.start)} to {format_time(run.end)}"
