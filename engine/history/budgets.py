"""Spending against budgets, and a check of the recorded threshold crossings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from engine.billing.invoice import Invoice
from engine.budgets.stage import BudgetsStage
from engine.events import Event, decode
from engine.events.budgets import Budget, BudgetCrossed
from engine.events.decimals import EXACT, plain
from engine.events.times import format_time
from engine.history.billing import Finding
from engine.history.reading import cluster_facts
from engine.history.taken_inputs import TakenInputs
from engine.log.port import SearchableLog

_STAGE = BudgetsStage()


@dataclass(frozen=True, slots=True)
class TenantBudgetStatus:
    """Spending of a tenant against a month's budget."""

    tenant: str
    period: str
    """Month, such as `2026-10`."""
    budget: Budget
    spent: Decimal
    """Exact total of the month's invoice."""
    currency: str | None
    """Currency of the price book; `None`: no usage has a price."""
    crossed: tuple[Event[BudgetCrossed], ...]
    """Recorded crossings of the month, in order, including those of earlier amounts of the budget."""

    @property
    def compared(self) -> bool:
        """True if the price book has the currency of the budget."""
        return self.currency in {None, self.budget.currency}

    @property
    def percent(self) -> Decimal:
        """Spent part of the budget in per cent, truncated to a tenth; zero has no sign."""
        tenths = EXACT.divide_int(EXACT.multiply(self.spent, Decimal(1000)), self.budget.amount)
        return EXACT.plus(tenths).scaleb(-1, EXACT)

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "tenant": self.tenant,
            "period": self.period,
            "spent": plain(self.spent),
            "currency": self.currency,
            "budget": {
                "amount": plain(self.budget.amount),
                "currency": self.budget.currency,
                "thresholds": list(self.budget.thresholds),
            },
            "percent": plain(self.percent) if self.compared else None,
            "crossed": [
                {
                    "threshold": event.data.threshold,
                    "time": format_time(event.time),
                    "amount": event.data.amount,
                    "budget": event.data.budget,
                    "event": event.id,
                    "usage": event.data.usage,
                    "job": event.data.job,
                }
                for event in self.crossed
            ],
        }


def tenant_budget_statuses(log: SearchableLog, invoices: Iterable[Invoice], period: str | None = None) -> list[TenantBudgetStatus]:
    """Return the spending against each budget, by month and tenant.

    Args:
        log: log with the budgets and their crossings.
        invoices: valid invoices of the tenants and months of interest. A tenant without an invoice has spent nothing in the month
            from which its budget is valid.
        period: month; `None`: all.

    Raises:
        LogError: the log cannot be read.
    """
    state = _STAGE.initial()
    for event in cluster_facts(log):
        _STAGE.absorb(state, event)
    said: dict[tuple[str, str], list[Event[BudgetCrossed]]] = {}
    for crossed in _said(log).values():
        said.setdefault((crossed.data.tenant, crossed.data.period), []).append(crossed)
    found = {(one.period, one.tenant): one for one in invoices}
    for name, tenant in state.tenants.items():
        for since, _ in tenant.budgets[-1:]:
            if period in {None, since} and not any(of == name and month >= since for month, of in found):
                found[since, name] = Invoice(name, since)
    statuses = []
    for (month, name), invoice in sorted(found.items()):
        known = state.tenants.get(name)
        if known is not None and (budget := known.budget(month)) is not None:
            crossings = tuple(said.get((name, month), ()))
            statuses.append(TenantBudgetStatus(name, month, budget, invoice.total.amount, invoice.currency, crossings))
    return statuses


def _said(log: SearchableLog) -> Mapping[tuple[int, int], Event[Any]]:
    """Return the recorded crossings of budgets, by partition and offset."""
    records = log.scan(("budgets",), {BudgetCrossed.TYPE})
    return {(record.partition.number, record.offset): decode(record.message, bounded=False) for record in records}


def check_budgets(log: SearchableLog) -> Iterator[Finding]:
    """Recompute the invoice totals, and yield recorded crossings that do not follow from them, and missing ones.

    Each crossing was decided on certain inputs: they are read up to there, in any order between partitions.

    Raises:
        LogError: the log cannot be read to its end.
    """
    state = _STAGE.initial()
    taken = TakenInputs(log, _STAGE, 0, lambda event: _STAGE.absorb(state, event))
    for record in log.scan(("budgets",)):  # the last one of a commit has all processed inputs in its basis (`accounted`)
        taken.up_to(record.basis)
        if record.message.type != BudgetCrossed.TYPE:
            continue
        event: Event[Any] = decode(record.message, bounded=False)
        data, tenant = event.data, state.tenants.get(event.subject)
        reached = () if tenant is None else tenant.reached(data.period)
        right = next(
            (
                (plain(month.spent), plain(budget.amount), budget.currency)
                for threshold, budget, month in reached
                if threshold == data.threshold
            ),
            None,
        )
        if right is None:
            yield Finding(
                event.subject, data.period, f"{event.id} says {data.threshold} % of the budget: not reached, or said before"
            )
        elif right != (data.amount, data.budget, data.currency):
            yield Finding(
                event.subject, data.period, f"{event.id} says {data.amount} of {data.budget}; that is {right[0]} of {right[1]}"
            )
        _STAGE.evolve(state, event)
    for name, known in sorted(state.tenants.items()):
        for period in sorted(known.months):
            for threshold, budget, _ in known.reached(period):
                yield Finding(name, period, f"{threshold} % of {plain(budget.amount)} {budget.currency} is reached, and not said")
