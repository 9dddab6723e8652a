"""How long to wait before something that has failed is tried again."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BackOff"]


class BackOff(NamedTuple):
    """Delays between attempts (microseconds): each further failure doubles the delay, up to the longest."""

    first: int
    longest: int

    def delay(self, failures: int) -> int:
        """Return the delay before the next attempt; it costs the same after any number of failures.

        Args:
            failures: in a row, 1 or more.
        """
        return min(self.first << min(failures - 1, self.longest.bit_length()), self.longest)
