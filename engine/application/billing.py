"""Questions about the bill, and the closing of a month."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from shutil import copyfileobj
from typing import Any, BinaryIO, TypeVar

from engine.application.arguments import as_read
from engine.application.errors import RequestError
from engine.application.feed import Feed
from engine.application.prices import PriceBooks, book_of, check_book, diff_books, spec_of
from engine.application.questions import Questions
from engine.application.spool import spool
from engine.arguments import checked_methods
from engine.billing.book import Book
from engine.billing.calendar import Month, month_named
from engine.billing.exports.errors import ExportError
from engine.billing.exports.formats import export
from engine.billing.exports.seller import Seller
from engine.billing.invoice import Bill, Invoice, invoices, quotes
from engine.billing.records import Record, records_of
from engine.billing.report import report
from engine.controls import must_be_text
from engine.events import Data, Event, decode, encode
from engine.events.billing import PeriodClosed, UsageRecorded, UsageReviewed
from engine.events.ids import digest
from engine.events.inputs import ObjectApplied
from engine.events.outcomes import Fault
from engine.events.prices import PriceVersion, read_book
from engine.events.times import Micros
from engine.formatting import exact
from engine.history.billing import Finding, Unfinished, check_billing, quote, recorded_at, uncharged
from engine.history.billing_explanation import AdjustmentExplanation, RecordExplanation, explain_record, list_price
from engine.history.budgets import TenantBudgetStatus, check_budgets, tenant_budget_statuses
from engine.history.closings import Closing, closings, is_behind
from engine.history.diff import Change
from engine.history.errors import AmbiguousError, LostOriginalError, NotFoundError
from engine.history.moment_argument import moment_of
from engine.history.reading import cluster_facts, cluster_records, events_of
from engine.history.record_events import events_behind
from engine.log.port import SearchableLog
from engine.log.producer_time import wall_clock
from engine.projection.usage_tables import RunFilter, UsageTables
from statemachines.errors import LaharError

__all__ = ["Bills", "PeriodError", "RunFilter", "close_period"]

T = TypeVar("T")


class PeriodError(LaharError, ValueError):
    """Raised when a text is no month, or a month cannot be closed."""


@checked_methods
class Bills:
    """The recorded bill of a log, and its recomputation. Methods raise `LogError` if the log cannot be read."""

    def __init__(self, questions: Questions, source: SearchableLog, deployment: str) -> None:
        """Ask nothing yet.

        Args:
            questions: of the log.
            source: the log.
            deployment: name of this installation in exports.
        """
        self._questions = questions
        self._source = source
        self._deployment = deployment

    def ask(self, question: Callable[[UsageTables], T]) -> T:
        """Return the answer to a question about the tables of effective records; see `Questions.ask`."""
        return self._questions.ask(UsageTables, question)

    def records(
        self, *, period: str | None = None, tenant: str | None = None, job: str | None = None, other: bool = False
    ) -> list[Record]:
        """Return the effective records, in the order of exports.

        Args:
            period: only those on the invoices of this month, `YYYY-MM`.
            tenant: only records of this tenant.
            job: only records of this job.
            other: include jobs of kind `Other` (services).

        Raises:
            PeriodError: the period is not a month.
            ValueError: tenant or job is no UTF-8 text.
        """
        wanted = self.wanted(period, tenant, job, other=other)
        return self.ask(lambda usage: list(usage.records(wanted)))

    def wanted(self, period: str | None, tenant: str | None, job: str | None = None, *, other: bool = False) -> RunFilter:
        """Return the filter for these arguments of `records`; a named job may be of any kind.

        Raises:
            PeriodError: the period is not a month.
            ValueError: tenant or job is no UTF-8 text.
        """
        if period is not None:
            month_of_name(period)
        must_be_text("tenant", tenant or "")
        must_be_text("job", job or "")
        return RunFilter(period, tenant, None if job is None else self._questions.meant(job), other or job is not None)

    def events(self, record: Record) -> list[Event[Data]]:
        """Return the job events behind a record: what its pod requested, then what starts and ends its slice."""
        return events_behind(events_of(self._source, record.job), record)

    def list_price(self, record: Record) -> Decimal | None:
        """Return the price of one unit by which a record was charged, before all factors; `None`: none is known."""
        return list_price(record, self._rules(record.run)[0])

    def _rules(self, run: UsageRecorded) -> tuple[PriceVersion | None, Event[Data] | None]:
        """Return the price version of a run, also one that a later book leaves out, and the event that put it in force for it."""
        found, source, name = None, None, run.price_version or ""
        books, was_in_force = PriceBooks(), False
        for event in cluster_facts(self._source):
            if not books.absorb(event):
                continue
            found = books.book.names.get(name, found)
            version, _ = books.book.at(run.start)
            is_in_force = version is not None and version.version == name
            if is_in_force and not was_in_force:
                source = event
            was_in_force = is_in_force
        return found, source

    def explain(self, record: str) -> RecordExplanation | AdjustmentExplanation:
        """Explain a record that stands on an invoice, or the adjustment of an invoice: every number of its sum.

        Args:
            record: its id, or a unique beginning of it.

        Raises:
            ValueError: the id is empty.
            NotFoundError: none has this id.
            AmbiguousError: several ids begin so.
            LostOriginalError: it takes back what is no record, as earlier builds could write it.
        """
        if not record:
            raise RequestError("the id of a record is empty; `lahar billing records` shows them")
        found = self.ask(lambda usage: list(_runs_called(usage, record)))
        whole = any(one.id == record for one, _ in found)
        adjustments = [] if whole else [one for one in self._adjustments() if one.adjustment_id.startswith(record)]
        matches = [one.id for one, _ in found] + [one.adjustment_id for one in adjustments]
        if not matches:
            raise NotFoundError("record", record)
        if len(matches) > 1:
            raise AmbiguousError(record, matches, "records")
        if adjustments:
            return AdjustmentExplanation(adjustments[0])
        one, run = found[0]
        original = None
        if (taken := one.reverses) is not None:
            original = self.ask(lambda usage: next((run for _, run in _runs_called(usage, taken, one.job)), None))
            if original is None:
                raise LostOriginalError(one.id, taken)
        return explain_record(self._source, one, run, original, *self._rules(run.data))

    def _adjustments(self) -> Iterator[Invoice]:
        return (one for other in (False, True) for one in self.invoices(other=other) if one.adjustment)

    def invoices(self, *, period: str | None = None, tenant: str | None = None, other: bool = False) -> list[Invoice]:
        """Return invoices by month and tenant; arguments and errors as of `records`."""
        wanted = self.wanted(period, tenant, other=other)
        return self.ask(lambda usage: invoices(usage.runs(wanted), self._versions(), other=other))

    def uncharged(self, *, tenant: str | None = None, other: bool = False, most: int = 10) -> tuple[int, list[Finding]]:
        """Return how many attempts could not be charged, whose use is on no invoice, and the first of them.

        Args:
            tenant: only this tenant's.
            other: as in `records`.
            most: return so many at most.
        """
        count, failures = self.ask(lambda usage: usage.failures(RunFilter(None, tenant, None, other), most))
        return count, [uncharged(*failure) for failure in failures]

    def _versions(self) -> dict[str, PriceVersion]:
        """Return the price versions by name, also those that a later book leaves out."""
        books, found = PriceBooks(), dict[str, PriceVersion]()
        for _, event in cluster_records(self._source, {ObjectApplied.TYPE}):
            if books.absorb(event):
                found |= books.book.names
        return found

    def closed(self) -> dict[str, Micros]:
        """Return the closed months, with the recorded time of each closing (microseconds).

        A month whose closing billing has still to take is not among them: its invoices and exports may change until then.
        """
        return {period: one.recorded for period, one in self.closings().items() if one.taken}

    def closings(self) -> dict[str, Closing]:
        """Return month → its closing, also those that billing has still to take."""
        return closings(self._source)

    def unpriced_for_good(self) -> set[str]:
        """Return the ids of the jobs that billing has forgotten without a price: a book prices them in a new log only."""
        reviews = map(decode, (record.message for record in self._source.scan(("billing",), {UsageReviewed.TYPE})))
        return {event.subject for event in reviews if isinstance(event.data, UsageReviewed) and event.data.forgotten}

    def quote(
        self, until: datetime | str | Micros, *, tenant: str | None = None, other: bool = False
    ) -> tuple[list[Bill], list[Finding]]:
        """Return what open attempts add to the invoices from their last hour mark up to a moment, by month and tenant.

        With it a finding for each attempt that cannot be charged up to then; its use is missing in what is returned.

        Args:
            until: the moment.
            tenant: as in `records`.
            other: as in `records`.
        """
        runs, faults = quote(self._source, moment_of(until), tenant=tenant, other=other)
        return quotes(runs, self._versions()), faults

    def is_behind(self, month: Month) -> bool:
        """Tell whether billing has still to read a job event of before a month's end: an invoice closed now would be wrong."""
        return is_behind(self._source, month.end)

    def recorded_at(self, month: Month) -> Micros | None:
        """Return when open attempts are recorded whose use in a month is not recorded yet; see `engine.history.billing`."""
        return recorded_at(self._source, month.start, month.end)

    def budgets(self, *, period: str | None = None, tenant: str | None = None) -> list[TenantBudgetStatus]:
        """Return what is spent of each budget, by month and tenant; arguments and errors as of `records`.

        Months for which no budget of the tenant is known are left out. Those too old to be compared (docs/billing.md) are not.
        """
        found = tenant_budget_statuses(self._source, self.invoices(period=period, tenant=tenant), period)
        return [one for one in found if tenant in (None, one.tenant)]

    def verify(self) -> Iterator[Finding | Unfinished]:
        """Yield the differences between what is recorded, bill and crossed thresholds, and what is recomputed.

        Also yields an `Unfinished` for each shard that has not taken all of its inputs, or has still to review what would differ
        otherwise; what it has still to do is no `Finding`.
        """
        yield from check_billing(self._source)
        yield from check_budgets(self._source)

    def export(
        self,
        form: str,
        stream: BinaryIO,
        *,
        period: str | None = None,
        tenant: str | None = None,
        issuer: str = "Lahar",
        other: bool = False,
    ) -> None:
        """Write the effective records, and the adjustment of each invoice.

        Args:
            form: `csv`, `parquet`, `jsonl`, `focus-1.2` or `focus-1.4`.
            stream: gets the bytes once all of them are known; is left open.
            period: as in `records`.
            tenant: as in `records`.
            issuer: whose name stands on the invoices (FOCUS).
            other: as in `records`; such invoices have ids of their own.

        Raises:
            PeriodError: the period is not a month.
            ValueError: tenant or issuer is no UTF-8 text.
            ExportError: the issuer is empty, there is no such format, it needs a price book and there is none, or what writes it is
                not installed.
        """
        if not issuer.strip():
            raise ExportError("the issuer is empty; name who writes the invoices (--issuer NAME)")
        must_be_text("issuer", issuer)
        book, wanted = self.price_book(), self.wanted(period, tenant, other=other)
        currency = None if book.book is None else book.book.currency
        closed = {name: one.month for name, one in self.closings().items()}
        seller = Seller(issuer, self._deployment, currency, book.time_zone, other, closed)
        self.write(stream, lambda usage, file: export(form, usage.records(wanted), seller, file))

    def write(self, stream: BinaryIO, answer: Callable[[UsageTables, BinaryIO], None]) -> None:
        """Write an answer of any length, once all of it is known: the projection may have to be asked twice."""
        with spool() as file:

            def ask(usage: UsageTables) -> None:
                file.seek(0)
                file.truncate()
                answer(usage, file)

            self.ask(ask)
            file.seek(0)
            copyfileobj(file, stream)

    def report(self, *, period: str | None = None, tenant: str | None = None, other: bool = False) -> str:
        """Return one page of HTML: cost and waste per day, tenant and queue; arguments and errors as of `records`."""
        wanted = self.wanted(period, tenant, other=other)
        title = " ".join(("Bill", *((f"of {tenant}",) if tenant else ()), *((f"for {period}",) if period else ())))
        return self.ask(lambda usage: report(usage.runs(wanted), title, self._versions()))

    def price_book(self) -> Book:
        """Return the price book in force."""
        return book_of(cluster_facts(self._source))

    def check_prices(self, book: Mapping[str, Any]) -> list[Fault]:
        """Return the faults of a price book that is to be applied now; empty: `apply` takes it, and every kind of node has a price.

        Args:
            book: an object of kind PriceBook.

        Raises:
            ValueError: it is another object.
        """
        return check_book(spec_of(as_read(book, "the price book")), cluster_facts(self._source), wall_clock())[1]

    def diff_prices(self, book: Mapping[str, Any]) -> list[Change]:
        """Return what a price book changes against the one in force, version by version and field by field.

        Args:
            book: an object of kind PriceBook.

        Raises:
            ValueError: it is another object, or has faults.
        """
        spec = spec_of(as_read(book, "the price book"))
        if faults := read_book(spec, given=True)[1]:
            raise RequestError("; ".join(f"{path}: {message}" for path, message in faults))
        return diff_books(self.price_book().spec, spec)


def _runs_called(usage: UsageTables, ident: str, job: str | None = None) -> Iterator[tuple[Record, Event[UsageRecorded]]]:
    """Yield the records whose id begins so, each with its run."""
    for run in usage.runs(RunFilter(job=job, other=True)):
        for record in records_of(run):
            if record.id.startswith(ident):
                yield record, run
                if record.id == ident:
                    return


def month_of_name(name: str, time_zone: str = "UTC") -> Month:
    """Return the month `YYYY-MM` in a time zone.

    Raises:
        PeriodError: not a month.
    """
    if (month := month_named(name, time_zone)) is not None:
        return month
    raise PeriodError(f"{name!r} is not a month: write YYYY-MM, as 2026-10")


def close_period(feed: Feed, bills: Bills, cluster: str, name: str, by: str, now: Micros) -> Month:
    """Ask for the closing of a month: its invoices are final once billing has taken it (`Bills.closed`).

    Waiting inputs are processed first, if this process may, so that fewer corrections follow.

    Args:
        feed: appends to the log.
        bills: of the same log.
        cluster: the cluster that appends the closing.
        name: `YYYY-MM`.
        by: who closes it; kept in the history.
        now: recorded time of the closing (microseconds); one in the future counts as the present, as in the log.

    Raises:
        PeriodError: not a month, not ended, closed or closing, without usage, usage of it waits for a later hour mark, or billing
            has not read all job events of before its end.
    """
    feed.process()
    month = month_of_name(name, bills.price_book().time_zone)
    asked, used, at = bills.closings().get(name), bills.ask(lambda usage: usage.periods()), min(now, wall_clock())
    future = ", as no time in the future is recorded as such" if now > at else ""
    if asked is not None and asked.taken:
        raise PeriodError(f"{name} was closed at {exact(asked.recorded)}; later corrections are on later invoices")
    if asked is not None:
        raise PeriodError(f"the closing of {name} was asked for at {exact(asked.recorded)}; billing has still to take it")
    if month.end > at:
        raise PeriodError(f"{name} ends at {exact(month.end)}; close it then{future}")
    if bills.is_behind(month):
        raise PeriodError(
            f"billing has still to read job events of before the end of {name}: `lahar run --once`, or wait for a worker"
        )
    recorded = bills.recorded_at(month)
    if recorded is None and name not in used:
        raise PeriodError(f"nothing is recorded of {name}; recorded months: {', '.join(used) or 'none'}")
    if recorded is not None and recorded > at:
        raise PeriodError(f"what open attempts used in {name} is recorded at {exact(recorded)}; close it then{future}")
    data = PeriodClosed(name, by)
    event = Event(digest(f"period/{name}".encode()), f"command/{by}", data.TYPE, cluster, at, at, 0, "", "", cluster, data)
    feed.append("cluster", [encode(event, cluster)])
    return month
