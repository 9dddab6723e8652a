"""Whatever is said of jobs and nodes, one step of the billing stage stays small; counted in events and attempts, not in seconds."""

from __future__ import annotations

import ast
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from bill_story import NOON, PRICES, Story
from job_programs import HOUR, SECOND
from standing import written

import engine.billing
from engine.billing import charges
from engine.billing.event_factory import EventFactory
from engine.billing.persist import _UNPACKED, account_of
from engine.billing.stage import _AT_ONCE, BillingStage
from engine.billing.usage_segments import LONGEST
from engine.events import Event
from engine.events.attempts import AttemptBound, AttemptChanged, AttemptEnded, AttemptRunning, AttemptStarted
from engine.events.billing import UsageFailed, UsageRecorded
from engine.events.inputs import NodeObserved, ObjectApplied
from engine.events.jobs import JobForgotten, JobOpened, JobPhaseChanged, JobRevised
from engine.events.times import EARLIEST, LATEST
from engine.history.billing import check_billing
from statemachines.spec import JobSpec, Requests

STAGE = BillingStage()
LABEL_PREEMPTIBLE = "volcano.sh/preemptable"
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

    def job(self, data, at, job="j"):
        self.sequence += 1
        self.take(Event(f"e{self.sequence}", "test", data.TYPE, job, at, at, self.sequence, job, "", "c1", data), at)

    def node(self, name, at, kind="large", since=None):
        data, since = NodeObserved(name, type=kind), at if since is None else since
        self.take(Event(f"{name}/{since}/{kind}", "test", data.TYPE, name, since, at, 0, "", "", "c1", data), at)

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


def with_jobs(count, *, priced=False):
    """Return a shard of jobs on one node, every other of which is over."""
    shard = Wide(0)
    if priced:
        data = ObjectApplied("PriceBook", "prices", {"currency": "EUR", "versions": [{"version": "v", "from": "1969-01-01"}]})
        shard.take(Event("prices", "test", data.TYPE, "prices", 0, 0, 0, "", "", "c1", data), 0)
    shard.node("n", 0, "small")
    for number in range(count):
        job = f"j{number}"
        shard.job(JobOpened("Job", job, managed=False, spec=JobSpec(), tenant="team"), 1, job)
        shard.job(AttemptStarted("main", 0, 1, uid=job, requests=Requests(gpu=1)), 1, job)
        shard.job(AttemptBound("main", 0, 1, node="n"), 1 + number, job)
        shard.job(AttemptRunning("main", 0, 1), 1 + number, job)
        if number % 2:
            shard.job(AttemptEnded("main", 0, 1), 2 + number, job)
            shard.job(JobPhaseChanged("Completed", "Running"), 2 + number, job)
    shard.until(HOUR)
    for record in STAGE.touched(shard.state):
        STAGE.dump(shard.state, record)
    return shard


def node_types(shard):
    attempts = [account_of(shard.state, ident).attempts for ident in sorted(shard.state.ids())]
    return Counter(run.node_type for known in attempts for attempt in known for run in attempt.recorded)


@pytest.mark.parametrize("jobs", [1_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_changed_node_type_is_charged_to_many_jobs_in_small_steps(jobs):
    """One job a step, of those only that got the node since it has changed."""
    shard = with_jobs(jobs)
    # Those that are over, and of the open ones (one more is the shard's own) all but the last: half of the last ones are over.
    idle = len(shard.state.idle)
    assert idle == max(jobs // 2, jobs + 1 - _UNPACKED // 2)
    del shard.steps[:]
    before = shard.written.copy()
    shard.node("n", HOUR + 1, "large", since=1 + jobs // 2)
    assert len(shard.state.idle) == idle, "nothing is looked up at once"
    shard.until(HOUR + 5 * 60 * SECOND)
    assert max(shard.steps) == 3
    assert shard.written - before == dict.fromkeys(("UsageWithdrawn", "UsageRecorded", "UsageReviewed"), jobs // 2)
    assert node_types(shard) == {"small": jobs // 2, "large": jobs // 2}
    assert STAGE.unfinished(shard.state) is None


def test_many_attempts_on_a_changed_node_are_reviewed_in_small_steps():
    shard = Wide(1_000, 2)
    for node in ("n0", "n1"):
        shard.node(node, 1, "small", since=-1)
    shard.until(HOUR)
    before = shard.written.copy()
    shard.node("n1", HOUR + 1, "large", since=0)
    shard.until(HOUR + 5 * 60 * SECOND)
    assert max(shard.steps) <= A_STEP
    assert (shard.written - before)["UsageReviewed"] == -(-500 // _AT_ONCE)
    assert node_types(shard) == {"small": 500, "large": 500}


def test_a_node_that_changes_during_a_review_is_reviewed_again():
    """Also those that the first review had come to; what a snapshot holds goes on in the same way."""
    shard = with_jobs(6)
    shard.node("n", HOUR + 1, "large", since=3)
    for kind, at in (("large", HOUR + 2 * 60 * SECOND), ("huge", HOUR + 3 * 60 * SECOND)):
        shard.apply(STAGE.fire(shard.state, at))
        shard.apply(STAGE.fire(shard.state, at))
        read = STAGE.initial()
        STAGE.load(read, [(name, held) for name in list(STAGE.records(shard.state)) if (held := STAGE.dump(shard.state, name))])
        assert list(STAGE.fire(read, at)) == list(STAGE.fire(shard.state, at)) != []
        if kind == "large":
            STAGE.absorb(shard.state, node_fact("huge", at, 4))
    shard.until(2 * HOUR - 1)
    assert node_types(shard) == {"small": 2, "large": 1, "huge": 3}
    assert STAGE.unfinished(shard.state) is None


def node_fact(kind, at, since):
    return Event(f"n/{since}/{kind}", "test", NodeObserved.TYPE, "n", since, at, 0, "", "", "c1", NodeObserved("n", type=kind))


def test_a_review_of_a_node_passes_over_jobs_that_are_forgotten():
    shard = with_jobs(4, priced=True)
    before = shard.written["UsageReviewed"]
    shard.node("n", HOUR + 1, "large", since=0)
    for job in ("j1", "j3", "j0"):
        shard.job(JobForgotten(0), HOUR + 2, job)
    assert shard.state.used == {("c1", "n"): {"j2": 3}}
    shard.until(HOUR + 5 * 60 * SECOND)
    assert node_types(shard) == {"large": 1}
    assert shard.written["UsageReviewed"] == before + 1
    shard.job(JobForgotten(0), HOUR + 6 * 60 * SECOND, "j2")
    assert not shard.state.used


def test_node_changes_are_bounded_and_bills_independent_of_arrival_order():
    """The first one and the last ones are known; use between them is charged by the first."""
    changes = [("n", 10 * number, ("small", "large")[number % 2]) for number in range(100)]
    bills = []
    for late in (0, 1, 50, 99):
        shard = Wide(0)
        for name, since, kind in changes[: 100 - late]:
            shard.node(name, since, kind)
        for number in range(100):
            told = AttemptStarted("main", number, 1, uid=str(number), requests=Requests(gpu=1))
            for data in (told, AttemptBound("main", number, 1, node="n"), AttemptRunning("main", number, 1)):
                shard.job(data, 10 * number + 5)
        shard.until(HOUR)
        for name, since, kind in changes[100 - late :]:
            shard.node(name, HOUR + 1, kind, since=since)
        shard.until(HOUR + 5 * 60 * SECOND)
        assert len(shard.state.nodes["c1", "n"].facts) == 64
        bills.append([attempt.recorded[0].node_type for attempt in shard.state.jobs["j"].attempts])
    assert bills[0] == bills[1] == bills[2] == bills[3]
    assert bills[0] == ["small"] * 37 + ["large", "small"] * 31 + ["large"]


def largest_record(shard):
    """Return the size of the largest record of the snapshot; Kafka takes 4 MiB."""
    return max(len(STAGE.dump(shard.state, name) or b"") for name in STAGE.records(shard.state))


def charged_time(shard):
    return sum(run.length for attempt in account_of(shard.state, "j").attempts for run in attempt.recorded)


def test_label_changes_are_charged_in_small_steps_up_to_a_bound():
    shard = Wide(100)
    for number in range(1_000):
        shard.job(JobRevised(labels={"progress": f"{number}", LABEL_PREEMPTIBLE: "true" if number > 900 else "false"}), number)
    shard.until(2 * HOUR)
    for index in range(100):
        shard.job(AttemptEnded("main", index, 1), 2 * HOUR + 5)
    assert max(shard.steps) <= 2 * A_STEP
    assert charged_time(shard) == 100 * (2 * HOUR + 5)
    terms = account_of(shard.state, "j").job.terms
    assert len(terms) == 1 + 50 + 1
    assert terms[-1].preemptible, "what may change its price is followed for longer"
    assert terms[-1].labels == terms[-2].labels
    assert shard.written["UsageFailed"] == 0
    assert largest_record(shard) < 1 << 20


def test_what_changes_a_price_is_followed_up_to_a_number_of_changes():
    shard = Wide(2)
    for number in range(1_000):
        shard.job(JobRevised(tenant=f"team-{number}"), number)
    shard.until(HOUR)
    assert charged_time(shard) == 2 * HOUR
    assert [one.tenant for one in account_of(shard.state, "j").job.terms] == ["team", *(f"team-{number}" for number in range(100))]


def test_the_first_owner_of_a_jobs_pods_counts_after_any_number_of_changes():
    shard = Wide(2)
    for number in range(200):
        shard.job(JobRevised(tenant=f"team-{number}"), number)
    shard.job(JobRevised(tenant="owner", owner=True), 300)
    shard.until(HOUR)
    job = account_of(shard.state, "j").job
    assert [job.terms[number].tenant for _, _, number in job.since] == ["owner"]


def test_labels_on_a_bill_have_a_bound_by_name():
    labels = {f"{name:03}": "v" * 97 for name in range(1_000)}
    shard = Wide(2)
    for number in range(20):
        shard.job(JobRevised(labels={**labels, "zz": f"{number}", "000": f"{number}"}), number)
    shard.until(HOUR)
    terms = account_of(shard.state, "j").job.terms
    assert [[name for name, _ in one.labels] for one in terms[1:]] == [[f"{name:03}" for name in range(41)]] * 20
    assert [dict(one.labels)["000"] for one in terms[1:]] == [f"{number}" for number in range(20)]
    assert largest_record(shard) < 1 << 20


def test_resizes_of_a_pod_are_followed_up_to_a_number():
    shard = Wide(40)
    for number in range(300):
        for index in range(40):
            shard.job(AttemptChanged("main", index, 1, requests=Requests(gpu=number % 7 + 2)), number + 1)
    shard.until(HOUR)
    assert max(shard.steps) <= 2 * A_STEP
    assert charged_time(shard) == 40 * HOUR
    assert {len(attempt.recorded) for attempt in account_of(shard.state, "j").attempts} == {101}
    assert largest_record(shard) < 2 << 20


def test_repeated_reservations_for_a_job_are_kept_up_to_a_bound():
    shard = Wide(0)
    for number in range(300):
        shard.job(JobPhaseChanged("Pending", "Privileged", reserved=2 * number + 1), 2 * number)
    assert [place.since for place in account_of(shard.state, "j").job.reservations] == [2 * number for number in range(100)]
    shard.job(JobPhaseChanged("Running", "Pending"), 600)
    assert account_of(shard.state, "j").job.reservations[-1].until == 199


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


def test_an_uncharged_use_names_the_tenant_in_force_not_the_last_read():
    """The last tenant by event time is named, not the last by arrival."""
    shard = Wide(1)
    shard.job(JobRevised(tenant="last"), 200)
    shard.sequence += 1
    early = JobRevised(tenant="early")
    shard.take(Event("early", "test", early.TYPE, "j", 100, 300, shard.sequence, "j", "", "c1", early), 300)
    factory = EventFactory(shard.state, account_of(shard.state, "j"), 300)
    (failed,) = factory.corrections(factory.account.attempts[0], LONGEST + HOUR)
    assert isinstance(failed.data, UsageFailed)
    assert (failed.data.tenant, failed.data.job_kind) == ("last", "Job")


def test_the_longest_attempt_that_is_charged_is_120_invoices():
    story = Story()
    story.start("j", 0, -LONGEST / SECOND, recorded=0)
    story.run("j", 0, -LONGEST / SECOND, recorded=0)
    story.end("j", 0, 0)
    periods = [event.data.period for event in written(story.log)]
    assert len(periods) == len(set(periods)) <= 122


def test_what_is_remembered_of_charges_has_a_bound(monkeypatch):
    """Each job has a factor and a length of its own; what is forgotten is computed anew."""
    monkeypatch.setattr(charges, "_KNOWN", 3)
    story = Story()
    factors = [{"tenant": f"t{number}", "factor": str(number)} for number in range(8)]
    story.prices({"prices": PRICES, "multipliers": factors})
    for number in (*range(8), 0):
        job = f"j{number}-{story.said}"
        story.say("job-events", JobOpened("Job", job, managed=False, spec=JobSpec(), tenant=f"t{number}"), job, 0)
        story.start(job, 0, 0)
        story.run(job, 0, 0)
        story.end(job, 0, 10 + number)
        assert story.amount(job) == (10 + number) * number * Decimal("0.1")
        assert max(len(story.shard.state.book.tariffs), len(story.shard.state.book.factors)) <= 3


def test_tenants_with_equal_factors_share_one_remembered_charge():
    story = Story()
    story.prices({"prices": PRICES, "multipliers": [{"queue": "q", "factor": "2"}]})
    for number in range(5):
        story.say("job-events", JobOpened("Job", "j", managed=False, spec=JobSpec(), tenant=f"t{number}"), f"j{number}", 0)
        story.start(f"j{number}", 0, 0)
        story.run(f"j{number}", 0, 0)
        story.end(f"j{number}", 0, 10)
    assert len(story.shard.state.book.tariffs) == 1


FORBIDDEN = {"time", "random", "os", "socket", "threading", "secrets", "uuid", "asyncio", "pathlib", "subprocess", "logging"}


def test_no_module_of_the_stage_has_a_clock_chance_or_io():
    for path in sorted(Path(engine.billing.__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {alias.name.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        imported |= {str(node.module).partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not imported & FORBIDDEN, path.name
        called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not called & {"now", "utcnow", "today"} - ({"now"} if path.name in {"event_factory.py", "stage.py"} else set()), (
            path.name
        )
