"""Invoices as tables: a line for each, and the lines of one."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from rich.text import Text

from engine.billing.invoice import Invoice
from engine.cli.output import Output
from engine.cli.render import whole_table
from engine.events.decimals import plain
from engine.events.prices import METERS

__all__ = ["show_lines", "show_sums"]

_NONE: Final = Decimal(0)


def show_sums(output: Output, found: Sequence[tuple[Invoice, str]]) -> None:
    """Show a line for each invoice, with its state."""
    headings = ("PERIOD", "TENANT", "JOBS", "GPU HOURS", "WASTED", "CPU HOURS", "TOTAL", "")
    rows = [_summed(*one) for one in found]
    output.console.print(whole_table(output, headings, rows, {"TENANT"}, set(headings[2:7])), soft_wrap=True)


def _summed(one: Invoice, state: str) -> tuple[str, ...]:
    useful = one.worths.get("useful")
    gpu = one.total.quantities.get("gpu_seconds", _NONE)
    wasted = gpu - (_NONE if useful is None else useful.quantities.get("gpu_seconds", _NONE))
    cpu = one.total.quantities.get("cpu_seconds", _NONE)
    total = plain(one.rounded) if one.currency is None else f"{one.rounded} {one.currency}"
    return (
        one.period,
        one.tenant,
        f"{len(one.lines):,}",
        *map(_hours, (gpu, wasted, cpu)),
        total,
        state,
    )


def _hours(seconds: Decimal) -> str:
    return f"{seconds / 3600:,.2f}"


def show_lines(output: Output, one: Invoice) -> None:
    """Show the lines of an invoice."""
    output.console.print()
    output.console.print(Text(f"Invoice {one.id}: {one.tenant}, {one.period}", style="bold"), soft_wrap=True)
    headings = ("QUEUE", "PROJECT", "USER", "JOB", *(meter.upper() for meter in METERS if meter in one.total.quantities), "AMOUNT")
    rows = [
        (
            line.queue,
            line.project or "-",
            line.user or "-",
            f"{line.namespace}/{line.name}",
            *(plain(one.lines[line].quantities.get(meter, _NONE)) for meter in METERS if meter in one.total.quantities),
            plain(one.lines[line].amount),
        )
        for line in sorted(one.lines)
    ]
    output.console.print(whole_table(output, headings, rows, {"PROJECT", "USER", "JOB"}, set(headings[4:])), soft_wrap=True)
    output.console.print(
        f"sum {plain(one.total.amount)}, rounded {one.rounded}, adjustment {plain(one.rounded - one.total.amount)}", soft_wrap=True
    )
