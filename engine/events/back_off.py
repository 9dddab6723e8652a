"""Back-off between attempts at something that has failed."""

from __future__ import annotations

from typing import NamedTuple


class BackOff(NamedTuple):
    """Delays between attempts (microseconds): each further failure doubles the delay, up to a maximum."""

    first: int
    longest: int

    def delay(self, failures: int) -> int:
        """Return the delay before the next attempt, in constant time.

        Args:
            failures: consecutive failures, 1 or more.
        """
        return min(self.first << min(failures - 1, self.longest.bit_length()), self.longest)
