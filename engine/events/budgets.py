"""Budgets: the planned monthly spending of a tenant, and the event of a crossed threshold.

A budget is given as `spec.budget` of a Tenant with `lahar apply`. It stops nothing: reacting to a crossed threshold is left to
callbacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, ValidationError, ValidationInfo

from engine.events.billing import Period
from engine.events.currencies import CURRENCIES
from engine.events.prices import GIVEN, Price, Specification, faults_of
from engine.events.values import OddlyWritten
from engine.events.vocabulary import Data, event

_THRESHOLDS: Final = 16
_LARGEST: Final = 1_000


def _thresholds(value: object, info: ValidationInfo) -> tuple[int, ...]:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= _THRESHOLDS:
        raise ValueError(f"must be a list of 1 to {_THRESHOLDS} thresholds")
    for one in value:
        if info.context is GIVEN and isinstance(one, OddlyWritten):
            raise ValueError(f"{one} is what YAML reads there; write it in plain digits")
        if isinstance(one, bool) or not isinstance(one, int) or not 1 <= one <= _LARGEST:
            raise ValueError(f"{str(one)[:20]!r} is no whole number of percent from 1 to {_LARGEST}")
        if value.count(one) > 1:
            raise ValueError(f"{one} stands there twice")
    return tuple(sorted(value))


def _more_than_nothing(amount: Decimal) -> Decimal:
    if not amount:
        raise ValueError("must be more than 0")
    return amount


def _known(currency: str) -> str:
    if currency not in CURRENCIES:
        raise ValueError(f"{currency[:20]!r} is no code of ISO 4217")
    return currency


class Budget(Specification):
    """Planned spending of a tenant in a calendar month."""

    amount: Annotated[Price, AfterValidator(_more_than_nothing)]
    """More than 0."""
    currency: Annotated[str, AfterValidator(_known)]
    """ISO 4217. If the price book has another currency, nothing is compared."""
    thresholds: Annotated[tuple[int, ...], BeforeValidator(_thresholds)] = (50, 80, 100)
    """Percent of the amount, ascending."""


def read_budget(content: object, *, given: bool = False) -> tuple[Budget | None, list[tuple[str, str]]]:
    """Read `spec.budget` of a Tenant; returns it, or its faults: path and message.

    Args:
        content: the budget.
        given: it is given now, and not read from a log: its amount must be plain digits.
    """
    try:
        return Budget.model_validate(content, context=GIVEN if given else None), []
    except ValidationError as error:
        return None, faults_of(error, "spec.budget", Budget)


def budget_of(spec: Mapping[str, Any]) -> Budget | None:
    """Return the budget in the `spec` of a Tenant; `None`: it has no readable one."""
    return read_budget(spec["budget"])[0] if "budget" in spec else None


@event("lahar.budget.crossed.v1", topic="budgets")
class BudgetCrossed(Data):
    """A tenant's use in a month has reached a threshold of its budget: once for each month, threshold and budget."""

    tenant: str
    """Tenant with the budget."""
    period: Period
    """Month of the invoice, in the price book's time zone."""
    threshold: int
    """Percent of the budget."""
    amount: str
    """Total of the month's invoice at that time, exact."""
    budget: str
    """Amount of the budget."""
    currency: str
    """Currency of both amounts."""
    usage: str | None = None
    """Id of the `lahar.usage.recorded` that reached it; `None`: it was already reached when the budget was given or changed."""
    job: str | None = None
    """Job of this use."""
