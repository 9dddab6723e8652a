"""Notes and warnings beside bills: what an answer lacks, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.application.billing import RunFilter
from engine.billing.invoice import without_price
from engine.cli.output import Output
from engine.formatting import plural
from engine.history.closings import Closing
from lahar import Bill, Bills

BUT_OTHER: Final = " but jobs of kind Other (--all)"


def note_if_empty(output: Output, bills: Bills, wanted: RunFilter, job: str | None = None) -> None:
    """Say so if nothing is recorded of what was asked for; `job` is named as it was typed."""

    def is_empty(wanted: RunFilter) -> bool:
        return bills.ask(lambda usage: next(usage.runs(wanted), None) is None)

    if not is_empty(wanted):
        return
    hidden = "" if wanted.other or is_empty(wanted._replace(other=True)) else BUT_OTHER
    asked = asked_for(wanted.period, wanted.tenant, job)
    if is_empty(RunFilter(other=True)):
        remedy = "; `lahar billing quote` shows use since the last hour mark"
    else:
        remedy = "; `lahar billing invoice` shows all tenants and months" if asked else ""
    output.note(f"nothing is recorded{asked}{hidden}{remedy}")


def asked_for(period: str | None, tenant: str | None, job: str | None = None) -> str:
    """Return what was asked for, as part of a sentence."""
    parts = (("of tenant", tenant), ("of job", job), ("in", period))
    return "".join(f" {what} {value!r}" for what, value in parts if value is not None)


def note_closing(output: Output, asked: Mapping[str, Closing], period: str | None) -> None:
    """Say which of the months that were asked for billing has still to close."""
    for name, one in asked.items():
        if not one.taken and period in {None, name}:
            output.note(f"{name} is closing: it may change until billing has taken this, in `lahar run` or a worker")


def warn_unpriced(output: Output, one: Bill) -> None:
    """Say what has no price on an invoice or a quote."""
    for use in without_price(one.unpriced):
        output.warn(f"{one.period} {one.tenant}: {use} have no price")


def warn_uncharged(output: Output, bills: Bills, tenant: str | None, *, other: bool) -> None:
    """Say which attempts could not be charged: their use is on no invoice."""
    count, found = bills.uncharged(tenant=tenant, other=other)
    for attempt in found:
        output.warn(attempt.sentence())
    if count > len(found):
        output.warn(f"{plural(count - len(found), 'more attempt')} cannot be charged: `lahar billing verify`")
