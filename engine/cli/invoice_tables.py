"""Invoices as tables: a line for each, and the lines of one."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from rich.text import Text

from engine.billing.invoice import Sum
from engine.cli.output import Output
from engine.cli.render import whole_table
from engine.events.billing import Worth
from engine.events.decimals import plain
from engine.events.prices import METERS, Meter
from lahar import Bill, Invoice

_NONE: Final = Decimal(0)
_APART: Final[tuple[Worth, ...]] = ("preempted", "reserved")
"""Waste by preemption, shown beside the sum of all waste where there is any."""


def show_sums(output: Output, found: Sequence[tuple[Bill, str]]) -> None:
    """Show a line for each bill, with its state."""
    apart = [worth for worth in _APART if any(worth in one.worths for one, _ in found)]
    headings = ("PERIOD", "TENANT", "JOBS", "GPU HOURS", "WASTED", *map(str.upper, apart), "CPU HOURS", "TOTAL", "")
    rows = [_summed(*one, apart) for one in found]
    output.console.print(whole_table(output, headings, rows, {"TENANT"}, set(headings[2:-1])), soft_wrap=True)


def _summed(one: Bill, state: str, apart: Sequence[Worth]) -> tuple[str, ...]:
    gpu, useful = _seconds(one.total), _seconds(one.worths.get("useful"))
    total = one.paid if one.currency is None else f"{one.paid} {one.currency}"
    return (
        one.period,
        one.tenant,
        f"{one.jobs:,}",
        *map(_hours, (gpu, gpu - useful, *(_seconds(one.worths.get(worth)) for worth in apart))),
        _hours(_seconds(one.total, "cpu_seconds")),
        total,
        state,
    )


def _seconds(sums: Sum | None, meter: Meter = "gpu_seconds") -> Decimal:
    return _NONE if sums is None else sums.quantities.get(meter, _NONE)


def _hours(seconds: Decimal) -> str:
    return f"{seconds / 3600:,.2f}"


def show_lines(output: Output, one: Invoice) -> None:
    """Show the lines of an invoice."""
    output.console.print()
    output.console.print(Text(f"Invoice {one.id}: {one.tenant}, {one.period}", style="bold"), soft_wrap=True)
    meters = [meter for meter in METERS if meter in one.total.quantities]
    corrects = ("CORRECTS",) if one.corrections else ()
    headings = ("QUEUE", "PROJECT", "USER", "JOB", *corrects, *map(str.upper, meters), "AMOUNT")
    rows = [
        (
            line.queue,
            line.project or "-",
            line.user or "-",
            f"{line.namespace}/{line.name}",
            *(line.month or "-" for _ in corrects),
            *(plain(one.lines[line].quantities.get(meter, _NONE)) for meter in meters),
            plain(one.lines[line].amount),
        )
        for line in sorted(one.lines)
    ]
    numbers = {*map(str.upper, meters), "AMOUNT"}
    output.console.print(whole_table(output, headings, rows, {"PROJECT", "USER", "JOB"}, numbers), soft_wrap=True)
    output.console.print(f"sum {plain(one.total.amount)}, rounded {one.paid}, adjustment {plain(one.adjustment)}", soft_wrap=True)
    output.console.print(Text(f"price versions: {', '.join(sorted(one.price_versions)) or 'none'}"), soft_wrap=True)
