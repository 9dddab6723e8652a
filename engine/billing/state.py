"""State of a billing shard: each attempt's times, sizes and end, and its recorded runs.

Plain structs, encoded in the snapshot unchanged. Fields marked *derived* are rebuilt when a snapshot is loaded.
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

PAGE: Final = 32
"""Attempts per snapshot record: about 16 KB."""
_FEW: Final = 8
"""Number of attempts above which a job has an index."""


Place = tuple[str, str]
"""Cluster and name of a node."""


class Size(Struct, array_like=True, frozen=True, gc=False):
    """Resources of one pod."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    gpu: int = 0
    gpu_nano: int | None = None
    """Nanos of a GPU, as in `Requests`."""


class Point(Struct, array_like=True, frozen=True, gc=False):
    """A time, and the event that reports it."""

    time: Micros
    id: str
    inferred: bool = False


class End(Struct, array_like=True, frozen=True, gc=False):
    """End of an attempt, by its best-ranked source."""

    time: Micros
    id: str
    rank: int
    phase: str
    reason: str | None
    inferred: bool
    replaceable: bool


class Terms(Struct, array_like=True, frozen=True, gc=False):
    """Payer of a job, and the attributes that affect its price besides the resources."""

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
    """Resources, freed by a preemption notice, that are reserved for a job."""

    since: Micros
    until: Micros
    id: str
    """Id of the event that reports it."""


class Run(Struct, array_like=True, frozen=True, gc=False):
    """Period of an attempt with one size, node, price and owner (`engine.events.billing`)."""

    record: RecordKind
    start: Micros
    end: Micros
    length: int
    kind: SegmentKind
    begun: str
    ended: str | None
    size: Size
    terms: int
    """Index in `Job.terms`."""
    node: str | None
    node_type: str | None
    gpu_model: str | None
    price_version: str | None
    month: str
    """Calendar month of its start."""
    worth: Worth
    free: bool
    """True if free of charge because of a preemption."""
    inferred_start: bool
    inferred_end: bool
    invoice: str = ""
    """Month of the invoice that lists it."""
    revision: int = 0


class Attempt(Struct, array_like=True, gc=False):
    """One attempt as job events report it, and its recorded runs."""

    task: str
    index: int
    number: int
    ordinal: int
    """Ordinal among the job's attempts, in order of their start."""
    uid: str | None
    """uid in its records; before the first record, the uid of its pod, `None` until the pod is observed."""
    created: Point
    sizes: list[tuple[Micros, str, Size]]
    """Sizes with the start of their validity and the reporting event; the first has no event of its own."""
    bound: Point | None = None
    node: str | None = None
    node_type: str | None = None
    gpu_model: str | None = None
    running: Point | None = None
    terminating: Point | None = None
    end: End | None = None
    recorded: list[Run] = []
    """Valid runs, in order."""
    marked: Micros = EARLIEST
    """Hour mark up to which it was recorded while open."""
    due: Micros | None = None
    """Next hour mark at which it is recorded; `None`: none."""
    revision: int = 0
    """Number of corrections so far."""
    fault: str | None = None
    """Reason why it cannot be billed; `None`: it can."""


class Job(Struct, array_like=True, gc=False):
    """One job, without its attempts."""

    id: str
    cluster: str
    seen: int = 0
    """Sequence number of the last absorbed job event."""
    written: int = 0
    """Sequence number of the last billing event."""
    terms: list[Terms] = []
    """All terms ever valid, referenced by index from recorded runs."""
    since: list[tuple[Micros, str, int]] = []
    """Start of validity, reporting event and index of the terms; the first is valid from the beginning."""
    finished: bool = False
    owner: bool = False
    """True if the job object was observed."""
    review: int = -1
    """Ordinal of the attempt at which the review of all attempts continues; -1: no review."""
    review_at: Micros = 0
    """Time of the next review step, if there is a review."""
    count: int = 0
    """Number of attempts."""
    open: int = 0
    """Number of attempts that have not ended."""
    unknown: list[str] = []
    """Unknown nodes of its attempts; `*`: more than are stored by name."""
    nodes: list[tuple[str, Micros]] | None = []
    """For a finished job: nodes that priced attempts, with the latest binding time; `None`: too many."""
    reservations: list[Reservation] = []
    """Reservations in order of their begin."""
    forgotten: Micros | None = None
    """Time at which the lifecycle stage forgot it; `None`: it has not."""
    review_cause: str = ""
    """Id of the last event that requested the review; empty if only facts about nodes did."""
    taken: int = -1
    """Offset in `cluster` of the last fact about a node that requested a review."""
    born: int = 0
    """Number of reviews of all jobs at its opening (`State.sweeps`)."""

    @property
    def present(self) -> Terms:
        """Terms with the latest start of validity; they may have arrived in another order."""
        return self.terms[self.since[-1][2]]


class NodeFact(Struct, array_like=True, frozen=True, gc=False):
    """Type and GPU model of a node, with the start of their validity."""

    since: Micros
    node_type: str | None
    gpu_model: str | None
    id: str
    """Id of the event that reports it."""


class NodeReview(Struct, array_like=True, frozen=True, gc=False):
    """Progress of the review of a node's jobs."""

    at: Micros
    """Due time of its next step."""
    since: Micros
    """Earliest binding time of the affected attempts."""
    job: str = ""
    """Job of the last step."""
    next: int = -1
    """Ordinal of that job's next attempt; -1: the job is done."""

    def awaits(self, job: str) -> bool:
        """Return true if a job is still to be reviewed."""
        return job > self.job or (job == self.job and self.next >= 0)


class Node(Struct, array_like=True, gc=False):
    """Facts about a node, and the review of its jobs."""

    facts: list[NodeFact] = []
    """Facts, oldest first."""
    gone: Micros | None = None
    """Time of its deletion; `None`: it exists."""
    reviews: int = 0
    """Number of reviews of its jobs so far."""
    review: NodeReview | None = None
    """Current review."""
    repeats: list[Micros] = []
    """Last times at which the fact valid then was repeated, oldest first: it stays valid from there, whatever arrives later."""
    taken: int = -1
    """Offset of the last fact about it in the topic `cluster`."""


class JobAccount(Struct, array_like=True, gc=False):
    """A job with its attempts, decoded from its head record (`engine.billing.persist`)."""

    job: Job
    attempts: list[Attempt]
    _by_slot: dict[tuple[str, int, int], Attempt] = {}
    """Index of a job with many attempts; built by its first search, never stored."""

    def add(self, attempt: Attempt) -> None:
        """Add an attempt; its number must be new in its slot."""
        self.attempts.append(attempt)
        if self._by_slot:
            self._by_slot[attempt.task, attempt.index, attempt.number] = attempt

    def find(self, task: str, index: int, number: int) -> Attempt | None:
        """Return the attempt with this task, index and number; `None` if unknown."""
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
        """Pack a job; the parts are copies of exact size, because an encoder's bytes occupy a larger block."""
        middle = len(head) // 2
        return cls(ident, head[:middle], head[middle:], pages)


@dataclass(slots=True)
class State:
    """State of a billing shard."""

    jobs: dict[str, JobAccount] = field(default_factory=dict)
    """Unpacked jobs."""
    idle: dict[str, Packed] = field(default_factory=dict)
    """Packed jobs."""
    recent: deque[str] = field(default_factory=deque)
    """Jobs in order of unpacking. Not part of the state."""
    nodes: dict[Place, Node] = field(default_factory=dict)
    """Nodes by cluster and name; deleted ones in order of deletion."""
    book: Book = field(default_factory=Book)
    books: list[str] = field(default_factory=list)
    """Ids of the events of the last price books."""
    periods: dict[str, str] = field(default_factory=dict)
    """Closing event by closed month."""
    sweeps: int = 0
    """Number of reviews of all jobs so far."""
    sweep_at: Micros = 0
    """Due time of the last review of all jobs."""
    sweep_cause: str = ""
    """Id of the price book's event that requested it."""
    swept: tuple[int, str] = (0, "")
    """Number of the last started review of all jobs, and the last reviewed job, in order of ids."""
    touched: dict[str, None] = field(default_factory=dict)
    changed: list[tuple[str, int]] = field(default_factory=list)
    """Attempts affected by the input just absorbed. Not part of the state."""
    marks: dict[Micros, HourIndex] = field(default_factory=dict)
    """Due attempts by hour mark. Derived."""
    hours: list[Micros] = field(default_factory=list)
    """Heap of those hour marks. Derived."""
    reviews: list[tuple[Micros, str]] = field(default_factory=list)
    """Heap of the jobs under review, by the time of the next step. Derived."""
    ahead: dict[str, int] = field(default_factory=dict)
    """Number of reviews of all jobs at a job's opening (`Job.born`), for jobs newer than the snapshot's count. Derived."""
    sweeping: list[str] = field(default_factory=list)
    """Heap of the jobs still to be reviewed by the review of all jobs. Derived."""
    unknown: dict[Place, dict[str, None]] = field(default_factory=dict)
    """Jobs by the node whose first observation they need (`Job.unknown`). Derived."""
    used: dict[Place, dict[str, Micros]] = field(default_factory=dict)
    """Priced jobs by node, with the latest binding time of each. Derived."""
    node_reviews: list[tuple[Micros, Place]] = field(default_factory=list)
    """Heap of the nodes under review, by the time of the next step. Derived."""
    unsettled: list[tuple[Micros, str]] = field(default_factory=list)
    """Forgotten jobs, by time, that have unpriced usage or a pending review. Derived."""
    reviewing: dict[Place, list[str]] = field(default_factory=dict)
    """Heaps of the jobs still to be reviewed, by node; built by the first step. Derived."""

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
        """Return true if the review of all jobs has not reached a job yet."""
        return job.born < self.sweeps and (self.sweeps, job.id) > self.swept

    def node_of(self, job: Job, attempt: Attempt) -> Node | None:
        """Return an attempt's node; `None` if unknown or unbound."""
        return None if attempt.node is None else self.nodes.get((job.cluster, attempt.node))

    def facts_of(self, job: Job, attempt: Attempt) -> Sequence[NodeFact]:
        """Return the facts about an attempt's node, oldest first."""
        node = self.node_of(job, attempt)
        return () if node is None else node.facts

    def ids(self) -> Iterator[str]:
        """Yield the ids of all jobs."""
        yield from self.jobs
        yield from self.idle
