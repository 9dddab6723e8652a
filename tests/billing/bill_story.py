"""Tells a billing shard of jobs one sentence at a time; times are seconds behind noon of 2 March 2026 (UTC)."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any, Final

from billing_shard import append, opened
from job_programs import CLUSTER, SECOND
from standing import standing, written

from engine.billing.records import Record
from engine.events import Data, Event, Topic
from engine.events.attempts import AttemptBound, AttemptEnded, AttemptLateFact, AttemptRunning, AttemptStarted
from engine.events.billing import PeriodClosed
from engine.events.ids import digest
from engine.events.inputs import NodeObserved, ObjectApplied
from engine.events.jobs import JobOpened
from engine.events.times import parse_time
from engine.log.memory import MemoryLog
from statemachines.spec import JobSpec, Requests

NOON: Final = parse_time("2026-03-02T12:00:00Z")
PRICES: Final = {"gpu_seconds": {"*": "0.1"}}
ONE_GPU: Final = Requests(gpu=1)


class Story:
    """A shard of billing, and what it is told."""

    def __init__(self) -> None:
        self.log = MemoryLog(clock=lambda: 1 << 60)
        self.shard = opened(self.log)
        self.sequences: Counter[str] = Counter()
        self.said = 0
        self.outage = False
        """Inputs wait."""

    def say(self, topic: Topic, data: Data, subject: str, at: float, recorded: float | None = None) -> None:
        """Append one input, and let the shard take it."""
        time, now = (NOON + round(moment * SECOND) for moment in (at, at if recorded is None else recorded))
        self.said += 1
        if topic == "job-events":
            self.sequences[subject] += 1
        sequence = self.sequences[subject] if topic == "job-events" else 0
        ident = digest(f"{topic} {self.said}".encode())
        append(self.log, [(topic, Event(ident, "test", data.TYPE, subject, time, now, sequence, subject, "", CLUSTER, data))])
        if not self.outage:
            self.shard.step()

    # --- jobs -------------------------------------------------------------------------------------------------------------

    def start(self, job: str, index: int, at: float, number: int = 1, requests: Requests = ONE_GPU, **told: Any) -> None:
        """An attempt is seen; with its job, if that is new."""
        if not self.sequences[job]:
            self.say("job-events", JobOpened("Job", job, managed=False, spec=JobSpec(), tenant="team"), job, at, **told)
        uid = f"{job}/{index}/{number}"
        self.say("job-events", AttemptStarted("main", index, number, uid=uid, requests=requests), job, at, **told)

    def run(self, job: str, index: int, at: float, number: int = 1, node: str = "n1", **told: Any) -> None:
        """It is bound, and runs."""
        self.say("job-events", AttemptBound("main", index, number, node=node), job, at, **told)
        self.say("job-events", AttemptRunning("main", index, number), job, at, **told)

    def end(self, job: str, index: int, at: float, number: int = 1, recorded: float | None = None, **told: Any) -> None:
        """It ends."""
        self.say("job-events", AttemptEnded("main", index, number, **told), job, at, recorded)

    def late(self, job: str, index: int, at: float, number: int = 1, recorded: float | None = None, **told: Any) -> None:
        """More is learnt of it."""
        self.say("job-events", AttemptLateFact("main", index, number, **told), job, at, recorded)

    # --- the cluster ------------------------------------------------------------------------------------------------------

    def prices(self, *versions: dict[str, Any], at: float = 0, **book: Any) -> None:
        """A price book is applied; a version begins a year before unless it says when."""
        told = [{"version": f"v{place}", "from": NOON - 365 * 86_400 * SECOND, **one} for place, one in enumerate(versions)]
        spec = {"currency": "EUR", "versions": told, **book}
        self.say("cluster", ObjectApplied("PriceBook", "prices", spec), "prices", at)

    def close(self, period: str, at: float) -> None:
        """A month is closed."""
        self.say("cluster", PeriodClosed(period), CLUSTER, at)

    def wait(self, until: float) -> None:
        """Time passes; what is put off is done."""
        self.say("cluster", NodeObserved("clock"), "clock", until)
        self.shard.run_until_quiet()

    def idle(self) -> None:
        """A commit with nothing to do writes a part of the snapshot."""
        self.shard.step()

    # --- the bill ---------------------------------------------------------------------------------------------------------

    def records(self, job: str | None = None) -> list[Record]:
        """Return what stands."""
        return [record for record in standing(written(self.log)) if job in {None, record.job}]

    def seconds(self, job: str | None = None) -> Decimal:
        """Return the seconds of GPUs that stand."""
        return sum((record.quantity for record in self.records(job) if record.charge.meter == "gpu_seconds"), Decimal(0))

    def amount(self, job: str | None = None) -> Decimal:
        """Return what stands to be paid."""
        return sum((record.amount for record in self.records(job)), Decimal(0))
