"""Notices: a transition, or a crossed threshold of a budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, Literal

from engine.events import TYPES, UPCASTERS, Data, Event, Message, to_cloudevent
from engine.events.attempts import AttemptEnded, AttemptEvent
from engine.events.budgets import BudgetCrossed
from engine.events.decimals import plain
from engine.events.job_state import ENTERED, LabelledJob
from engine.events.jobs import JobOpened, JobPhaseChanged, TaskPhaseChanged
from engine.events.times import format_time
from statemachines.transition import Transition
from statemachines.vocabulary import Level

NoticeMode = Literal["live", "catchup"]


@dataclass(slots=True, frozen=True)
class Notice:
    """One transition of a job, a task or a replica. May be delivered more than once, always with the same `id`."""

    id: str
    """Id of the event; the idempotency key."""
    sequence: int
    """Sequence number among all events of the job, gapless from 1."""
    job: str
    """Job id."""
    kind: str
    """Kind such as `VCJob`, `Job`, `Trace`, as known at the transition, like the next two fields and the labels."""
    namespace: str
    name: str
    cluster: str
    level: Level
    task: str | None
    index: int | None
    """Index of the replica in its task (level replica)."""
    attempt: int | None
    """Number of the attempt within its replica, from 1 (level replica)."""
    previous: str | None
    """Phase left; `None`: the first phase."""
    phase: str
    """Phase entered."""
    reason: str | None
    exit_code: int | None
    occurred: int
    """Time of the transition (microseconds since 1970-01-01T00:00:00Z)."""
    recorded: int
    """Recorded time (microseconds)."""
    mode: NoticeMode
    """`catchup`: recorded before this consumer started."""
    labels: Mapping[str, str]
    """Labels of the job. Read-only."""
    cloudevent: bytes
    """Complete event, as a CloudEvent in JSON."""
    message: str = ""
    """Message of scheduler, kubelet, containers or the job's object; a long one is shortened in the middle."""
    inferred: bool = False
    """True if no source has shown this phase: the source had passed it already, or it follows from other facts (an end without
    evidence)."""

    def __str__(self) -> str:
        """Return a one-line text for people."""
        what = f"{self.kind} {self.namespace}/{self.name}"
        if self.level == "task":
            what += f" task {self.task}"
        elif self.level == "replica":
            what += f" {self.task}/{self.index} attempt {self.attempt}"
        change = self.phase if self.previous is None else f"{self.previous} → {self.phase}"
        why = [self.reason] if self.reason else []
        if self.exit_code is not None:
            why.append(f"exit {self.exit_code}")
        if self.inferred:
            why.append("inferred")
        suffix = f" ({', '.join(why)})" if why else ""
        said = f" “{self.message}”" if self.message else ""
        return f"{format_time(self.occurred)} {what}: {change}{suffix} [{self.mode}]{said}"


@dataclass(slots=True, frozen=True)
class BudgetNotice:
    """A crossed threshold of a tenant's budget. May be delivered more than once, always with the same `id`."""

    id: str
    """Id of the event; the idempotency key."""
    sequence: int
    """Sequence number among all events about the tenant, gapless from 1."""
    tenant: str
    period: str
    """Month such as `2026-10`, in the price book's time zone."""
    threshold: int
    """Per cent of the budget."""
    amount: Decimal
    """Exact amount on the month's invoice at that time."""
    budget: Decimal
    """Amount of the budget."""
    currency: str
    """Currency of both amounts, ISO 4217."""
    usage: str | None
    """Id of the `lahar.usage.recorded` that reached it; `None`: it was reached when the budget was set or changed."""
    job: str | None
    """Job of this usage."""
    cluster: str
    occurred: int
    """Time of the event (microseconds since 1970-01-01T00:00:00Z)."""
    recorded: int
    """Recorded time (microseconds)."""
    mode: NoticeMode
    """`catchup`: recorded before this consumer started."""
    cloudevent: bytes
    """Complete event, as a CloudEvent in JSON."""

    def __str__(self) -> str:
        """Return a one-line text for people."""
        spent = f"{plain(self.amount)} of {plain(self.budget)} {self.currency}"
        return f"{format_time(self.occurred)} tenant {self.tenant}: {self.threshold} % of {self.period} ({spent}) [{self.mode}]"


Told = Notice | BudgetNotice
"""Any notice to a receiver."""


_LEVELS: Final[dict[type[Data], Level]] = {
    JobOpened: "job",
    JobPhaseChanged: "job",
    TaskPhaseChanged: "task",
    **dict.fromkeys((*ENTERED, AttemptEnded), "replica"),
}


def _current(name: str) -> str:
    while name in UPCASTERS:
        name = UPCASTERS[name][0]
    return name


LEVELS: Final[Mapping[str, Level]] = {
    name: level for name in (*TYPES, *UPCASTERS) if (level := _LEVELS.get(TYPES[_current(name)])) is not None
}
"""Level by event type, for the types that are transitions; filters before decoding."""


def make_notice(message: Message, event: Event[Data], transition: Transition, job: LabelledJob, mode: NoticeMode) -> Notice:
    """Return the notice of a transition.

    Args:
        message: stored message of the event.
        event: decoded event.
        transition: transition in the event.
        job: facts of the job at that event.
        mode: `live` or `catchup`.
    """
    data: Any = event.data
    return Notice(
        id=event.id,
        sequence=event.sequence,
        job=event.subject,
        kind=job.kind,
        namespace=job.namespace,
        name=job.name,
        cluster=event.clusterid,
        level=transition.level,
        task=transition.task,
        index=transition.index,
        attempt=data.attempt if isinstance(data, AttemptEvent) else None,
        previous=transition.previous,
        phase=transition.phase,
        reason=transition.reason,
        exit_code=transition.exit_code,
        occurred=event.time,
        recorded=event.recordedtime,
        mode=mode,
        labels=MappingProxyType(job.labels),
        cloudevent=to_cloudevent(message),
        message=getattr(data, "message", ""),
        inferred=getattr(data, "inferred", False) or getattr(data, "skipped", False),
    )


def make_budget_notice(message: Message, event: Event[BudgetCrossed], mode: NoticeMode) -> BudgetNotice:
    """Return the notice of a crossed threshold; arguments as in `make_notice`."""
    data = event.data
    return BudgetNotice(
        id=event.id,
        sequence=event.sequence,
        tenant=data.tenant,
        period=data.period,
        threshold=data.threshold,
        amount=Decimal(data.amount),
        budget=Decimal(data.budget),
        currency=data.currency,
        usage=data.usage,
        job=data.job,
        cluster=event.clusterid,
        occurred=event.time,
        recorded=event.recordedtime,
        mode=mode,
        cloudevent=to_cloudevent(message),
    )
