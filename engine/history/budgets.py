"""Budgets beside the bill: what is left of them, and whether what was said of their thresholds follows."""

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

__all__ = ["BudgetStanding", "budget_standings", "check_budgets"]

_STAGE = BudgetsStage()


@dataclass(frozen=True, slots=True)
class BudgetStanding:
    """What a tenant has spent of a month's budget."""

    tenant: str
    period: str
    """`2026-10`"""
    budget: Budget
    spent: Decimal
    """What stands on the month's invoice, exact."""
    currency: str | None
    """Of the price book; `None`: nothing was used by one."""
    crossed: tuple[Event[BudgetCrossed], ...]
    """What was said of the month, in order: of earlier amounts of the budget too."""

    @property
    def compared(self) -> bool:
        """Whether the price book has the currency of the budget."""
        return self.currency in {None, self.budget.currency}

    @property
    def percent(self) -> Decimal:
        """What is spent of the budget, in percent, cut to a tenth; zero has no sign."""
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


def budget_standings(log: SearchableLog, invoices: Iterable[Invoice], period: str | None = None) -> list[BudgetStanding]:
    """Return what is spent of each budget, by month and tenant.

    Args:
        log: has the budgets, and what was said of them.
        invoices: that stand, of the tenants and months of interest. A tenant without one has spent nothing in the month from which
            its budget counts.
        period: only this month.

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
    standings = []
    for (month, name), invoice in sorted(found.items()):
        known = state.tenants.get(name)
        if known is not None and (budget := known.budget(month)) is not None:
            crossings = tuple(said.get((name, month), ()))
            standings.append(BudgetStanding(name, month, budget, invoice.total.amount, invoice.currency, crossings))
    return standings


def _said(log: SearchableLog) -> Mapping[tuple[int, int], Event[Any]]:
    """Return what was said of budgets, by partition and offset."""
    records = log.scan(("budgets",), {BudgetCrossed.TYPE})
    return {(record.partition.number, record.offset): decode(record.message, bounded=False) for record in records}


def check_budgets(log: SearchableLog) -> Iterator[Finding]:
    """Fold what stands on the invoices again, and yield where what was said of budgets does not follow, or is missing.

    Each crossing was decided when the shard had taken certain inputs: they are taken up to there, in any order between partitions.

    Raises:
        LogError: the log cannot be read to its end.
    """
    state = _STAGE.initial()
    taken = TakenInputs(log, _STAGE, 0, lambda event: _STAGE.absorb(state, event))
    for record in log.scan(("budgets",)):  # the last one of a commit shows all inputs that had been taken (`accounted`)
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
