"""Attempts due at an hour mark, in bounded pages: the cost of an insertion does not depend on their number."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_PAGE: Final = 512
"""Attempts per page."""


@dataclass(slots=True)
class _Page:
    """Sorted page of attempts due at an hour mark: parallel lists of jobs and ordinals."""

    jobs: list[str]
    ordinals: list[int]

    def place_of(self, job: str, ordinal: int) -> int:
        """Return the index of an attempt, or its insertion point."""
        begin = bisect_left(self.jobs, job)
        return bisect_left(self.ordinals, ordinal, begin, bisect_right(self.jobs, job, begin))

    def split(self, place: int) -> _Page:
        """Move all entries from an index on into a new page."""
        rest = _Page(self.jobs[place:], self.ordinals[place:])
        del self.jobs[place:], self.ordinals[place:]
        return rest


@dataclass(slots=True)
class HourIndex:
    """Attempts due at one hour mark, sorted by job and ordinal."""

    pages: list[_Page] = field(default_factory=list)
    """Sorted, non-empty pages."""

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Yield job and ordinal in order."""
        for page in self.pages:
            yield from zip(page.jobs, page.ordinals, strict=True)

    def add(self, job: str, ordinal: int) -> None:
        """Add an attempt that is not in the index."""
        pages = self.pages
        last = pages[-1] if pages else None
        if last is None or (last.jobs[-1], last.ordinals[-1]) < (job, ordinal):  # fast path: an hour mark adds them in order
            if last is None or len(last.jobs) == _PAGE:
                last = _Page([], [])
                pages.append(last)
            last.jobs.append(job)
            last.ordinals.append(ordinal)
            return
        number = self._page_of(job, ordinal)
        page = pages[number]
        place = page.place_of(job, ordinal)
        page.jobs.insert(place, job)
        page.ordinals.insert(place, ordinal)
        if len(page.jobs) > _PAGE:
            pages.insert(number + 1, page.split(_PAGE // 2))

    def remove(self, job: str, ordinal: int) -> None:
        """Remove an attempt that is in the index."""
        first = self.pages[0]
        is_first = first.jobs[0] == job and first.ordinals[0] == ordinal  # the usual case
        number = 0 if is_first else self._page_of(job, ordinal)
        page = self.pages[number]
        place = 0 if is_first else page.place_of(job, ordinal)
        del page.jobs[place], page.ordinals[place]
        if not page.jobs:
            del self.pages[number]

    def _page_of(self, job: str, ordinal: int) -> int:
        first = bisect_right(self.pages, (job, ordinal), key=lambda page: (page.jobs[0], page.ordinals[0]))
        return max(first - 1, 0)
