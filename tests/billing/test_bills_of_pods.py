"""From observations of pods to the bill, through both stages: law 3 for what the cluster's producers say."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lifecycle_driver import CLUSTER, SECOND, START, Driver
from pod_cluster import Cluster
from standing import must_reverse_what_it_names, net, standing, written

from engine.billing.stage import BillingStage
from engine.events import Event, encode
from engine.events.inputs import NodeObserved, PodDeleted, PodObserved
from engine.history.billing import check_billing
from engine.lifecycle.stage import LifecycleStage
from engine.log.memory import MemoryLog
from engine.processor.processor import Processor

LATER = START + 10 * 86_400 * SECOND
"""When all inputs are recorded: their order is that of the log alone."""

lives = st.lists(
    st.tuples(st.sampled_from(["go", "go", "go", "wait", "end", "delete"]), st.integers(0, 41), st.integers(0, 9_000)),
    min_size=3,
    max_size=9,
)


@st.composite
def producers(draw):
    """What each pod's watch tells, and sometimes what a scheduler says of its end, in order."""
    cluster = Cluster(Driver())
    told = []
    for number, life in enumerate(draw(st.lists(lives, min_size=1, max_size=4))):
        cluster.appear(f"job{number % 2}", index=number)
        pod = cluster.pods[-1]
        for step, detail, seconds in life:
            cluster.driver.wait(seconds + detail / 7)
            if not pod.gone:
                cluster.progress(pod, step, detail)
        told.append([recorded(cluster.event(pod, place)) for place in range(len(pod.history))])
        last = pod.history[-1].last if isinstance(pod.history[-1], PodDeleted) else pod.history[-1]
        if last.ended is not None and draw(st.booleans()):
            off = draw(st.integers(-2_000, 5_000)) * SECOND
            seen = replace(last, rank="scheduler", ended=max(last.ended + off, last.running or START), version=None)
            told.append([recorded(cluster.driver.event(seen, seen.job, f"scheduler {last.uid}"))])
    return told


def recorded(event):
    return replace(event, recordedtime=LATER)


def billed(events):
    """Run both stages until they are quiet; a day later the last hour mark has passed."""
    log = MemoryLog(clock=lambda: 1 << 60)
    lifecycle, billing = Processor(log, LifecycleStage()), Processor(log, BillingStage())
    lifecycle.open()
    billing.open()
    for event in events:
        log.append("pods", [encode(event)])
        lifecycle.step()
        billing.step()
    for hours in (1, 2):
        now = LATER + hours * 3600 * SECOND
        tick = NodeObserved("clock")
        log.append(
            "cluster", [encode(Event(f"tick{hours}", "test", tick.TYPE, "clock", now, now, 0, "", "", CLUSTER, tick), CLUSTER)]
        )
        lifecycle.run_until_quiet()
        billing.run_until_quiet()
    assert list(check_billing(log)) == []
    records = standing(written(log))
    must_reverse_what_it_names(records)
    return net(records)


def one_by_one(told):
    return [event for events in told for event in events]


def shuffled(told, dice):
    """Interleave what producers tell; each may repeat itself."""
    queues = [list(events) for events in told]
    found = []
    while any(queues):
        queue = dice.choice([queue for queue in queues if queue])
        event = queue.pop(0)
        found.append(event)
        while dice.random() < 0.2:
            found.append(dice.choice(found))
    return found


QUICK = settings(max_examples=30)


@QUICK
@given(producers(), st.integers(0, 999))
def test_any_order_and_repetition_of_observations_bills_the_same(told, seed):
    dice = random.Random(seed)  # noqa: S311 - an order, no secret
    assert billed(shuffled(told, dice)) == billed(one_by_one(told))


@pytest.mark.slow
@settings(max_examples=2_000, derandomize=False)
@given(producers(), st.integers(0, 999))
def test_any_order_and_repetition_bills_the_same_in_many_programs(told, seed):
    dice = random.Random(seed)  # noqa: S311 - an order, no secret
    assert billed(shuffled(told, dice)) == billed(one_by_one(told))


@QUICK
@given(producers())
def test_what_the_last_observation_alone_tells_is_billed_the_same(told):
    """Whoever lists the pods at the end, instead of watching them, has the same bill of those whose end shows all its times."""
    ends = [events[-1:] for events in told if isinstance(events[-1].data, PodObserved) and events[-1].data.ended is not None]
    uids = {events[-1].data.uid for events in ends}
    watched = [events for events in told if isinstance(events[-1].data, PodObserved) and events[-1].data.uid in uids]
    by_list, by_watch = billed(one_by_one(ends)), billed(one_by_one(watched))
    assert total(by_list) == total(by_watch)


def total(bill):
    found: dict[tuple[str, str], Fraction] = {}
    for line, (quantity, _) in bill.items():
        found[line.uid, line.meter] = found.get((line.uid, line.meter), 0) + quantity
    return found


def test_a_deletion_counts_though_an_end_before_it_was_told_first():
    """A scheduler's clock is behind: the end that it tells is before the deletion. The node's end, told later, is not."""
    cluster = Cluster(Driver())
    cluster.appear("job0", index=0)
    (pod,) = cluster.pods
    cluster.progress(pod, "go", 0)
    cluster.progress(pod, "go", 0)
    cluster.driver.wait(10)
    cluster.progress(pod, "delete", 0)
    cluster.driver.wait(10)
    cluster.progress(pod, "end", 1)
    node = [recorded(cluster.event(pod, place)) for place in range(len(pod.history))]
    last = pod.history[-1]
    early = replace(last, rank="scheduler", ended=last.terminating - 5 * SECOND, version=None)
    scheduler = recorded(cluster.driver.event(early, early.job, "scheduler"))
    right = billed([*node, scheduler])
    assert len({line.start for line in right}) == 2
    assert billed([scheduler, *node]) == right
