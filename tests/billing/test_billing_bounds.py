"""Whatever is said of jobs and nodes, one step of the billing stage stays small; counted in events and attempts, not in seconds."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest
from bill_story import NOON, PRICES, Story
from job_programs import HOUR, SECOND
from standing import written

import engine.billing
from engine.billing.runs import LONGEST
from engine.billing.stage import _AT_ONCE, BillingStage
from engine.events import Event
from engine.events.billing import UsageFailed, UsageRecorded
from engine.events.inputs import NodeObserved
from engine.events.jobs import AttemptBound, AttemptEnded, AttemptRunning, AttemptStarted, JobOpened, JobRevised
from engine.events.times import EARLIEST, LATEST
from engine.history.billing import check_billing
from statemachines.spec import JobSpec, Requests

STAGE = BillingStage()
A_STEP = 4 * _AT_ONCE
"""Events that 64 attempts give at one mark, or when they are looked at again: some 5 ms."""


class Wide:
    """A shard without a log, and how much each of its steps did."""

    def __init__(self, attempts: int, nodes: int = 1) -> None:
        self.state = STAGE.initial()
        self.sequence = 0
        self.steps: list[int] = []
        self.written: Counter[str] = Counter()
        self.job(JobOpened("Job", "j", managed=False, spec=JobSpec(), tenant="team"), 0)
        for index in range(attempts):
            self.job(AttemptStarted("main", index, 1, uid=str(index), requests=Requests(gpu=1)), 0)
            self.job(AttemptBound("main", index, 1, node=f"n{index % nodes}"), 0)
            self.job(AttemptRunning("main", index, 1), 0)

    def job(self, data, at):
        self.sequence += 1
        self.take(Event(f"e{self.sequence}", "test", data.TYPE, "j", at, at, self.sequence, "j", "", "c1", data), at)

    def node(self, name, at, kind="large"):
        data = NodeObserved(name, type=kind)
        self.take(Event(f"{name}/{at}/{kind}", "test", data.TYPE, name, at, at, 0, "", "", "c1", data), at)

    def take(self, event, now):
        self.until(now)
        STAGE.absorb(self.state, event)
        assert len(self.state.changed) <= _AT_ONCE
        self.steps.append(self.apply(STAGE.decide(self.state, event, now)))

    def until(self, now):
        while (due := STAGE.due(self.state)) is not None and due <= now:
            self.steps.append(self.apply(STAGE.fire(self.state, due)))

    def apply(self, decision):
        count = 0
        for event in decision:
            STAGE.evolve(self.state, event)
            self.written[type(event.data).__name__] += 1
            count += 1
        return count


@pytest.mark.parametrize("attempts", [2_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_job_of_many_attempts_is_recorded_in_small_steps(attempts):
    """An hour mark, a revision of the job and their ends: no step does more for it."""
    shard = Wide(attempts)
    shard.until(HOUR)
    shard.job(JobRevised(tenant="other"), HOUR + 1)
    shard.until(2 * HOUR)
    for index in range(attempts):
        shard.job(AttemptEnded("main", index, 1), 2 * HOUR + 5)
    assert max(shard.steps) <= A_STEP
    assert shard.written["UsageRecorded"] >= 3 * attempts


@pytest.mark.parametrize("nodes", [500, 5_000])
def test_many_nodes_that_are_learnt_of_at_once_are_one_review(nodes):
    """The job is looked at again once for all, in small steps, and everything is corrected."""
    shard = Wide(2 * nodes, nodes)
    shard.until(HOUR)
    before = shard.written.copy()
    for number in range(nodes):
        shard.node(f"n{number}", HOUR + number)
    shard.until(HOUR + 5 * 60 * SECOND)
    assert max(shard.steps) <= A_STEP
    found = shard.written - before
    assert found["UsageWithdrawn"] == found["UsageRecorded"] == 2 * nodes
    assert found["UsageReviewed"] == -(-2 * nodes // _AT_ONCE)
    assert {run.node_type for attempt in shard.state.jobs["j"].attempts for run in attempt.recorded} == {"large"}


def test_what_a_job_knows_of_unknown_nodes_has_a_bound():
    shard = Wide(300, 300)
    assert len(shard.state.jobs["j"].job.unknown) == 65


@pytest.mark.parametrize(
    ("created", "ended"),
    [(EARLIEST, NOON), (NOON, LATEST), (EARLIEST, LATEST), (NOON - LONGEST - 1, NOON)],
    ids=["year-1", "year-9999", "all-there-is", "a-little-more-than-ten-years"],
)
def test_times_of_no_attempt_are_named_and_cost_one_event(created, ended):
    """A wrong clock neither fills thousands of invoices nor holds up the others; the right end is charged when it is heard."""
    story = Story()
    story.prices({"prices": PRICES})
    story.start("bad", 0, (created - NOON) / SECOND, recorded=0)
    story.run("bad", 0, (created - NOON) / SECOND, recorded=0)
    story.start("good", 0, 1)
    story.run("good", 0, 1)
    story.say("job-events", AttemptEnded("main", 0, 1, rank="watcher"), "bad", (ended - NOON) / SECOND, recorded=5)
    story.end("good", 0, 11)
    story.wait(50 * 3600)
    assert story.log.end(story.shard.writes[0]) < 20
    failed = [event for event in written(story.log) if isinstance(event.data, UsageFailed)]
    assert {event.subject for event in failed} == {"bad"}
    assert all("more than ten years are not charged" in event.data.error for event in failed)
    assert len({event.data.error for event in failed}) == len(failed) <= 2, "while it is open, and when it has ended"
    assert [event.data.length for event in written(story.log) if isinstance(event.data, UsageRecorded)] == [10 * SECOND]
    assert [finding.what.split(":")[0] for finding in check_billing(story.log)] == ["cannot be charged"]
    story.late("bad", 0, 50 * 3600 + 20, rank="node", ended=created + 7 * SECOND)
    assert [event.data.length for event in written(story.log) if isinstance(event.data, UsageRecorded)] == [
        10 * SECOND,
        7 * SECOND,
    ]
    assert list(check_billing(story.log)) == []


def test_the_longest_attempt_that_is_charged_is_120_invoices():
    story = Story()
    story.start("j", 0, -LONGEST / SECOND, recorded=0)
    story.run("j", 0, -LONGEST / SECOND, recorded=0)
    story.end("j", 0, 0)
    periods = [event.data.period for event in written(story.log)]
    assert len(periods) == len(set(periods)) <= 122


FORBIDDEN = {"time", "random", "os", "socket", "threading", "secrets", "uuid", "asyncio", "pathlib", "subprocess", "logging"}


def test_no_module_of_the_stage_has_a_clock_chance_or_io():
    for path in sorted(Path(engine.billing.__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {alias.name.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        imported |= {str(node.module).partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not imported & FORBIDDEN, path.name
        called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not called & {"now", "utcnow", "today"} - ({"now"} if path.name in {"turn.py", "stage.py"} else set()), path.name
