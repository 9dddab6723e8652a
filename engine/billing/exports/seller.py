"""Issuer of the invoices: values common to all rows of an export that records lack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.billing.calendar import Month, month_named


@dataclass(frozen=True, slots=True)
class Seller:
    """Issuer of the invoices, and terms of the price book."""

    issuer: str
    """Name of the issuer on the invoices."""
    deployment: str
    """Name of this installation of Lahar, as the service sold. Usage without a tenant is billed to it."""
    currency: str | None = None
    """ISO 4217 code; `None` without a price book."""
    time_zone: str = "UTC"
    """Time zone of the months."""
    other: bool = False
    """True if the invoices include jobs of kind `Other` (services); they then have other ids."""
    closed: Mapping[str, Month] = field(default_factory=dict)
    """Boundaries of closed months, which may precede a first price book with another time zone."""

    def month(self, name: str) -> Month:
        """Return the boundaries of a month with records."""
        month = self.closed.get(name) or month_named(name, self.time_zone)
        assert month is not None  # noqa: S101 - the stage took the name from a month
        return month
