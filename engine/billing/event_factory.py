"""Billing events of one job: corrections of its attempts, one attempt at a time, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from engine.billing.calendar import following
from engine.billing.charges import charged
from engine.billing.continuation import continued
from engine.billing.correction_cause import correction_cause
from engine.billing.corrections import difference
from engine.billing.state import Attempt, JobAccount, Run, State
from engine.billing.usage_segments import runs_of
from engine.events import Data, Event
from engine.events.billing import Reversed, UsageFailed, UsageRecorded, UsageReviewed, UsageWithdrawn
from engine.events.decimals import plain, total
from engine.events.ids import output_id
from engine.events.times import Micros

STAGE: Final = "billing"
_SOURCE: Final = "lahar/billing"


class EventFactory(Struct, gc=False):
    """Creates the events of one job that one input or one timer causes."""

    state: State
    account: JobAccount
    now: Micros
    """Recorded time of the events."""
    cause: str | None = None
    """Id of the input; `None`: a timer."""

    def corrections(self, attempt: Attempt, until: Micros | None = None) -> Iterator[Event[Any]]:
        """Yield the events that bring an attempt's records in line with the current state.

        Args:
            attempt: attempt of the job.
            until: end of the records of an open attempt; `None`: unchanged.
        """
        try:
            if until is not None and (event := self._continuation(attempt, until)) is not None:
                yield event
                return
            void, made = self._made(attempt, attempt.marked if until is None else until)
        except Exception as error:  # noqa: BLE001 - an attempt that cannot be billed stops no other bill
            fault = f"{type(error).__name__}: {error}"
            if attempt.fault != fault:
                terms = self.account.job.present
                failed = UsageFailed(*self._key(attempt), fault, self.cause is None, terms.tenant, terms.kind)
                yield self.event(failed, self.now, attempt.created.id)
            return
        corrects = self.cause is None and (until is None or bool(void))
        for run, data in made:
            told = correction_cause(self.state, self.account, attempt, run, void) if corrects else ""
            yield self.event(data, run.end, told or run.begun)

    def _continuation(self, attempt: Attempt, until: Micros) -> Event[Any] | None:
        """Return the record of an attempt that continues its last run; `None` if its runs must be computed."""
        run = continued(self.state, self.account, attempt, self.state.node_of(self.account.job, attempt), until)
        return None if run is None else self.event(self.recorded(attempt, run, attempt.revision, run.length), run.end, run.begun)

    def _made(self, attempt: Attempt, until: Micros) -> tuple[list[Run], list[tuple[Run, UsageRecorded | UsageWithdrawn]]]:
        """Return the void runs, and all events with their runs."""
        state, job = self.state, self.account.job
        wanted = runs_of(job, attempt, state.facts_of(job, attempt), state.book, until)
        if not wanted and not attempt.recorded:
            return [], []
        void, missing = difference(attempt.recorded, wanted, state.periods.__contains__)
        revision = attempt.revision + bool(void)
        made: list[tuple[Run, UsageRecorded | UsageWithdrawn]] = [(run, self._void(attempt, run, revision)) for run in void]
        return void, [*made, *((run, self.recorded(attempt, run, revision, run.length)) for run in missing)]

    def _void(self, attempt: Attempt, run: Run, revision: int) -> UsageRecorded | UsageWithdrawn:
        """Void a run: withdraw it from an open invoice, or reverse it on a later invoice if its own is closed."""
        assert run.record != "reversal"  # noqa: S101 - reversals are final and never among the recorded runs
        if run.invoice in self.state.periods:
            return self.recorded(attempt, run, revision, -run.length, Reversed(run.record, run.invoice, run.revision))
        terms, book = self.account.job.terms[run.terms], self.state.book
        amount = None
        if run.price_version is None or run.price_version in book.names:
            amount = plain(total(charge.amount for charge in charged(book, terms, run, run.length)[1]))
        return UsageWithdrawn(
            *self._key(attempt),
            run.record,
            run.start,
            run.end,
            run.invoice,
            revision,
            at_mark=self.cause is None,
            tenant=terms.tenant,
            job_kind=terms.kind,
            amount=amount,
        )

    def recorded(self, attempt: Attempt, run: Run, revision: int, length: int, reverses: Reversed | None = None) -> UsageRecorded:
        """Return the record of a run.

        Args:
            attempt: attempt of the job.
            run: recorded run, or the run that a reversal voids.
            revision: revision of the record.
            length: charged time (microseconds); below zero in a reversal.
            reverses: reference to the reversed record.
        """
        terms, book, period = self.account.job.terms[run.terms], self.state.book, run.month
        while period in self.state.periods:
            period = following(period)
        factors, charges = charged(book, terms, run, length)
        return UsageRecorded(  # positional: keyword arguments take five times as long
            *self._key(attempt),
            run.record if reverses is None else "reversal",
            run.start,
            run.end,
            length,
            run.kind,
            run.begun,
            period,
            run.ended,
            revision,
            None if period == run.month else run.month,
            reverses,
            run.size.cpu_milli,
            run.size.memory_bytes,
            run.size.gpu,
            charges,
            None if book.book is None else book.book.currency,
            run.price_version,
            factors,
            run.worth,
            run.inferred_start,
            run.inferred_end,
            terms.tenant,
            terms.project,
            terms.queue,
            terms.user,
            terms.namespace,
            terms.kind,
            terms.name,
            dict(terms.labels),
            terms.priority_class,
            terms.preemptible,
            run.node,
            run.node_type,
            run.gpu_model,
            run.terms,
            self.cause is None,
            run.size.gpu_nano,
        )

    def passed(self, attempt: Attempt, mark: Micros) -> Event[Any]:
        """Return the event of an attempt without usage at an hour mark."""
        return self.event(UsageReviewed(attempt.ordinal, mark=mark), mark, attempt.created.id)

    def reviewed(
        self, next_: int, *, sweep: int | None = None, node: str | None = None, last: bool = False, forgotten: bool = False
    ) -> Event[Any]:
        """Return the event with the progress of a review of the job's attempts (`UsageReviewed`)."""
        since = self.account.job.since
        return self.event(UsageReviewed(next_, None, sweep, node, last, forgotten), self.now, since[0][1] if since else "")

    def _key(self, attempt: Attempt) -> tuple[str, int, int, str]:
        slot = (attempt.task, attempt.index, attempt.number)
        return (*slot, attempt.uid or "/".join(map(str, (self.account.job.id, *slot))))

    def event(self, data: Data, time: Micros, begun: str) -> Event[Any]:
        """Create the job's next billing event."""
        job = self.account.job
        sequence = job.written + 1
        cause = begun if self.cause is None else self.cause
        ident = output_id(STAGE, job.id, sequence)
        return Event(ident, _SOURCE, data.TYPE, job.id, time, self.now, sequence, job.id, cause, job.cluster, data)
