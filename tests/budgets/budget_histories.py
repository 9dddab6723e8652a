"""Random billing histories with budgets: what the billing shards write of random programs, on a log of several partitions.

The oracle adds the records up that stand, in fractions and from the beginning each time, and compares by the rules of the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from billing_shard import append, opened, tick
from hypothesis import strategies as st
from job_programs import CLUSTER, HOUR, STARTS, STEPS, Program, Step
from standing import standing

from engine.budgets.stage import BudgetsStage
from engine.budgets.state import State
from engine.events import Event, Message, decode
from engine.events.billing import Usage, UsageReviewed
from engine.events.budgets import BudgetCrossed
from engine.events.inputs import ObjectApplied
from engine.events.jobs import JobOpened, JobRevised
from engine.events.outcomes import Accounted
from engine.events.times import format_time
from engine.log.memory import MemoryLog
from engine.processor.processor import Processor

PARTITIONS = 3
THRESHOLDS = [1, 5, 20, 50, 80, 100, 250, 1000]


def budget_given(tenant: str, now: int, number: int, budget: dict[str, Any] | None) -> Event[Any]:
    """A Tenant, applied now."""
    data = ObjectApplied("Tenant", tenant, {} if budget is None else {"budget": budget})
    return Event(f"tenant-{number}", "test", data.TYPE, tenant, now, now, 0, "", "", CLUSTER, data)


def _step(*names: str) -> st.SearchStrategy[Step]:
    return st.tuples(st.sampled_from(names), st.integers(0, 8), st.integers(0, 59), st.integers(0, 71))


def _of_two_tenants(event: Event[Any], place: int) -> Event[Any]:
    data = event.data
    if isinstance(data, JobOpened):
        return replace(event, data=replace(data, tenant="t1" if event.subject == "j1" else "t0"))
    if isinstance(data, JobRevised) and data.tenant is not None:
        return replace(event, data=replace(data, tenant=f"t{place % 2}"))
    return event


@st.composite
def histories(draw: st.DrawFn) -> Program:
    """Draw a program, and put budgets between its inputs."""
    program = Program(draw(st.sampled_from(STARTS)), "UTC")
    for step in (("book", 0, 0, 0), ("start", 0, 5, 1), ("run", 0, 0, 2), ("start", 1, 2, 1), ("run", 1, 0, 2), ("wait", 0, 0, 0)):
        program.do(step)
    for step in draw(st.lists(_step(*STEPS), min_size=4, max_size=14)):
        program.do(step)
    if draw(st.booleans()):  # more is learnt once months are closed
        while program.live:
            program.do(draw(_step("end")))
        program.now += 40 * 24 * HOUR
        for back in (40, 39, 20):
            program.close(program.now - back * 24 * HOUR)
        for step in draw(st.lists(_step("late", "late", "revise", "node_late", "book"), min_size=2, max_size=6)):
            program.do(step)
    program.inputs[:] = [(topic, _of_two_tenants(event, place)) for place, (topic, event) in enumerate(program.inputs)]
    budgets = st.fixed_dictionaries(
        {
            "amount": st.sampled_from(["1", "40", "200", "3000"]),
            "currency": st.sampled_from(["EUR", "EUR", "EUR", "EUR", "USD"]),
            "thresholds": st.lists(st.sampled_from(THRESHOLDS), min_size=3, max_size=6, unique=True),
        }
    )
    first = draw(st.tuples(st.just(0), st.just("t0"), budgets))
    place, tenant = st.integers(0, len(program.inputs)), st.sampled_from(["t0", "t0", "t1"])
    given = [first, *draw(st.lists(st.tuples(place, tenant, st.one_of(budgets, budgets, st.none())), max_size=5))]
    for number, (at, name, budget) in enumerate(given):
        now = program.inputs[min(at, len(program.inputs) - 1)][1].recordedtime
        program.inputs.insert(at, ("cluster", budget_given(name, now, number, budget)))
    return program


def billing(program: Program, partitions: int = PARTITIONS) -> Iterator[MemoryLog]:
    """Let the billing shards take a program, and yield the log behind each input."""
    log = MemoryLog(partitions, clock=lambda: 1 << 60)
    shards = [opened(log, number=number) for number in range(partitions)]
    for given in (*program.inputs, *(tick(program.now + hours * HOUR) for hours in (6, 7))):
        append(log, [given])
        for shard in shards:
            shard.run_until_quiet()
        yield log


def billed(program: Program) -> MemoryLog:
    """Return a log with the bills of a program."""
    *_, log = billing(program)
    return log


def shard_of(log: MemoryLog, *, batch: int = 500, every: int = 100_000) -> Processor[State]:
    """Return the open shard of budgets."""
    processor = Processor(log, BudgetsStage(), 0, batch=batch, snapshot_every=every)
    processor.open()
    return processor


def outputs(log: MemoryLog) -> list[Message]:
    """Return what the shard has written, without what depends on how inputs fall into commits."""
    return [record.message for record in log.scan(["budgets"]) if record.message.type != Accounted.TYPE]


def crossings(log: MemoryLog) -> list[Event[BudgetCrossed]]:
    """Return the same as events."""
    return [decode(message) for message in outputs(log)]  # type: ignore[misc]  # all are of that type


Given = tuple[Fraction, str, tuple[int, ...]] | None
Said = tuple[str, str, int, Fraction, Fraction]


@dataclass
class Oracle:
    """What is to be said, input by input."""

    events: list[Event[Any]] = field(default_factory=list)
    given: list[tuple[str, str, Given]] = field(default_factory=list)
    """Tenant, the month from which on it counts, the budget: as they came."""
    said: set[tuple[str, str, int]] = field(default_factory=set)
    sums: dict[tuple[str, str], Fraction] = field(default_factory=dict)

    def take(self, event: Event[Any]) -> list[Said]:
        """Take an input, and return what follows: tenant, month, threshold, sum, budget."""
        data = event.data
        if isinstance(data, ObjectApplied) and data.kind == "Tenant":
            self._give(data.name, format_time(event.recordedtime)[:7], data.spec.get("budget"))
        elif isinstance(data, Usage | UsageReviewed):
            self.events.append(event)
            self.sums = self._added()
        found: list[Said] = []
        for (tenant, period), spent in sorted(self.sums.items()):
            if (budget := self._budget(tenant, period)) is None or budget[1] != "EUR":
                continue
            for threshold in sorted(budget[2]):
                if (tenant, period, threshold) not in self.said and spent / budget[0] >= Fraction(threshold, 100):
                    self.said.add((tenant, period, threshold))
                    found.append((tenant, period, threshold, spent, budget[0]))
        return found

    def _added(self) -> dict[tuple[str, str], Fraction]:
        sums: dict[tuple[str, str], Fraction] = {}
        for record in standing(self.events):
            if record.run.currency is not None:
                key = (record.run.tenant, record.run.period)
                sums[key] = sums.get(key, Fraction(0)) + Fraction(record.amount)
        # What was withdrawn altogether has the sum 0: it changes nothing that was said.
        return sums

    def _budget(self, tenant: str, period: str) -> Given:
        last: Given = None
        for name, since, budget in self.given:
            if name == tenant and since <= period:
                last = budget
        return last

    def _give(self, tenant: str, since: str, content: dict[str, Any] | None) -> None:
        budget = None
        if content is not None:
            budget = (Fraction(content["amount"]), content["currency"], tuple(content["thresholds"]))
        before = {period: self._budget(tenant, period) for name, period in self.sums if name == tenant}
        self.given = [one for one in self.given if one[0] != tenant or one[1] < since] + [(tenant, since, budget)]
        for period, old in before.items():
            if period >= since and (old and old[:2]) != (budget and budget[:2]):
                self.said = {one for one in self.said if one[:2] != (tenant, period)}


def interleaved(log: MemoryLog, choices: Iterable[int]) -> Iterator[Event[Any]]:
    """Yield all that the shard takes, in any order that keeps that of each partition."""
    waiting: dict[Any, list[Event[Any]]] = {}
    for record in log.scan(["cluster", "billing"]):
        waiting.setdefault(record.partition, []).append(decode(record.message))
    turns = iter(choices)
    while places := [place for place, events in sorted(waiting.items()) if events]:
        yield waiting[places[next(turns, 0) % len(places)]].pop(0)
