"""Comparison of recorded usage with the job events, and computation of usage that is not recorded yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import takewhile
from typing import Any, Final, NamedTuple

from engine.billing.absorb import absorb
from engine.billing.corrections import difference, part
from engine.billing.event_factory import EventFactory
from engine.billing.evolve import evolve
from engine.billing.nodes import review_due
from engine.billing.persist import account_of
from engine.billing.records import clipped, records_of
from engine.billing.stage import STAGE, BillingStage
from engine.billing.state import Attempt, JobAccount, State
from engine.billing.usage_segments import WAITING, is_rejected, runs_of
from engine.events import Data, Event, decode
from engine.events.billing import Usage, UsageFailed, UsageRecorded, UsageReviewed
from engine.events.decimals import total
from engine.events.inputs import OTHER, NodeDeleted
from engine.events.jobs import JobForgotten
from engine.events.times import Micros, format_time
from engine.formatting import exact
from engine.history.billed_pods import BilledPods
from engine.history.billing_faults import charges_in, faults_of, stretch
from engine.history.dead_letters import dead_lettered
from engine.history.phrases import attempt_of
from engine.history.taken_inputs import TakenInputs
from engine.log.port import Partition, Record, Searchable, SearchableLog, ShardId
from engine.processor.partitions import shard_count

_STAGE: Final = BillingStage()


class Finding(NamedTuple):
    """A difference between the recorded bill and the bill computed from the job events."""

    job: str
    attempt: str
    """Attempt, such as `worker[2] attempt 1`; `review`: the progress of a review."""
    what: str

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return self._asdict()

    def sentence(self) -> str:
        """Return it as a sentence."""
        return f"{self.job} {self.attempt}: {self.what}"


class Unfinished(NamedTuple):
    """Unfinished work of a billing shard, whose bill was compared up to its position."""

    shard: str
    """Shard, such as `billing/0`."""
    behind: bool
    """True if it has not read all of its inputs."""
    review: Micros | None
    """Time of the last pending review that may correct something; `None`: there is none."""

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return self._asdict() | {"review": None if self.review is None else format_time(self.review)}

    def sentence(self) -> str:
        """Return it as a sentence."""
        behind = ["it has not read all job events and cluster facts yet"] if self.behind else []
        review = [] if self.review is None else [f"a review is pending until {exact(self.review)}: it will correct more"]
        return f"{self.shard}: {'; '.join((*behind, *review))}"


def check_billing(log: SearchableLog) -> Iterator[Finding | Unfinished]:
    """Recompute the bill from job events and cluster facts, and yield each difference from the recorded bill.

    Also yields each attempt that bills a pod which another attempt has billed, even in another shard. Every recorded charge and
    every attempt's runs are recomputed, including closed months, from the inputs that each shard had read. The bill of a job that
    has left the state is final and is compared as of that time. Open attempts are checked up to their last usage record.

    Raises:
        LogError: the log cannot be read to its end.
    """
    pods = BilledPods()
    for number in range(shard_count(log, _STAGE)):
        yield from _check_shard(log, number, pods)
    for (job, place), uid, (first, at) in pods.twice(_events(log, "billing")):
        yield Finding(job, place, f"bills pod {uid}, which {first} {at} has billed")


def _check_shard(log: SearchableLog, number: int, pods: BilledPods) -> Iterator[Finding | Unfinished]:
    shard = ShardId(STAGE, number)
    state, found, lost = _STAGE.initial(), list[Finding](), dict[str, Finding]()
    cause = ""

    def take(event: Event[Data]) -> None:
        nonlocal cause
        if event.data.TOPIC == "job-events":
            cause = event.id
        found.extend(_applied(state, event, _STAGE.absorb))

    taken = TakenInputs(log, _STAGE, number, take)
    for record in _written(log, shard):
        event = decode(record.message, bounded=False)
        taken.up_to(record.basis)
        found += _check_event(state, event, cause)
        lost |= _originals(event)
        pods.add(event)
        found += _applied(state, event, _STAGE.evolve)
        state.touched.clear()
        yield from found
        found.clear()
    yield from _lost(log, shard, lost)
    reviews = set[Micros]()
    for ident in sorted(state.ids()):
        if (account := account_of(state, ident)) is not None and (differences := list(_check_job(state, account))):
            if (due := _review_due(state, account)) is None:
                yield from differences
            else:
                reviews.add(due)
    if reviews or not taken.are_all:
        yield Unfinished(str(shard), not taken.are_all, max(reviews, default=None))


def _originals(event: Event[Any]) -> dict[str, Finding]:
    """Return the ids of the records that a reversal voids, each with the finding if the record does not exist.

    Only the first slice is checked; the ids of the others differ from it in their start alone.
    """
    data = event.data
    if not isinstance(data, UsageRecorded) or data.reverses is None:
        return {}
    first = (record.reverses for record in takewhile(lambda record: record.start == data.start, records_of(event)))
    place, invoice = attempt_of(data), data.reverses.period
    return {
        ident: Finding(event.subject, place, f"{event.id} takes back {ident} of the invoice of {invoice}, which is no record")
        for ident in first
        if ident is not None
    }


def _lost(log: SearchableLog, shard: ShardId, originals: dict[str, Finding]) -> Iterable[Finding]:
    """Return the findings of `_originals` for records that a shard has not written; reads its events again only if necessary."""
    jobs = {finding.job for finding in originals.values()}
    for record in _written(log, shard) if jobs else ():
        event: Event[Any] = decode(record.message, bounded=False)
        if event.subject in jobs and isinstance(event.data, UsageRecorded):
            for one in records_of(event):
                originals.pop(one.id, None)
    return originals.values()


def _written(log: SearchableLog, shard: ShardId) -> Iterator[Record]:
    """Yield a shard's billing events in order. The last one of a commit has all processed inputs in its basis (`accounted`)."""
    partition, offset = Partition("billing", shard.number), 0
    while found := log.read(partition, offset, 500):
        yield from (record for record in found if record.shard == str(shard))
        offset = found[-1].offset + 1


def _applied(state: State, event: Event[Data], apply: Callable[[State, Event[Data]], None]) -> list[Finding]:
    """Apply an event; return the differences in the bill of a job that it removes from the state."""
    leaving = account_of(state, event.subject) if isinstance(event.data, JobForgotten | UsageReviewed) else None
    apply(state, event)
    if leaving is None or account_of(state, event.subject) is leaving:
        return []
    return [] if _review_due(state, leaving) is not None else list(_check_job(state, leaving))


def _review_due(state: State, account: JobAccount) -> Micros | None:
    """Return the time of the last pending review of a job; `None`: none is pending."""
    return review_due(state, account.job, account.attempts)


def quote(
    log: Searchable, until: Micros, *, tenant: str | None = None, other: bool = True
) -> tuple[list[Event[UsageRecorded]], list[Finding]]:
    """Return the usage of open attempts from their last mark up to a time, as the stage would record it.

    Pending corrections before the mark are left out, because that usage is recorded already.

    Args:
        log: log, folded from its beginning.
        until: the time (microseconds).
        tenant: tenant; `None`: all.
        other: include jobs of kind `Other` (services).

    Returns:
        The usage, and a finding for each attempt that cannot be charged, whose usage is missing.

    Raises:
        LogError: the log cannot be read to its end.
    """
    runs, faults = list[Event[UsageRecorded]](), list[Finding]()
    for account, attempt, event in _unrecorded(log, until):
        data = event.data
        if tenant not in (None, data.tenant) or (data.job_kind == OTHER and not other):
            continue
        if isinstance(data, UsageFailed):
            faults.append(_uncharged(account, attempt, data.error))
        elif isinstance(data, UsageRecorded) and data.end > attempt.marked:
            runs.append(replace(event, data=clipped(data, max(data.start, attempt.marked), data.end)))
    return runs, faults


def recorded_at(log: Searchable, begin: Micros, end: Micros) -> Micros | None:
    """Return the time at which all usage of open attempts within a period will be recorded; `None`: it is.

    Args:
        log: log, folded from its beginning.
        begin: begin of the period (microseconds).
        end: end of the period, exclusive.

    Raises:
        LogError: the log cannot be read to its end.
    """
    found = _unrecorded(log, end)
    marks = (
        attempt.due
        for _, attempt, event in found
        if isinstance(event.data, UsageRecorded) and event.data.end > max(begin, attempt.marked)
    )
    return max((mark for mark in marks if mark is not None), default=None)


def _unrecorded(log: Searchable, until: Micros) -> Iterator[tuple[JobAccount, Attempt, Event[Any]]]:
    """Yield the events that would record the usage of open attempts up to a time, or the reason why they cannot be charged."""
    state = _facts(log, NodeDeleted)
    for event in _events(log, "billing"):
        evolve(state, event)
    for ident in sorted(state.ids()):
        if (account := account_of(state, ident)) is None or not account.job.open:
            continue
        factory = EventFactory(state, account, until)
        for attempt in account.attempts:
            if attempt.end is None:
                if attempt.fault is not None:
                    attempt.fault = ""  # reported again, although the log has it
                yield from ((account, attempt, event) for event in factory.corrections(attempt, max(until, attempt.marked)))


def _facts(log: Searchable, *without: type[Data]) -> State:
    """Return the state of a billing shard that has absorbed the job events of all shards, except some types."""
    state = State()
    dead = dead_lettered(log, "cluster")
    for record in log.scan(("cluster", "job-events")):
        if record.partition.topic == "cluster" and (record.partition.number, record.offset) in dead:
            continue  # the stages ignored it too
        event = decode(record.message, bounded=False)
        if not isinstance(event.data, without):
            absorb(state, event)
    state.touched.clear()
    return state


def _events(log: Searchable, *topics: Any) -> Iterator[Event[Data]]:  # noqa: ANN401 - topics
    for record in log.scan(topics):
        yield decode(record.message, bounded=False)


def _check_event(state: State, event: Event[Data], cause: str) -> Iterator[Finding]:
    """Yield the faults of an event, given the state before it, whose last absorbed job event is `cause`."""
    data = event.data
    if not isinstance(data, Usage | UsageReviewed):
        return  # an event of the processor
    place = attempt_of(data) if isinstance(data, Usage) else "review"
    account = account_of(state, event.subject)
    if account is None:
        yield Finding(event.subject, place, f"{event.type} {event.id}: no job event names the job")
        return
    yield from (Finding(event.subject, place, f"{event.id} {fault}") for fault in faults_of(event, state, account, cause))


def _check_job(state: State, account: JobAccount) -> Iterator[Finding]:
    for attempt in account.attempts:
        yield from _check_attempt(state, account, attempt)


def _check_attempt(state: State, account: JobAccount, attempt: Attempt) -> Iterator[Finding]:
    try:
        wanted = runs_of(account.job, attempt, state.facts_of(account.job, attempt), state.book, attempt.marked)
    except ValueError as error:
        yield _uncharged(account, attempt, str(error))
        return
    place = _place(attempt.task, attempt.index, attempt.number)
    void, missing = difference(attempt.recorded, wanted, state.periods.__contains__)
    if is_rejected(attempt):
        void = [run for run in void if run.kind in WAITING]  # earlier builds charged the use
    for run in void:
        yield Finding(account.job.id, place, f"recorded, but not in the job events: {stretch(run)}")
    for run in missing:
        yield Finding(account.job.id, place, f"in the job events, but not recorded: {stretch(run)}")


def _uncharged(account: JobAccount, attempt: Attempt, error: str) -> Finding:
    return uncharged(account.job.id, attempt.task, attempt.index, attempt.number, error)


def uncharged(job: str, task: str, index: int, attempt: int, error: str) -> Finding:
    """Return the finding that an attempt cannot be charged, with the reason."""
    return Finding(job, _place(task, index, attempt), f"cannot be charged: {error.removeprefix('ValueError: ')}")


def _place(task: str, index: int, attempt: int) -> str:
    return f"{task}[{index}] attempt {attempt}"


def costs(log: Searchable, begin: Micros, end: Micros) -> tuple[dict[str, Decimal], str] | None:
    """Return the cost of each job's usage within a period, and the currency; `None` without a price book.

    Costs are computed from the job events and cluster facts, independently of recorded bills. Increments and minimum count at the
    end of their attempt.

    Args:
        log: log, folded from its beginning.
        begin: begin of the period (microseconds).
        end: end of the period; open attempts cost until then.

    Raises:
        LogError: the log cannot be read to its end.
    """
    state = _facts(log, JobForgotten, NodeDeleted)
    if state.book.book is None:
        return None
    found: dict[str, Decimal] = {}
    for ident in sorted(state.ids()):
        if (account := account_of(state, ident)) is not None:
            found[ident] = total(_cost(state, account, attempt, begin, end) for attempt in account.attempts)
    return found, state.book.book.currency


def _cost(state: State, account: JobAccount, attempt: Attempt, begin: Micros, end: Micros) -> Decimal:
    try:
        runs = runs_of(account.job, attempt, state.facts_of(account.job, attempt), state.book, end)
    except ValueError:  # it lasts longer than the maximum that is billed
        return Decimal(0)
    within = [
        run if run.record == "excess" else part(run, max(run.start, begin), min(run.end, end))
        for run in runs
        if (begin < run.end <= end if run.record == "excess" else run.start < end and run.end > begin)
    ]
    return Decimal(total(charge.amount for run in within for charge in charges_in(state, account, run)))
