"""The state of the budgets shard: budgets of each tenant, and the totals of its invoices by month.

All records have one subject, so one commit writes all changed ones, and a snapshot has the state at a single position.
So recovery absorbs no fact twice, which a sum could not detect;
a sequence per job could, but then the state would grow with jobs rather than with tenants and months.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import dropwhile
from typing import Final

from engine.events import Data, Event
from engine.events.billing import UsageRecorded, UsageWithdrawn
from engine.events.budgets import Budget, BudgetCrossed, budget_of, read_budget
from engine.events.decimals import EXACT, plain, total
from engine.events.inputs import OTHER, ObjectApplied, ObjectDeleted
from engine.events.times import Micros, format_time

KEPT_MONTHS: Final = 13
"""Months kept: that of the newest recorded time and the twelve before it. Later facts about an older month are not compared
with its budget. (Months ahead, from a wrong clock, are kept until they are old.)"""

LAST_MONTH: Final = "2199-12"
"""The last month that is compared with a budget: all months up to it fit into a tenant's record. With a bound that followed the
recorded time, a withdrawal could count whose use did not."""

_TENANT: Final = "tenant/"
_MONTH: Final = "month"


Given = tuple[str, Budget | None]
"""First month of a budget, and the budget; `None`: none from then on."""


@dataclass(slots=True)
class Month:
    """Use of a tenant in a month."""

    spent: Decimal = Decimal(0)
    currency: str | None = None
    """Currency of the price book; `None`: no use had one."""
    crossed: list[int] = field(default_factory=list)
    """Thresholds of the present budget with an event."""


@dataclass(slots=True)
class Tenant:
    """State of a tenant."""

    written: int = 0
    """Sequence of its last event."""
    budgets: list[Given] = field(default_factory=list)
    """Oldest first."""
    months: dict[str, Month] = field(default_factory=dict)

    def budget(self, period: str) -> Budget | None:
        """Return the budget of a month."""
        return next((budget for since, budget in reversed(self.budgets) if since <= period), None)

    def reached(self, period: str) -> Iterator[tuple[int, Budget, Month]]:
        """Yield the reached thresholds of a month without an event, with the budget; lowest first."""
        month, budget = self.months.get(period), self.budget(period)
        if month is None or budget is None or month.currency != budget.currency:
            return
        for threshold in budget.thresholds:
            least = EXACT.multiply(budget.amount, Decimal(threshold).scaleb(-2, EXACT))
            if threshold not in month.crossed and month.spent >= least:
                yield threshold, budget, month


@dataclass(slots=True)
class State:
    """State of the budgets shard."""

    tenants: dict[str, Tenant] = field(default_factory=dict)
    month: str = ""
    """Month of the newest recorded time, in UTC."""
    touched: dict[str, None] = field(default_factory=dict)
    changed: list[tuple[str, str]] = field(default_factory=list)
    """Tenants and months of the input just absorbed. Not part of the state."""

    def touch(self, tenant: str) -> Tenant:
        """Return a tenant for writing."""
        self.touched[_TENANT + tenant] = None
        return self.tenants.setdefault(tenant, Tenant())


def absorb(state: State, event: Event[Data], _offset: int | None = None, /) -> None:
    """Absorb one billing event, or one fact of the cluster. Total; facts of different partitions commute."""
    state.changed = []
    _advance(state, _month(event.recordedtime))
    match event.data:
        case UsageRecorded(period=period, tenant=tenant, job_kind=kind, charges=charges, currency=currency) if kind != OTHER:
            _add(state, tenant, period, total(charge.amount for charge in charges), currency)
        case UsageWithdrawn(period=period, tenant=tenant, job_kind=kind, amount=str(amount)) if kind != OTHER:
            _add(state, tenant, period, EXACT.minus(Decimal(amount)), None)
        case ObjectApplied(kind="Tenant", name=name, spec=spec):
            _give(state, name, _month(event.recordedtime), budget_of(spec))
        case ObjectDeleted(kind="Tenant", name=name):
            _give(state, name, _month(event.recordedtime), None)


def _month(moment: Micros) -> str:
    return format_time(moment)[:7]


def _first_kept(month: str) -> str:
    before = int(month[:4]) * 12 + int(month[5:]) - KEPT_MONTHS
    return f"{before // 12:04d}-{before % 12 + 1:02d}"


def _advance(state: State, month: str) -> None:
    """Advance to a month, and forget months that are then too old."""
    if month <= state.month:
        return
    state.month = month
    state.touched[_MONTH] = None
    first = _first_kept(month)
    for name, tenant in list(state.tenants.items()):
        months = {period: known for period, known in tenant.months.items() if period >= first}
        budgets = _counting(tenant.budgets, first)
        if len(months) < len(tenant.months) or len(budgets) < len(tenant.budgets):
            state.touch(name)
            tenant.months, tenant.budgets = months, budgets
            _drop_if_empty(state, name, tenant)


def _counting(budgets: list[Given], first: str) -> list[Given]:
    """Return the budgets that apply to any month from `first` on."""
    begun = max((place for place, (since, _) in enumerate(budgets) if since <= first), default=0)
    return list(dropwhile(lambda given: given[1] is None, budgets[begun:]))


def _drop_if_empty(state: State, name: str, tenant: Tenant) -> None:
    """Forget a tenant without state, unless it has events, whose sequence must continue."""
    if not tenant.months and not tenant.budgets and not tenant.written:
        del state.tenants[name]


def _add(state: State, name: str, period: str, amount: Decimal, currency: str | None) -> None:
    if period > LAST_MONTH or period < _first_kept(state.month):
        return
    month = state.touch(name).months.setdefault(period, Month())
    month.spent = EXACT.add(month.spent, amount)
    month.currency = month.currency or currency
    state.changed.append((name, period))


def _give(state: State, name: str, since: str, budget: Budget | None) -> None:
    """Apply a budget to a month and those after it; of two for one month the last one wins."""
    tenant = state.touch(name)
    before = {period: tenant.budget(period) for period in tenant.months}
    given = [*(one for one in tenant.budgets if one[0] < since), (since, budget)]
    tenant.budgets = _counting(given, _first_kept(state.month))
    for period, month in tenant.months.items():
        if period >= since:
            if _sum(before[period]) != _sum(budget):
                month.crossed = []
            state.changed.append((name, period))
    state.changed.sort()
    _drop_if_empty(state, name, tenant)


def _sum(budget: Budget | None) -> tuple[Decimal, str] | None:
    return None if budget is None else (budget.amount, budget.currency)


def evolve(state: State, event: Event[Data]) -> None:
    """Apply one event of the stage. Total."""
    data = event.data
    if not isinstance(data, BudgetCrossed):
        return
    tenant = state.touch(data.tenant)
    tenant.written = event.sequence
    if (month := tenant.months.get(data.period)) is not None:
        month.crossed = [*month.crossed, data.threshold]


# --- the snapshot -------------------------------------------------------------------------------------------------------------


def records(state: State) -> Iterator[str]:
    """Yield the name of every record."""
    yield from (_TENANT + name for name in state.tenants)
    yield _MONTH


def dump(state: State, record: str) -> bytes | None:
    """Return the content of a record; `None`: its subject is gone."""
    if record == _MONTH:
        return state.month.encode()
    tenant = state.tenants.get(record.removeprefix(_TENANT))
    if tenant is None:
        return None
    budgets = [(since, None if budget is None else budget.model_dump(mode="json")) for since, budget in tenant.budgets]
    months = {period: (plain(month.spent), month.currency, month.crossed) for period, month in sorted(tenant.months.items())}
    return json.dumps([tenant.written, budgets, months]).encode()


def load(state: State, stored: Iterable[tuple[str, bytes]]) -> None:
    """Restore records into an initial state."""
    for record, content in stored:
        if record == _MONTH:
            state.month = content.decode()
            continue
        written, budgets, months = json.loads(content)
        state.tenants[record.removeprefix(_TENANT)] = Tenant(
            written,
            [(since, None if given is None else read_budget(given)[0]) for since, given in budgets],
            {period: Month(Decimal(spent), *rest) for period, (spent, *rest) in months.items()},
        )
