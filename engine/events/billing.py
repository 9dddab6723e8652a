"""Billing events: what attempts used, as the billing stage writes it to `billing`, keyed by job id; and the closing of a period.

A *run* is a stretch of one attempt in which nothing changes that its charge depends on. It stands for slices, one for each hour
that it touches, and each slice for one record per meter (`engine.billing.records`): so a month in one state is one event.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from engine.events.times import Duration, Micros
from engine.events.values import Name
from engine.events.vocabulary import Data, event, part

__all__ = [
    "Charge",
    "PeriodClosed",
    "RecordKind",
    "Reversed",
    "SegmentKind",
    "UsageFailed",
    "UsageRecorded",
    "UsageReviewed",
    "UsageWithdrawn",
    "Worth",
]

SegmentKind = Literal["queued", "bound", "running", "terminating"]
"""What the attempt was doing."""

RecordKind = Literal["usage", "excess", "reversal"]
"""`excess`: what increments and minimum add to the attempt's time. `reversal`: takes a record of a closed period back."""

Worth = Literal["useful", "failed", "preempted", "restarted"]
"""What the use was worth, by the end of its attempt as far as it is known: all but `useful` is waste."""

Period = Name
"""A calendar month in the price book's time zone, `2026-10`."""


@part
class Charge:
    """What a second of a run costs by one meter."""

    meter: Literal["gpu_seconds", "cpu_seconds", "memory_byte_seconds", "weighted_seconds"]
    """What is measured."""
    size: str
    """How much of it a second takes: 2 devices, 0.5 cores, bytes; a decimal number."""
    price: str | None = None
    """For one unit of the meter, after the factors; a decimal number. `None`: no price is known, and nothing is charged."""
    quantity: str = "0"
    """Of the whole run; below zero in a reversal."""
    amount: str = "0"
    """Quantity times price, exact."""


@part
class Reversed:
    """What a reversal takes back: the records of the same stretch that stand on an earlier invoice."""

    record: Literal["usage", "excess"]
    """What the records were."""
    period: Period
    """On whose invoice they stand."""
    revision: int
    """Theirs."""


@part
class Usage(Data):
    """Which attempt it is about."""

    task: str
    """Name of the task."""
    index: int
    """Replica of the task."""
    attempt: int
    """Number of the attempt within its replica, from 1."""
    uid: str
    """The pod's uid; of an attempt without a pod `JOB/TASK/INDEX/ATTEMPT`."""


@event("lahar.usage.recorded.v1", topic="billing")
class UsageRecorded(Usage):
    """An attempt used resources from `start` to `end`, and what that costs."""

    record: RecordKind
    """What its records are."""
    start: Micros
    """When the use began."""
    end: Micros
    """When it ended; exclusive."""
    length: Duration
    """What is charged: `end - start`, of an excess what it adds, of a reversal the negative of what it takes back."""
    kind: SegmentKind
    """What the attempt was doing."""
    begun: str
    """Id of the event that starts the segment."""
    period: Period
    """On whose invoice it stands."""
    ended: str | None = None
    """Id of the event that ends it; `None`: a mark of the clock or the price book does."""
    revision: int = 0
    """How often the attempt's records had been corrected. In an open period the highest one of a slice stands."""
    month: Period | None = None
    """In which the use lies, where that is another one: its own was closed when this was learnt."""
    reverses: Reversed | None = None
    """What a reversal takes back."""
    cpu_milli: int = 0
    """What the pod has: of a core in thousandths."""
    memory_bytes: int = 0
    """Memory of the pod."""
    gpu: int = 0
    """Whole devices."""
    charges: list[Charge] = field(default_factory=list)
    """One for each meter of which the pod takes something."""
    currency: str | None = None
    """ISO 4217; `None`: there is no price book."""
    price_version: str | None = None
    """In force at `start`; `None`: none was."""
    factors: dict[str, str] = field(default_factory=dict)
    """What the price was multiplied by, in order: the factor by its name."""
    worth: Worth = "useful"
    """By the end of the attempt, as far as it is known."""
    inferred_start: bool = False
    """Its start is not what a node said but the best that is known."""
    inferred_end: bool = False
    """The same of its end."""
    tenant: str = ""
    """The job's: its label, else its namespace."""
    project: str = ""
    """The job's."""
    queue: str = ""
    """The job's."""
    user: str = ""
    """As the source gave it."""
    namespace: str = ""
    """The job's."""
    job_kind: str = ""
    """As of `lahar.job.opened`."""
    job_name: str = ""
    """The job's name."""
    labels: dict[str, str] = field(default_factory=dict)
    """The job's."""
    priority_class: str | None = None
    """The job's."""
    preemptible: bool = False
    """The job's label `volcano.sh/preemptable` is `true`."""
    node: str | None = None
    """Where the attempt was."""
    node_type: str | None = None
    """By the node's labels when the attempt got it, or the first that are known later; `None`: unknown."""
    gpu_model: str | None = None
    """The same."""
    terms: int = 0
    """Number of what was known of the job: tenant, queue and so on."""
    at_mark: bool = False
    """A timer wrote it: a mark of the clock, or the next step of a review."""


@event("lahar.usage.withdrawn.v1", topic="billing")
class UsageWithdrawn(Usage):
    """What was recorded of an open period is void from `start` to `end`; what replaces it, if anything does, follows."""

    record: Literal["usage", "excess"]
    """Which records are void."""
    start: Micros
    """Those whose slice begins from here on are."""
    end: Micros
    """Exclusive."""
    period: Period
    """On whose invoice they stood."""
    revision: int
    """Of what replaces them."""
    at_mark: bool = False
    """A timer wrote it."""
    tenant: str = ""
    """Whose they were."""
    job_kind: str = ""
    """The job's, as they had it."""
    amount: str | None = None
    """What they cost in all, exact; `None`: a later price book has dropped the version that priced them."""


@event("lahar.usage.failed.v1", topic="billing")
class UsageFailed(Usage):
    """The use of an attempt could not be charged; it stands as it was recorded, and is tried again with what comes later."""

    error: str
    """Why."""
    at_mark: bool = False
    """A timer wrote it."""


@event("lahar.usage.reviewed.v1", topic="billing", stability="operational")
class UsageReviewed(Data):
    """Attempts of a job were looked at again, because an hour, a price or a fact about their nodes or job had changed."""

    next: int
    """Number of the job's attempt, in the order in which they started, at which it goes on; -1: it is done."""
    mark: Micros | None = None
    """An hour mark at which the attempt `next` was looked at, and nothing was to be charged."""
    sweep: int | None = None
    """Number of the review of all jobs, or of those of `node`, that it is a part of."""
    node: Name | None = None
    """The node whose jobs are reviewed, because what is known of it has changed."""
    last: bool = False
    """That review is over."""


@event("lahar.period.closed.v1", topic="cluster")
class PeriodClosed(Data):
    """A month's invoices are final: whatever is learnt about it later stands on those of a later month."""

    period: Period
    """The month."""
    by: Name = ""
    """Stated sender."""
