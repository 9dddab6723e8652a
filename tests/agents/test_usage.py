"""Usage of tenants and queues: the built-in agents' figures."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from job_history import History, opened
from prometheus_client import CollectorRegistry

from engine.events import Data, encode
from engine.events.attempts import AttemptBound, AttemptChanged, AttemptEnded, AttemptRunning, AttemptStarted
from engine.events.jobs import JobForgotten, JobPhaseChanged, JobRevised
from statemachines.spec import GPU, JobSpec, Requests
from streams.agents import Received
from streams.agents.app import AgentApp
from streams.agents.progress import Place
from streams.agents.usage import OTHER, Usage
from streams.agents.usage_book import Owner, UsageBook

GOLD = Owner("nlp", "gold")
ASKS = Requests(cpu_milli=1_500, memory_bytes=2 << 30, gpu=2)
LIFE: list[Data] = [
    opened(),
    AttemptStarted("w", 0, 1, requests=ASKS),
    AttemptBound("w", 0, 1, node="n1"),
    JobPhaseChanged("Running", "Pending"),
    AttemptRunning("w", 0, 1),
    AttemptStarted("w", 1, 1, requests=Requests(cpu_milli=500, gpu=1, gpu_share_milli=250)),
]


def book_of(*given: Data, job: str = "job-1") -> UsageBook:
    book, history = UsageBook(), History(job)
    for data in given:
        book.fold(history.event(data))
    return book


def test_a_running_job_counts_for_tenant_and_queue_with_its_requests() -> None:
    book = book_of(*LIFE)
    assert +book.jobs == {(GOLD, "Running"): 1}
    assert book.entered == {(GOLD, "Pending"): 1, (GOLD, "Running"): 1}
    assert +book.replicas == {(GOLD, "Running"): 1, (GOLD, "Pending"): 1}
    assert +book.cpu_milli == {(GOLD, "Running"): 1_500, (GOLD, "Pending"): 500}
    assert +book.memory_bytes == {(GOLD, "Running"): 2 << 30}
    assert +book.gpu_billionths == {(GOLD, "Running"): 2 * GPU, (GOLD, "Pending"): GPU // 4}


def test_what_has_ended_is_counted_and_asks_for_nothing() -> None:
    ends = [AttemptEnded("w", index, 1, phase="Failed") for index in (0, 1)]
    book = book_of(*LIFE, *ends, JobPhaseChanged("Failed", "Running"))
    assert book.ended == {(GOLD, "Failed"): 2}
    assert book.entered[GOLD, "Failed"] == 1
    for gauge in (book.jobs, book.replicas, book.cpu_milli, book.memory_bytes, book.gpu_billionths):
        assert not +gauge
        assert not -gauge


def test_a_revision_moves_a_job_and_its_replicas_and_resizes_them() -> None:
    moved = Owner("vision", "silver")
    revised = JobRevised(spec=JobSpec(queue="silver"), tenant="vision")
    book = book_of(*LIFE, revised, AttemptChanged("w", 0, 1, requests=Requests(cpu_milli=4_000)))
    assert +book.jobs == {(moved, "Running"): 1}
    assert +book.cpu_milli == {(moved, "Running"): 4_000, (moved, "Pending"): 500}
    assert not -book.cpu_milli
    assert book.entered[GOLD, "Running"] == 1, "what was counted stays where it was counted"


def test_events_that_come_again_change_nothing() -> None:
    dice, events = random.Random(7), []  # noqa: S311  a workload, not a secret
    for number in range(20):
        history = History(f"job-{number}")
        life = [*LIFE, AttemptEnded("w", 0, 1), AttemptEnded("w", 1, 1), JobPhaseChanged("Completed", "Running")]
        events.append([history.event(data) for data in life[: dice.randint(1, len(life))]])
    once, again = UsageBook(), UsageBook()
    for life in events:
        for place, event in enumerate(life):
            once.fold(event)
            for repeated in (event, *life[dice.randint(0, place) : place + 1], event):
                again.fold(repeated)
    for name in ("entered", "ended", "jobs", "replicas", "cpu_milli", "memory_bytes", "gpu_billionths"):
        assert +getattr(once, name) == +getattr(again, name), name


def test_a_job_that_is_forgotten_takes_its_gauges_along() -> None:
    book = book_of(*LIFE, JobForgotten(finished=1))
    assert len(book) == 0
    assert not +book.jobs
    assert not +book.gpu_billionths


def test_memory_is_bounded_by_what_lives() -> None:
    book = UsageBook(kept=100)
    for number in range(1_000):
        history = History(f"job-{number}")
        for data in (opened(), JobPhaseChanged("Completed", "Running")):
            book.fold(history.event(data))
    assert len(book) == 100
    assert book.entered == {(GOLD, "Pending"): 1_000, (GOLD, "Completed"): 1_000}


def test_a_job_whose_end_may_be_withdrawn_is_kept_before_others() -> None:
    book, histories = UsageBook(kept=10), [History(f"job-{number}") for number in range(110)]
    for number, history in enumerate(histories):
        for data in (opened(), JobPhaseChanged("Completed", "Running", inferred=number < 10)):
            book.fold(history.event(data))
    assert len(book) == 10
    for history in histories[:10]:
        book.fold(history.event(JobPhaseChanged("Running", "Completed")))
    assert +book.jobs == {(GOLD, "Running"): 10}


def test_a_dropped_job_that_returns_belongs_to_no_tenant_until_it_ends() -> None:
    book, first, second = UsageBook(kept=1), History("a"), History("b")
    for history in (first, second):
        for data in (opened(), JobPhaseChanged("Completed", "Running", inferred=True)):
            book.fold(history.event(data))
    book.fold(first.event(JobPhaseChanged("Running", "Completed")))
    assert +book.jobs == {(Owner("", ""), "Running"): 1}
    book.fold(first.event(JobPhaseChanged("Completed", "Running", inferred=True)))
    assert not +book.jobs
    assert len(book) == 1


def test_what_is_told_of_jobs_without_a_beginning_does_not_stay() -> None:
    book = UsageBook(kept=5)
    for number in range(100):
        history = History(f"job-{number}")
        history.lose()
        for data in (AttemptRunning("w", 0, 1), AttemptEnded("w", 0, 1)):
            book.fold(history.event(data))
    assert len(book) == 5
    assert not +book.replicas


def sample(usage: Usage, name: str, owner: Owner, phase: str, **more: str) -> float | None:
    registry = CollectorRegistry()
    registry.register(usage)
    return registry.get_sample_value(name, {"tenant": owner.tenant, "queue": owner.queue, "phase": phase, **more})


def waiting(usage: Usage) -> float | None:
    registry = CollectorRegistry()
    registry.register(usage)
    return registry.get_sample_value("lahar_usage_partitions_rebuilding")


def give(make_app: Callable[..., AgentApp], usage: Usage, *received: Received) -> None:
    async def run() -> None:
        async with make_app(usage, from_beginning=True).agents["usage"].test_context() as context:
            for one in received:
                await context.put(one)

    asyncio.run(run())


def test_a_partition_is_shown_once_rebuilt_and_hidden_once_lost(make_app: Callable[..., AgentApp]) -> None:
    usage, history = Usage(), History()
    usage.assigned({Place("job-events", 0), Place("job-events", 1)})
    give(make_app, usage, *[history.received(data, offset) for offset, data in enumerate(LIFE)])
    assert sample(usage, "lahar_usage_jobs", GOLD, "Running") is None
    assert waiting(usage) == 2
    usage.rebuilt({Place("job-events", 0)})
    assert waiting(usage) == 1
    assert sample(usage, "lahar_usage_jobs", GOLD, "Running") == 1
    assert sample(usage, "lahar_usage_requested_cpu_cores", GOLD, "Running") == 1.5
    assert sample(usage, "lahar_usage_requested_gpus", GOLD, "Pending") == 0.25
    usage.lost({Place("job-events", 0)})
    assert sample(usage, "lahar_usage_jobs", GOLD, "Running") is None


def test_partitions_add_up(make_app: Callable[..., AgentApp]) -> None:
    usage = Usage()
    for partition in (0, 1):
        history = History(f"job-{partition}", partition=partition)
        give(make_app, usage, *[history.received(data) for data in LIFE])
    usage.rebuilt({Place("job-events", 0), Place("job-events", 1)})
    assert sample(usage, "lahar_usage_jobs", GOLD, "Running") == 2
    assert sample(usage, "lahar_usage_requested_cpu_cores", GOLD, "Running") == 3


def test_no_counter_falls_when_a_partition_goes_to_another_process(make_app: Callable[..., AgentApp]) -> None:
    """Prometheus would take that for a restart, and count again what is left."""
    usage = Usage()
    places = {Place("job-events", partition) for partition in (0, 1)}
    usage.rebuilt(places)
    for place in places:
        history = History(f"job-{place.partition}", partition=place.partition)
        give(make_app, usage, *[history.received(data) for data in LIFE])
    entered = "lahar_usage_jobs_entered_total"
    before = [sample(usage, entered, GOLD, "Running", partition=number) for number in "01"]
    usage.lost({Place("job-events", 1)})
    after = [sample(usage, entered, GOLD, "Running", partition=number) for number in "01"]
    assert (before, after) == ([1, 1], [1, None])


def test_counters_count_from_when_a_partition_is_shown(make_app: Callable[..., AgentApp]) -> None:
    """What was before is no news, however much of it had to be read."""
    usage, history = Usage(), History()
    give(make_app, usage, *[history.received(data, offset) for offset, data in enumerate(LIFE)])
    usage.rebuilt({Place("job-events", 0)})
    entered = "lahar_usage_jobs_entered_total"
    assert sample(usage, entered, GOLD, "Running", partition="0") == 0
    assert sample(usage, entered, GOLD, "Completed", partition="0") == 0, "a rate sees the first one"
    give(make_app, usage, history.received(JobPhaseChanged("Restarting", "Running"), 7))
    assert sample(usage, entered, GOLD, "Restarting", partition="0") == 1


def test_tenants_without_number_make_no_series_without_number(make_app: Callable[..., AgentApp]) -> None:
    usage = Usage(owners=3)
    given = [Received(encode(History(f"job-{number}").event(opened(f"tenant-{number}")))) for number in range(10)]
    give(make_app, usage, *given)
    usage.rebuilt({Place("", 0)})
    assert sample(usage, "lahar_usage_jobs", OTHER, "Pending") == 7
