"""What a notice says: about the event, and about its job as it was known then."""

from __future__ import annotations

import pytest
from effects_world import START, Clock, Listener, World, listen, opened

from engine.effects.facts import FACT_TYPES, UNKNOWN, JobBook
from engine.effects.feed import CHUNK, Feed
from engine.effects.notice import LEVELS
from engine.events import TYPES
from engine.events.attempts import AttemptBound, AttemptEnded, AttemptRunning, AttemptStarted, AttemptTerminating
from engine.events.examples import EXAMPLES, example
from engine.events.jobs import JobForgotten, JobOpened, JobPhaseChanged, JobRevised, TaskPhaseChanged
from engine.events.transitions import transition_of
from engine.log.memory import MemoryLog
from engine.log.port import Log, Partition, Searchable


@pytest.mark.parametrize("name", list(TYPES))
def test_every_transition_has_its_level_known_before_it_is_decoded(name: str) -> None:
    transition = transition_of(EXAMPLES[name])
    assert LEVELS.get(name) == (None if transition is None else transition.level)


def test_a_notice_reads_as_one_line(world: World) -> None:
    listener = Listener()
    world.commit(
        "job",
        opened(namespace="ml"),
        TaskPhaseChanged("worker", "Running", "Pending"),
        AttemptStarted("worker", 1, 2),
        AttemptEnded("worker", 1, 2, phase="Failed", previous="Pending", reason="OomKilled", exit_code=137),
    )
    world.dispatcher(listen(listener), started=START * 2).run_until_quiet(START)
    assert [str(notice) for notice in listener.told] == [
        "1970-01-12T13:46:40.500000Z VCJob ml/train: Pending [catchup]",
        "1970-01-12T13:46:41.500000Z VCJob ml/train task worker: Pending → Running [catchup]",
        "1970-01-12T13:46:42.500000Z VCJob ml/train worker/1 attempt 2: Pending [catchup]",
        "1970-01-12T13:46:43.500000Z VCJob ml/train worker/1 attempt 2: Pending → Failed (OomKilled, exit 137) [catchup]",
    ]


def test_a_notice_has_the_message_and_tells_what_nobody_saw(world: World) -> None:
    """A source that is seldom looked at shows a pod only when it runs, or has ended: what lies before is inferred."""
    listener = Listener()
    world.commit(
        "job",
        opened(namespace="ml"),
        AttemptStarted("worker", 1, 1, skipped=True),
        AttemptBound("worker", 1, 1, node="n", skipped=True),
        AttemptRunning("worker", 1, 1),
        AttemptTerminating("worker", 1, 1, previous="Running", message="node is drained"),
        AttemptEnded("worker", 1, 1, phase="Lost", previous="Running", reason="EndUnknown", inferred=True),
        JobPhaseChanged("Failed", "Pending", reason="BackoffLimitExceeded", message="too often"),
    )
    world.dispatcher(listen(listener), started=START * 2).run_until_quiet(START)
    assert [(notice.phase, notice.inferred, notice.message) for notice in listener.told] == [
        ("Pending", False, ""),
        ("Pending", True, ""),
        ("Bound", True, ""),
        ("Running", False, ""),
        ("Terminating", False, "node is drained"),
        ("Lost", True, ""),
        ("Failed", False, "too often"),
    ]
    assert str(listener.told[2]).endswith("Pending → Bound (inferred) [catchup]")
    assert str(listener.told[4]).endswith("Running → Terminating [catchup] “node is drained”")


def test_labels_and_names_are_those_of_the_moment(world: World, clock: Clock) -> None:
    """Whoever comes late is told the same as who was there: what is selected never depends on when it is delivered."""
    prompt, late = Listener(), Listener()
    late.always = OSError("down")
    dispatcher = world.dispatcher(listen(prompt, "prompt"), listen(late, "late"))
    world.commit("job", opened("pod-7"))
    dispatcher.run_until_quiet(clock.now)
    world.commit("job", JobPhaseChanged("Running", "Pending"), JobRevised(name="train", labels={"team": "ml"}))
    dispatcher.run_until_quiet(clock.now)
    world.commit("job", JobPhaseChanged("Completed", "Running"), JobForgotten(finished=0))
    dispatcher.run_until_quiet(clock.now)
    late.always = None
    dispatcher.run_until_quiet(clock.advance(10))
    told = [(notice.phase, notice.name, dict(notice.labels)) for notice in prompt.told]
    assert told == [("Pending", "pod-7", {}), ("Running", "pod-7", {}), ("Completed", "train", {"team": "ml"})]
    assert late.told == prompt.told


class Plain:
    """A log that offers no more than the port asks for."""

    def __init__(self) -> None:
        self._log = MemoryLog()
        for name in (name for name in vars(Log) if not name.startswith("_")):
            setattr(self, name, getattr(self._log, name))


@pytest.mark.parametrize("make", [MemoryLog, Plain])
def test_after_a_restart_the_facts_are_read_again(make: type[Log], clock: Clock) -> None:
    log = make()
    assert isinstance(log, Log)
    assert isinstance(log, Searchable) == (make is MemoryLog)
    world, listener = World(log), Listener()
    for number in range(3):
        world.commit(f"job-{number}", opened(f"job-{number}"), JobRevised(labels={"n": str(number)}))
    world.dispatcher(listen(listener)).run_until_quiet(clock.now)
    for number in range(3):
        world.commit(f"job-{number}", JobPhaseChanged("Running", "Pending"))
    world.dispatcher(listen(listener)).run_until_quiet(clock.now)
    assert [(notice.name, dict(notice.labels)) for notice in listener.told[3:]] == [
        (f"job-{number}", {"n": str(number)}) for number in range(3)
    ]


def test_a_log_without_an_index_is_not_searched_for_each_job(clock: Clock) -> None:
    searched: list[str] = []

    class Unindexed(MemoryLog):
        def records_of(self, key, topics):
            searched.append(key)
            return super().records_of(key, topics)

    log = Unindexed()
    assert not log.finds_by_key
    world, listener = World(log), Listener()
    jobs = [f"job-{number}" for number in range(20)]
    for job in jobs:
        world.commit(job, opened(job))
    world.dispatcher(listen(listener)).run_until_quiet(clock.now)
    for job in jobs:
        world.commit(job, JobPhaseChanged("Running", "Pending"), JobForgotten(START))
    late = Listener()
    world.dispatcher(listen(listener), listen(late, "late")).run_until_quiet(clock.now)
    assert [notice.name for notice in listener.told[20:]] == jobs
    assert {notice.name for notice in late.told} == set(jobs)
    assert searched == []


def test_nothing_is_read_beyond_what_the_facts_are_known_for(world: World) -> None:
    """Somebody commits between the look for new events and the reading of old ones."""
    partition = Partition("job-events", 0)
    world.commit("job", opened(), *(AttemptStarted("worker", index, 1) for index in range(CHUNK + 500)))
    feed = Feed(world.log, {partition: 0})
    feed.advance()
    world.commit("job", JobRevised(labels={"team": "ml"}), JobPhaseChanged("Running", "Pending"))
    end = feed.end(partition)
    assert end == CHUNK + 501
    assert feed.records(partition, CHUNK)[-1].offset == end - 1
    assert feed.records(partition, end) == []
    feed.advance()
    (_, changed) = feed.records(partition, end)
    assert dict(feed.facts(changed).labels) == {"team": "ml"}


def test_a_job_whose_beginning_is_gone_is_told_of_without_a_name(world: World) -> None:
    listener = Listener()
    world.commit("job", JobRevised(labels={"team": "ml"}), JobPhaseChanged("Running", "Pending"))
    world.commit("other", JobPhaseChanged("Running", "Pending"))
    world.dispatcher(listen(listener)).run_until_quiet(START)
    assert [(notice.name, dict(notice.labels)) for notice in listener.told] == [("", {"team": "ml"}), ("", {})]


def test_the_book_is_bounded_and_drops_forgotten_jobs_first() -> None:
    asked: list[str] = []

    def history(job: str):
        asked.append(job)
        return [(0, example(JobOpened.TYPE))]

    book = JobBook(history, kept=2)
    event = example(JobOpened.TYPE)
    for offset, job in enumerate("abc"):
        event.subject = job
        book.fold(offset, event)
    assert len(book) == 2
    assert book.at("a", 0).name == "llama-finetune"
    assert (asked, len(book)) == (["a"], 2)
    book.at("c", 2)
    gone = example(JobForgotten.TYPE)
    gone.subject = "a"
    book.fold(3, gone)
    assert book.at("a", 3).name == "llama-finetune"  # whoever is behind is told of it yet
    assert asked == ["a"]
    book.at("c", 2)
    book.fold(4, gone)
    event.subject = "d"
    book.fold(5, event)
    assert book.at("c", 2).name == "llama-finetune"
    assert asked == ["a"]
    assert book.at("a", 5).name == "llama-finetune"
    assert asked == ["a", "a"]
    assert book.at("c", 1) == UNKNOWN
    assert JobForgotten.TYPE in FACT_TYPES


def test_what_one_receiver_does_to_its_notice_the_next_does_not_see(world: World) -> None:
    world.commit("job", opened(labels={"team": "ml"}))

    def greedy(notice) -> None:
        notice.labels["team"] = "mine"

    listener = Listener()
    dispatcher = world.dispatcher(listen(greedy, "greedy"), listen(listener))
    dispatcher.run_until_quiet(START)
    assert "does not support item assignment" in (dispatcher.status()[0].failing or "")
    assert dict(listener.told[0].labels) == {"team": "ml"}
