"""State of a billing shard: each attempt's times, sizes and end, and its recorded runs.

Plain structs, written to the snapshot as they are. Fields marked *derived* are rebuilt when a snapshot is loaded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappush
from typing import Final, NamedTuple

from msgspec import Struct

from engine.billing.book import Book
from engine.billing.hour_index import HourIndex
from engine.events.billing import RecordKind, SegmentKind, Worth
from engine.events.times import EARLIEST, Micros

__all__ = [
    "PAGE",
    "Attempt",
    "End",
    "Job",
    "Node",
    "NodeFact",
    "NodeReview",
    "Packed",
    "Place",
    "Point",
    "Reservation",
    "Run",
    "Size",
    "State",
    "Terms",
]

PAGE: Final = 32
"""Attempts in one record of the snapshot: some 16 KB."""
_FEW: Final = 8
"""A job of more attempts gets an index."""


Place = tuple[str, str]
"""Cluster and name of a node."""


class Size(Struct, array_like=True, frozen=True, gc=False):
    """Resources of one pod."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    gpu: int = 0
    gpu_nano: int | None = None
    """As in `Requests`."""


class Point(Struct, array_like=True, frozen=True, gc=False):
    """A moment, and the event that reports it."""

    time: Micros
    id: str
    inferred: bool = False


class End(Struct, array_like=True, frozen=True, gc=False):
    """How an attempt ended, by its best-ranked source."""

    time: Micros
    id: str
    rank: int
    phase: str
    reason: str | None
    inferred: bool
    replaceable: bool


class Terms(Struct, array_like=True, frozen=True, gc=False):
    """Who pays, and what the price depends on besides the resources."""

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


class Reservation(NamedTuple):
    """A place that a notice of preemption has freed is kept for a job."""

    since: Micros
    until: Micros
    id: str
    """Of the event that says so."""


class Run(Struct, array_like=True, frozen=True, gc=False):
    """A stretch of an attempt with one size, node, price and owner (`engine.events.billing`)."""

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
    """Calendar month of its start."""
    worth: Worth
    free: bool
    """Free of charge because of a preemption."""
    inferred_start: bool
    inferred_end: bool
    invoice: str = ""
    """Month whose invoice lists it."""
    revision: int = 0


class Attempt(Struct, array_like=True, gc=False):
    """One attempt as job events report it, and its recorded runs."""

    task: str
    index: int
    number: int
    ordinal: int
    """Among the job's attempts, in the order in which they started."""
    uid: str | None
    """uid of its records; before the first of them that of its pod, `None` until the pod is seen."""
    created: Point
    sizes: list[tuple[Micros, str, Size]]
    """Sizes with the time from which each holds and the event that reports it; the first has no event of its own."""
    bound: Point | None = None
    node: str | None = None
    node_type: str | None = None
    gpu_model: str | None = None
    running: Point | None = None
    terminating: Point | None = None
    end: End | None = None
    recorded: list[Run] = []
    """In order; the latest record of every stretch."""
    marked: Micros = EARLIEST
    """Hour mark up to which it was recorded while it was open."""
    due: Micros | None = None
    """Hour mark at which it is recorded next."""
    revision: int = 0
    """Number of corrections so far."""
    fault: str | None = None
    """Why it cannot be billed."""


class Job(Struct, array_like=True, gc=False):
    """One job, without its attempts."""

    id: str
    cluster: str
    seen: int = 0
    """Sequence of its last job event taken."""
    written: int = 0
    """Sequence of the last billing event about it."""
    terms: list[Terms] = []
    """All that ever held: recorded runs refer to them by place."""
    since: list[tuple[Micros, str, int]] = []
    """Which of them hold from when, and the event that reports it; the first holds from the beginning."""
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
    reservations: list[Reservation] = []
    """In the order in which they began."""
    forgotten: Micros | None = None
    """When the lifecycle stage forgot it; `None`: it has not."""
    review_cause: str = ""
    """Id of the last event that asked for the review, if there is one; empty: facts about nodes alone did."""
    taken: int = -1
    """Offset in the topic `cluster` of the last fact about a node that asked for a review."""
    born: int = 0
    """Number of reviews of all jobs when it was opened (`State.sweeps`)."""

    @property
    def present(self) -> Terms:
        """The terms that hold last; those of `since` may have been heard of in another order."""
        return self.terms[self.since[-1][2]]


class NodeFact(Struct, array_like=True, frozen=True, gc=False):
    """A node's type and GPU model, and from when they hold."""

    since: Micros
    node_type: str | None
    gpu_model: str | None
    id: str
    """Of the event that says so."""


class NodeReview(Struct, array_like=True, frozen=True, gc=False):
    """Progress of the review of the jobs that were on a node."""

    at: Micros
    """When its next step is due."""
    since: Micros
    """Attempts bound to the node before this are not affected."""
    job: str = ""
    """Job of the last step."""
    next: int = -1
    """Ordinal of that job's attempt to continue with; -1: the job is done."""

    def awaits(self, job: str) -> bool:
        """Tell whether a job is still to be reviewed."""
        return job > self.job or (job == self.job and self.next >= 0)


class Node(Struct, array_like=True, gc=False):
    """What is known of a node."""

    facts: list[NodeFact] = []
    """Oldest first."""
    gone: Micros | None = None
    """When its object was deleted."""
    reviews: int = 0
    """Reviews of its jobs so far."""
    review: NodeReview | None = None
    """The one in progress."""
    heard: list[Micros] = []
    """Last moments, oldest first, at which was repeated what held then: it holds from there on, whatever is heard later."""
    taken: int = -1
    """Offset of the last fact about it in the topic `cluster`."""


class JobAccount(Struct, array_like=True, gc=False):
    """A job with its attempts, read from its head: the job and its first attempts (`engine.billing.persist`)."""

    job: Job
    attempts: list[Attempt]
    _by_slot: dict[tuple[str, int, int], Attempt] = {}
    """Index of a job of many attempts; built by its first search, never written."""

    def add(self, attempt: Attempt) -> None:
        """Add an attempt; its number must be new in its slot."""
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
    """A job as encoded records. The head is in two parts, because the allocator reuses blocks of up to 512 bytes."""

    id: str
    begin: bytes
    """First part of the head."""
    rest: bytes
    """Second part of the head."""
    pages: tuple[bytes, ...]

    @classmethod
    def of(cls, ident: str, head: bytes, pages: tuple[bytes, ...]) -> Packed:
        """Pack a job; the parts are copies of exact size, while an encoder's bytes keep a larger block."""
        middle = len(head) // 2
        return cls(ident, head[:middle], head[middle:], pages)


@dataclass(slots=True)
class State:
    """A billing shard."""

    jobs: dict[str, JobAccount] = field(default_factory=dict)
    """Jobs in use."""
    idle: dict[str, Packed] = field(default_factory=dict)
    """The other jobs."""
    recent: deque[str] = field(default_factory=deque)
    """Jobs in the order in which they were unpacked. Not part of the state."""
    nodes: dict[Place, Node] = field(default_factory=dict)
    """By cluster and name; deleted ones in the order of their deletion."""
    book: Book = field(default_factory=Book)
    books: list[str] = field(default_factory=list)
    """Ids of the last price books' events."""
    periods: dict[str, str] = field(default_factory=dict)
    """Closed months and the event that closed each."""
    sweeps: int = 0
    """Number of reviews of all jobs so far."""
    sweep_at: Micros = 0
    """When the steps of the last review of all jobs are due."""
    sweep_cause: str = ""
    """Id of the price book that it is for."""
    swept: tuple[int, str] = (0, "")
    """Number of the last review that has begun, and the job that it has come to. The jobs follow in the order of their ids."""
    touched: dict[str, None] = field(default_factory=dict)
    changed: list[tuple[str, int]] = field(default_factory=list)
    """Attempts affected by the input just absorbed. Not part of the state."""
    marks: dict[Micros, HourIndex] = field(default_factory=dict)
    """By hour mark. Derived."""
    hours: list[Micros] = field(default_factory=list)
    """Heap of those marks. Derived."""
    reviews: list[tuple[Micros, str]] = field(default_factory=list)
    """Heap of the jobs under review, by the time of the next step. Derived."""
    ahead: dict[str, int] = field(default_factory=dict)
    """Number of reviews that jobs were opened behind (`Job.born`), of jobs of a snapshot that is behind them. Derived."""
    sweeping: list[str] = field(default_factory=list)
    """Heap of the jobs still to be visited by the review of all jobs. Derived."""
    unknown: dict[Place, dict[str, None]] = field(default_factory=dict)
    """Jobs by the node whose first observation they await (`Job.unknown`). Derived."""
    used: dict[Place, dict[str, Micros]] = field(default_factory=dict)
    """By node the jobs that it priced, and when the last attempt of each was bound to it. Derived."""
    node_reviews: list[tuple[Micros, Place]] = field(default_factory=list)
    """Heap of the nodes under review, by the time of the next step. Derived."""
    unsettled: list[tuple[Micros, str]] = field(default_factory=list)
    """Forgotten jobs, by when they were forgotten: a price is missing on the bill of each, or it is under review. Derived."""
    reviewing: dict[Place, list[str]] = field(default_factory=dict)
    """Heaps of the jobs still to be visited by these reviews; built by the first step. Derived."""

    def set_due(self, job: str, attempt: Attempt, mark: Micros | None) -> None:
        """Move an attempt to an hour mark; `None`: to none."""
        if attempt.due is not None:
            self.marks[attempt.due].remove(job, attempt.ordinal)
        attempt.due = mark
        if mark is not None:
            self.at_mark(mark, job, attempt.ordinal)

    def at_mark(self, mark: Micros, job: str, ordinal: int) -> None:
        """Add an attempt to an hour mark."""
        due = self.marks.get(mark)
        if due is None:
            due = self.marks[mark] = HourIndex()
            heappush(self.hours, mark)
        due.add(job, ordinal)

    def awaits_sweep(self, job: Job) -> bool:
        """Tell whether the review of all jobs has still to come to a job."""
        return job.born < self.sweeps and (self.sweeps, job.id) > self.swept

    def node_of(self, job: Job, attempt: Attempt) -> Node | None:
        """Return what is known of an attempt's node; `None`: nothing, or it has none."""
        return None if attempt.node is None else self.nodes.get((job.cluster, attempt.node))

    def facts_of(self, job: Job, attempt: Attempt) -> Sequence[NodeFact]:
        """Return what is known of an attempt's node, oldest first."""
        node = self.node_of(job, attempt)
        return () if node is None else node.facts

    def ids(self) -> Iterator[str]:
        """Yield the ids of all jobs."""
        yield from self.jobs
        yield from self.idle
