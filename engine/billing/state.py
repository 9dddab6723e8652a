"""What a billing shard knows: of each attempt its times, sizes and ends, and what was recorded of it.

Plain structs, written to the snapshot as they stand. What is derived is marked so and made again when a snapshot is loaded.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappush
from typing import Final

from msgspec import Struct

from engine.billing.book import Book
from engine.events.billing import RecordKind, SegmentKind, Worth
from engine.events.times import EARLIEST, Micros

__all__ = [
    "PAGE",
    "Attempt",
    "Due",
    "End",
    "Job",
    "Node",
    "NodeFact",
    "NodeReview",
    "Packed",
    "Place",
    "Point",
    "Run",
    "Size",
    "State",
    "Terms",
]

PAGE: Final = 32
"""Attempts in one record of the snapshot: some 16 KB."""
_FEW: Final = 8
"""Attempts of a job that are searched one by one."""
_DUE: Final = 512
"""Attempts in one page of those that wait for an hour mark."""


Place = tuple[str, str]
"""Cluster and name of a node."""


class Size(Struct, array_like=True, frozen=True, gc=False):
    """Resources of one pod."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    gpu: int = 0


class Point(Struct, array_like=True, frozen=True, gc=False):
    """When something was so, and the event that says it."""

    time: Micros
    id: str
    inferred: bool = False


class End(Struct, array_like=True, frozen=True, gc=False):
    """How an attempt ended, by the source of the highest rank."""

    time: Micros
    id: str
    rank: int
    phase: str
    reason: str | None
    inferred: bool
    replaceable: bool


class Terms(Struct, array_like=True, frozen=True, gc=False):
    """Whose use it is, and what its price depends on beside the resources."""

    tenant: str
    project: str
    queue: str
    user: str
    namespace: str
    kind: str
    name: str
    labels: tuple[tuple[str, str], ...]
    priority_class: str | None
    preemptible: bool


class Run(Struct, array_like=True, frozen=True, gc=False):
    """A stretch of an attempt in which nothing changes that its charge depends on (`engine.events.billing`)."""

    record: RecordKind
    start: Micros
    end: Micros
    length: int
    kind: SegmentKind
    begun: str
    ended: str | None
    size: Size
    terms: int
    """Place in `Job.terms`."""
    node: str | None
    node_type: str | None
    gpu_model: str | None
    price_version: str | None
    month: str
    """In which it lies."""
    worth: Worth
    free: bool
    """A preemption makes it cost nothing."""
    inferred_start: bool
    inferred_end: bool
    invoice: str = ""
    """Month on whose invoice it stands."""
    revision: int = 0


class Attempt(Struct, array_like=True, gc=False):
    """One attempt, as job events show it, and the runs that stand recorded."""

    task: str
    index: int
    number: int
    ordinal: int
    """Among the job's attempts, in the order in which they started."""
    uid: str | None
    created: Point
    sizes: list[tuple[Micros, str, Size]]
    """Since when each, and the event that says so; the first one from the beginning, by no event but the start."""
    bound: Point | None = None
    node: str | None = None
    node_type: str | None = None
    gpu_model: str | None = None
    running: Point | None = None
    terminating: Point | None = None
    end: End | None = None
    recorded: list[Run] = []
    """In order; of every stretch the latest."""
    marked: Micros = EARLIEST
    """Hour mark up to which it was recorded while it was open."""
    due: Micros | None = None
    """Hour mark at which it is recorded next."""
    revision: int = 0
    """How often what was recorded was corrected."""
    fault: str | None = None
    """Why it cannot be charged."""


class Job(Struct, array_like=True, gc=False):
    """One job, without its attempts."""

    id: str
    cluster: str
    seen: int = 0
    """Sequence of its last job event taken."""
    written: int = 0
    """Sequence of the last billing event about it."""
    terms: list[Terms] = []
    """All that were ever known: recorded runs refer to them."""
    since: list[tuple[Micros, str, int]] = []
    """Since when which of them hold, with the event that says so; the first from the beginning."""
    finished: bool = False
    owner: bool = False
    """Its own object has been seen."""
    review: int = -1
    """Number of the attempt at which a review of all of them goes on; -1: there is none."""
    review_at: Micros = 0
    """When it goes on, if there is one."""
    count: int = 0
    """Attempts."""
    open: int = 0
    """Attempts that have not ended."""
    unknown: list[str] = []
    """Nodes of which nothing is known and on which attempts were; `*`: more than are kept apart."""
    nodes: list[tuple[str, Micros]] | None = []
    """Of a job that is over: nodes by which attempts were charged, and when the last of them got it; `None`: they are many."""


class NodeFact(Struct, array_like=True, frozen=True, gc=False):
    """What a node is, since when."""

    since: Micros
    node_type: str | None
    gpu_model: str | None


class NodeReview(Struct, array_like=True, frozen=True, gc=False):
    """How far the review of the jobs that were on a node has come."""

    at: Micros
    """When it goes on."""
    since: Micros
    """Of attempts that got the node before, nothing has changed."""
    job: str = ""
    """It goes on behind this one, or with it."""
    next: int = -1
    """Number of that job's attempt at which it goes on; -1: behind the job."""

    def awaits(self, job: str) -> bool:
        """Tell whether it still has to come to a job."""
        return job > self.job or (job == self.job and self.next >= 0)


class Node(Struct, array_like=True, gc=False):
    """What is known of a node."""

    facts: list[NodeFact] = []
    """Oldest first."""
    gone: Micros | None = None
    """Since when its object is."""
    reviews: int = 0
    """Reviews of its jobs so far."""
    review: NodeReview | None = None
    """The one that is not over."""


@dataclass(slots=True)
class DuePage:
    """Some of the attempts that are to be recorded at an hour mark, in order: jobs, and ordinals of their attempts."""

    jobs: list[str]
    ordinals: list[int]

    def place_of(self, job: str, ordinal: int) -> int:
        """Return where an attempt is, or would be."""
        begin = bisect_left(self.jobs, job)
        return bisect_left(self.ordinals, ordinal, begin, bisect_right(self.jobs, job, begin))

    def insert(self, place: int, job: str, ordinal: int) -> None:
        """Add an attempt."""
        self.jobs.insert(place, job)
        self.ordinals.insert(place, ordinal)

    def split(self, place: int) -> DuePage:
        """Take away what is behind a place, and return it."""
        rest = DuePage(self.jobs[place:], self.ordinals[place:])
        del self.jobs[place:], self.ordinals[place:]
        return rest


@dataclass(slots=True)
class Due:
    """Attempts that are to be recorded at one hour mark, by job and ordinal."""

    pages: list[DuePage] = field(default_factory=list)
    """In order, none of them empty and none of more than a few hundred: to add one costs the same whatever their number."""

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Yield them in order."""
        for page in self.pages:
            yield from zip(page.jobs, page.ordinals, strict=True)

    def add(self, job: str, ordinal: int) -> None:
        """Add one that is not among them."""
        pages = self.pages
        if not pages:
            pages.append(DuePage([job], [ordinal]))
            return
        last = pages[-1]
        if (last.jobs[-1], last.ordinals[-1]) < (job, ordinal):  # as at an hour mark, which comes to them in order
            number, page, place = len(pages) - 1, last, len(last.jobs)
        else:
            number = self._page_of(job, ordinal)
            page = pages[number]
            place = page.place_of(job, ordinal)
        page.insert(place, job, ordinal)
        if len(page.jobs) > _DUE:
            pages.insert(number + 1, page.split(_DUE // 2))

    def remove(self, job: str, ordinal: int) -> None:
        """Remove one that is among them."""
        first = self.pages[0]
        is_first = first.jobs[0] == job and first.ordinals[0] == ordinal  # as at an hour mark
        number = 0 if is_first else self._page_of(job, ordinal)
        page = self.pages[number]
        place = 0 if is_first else page.place_of(job, ordinal)
        del page.jobs[place], page.ordinals[place]
        if not page.jobs:
            del self.pages[number]

    def _page_of(self, job: str, ordinal: int) -> int:
        first = bisect_right(self.pages, (job, ordinal), key=lambda page: (page.jobs[0], page.ordinals[0]))
        return max(first - 1, 0)


@dataclass(slots=True)
class Known:
    """A job with its attempts."""

    job: Job
    attempts: list[Attempt] = field(default_factory=list)
    _by_slot: dict[tuple[str, int, int], Attempt] = field(default_factory=dict)
    """Of a job of many attempts, from the first search on. Derived."""

    def add(self, attempt: Attempt) -> None:
        """Add an attempt, whose slot has none of its number."""
        self.attempts.append(attempt)
        if self._by_slot:
            self._by_slot[attempt.task, attempt.index, attempt.number] = attempt

    def find(self, task: str, index: int, number: int) -> Attempt | None:
        """Return the attempt of a slot."""
        if len(self.attempts) <= _FEW:
            for attempt in self.attempts:
                if attempt.index == index and attempt.number == number and attempt.task == task:
                    return attempt
            return None
        if not self._by_slot:
            self._by_slot = {(attempt.task, attempt.index, attempt.number): attempt for attempt in self.attempts}
        return self._by_slot.get((task, index, number))


class Packed(Struct, frozen=True, gc=False):
    """A job as its records hold it. The parts of its head are apart: blocks of up to 512 bytes are reused as they grow."""

    id: str
    job: bytes
    """Begins the record of the head."""
    attempts: bytes
    """The first ones: the rest of that record."""
    pages: tuple[bytes, ...]


@dataclass(slots=True)
class State:
    """A billing shard."""

    jobs: dict[str, Known] = field(default_factory=dict)
    """Those that are at hand."""
    idle: dict[str, Packed] = field(default_factory=dict)
    """The others."""
    recent: deque[str] = field(default_factory=deque)
    """Jobs in the order in which they came to hand. Not part of the state."""
    nodes: dict[Place, Node] = field(default_factory=dict)
    """By cluster and name. Those that are gone come in the order in which they went."""
    book: Book = field(default_factory=Book)
    books: list[str] = field(default_factory=list)
    """Ids of what told of price books last."""
    periods: dict[str, str] = field(default_factory=dict)
    """Closed months, and the event that closed each."""
    sweep_at: Micros | None = None
    """When the review of all jobs goes on; `None`: there is none."""
    sweeps: int = 0
    """Reviews of all jobs so far."""
    sweep: str | None = None
    """Id behind which a review of all jobs goes on; `None`: there is none."""
    touched: dict[str, None] = field(default_factory=dict)
    changed: list[tuple[str, int]] = field(default_factory=list)
    """Attempts that the input just absorbed is about. Not part of the state."""
    marks: dict[Micros, Due] = field(default_factory=dict)
    """By hour mark. Derived."""
    hours: list[Micros] = field(default_factory=list)
    """Heap of those marks. Derived."""
    reviews: list[tuple[Micros, str]] = field(default_factory=list)
    """Heap of the jobs with a review, by when it goes on. Derived."""
    sweeping: list[str] = field(default_factory=list)
    """Heap of the jobs that the review of all still has to come to. Derived."""
    unknown: dict[Place, dict[str, None]] = field(default_factory=dict)
    """Jobs by the cluster and the node of which they wait to know something (`Job.unknown`). Derived."""

    used: dict[Place, dict[str, Micros]] = field(default_factory=dict)
    """By node the jobs that were charged by it, and when the last attempt of each got it. Derived."""
    node_reviews: list[tuple[Micros, Place]] = field(default_factory=list)
    """Heap of nodes with a review, by when it goes on. Derived."""
    reviewing: dict[Place, list[str]] = field(default_factory=dict)
    """Heaps of the jobs that these reviews still have to come to. Derived, as soon as a review is looked at."""

    def set_due(self, job: str, attempt: Attempt, mark: Micros | None) -> None:
        """Have an attempt recorded at an hour mark, and not at the one at which it was to be; `None`: at none."""
        if attempt.due is not None:
            self.marks[attempt.due].remove(job, attempt.ordinal)
        attempt.due = mark
        if mark is not None:
            self.at_mark(mark, job, attempt.ordinal)

    def at_mark(self, mark: Micros, job: str, ordinal: int) -> None:
        """Note that an attempt is to be recorded at an hour mark."""
        due = self.marks.get(mark)
        if due is None:
            due = self.marks[mark] = Due()
            heappush(self.hours, mark)
        due.add(job, ordinal)

    def ids(self) -> Iterator[str]:
        """Yield the ids of all jobs."""
        yield from self.jobs
        yield from self.idle
