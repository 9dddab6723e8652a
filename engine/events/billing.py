"""Billing events: what attempts used, as the billing stage writes it to `billing`, keyed by job id; and the closing of a period.

A *run* is a stretch of one attempt with constant terms of charge. It consists of slices, one for each hour that it touches, and
each slice of one record per meter (`engine.billing.records`): so a month in one state is one event.
"""

from __future__ import annotations

from typing import Literal

from msgspec import field

from engine.events.times import Duration, Micros
from engine.events.values import Name
from engine.events.vocabulary import Data, event
from statemachines.value import Value

SegmentKind = Literal["queued", "reserved", "bound", "running", "terminating"]
"""Phase of the attempt. `reserved`: it waits while the place that a notice of preemption has freed is kept for its job."""

RecordKind = Literal["usage", "excess", "reversal"]
"""`excess`: time added by increments and minimum. `reversal`: cancels a record of a closed period."""

Worth = Literal["useful", "failed", "preempted", "restarted", "reserved"]
"""Worth of a use, by the end of its attempt if that is known: all but `useful` is waste. `reserved`: capacity that is kept idle."""

Period = Name
"""A calendar month in the price book's time zone, `2026-10`."""


class Charge(Value):
    """Charge of a run by one meter."""

    meter: Literal["gpu_seconds", "cpu_seconds", "memory_byte_seconds", "weighted_seconds"]
    """Meter."""
    size: str
    """Amount per second: 2 devices, 0.5 cores, bytes; a decimal number."""
    price: str | None = None
    """Price of one unit of the meter, after the factors; a decimal number. `None`: no price is known, and nothing is charged."""
    quantity: str = "0"
    """Quantity of the whole run; below zero in a reversal."""
    amount: str = "0"
    """Quantity times price, exact."""


class Reversed(Value):
    """Records of the same stretch on an earlier invoice, which a reversal cancels."""

    record: Literal["usage", "excess"]
    """Kind of these records."""
    period: Period
    """Month of their invoice."""
    revision: int
    """Their revision."""


class Usage(Data):
    """Names the attempt."""

    task: str
    """Name of the task."""
    index: int
    """Slot within the task, from 0."""
    attempt: int
    """Number of the attempt within its replica, from 1."""
    uid: str
    """uid of the pod; `JOB/TASK/INDEX/ATTEMPT` in all events of an attempt whose pod was unknown at its first record."""


@event("lahar.usage.recorded.v1", topic="billing")
class UsageRecorded(Usage):
    """An attempt used resources from `start` to `end`, with their cost."""

    record: RecordKind
    """Kind of its records."""
    start: Micros
    """Start of the use."""
    end: Micros
    """End of the use; exclusive."""
    length: Duration
    """Charged time: `end - start`; for an excess the added time, for a reversal the negative of the cancelled time."""
    kind: SegmentKind
    """Phase of the attempt."""
    begun: str
    """Id of the event that starts the segment."""
    period: Period
    """Month of its invoice."""
    ended: str | None = None
    """Id of the event that ends it; `None`: an hour mark or the price book ends it."""
    revision: int = 0
    """Number of corrections of the attempt's records so far. In an open period the highest revision of a slice counts."""
    month: Period | None = None
    """Month of the use, if it is not `period`: it was closed before this was known."""
    reverses: Reversed | None = None
    """Records that a reversal cancels."""
    cpu_milli: int = 0
    """CPU of the pod, in thousandths of a core."""
    memory_bytes: int = 0
    """Memory of the pod."""
    gpu: int = 0
    """GPUs of the pod; a part of one counts as one."""
    charges: list[Charge] = field(default_factory=list)
    """One for each meter that the pod uses."""
    currency: str | None = None
    """ISO 4217; `None`: there is no price book."""
    price_version: str | None = None
    """Price version in force at `start`; `None`: none."""
    factors: dict[str, str] = field(default_factory=dict)
    """Factors of the price in order of multiplication: name → factor."""
    worth: Worth = "useful"
    """Worth by the end of the attempt, if that is known."""
    inferred_start: bool = False
    """Its start is the best known time, not one stated by a node."""
    inferred_end: bool = False
    """Its end is the best known time, not one stated by a node."""
    tenant: str = ""
    """Tenant of the job: its label, else its namespace."""
    project: str = ""
    """Project of the job."""
    queue: str = ""
    """Queue of the job."""
    user: str = ""
    """User of the job, as the source gave it."""
    namespace: str = ""
    """Namespace of the job."""
    job_kind: str = ""
    """Kind of the job, as in `lahar.job.opened`."""
    job_name: str = ""
    """Name of the job."""
    labels: dict[str, str] = field(default_factory=dict)
    """Labels of the job: the first ones by name, 4,096 characters of names and values together."""
    priority_class: str | None = None
    """Priority class of the job."""
    preemptible: bool = False
    """The job's label `volcano.sh/preemptable` is `true`."""
    node: str | None = None
    """Node of the attempt; `queued` and `reserved` time has none, but earlier builds gave it one."""
    node_type: str | None = None
    """Type by the node's labels when the attempt got it, or by the first ones known later; `None`: unknown."""
    gpu_model: str | None = None
    """GPU model, in the same way."""
    terms: int = 0
    """Number of the job's terms (tenant, queue and so on) that hold here."""
    at_mark: bool = False
    """Written by a timer: an hour mark, or the next step of a review."""
    gpu_nano: int | None = None
    """Billionths of GPUs of the pod, if they are no whole number; `None`: `gpu`."""


@event("lahar.usage.withdrawn.v1", topic="billing")
class UsageWithdrawn(Usage):
    """Records of an open period are void from `start` to `end`; their replacement, if any, follows."""

    record: Literal["usage", "excess"]
    """Kind of the void records."""
    start: Micros
    """Start of the first void slice."""
    end: Micros
    """End of the last void slice; exclusive."""
    period: Period
    """Month of their invoice."""
    revision: int
    """Revision of their replacement."""
    at_mark: bool = False
    """Written by a timer."""
    tenant: str = ""
    """Tenant in these records."""
    job_kind: str = ""
    """Kind of the job in these records."""
    amount: str | None = None
    """Their total cost, exact; `None`: a later price book has dropped the version that priced them."""


@event("lahar.usage.failed.v1", topic="billing")
class UsageFailed(Usage):
    """The use of an attempt could not be charged; its records stay, and the next event of the job tries again."""

    error: str
    """Why it could not be charged."""
    at_mark: bool = False
    """Written by a timer."""
    tenant: str = ""
    """Tenant of the job."""
    job_kind: str = ""
    """Kind of the job."""


@event("lahar.usage.reviewed.v1", topic="billing", stability="operational")
class UsageReviewed(Data):
    """Attempts of a job were reviewed after a change of an hour, a price, or a fact about their nodes or job."""

    next: int
    """Number of the attempt at which the review continues, in order of start; -1: it is complete."""
    mark: Micros | None = None
    """Hour mark at which the attempt `next` had nothing to charge."""
    sweep: int | None = None
    """Number of the review of all jobs, or of the jobs of `node`, that it is part of."""
    node: Name | None = None
    """The node whose jobs are reviewed, because facts about it have changed."""
    last: bool = False
    """It is the last step of that review."""
    forgotten: bool = False
    """The job, forgotten long ago, leaves the state of billing although its use has no price: there are too many such jobs."""


@event("lahar.period.closed.v1", topic="cluster")
class PeriodClosed(Data):
    """A month's invoices are final: later corrections go to the invoices of a later month."""

    period: Period
    """The month."""
    by: Name = ""
    """Stated sender."""
