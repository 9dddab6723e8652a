"""Who bills: what every row of an export shares and no record says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.billing.calendar import Month, month_named

__all__ = ["Seller"]


@dataclass(frozen=True, slots=True)
class Seller:
    """Who runs the clusters and writes the invoices, and the price book's terms."""

    issuer: str
    """Whose name stands on the invoices."""
    deployment: str
    """What is sold: the name of this installation of Lahar. Usage of no tenant is billed to it."""
    currency: str | None = None
    """ISO 4217; `None`: there is no price book."""
    time_zone: str = "UTC"
    """Of the months."""
    other: bool = False
    """The invoices cover jobs of kind `Other` (services), too: they have ids of their own."""
    closed: Mapping[str, Month] = field(default_factory=dict)
    """Months as they were closed: the first price book, with another time zone, may have come later."""

    def month(self, name: str) -> Month:
        """Return a month of which something is recorded."""
        month = self.closed.get(name) or month_named(name, self.time_zone)
        assert month is not None  # noqa: S101 - the stage took the name from a month
        return month
