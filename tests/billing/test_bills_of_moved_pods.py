"""A pod that moves to the job above its own is billed once over both jobs: as if that job had been known from the beginning."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from lifecycle_driver import CLUSTER, SECOND, START, pod
from standing import must_reverse_what_it_names, net, standing, written

from engine.billing.stage import BillingStage
from engine.events import Data, Event, decode, encode
from engine.events.attempts import AttemptMoved
from engine.events.billing import PeriodClosed
from engine.events.inputs import NodeObserved, PodObserved
from engine.history.billing import check_billing
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.log.port import Topic
from engine.processor.processor import Processor
from statemachines.spec import Requests

MONTH_END = 31 * 86_400 - START // SECOND
"""Seconds behind START."""


class Seen(NamedTuple):
    """One observation of a pod."""

    uid: str
    at: int
    """When, in seconds behind START."""
    cores: int
    ends: bool


class Program(NamedTuple):
    """Pods as they are observed, in order."""

    seen: list[Seen]
    known: int
    """First observation that shows the job above theirs."""
    closed: int | None
    """Observation before which the first month is closed."""


@st.composite
def programs(draw: st.DrawFn) -> Program:
    at = draw(st.sampled_from([10, MONTH_END - 9_000]))
    seen, ended = [], set[str]()
    for _ in range(draw(st.integers(1, 7))):
        at += draw(st.integers(1, 9_000))
        uid = draw(st.sampled_from("pq"))
        ended |= {uid} if draw(st.integers(0, 3)) == 0 else set()
        seen.append(Seen(uid, at, draw(st.sampled_from([1, 1, 2])), uid in ended))
    over = [place for place, one in enumerate(seen) if one.at > MONTH_END]
    return Program(seen, draw(st.integers(0, len(seen))), draw(st.sampled_from([None, *over])))


class Bill(NamedTuple):
    net: dict[object, object]
    jobs: dict[str, Fraction]
    """Core seconds of each job."""
    moved: list[str]


def billed(program: Program) -> Bill:
    """Run both stages, input by input, and let the last hour pass."""
    log = MemoryLog(clock=lambda: 1 << 60)
    lifecycle, billing = Processor(log, LifecycleStage()), Processor(log, BillingStage())
    lifecycle.open()
    billing.open()

    def take(topic: Topic, data: Data, subject: str, at: int) -> None:
        now = START + at * SECOND
        event = Event(f"{subject}-{at}-{data.TYPE}", "test", data.TYPE, subject, now, now, 0, "", "", CLUSTER, data)
        log.append(topic, [encode(event, CLUSTER if topic == "cluster" else None)])
        lifecycle.run_until_quiet()
        billing.run_until_quiet()

    begun: dict[str, int] = {}
    ends: dict[str, int] = {}
    for place, one in enumerate(program.seen):
        if place == program.closed:
            take("cluster", PeriodClosed("1970-01"), "1970-01", one.at)
        begun.setdefault(one.uid, one.at - 5)
        if one.ends:
            ends.setdefault(one.uid, one.at)
        observed = _observed(one, place, begun[one.uid], ends.get(one.uid), known=place >= program.known)
        take("pods", observed, observed.job, one.at)
    last = program.seen[-1].at
    for hours in (2, 3):
        take("cluster", NodeObserved("clock"), "clock", last + hours * 3600)
    assert list(check_billing(log)) == []
    records = standing(written(log))
    must_reverse_what_it_names(records)
    jobs: dict[str, Fraction] = {}
    for record in records:
        if record.charge.meter == "cpu_seconds":
            jobs[record.job] = jobs.get(record.job, Fraction(0)) + Fraction(record.quantity)
    events = [decode(record.message).data for record in log.scan(["job-events"])]
    return Bill(dict(net(records)), jobs, [data.uid for data in events if isinstance(data, AttemptMoved)])


def _observed(one: Seen, place: int, begun: int, ended: int | None, *, known: bool) -> PodObserved:
    state = "Running" if ended is None else "Succeeded"
    times = {"created": begun, "bound": begun, "running": begun, "ended": ended, "written": one.at, "proof": begun}
    requests = Requests(cpu_milli=1000 * one.cores)
    seen = pod(one.uid, "c", place + 1, state, kind="RayCluster", owner="rj-c", node="n", requests=requests, **times)
    return replace(seen, job="rj", kind="RayJob", owner="rj", through="rj-c", controller="c", chained=True) if known else seen


@settings(max_examples=40)
@given(programs())
def test_a_moved_pod_is_billed_once_and_only_to_its_last_job(program: Program) -> None:
    late, early = billed(program), billed(program._replace(known=0))
    assert late.net == early.net
    assert sum(late.jobs.values()) == sum(early.jobs.values())
    ended_below = {one.uid for one in program.seen[: program.known] if one.ends}
    if not ended_below:
        last_known = {one.uid for one in program.seen[program.known :]}
        earlier = {one.uid for one in program.seen[: program.known]}
        assert sorted(late.moved) == sorted(last_known & earlier)
        if earlier <= last_known:
            assert late.jobs.get("c", 0) == 0


def test_a_month_that_was_closed_before_is_reversed_on_the_next_invoice() -> None:
    seen = [Seen("p", MONTH_END - 7_000, 1, ends=False), Seen("p", MONTH_END + 9_000, 1, ends=False)]
    bill = billed(Program([*seen, Seen("p", MONTH_END + 12_000, 1, ends=True)], known=2, closed=1))
    assert bill.moved == ["p"]
    assert bill.jobs == {"c": 0, "rj": 19_005}


def test_the_size_before_a_resize_moves_with_the_pod() -> None:
    seen = [Seen("p", 100, 1, ends=False), Seen("p", 1_100, 2, ends=False), Seen("p", 2_100, 2, ends=True)]
    assert billed(Program(seen, known=2, closed=None)).jobs == {"rj": 1_005 + 2 * 1_000}
