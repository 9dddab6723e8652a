"""`lahar billing …`: what was used, what it costs, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Annotated, Final

import typer
from rich.text import Text

from engine.application.billing import close_period
from engine.billing.exports.formats import FORMATS
from engine.billing.exports.invoice_files import INVOICE_FORMATS, write_invoices
from engine.billing.exports.json_lines import write_records
from engine.billing.invoice import rounded
from engine.cli.app import JsonOption, LogOption, Panel, group, output_of, settings_of
from engine.cli.arguments import MOST_SHOWN, NoProcessOption, RecordedOption, moment, recorded_at
from engine.cli.bill_notes import BUT_OTHER, asked_for, note_closing, note_if_empty, warn_uncharged, warn_unpriced
from engine.cli.columns import Column, show_list
from engine.cli.exit_codes import FINDING
from engine.cli.input_outcomes import finish, new_feed
from engine.cli.invoice_tables import show_lines, show_sums
from engine.cli.output import Output
from engine.events import Data
from engine.events.decimals import plain
from engine.events.times import format_time
from engine.formatting import exact, plural
from engine.formatting import moment as when
from engine.history.billing_explanation import told
from engine.runtime.settings import Settings
from engine.runtime.stages import BILLING_OFF
from lahar import Bills, Event, Finding, Lahar, Record, RecordExplanation, TenantBudgetStatus

billing = group("billing", Panel.ASK, "What was used, what it costs, and which events say so.")

PeriodOption = Annotated[str | None, typer.Option("--period", metavar="YYYY-MM", help="Only what stands on this month's invoices.")]
TenantOption = Annotated[str | None, typer.Option("--tenant", metavar="NAME", help="Only this tenant's.")]
JobOption = Annotated[str | None, typer.Option("--job", metavar="JOB", help="Only this job's.")]
OtherOption = Annotated[bool, typer.Option("--all", help="Those of kind Other (services) too.")]

_SHOWN: Final = 200
"""Records shown to people unless asked for more."""
_TABLE: Final = "table"


@billing.command("records", examples=["lahar billing records --job default/train", "lahar billing records --period 2026-10 --json"])
def records(
    context: typer.Context,
    period: PeriodOption = None,
    tenant: TenantOption = None,
    job: JobOption = None,
    other: OtherOption = False,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=MOST_SHOWN, help="Show at most so many; with --json all are shown.")
    ] = _SHOWN,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the records that stand: one line for each hour of an attempt and each meter.

    A record of an open month that was corrected shows its last revision; closed months keep theirs, and the corrections stand on a
    later month's invoice.
    """
    output, settings = output_of(context, as_json), settings_of(context, log)
    with _bills(settings) as bills:
        wanted = bills.wanted(period, tenant, job, other=other)
        note_if_empty(output, bills, wanted, job)
        if output.as_json:
            bills.write(sys.stdout.buffer, lambda usage, stream: write_records(usage.records(wanted), stream))
            return
        found = bills.ask(lambda usage: list(islice(usage.records(wanted), limit + 1)))
    show_list(output, found[:limit], _RECORDS)
    if len(found) > limit:
        output.note(f"the first {limit:,} records; --limit shows more, --json all")


_RECORDS: Final[tuple[Column[Record], ...]] = (
    Column("RECORD", lambda one: f"{one.id[:12]}{'' if one.run.record == 'usage' else f' {one.run.record}'}"),
    Column("JOB", lambda one: f"{one.run.namespace}/{one.run.job_name}", "name"),
    Column("ATTEMPT", lambda one: f"{one.run.task}[{one.run.index}] {one.run.attempt}"),
    Column("FROM", lambda one: exact(one.start)),
    Column("TO", lambda one: exact(one.end)),
    Column("METER", lambda one: one.charge.meter),
    Column("QUANTITY", lambda one: plain(one.quantity), "number"),
    Column("AMOUNT", lambda one: "no price" if one.charge.price is None else f"{plain(one.amount)} {one.run.currency}", "number"),
    Column("CLASS", lambda one: one.run.worth),
)


@contextmanager
def _bills(settings: Settings, output: Output | None = None) -> Iterator[Bills]:
    if output is not None and not settings.billing:
        output.note(BILLING_OFF)
    with Lahar.opened(settings) as opened:
        yield opened.bills


@billing.command(
    "export",
    examples=["lahar billing export --format jsonl > records.jsonl", "lahar billing export --format jsonl --period 2026-10"],
)
def export_command(
    context: typer.Context,
    form: Annotated[str, typer.Option("--format", metavar="F", help="One of " + ", ".join(FORMATS) + ".")] = "jsonl",
    period: PeriodOption = None,
    tenant: TenantOption = None,
    issuer: Annotated[str, typer.Option("--issuer", metavar="NAME", help="Whose name stands on the invoices (FOCUS).")] = "Lahar",
    other: OtherOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the records that stand, and the adjustment of each invoice, to standard output.

    The same log gives the same bytes on any machine. docs/billing-exports.md lists the columns of each format.
    """
    output, settings, form = output_of(context, as_json), settings_of(context, log), "jsonl" if as_json else form
    with _bills(settings) as bills:
        note_closing(output, bills.closings(), period)
        bills.export(form, sys.stdout.buffer, period=period, tenant=tenant, issuer=issuer, other=other)
        note_if_empty(output, bills, bills.wanted(period, tenant, other=other))


@billing.command(
    "invoice",
    examples=["lahar billing invoice --period 2026-10 --tenant research", "lahar billing invoice --format markdown > invoices.md"],
)
def invoice(
    context: typer.Context,
    period: PeriodOption = None,
    tenant: TenantOption = None,
    other: OtherOption = False,
    form: Annotated[
        str, typer.Option("--format", metavar="F", help="One of " + ", ".join((_TABLE, *INVOICE_FORMATS)) + ".")
    ] = _TABLE,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add up what stands by month and tenant: exact, and rounded once.

    With --tenant the lines of each invoice are shown; markdown and csv always have them. Waste is use by failed, preempted and
    restarted attempts, and reserved places. `lahar billing records --job JOB --period MONTH --tenant TENANT` lists the records of a
    job on an invoice, `lahar billing explain` the events behind each.
    """
    output, settings = output_of(context, as_json), settings_of(context, log)
    with _bills(settings, output) as bills:
        note_if_empty(output, bills, bills.wanted(period, tenant, other=other))
        # The closings first: the invoice of a closed month that is read after them is the final one.
        asked, found = bills.closings(), bills.invoices(period=period, tenant=tenant, other=other)
        note_closing(output, asked, period)
        states = {name: "closed" if one.taken else "closing" for name, one in asked.items()}
        lost = bills.unpriced_for_good() if any(one.unpriced_jobs for one in found) else set()
        warn_uncharged(output, bills, tenant, other=other)
    if output.as_json:
        for one in found:
            output.record(one.document() | {"closed": states.get(one.period) == "closed"})
        return
    shown = [(one, states.get(one.period, "open")) for one in found]
    if form == _TABLE:
        show_sums(output, shown)
        for one in found if tenant is not None else ():
            show_lines(output, one)
    else:
        write_invoices(form, shown, sys.stdout.buffer)
    for one in found:
        warn_unpriced(output, one)
        if many := len(one.unpriced_jobs & lost):
            told = f"billing has forgotten {plural(many, 'job')} without a price, because it kept too many"
            output.warn(
                f"{one.period} {one.tenant}: {told}; to price them, apply the book to a new log and import their history there"
            )


@billing.command("budgets", examples=["lahar billing budgets", "lahar billing budgets --period 2026-10 --tenant research"])
def budgets(
    context: typer.Context,
    period: PeriodOption = None,
    tenant: TenantOption = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what is spent of each tenant's budget, and which thresholds were crossed when."""
    output, settings = output_of(context, as_json), settings_of(context, log)
    with _bills(settings, output) as bills:
        found = bills.budgets(period=period, tenant=tenant)
    if not found:
        asked = asked_for(period, tenant)
        remedy = "`lahar billing budgets` shows all" if asked else "`lahar apply` a Tenant with `spec.budget` to set one"
        output.note(f"no budget{asked}; {remedy}")
    if output.as_json:
        for one in found:
            output.record(one.document())
        return
    show_list(output, found, _BUDGETS)
    for one in found:
        if not one.compared:
            text = f"the budget is in {one.budget.currency}, prices are in {one.currency}: nothing is compared"
            output.warn(f"{one.period} {one.tenant}: {text}")


def _crossed(one: TenantBudgetStatus) -> str:
    amount = plain(one.budget.amount)
    return ", ".join(f"{event.data.threshold} % {when(event.time)}" for event in one.crossed if event.data.budget == amount) or "-"


_BUDGETS: Final[tuple[Column[TenantBudgetStatus], ...]] = (
    Column("PERIOD", lambda one: one.period),
    Column("TENANT", lambda one: one.tenant, "name"),
    Column("BUDGET", lambda one: f"{plain(one.budget.amount)} {one.budget.currency}", "number"),
    Column("SPENT", lambda one: f"{rounded(one.spent, one.currency)} {one.currency or one.budget.currency}", "number"),
    Column("", lambda one: f"{one.percent:f} %" if one.compared else "-", "number"),
    Column("CROSSED", _crossed),
)


@billing.command("report", examples=["lahar billing report > bill.html", "lahar billing report --period 2026-10 > october.html"])
def report_command(
    context: typer.Context,
    period: PeriodOption = None,
    tenant: TenantOption = None,
    other: OtherOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write one page of HTML: cost per day, tenant and queue, and what of it was wasted."""
    output, settings = output_of(context, as_json), settings_of(context, log)
    with _bills(settings) as bills:
        note_if_empty(output, bills, bills.wanted(period, tenant, other=other))
        page = bills.report(period=period, tenant=tenant, other=other)
    if output.as_json:
        output.record({"html": page})
        return
    for line in page.splitlines():
        output.line(line)


@billing.command("explain", examples=["lahar billing explain bfbf4af952bc"])
def explain(
    context: typer.Context,
    record: Annotated[str, typer.Argument(metavar="RECORD", help="A record's id, or its beginning.")],
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how a record came about: the events behind it, and the sum to check by hand."""
    output, settings = output_of(context, as_json), settings_of(context, log)
    with _bills(settings) as bills:
        found = bills.explain(record)
    if output.as_json:
        output.record(found.document())
        return
    for number, sentence in enumerate(found.sentences()):
        output.console.print(Text(sentence, style="" if number else "bold"), soft_wrap=True)
    if isinstance(found, RecordExplanation):
        if found.cause is not None:
            output.console.print("because later was learnt:")
            _show_event(output, found.cause, told(found.cause))
            output.console.print("of the use:")
        for event, text in found.sources():
            _show_event(output, event, text)


def _show_event(output: Output, event: Event[Data], text: str) -> None:
    output.console.print(Text.assemble((f"{event.id}  {exact(event.time)}  ", "dim"), text), soft_wrap=True)


@billing.command("quote", examples=["lahar billing quote", "lahar billing quote --until 2026-11-01T00:00:00Z"])
def quote_command(
    context: typer.Context,
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="Up to this moment.")] = "now",
    tenant: TenantOption = None,
    other: OtherOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what running jobs have used since the last hour mark, and what it adds to each invoice.

    A quote is no invoice and has no id. It has no time that increments and minimum add at the end of an attempt.
    """
    output, settings = output_of(context, as_json), settings_of(context, log)
    with _bills(settings) as bills:
        found, uncharged = bills.quote(end := moment(until), tenant=tenant, other=other)
        if not found and not uncharged:
            hidden = BUT_OTHER if not other and any(bills.quote(end, tenant=tenant, other=True)) else ""
            used = f"has used anything up to {exact(end)} that is not recorded yet"
            output.note(f"no running attempt{asked_for(None, tenant)} {used}{hidden}")
    for attempt in uncharged:
        output.warn(f"{attempt.sentence()}; give an earlier --until, or report its end (`lahar ingest`)")
    if output.as_json:
        for one in found:
            output.record(one.document())
        return
    show_sums(output, [(one, "quoted") for one in found])
    for one in found:
        warn_unpriced(output, one)


@billing.command("close", examples=["lahar billing close 2026-10"])
def close(
    context: typer.Context,
    period: Annotated[str, typer.Argument(metavar="YYYY-MM", help="A month that has ended.")],
    by: Annotated[str, typer.Option("--by", help="Who closes it; kept in the history.")] = "",
    at: RecordedOption = None,
    no_process: NoProcessOption = False,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> None:
    """Close a month: its invoices and exports never change again.

    What is learnt of it later stands on the invoices of a later month, as reversals and replacements. It is closed once billing has
    taken this: at once, unless workers or another process do the work, or --no-process is given.
    """
    output, settings = output_of(context, as_json), settings_of(context, log)
    if not settings.billing:
        output.note(BILLING_OFF)
    with Lahar.opened(settings, readonly=False) as opened:
        feed, bills = new_feed(opened, output, process=not no_process), opened.bills
        month = close_period(feed, bills, settings.cluster, period, by, recorded_at(at))
        finish(feed, output)
        closed = period in bills.closed()
    start, end = format_time(month.start), format_time(month.end)
    if output.as_json:
        output.record({"period": period, "start": start, "end": end, "closed": closed})
        return
    done = "is closed" if closed else "will be closed once billing has taken this"
    output.line(f"{period} {done}: {exact(month.start)} to {exact(month.end)}")


@billing.command("verify", examples=["lahar billing verify"])
def verify(context: typer.Context, log: LogOption = None, as_json: JsonOption = False) -> None:
    """Recompute the bill from the job events and compare; exit code 1 if anything differs.

    What billing has still to do is no difference, but is named.
    """
    output, settings = output_of(context, as_json), settings_of(context, log)
    count = unfinished = 0
    with _bills(settings, output) as bills:
        for found in bills.verify():
            if isinstance(found, Finding):
                count += 1
            else:
                unfinished += 1
            if output.as_json:
                output.record(found.document())
            else:
                output.line(found.sentence())
    if count:
        output.fail(f"{count:,} difference(s) between the bill and the job events")
        raise typer.Exit(FINDING)
    if not output.as_json:
        apart = "apart from what billing has still to do" if unfinished else "ok"
        output.line(f"verify: {apart}, every record follows from the job events")
