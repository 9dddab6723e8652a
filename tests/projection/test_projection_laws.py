"""The projection answers what the fold of the log answers, byte for byte, however it has come to where it stands."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from answers import folded, projected, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test
from test_lifecycle_laws import Programs

from engine.events import Data, Event, encode, to_cloudevent
from engine.events.attempts import (
    AttemptBound,
    AttemptChanged,
    AttemptEnded,
    AttemptMoved,
    AttemptRunning,
    AttemptStarted,
    AttemptTerminating,
)
from engine.events.inputs import CommandIssued, JobObserved, PodObserved
from engine.events.jobs import JobForgotten, JobOpened, JobPhaseChanged, JobRevised
from engine.events.outcomes import Accounted, InputParked, InputReleased, JobParked, JobUnparked, RowRejected
from engine.history.listing import Filter
from engine.log.memory import MemoryLog
from engine.projection.job_tables import JobTables
from engine.projection.projection import Projection
from engine.projection.usage_tables import UsageTables
from statemachines.spec import RESOURCE, JobSpec, Requests
from statemachines.vocabulary import JOB_PHASES

SUBJECTS = ("aa1", "aa2", "b")
names = st.sampled_from(["train", "train-9", "train-10", "ünder", "a/b", ""])
words = st.sampled_from(["", "x", "y"])
nodes = st.sampled_from(["", "n1", 'n"2', "ünder"])
maybe = st.none() | words
ids = st.sampled_from(["x", "y"])
times = st.integers(0, 5)
kinds = st.sampled_from(["Job", "Other"])
amounts = st.sampled_from([0, 1, 3, RESOURCE])
requests = st.builds(Requests, amounts, st.just(0), amounts, st.none() | amounts)
attempt = (st.just("main"), st.just(0), st.integers(1, 2))
specs = st.builds(lambda queue: JobSpec(queue=queue), words)


def held(ident: str, data: Data) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(to_cloudevent(encode(Event(ident, "t", data.TYPE, "aa1", 0, 0, 0, "aa1", "", "c1", data))))
    return found


inputs = st.one_of(
    st.builds(PodObserved, words, st.just("j"), names, st.just("Running"), times, owner=st.none() | names),
    st.builds(JobObserved, names, kinds, words),
    st.just(CommandIssued("AbortJob")),
)
labels = st.dictionaries(ids, ids, max_size=2)
opened = st.builds(JobOpened, kinds, names, st.booleans(), specs, words, words, words, words, labels)
started = st.builds(AttemptStarted, *attempt, requests=requests, reason=maybe)
moves = st.one_of(
    st.builds(AttemptBound, *attempt, node=nodes, reason=maybe),
    st.builds(AttemptRunning, *attempt, reason=maybe),
    st.builds(AttemptRunning, *attempt, reason=maybe),
    st.builds(AttemptTerminating, *attempt, reason=maybe),
    st.builds(AttemptChanged, *attempt, reason=maybe, reason_changed=st.booleans(), requests=st.none() | requests),
)
ended = st.builds(
    AttemptEnded, *attempt, phase=st.sampled_from(["Succeeded", "Failed"]), reason=maybe, node=nodes, started=st.none() | times
)
moved = st.builds(AttemptMoved, *attempt)
lives = st.tuples(started, st.lists(moves, max_size=4), ended | moved | st.none())
revised = st.builds(
    JobRevised,
    st.none() | specs,
    st.none() | kinds,
    st.none() | names,
    *[maybe] * 4,
    labels=st.none() | labels,
    created=st.none() | times,
    reason=maybe,
)
changed = st.builds(JobPhaseChanged, st.sampled_from(JOB_PHASES), st.just("Pending"), maybe, without_end=st.booleans())
others = st.one_of(
    opened,
    revised,
    changed,
    st.builds(JobParked, words),
    st.builds(JobUnparked, st.just(1)),
    st.builds(InputParked, st.builds(held, ids, inputs)),
    st.builds(InputReleased, ids, st.sampled_from(["parked", "waiting"]), st.just("applied")),
    st.builds(RowRejected, words, st.just(1), words),
    st.builds(JobForgotten, times),
    st.builds(Accounted, times),
)
filters = st.builds(
    Filter,
    *(st.none() | st.sampled_from(["x", "y", "c1"]) for _ in range(5)),
    st.none() | nodes.filter(bool),
    st.frozensets(st.sampled_from(JOB_PHASES), max_size=3),
    st.frozensets(st.sampled_from(["", "x", "y", "Failed"]), max_size=2),
    st.none() | times,
    st.booleans(),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Event[Data]]:
    """Job events in any order, whether a stage would write them so or not."""
    random = draw(st.randoms(use_true_random=False))
    subjects = st.sampled_from(SUBJECTS)
    threads = [[(subject, data)] for subject, data in draw(st.lists(st.tuples(subjects, opened), min_size=1, max_size=3))]
    told: list[tuple[str, Data]] = [thread.pop() for thread in threads if random.random() < 0.9]
    threads += [
        [(subject, replace(data, attempt=number)) for data in (first, *between, last) if data is not None]
        for number, (subject, (first, between, last)) in enumerate(draw(st.lists(st.tuples(subjects, lives), max_size=8)))
    ]
    threads += [[one] for one in draw(st.lists(st.tuples(subjects, others), max_size=12))]
    while threads := [thread for thread in threads if thread]:
        told.append(random.choice(threads).pop(0))
    return [
        Event(f"e{at}", "t", data.TYPE, subject, random.randrange(6), at, at, subject, "", random.choice(["c1", "c2"]), data)
        for at, (subject, data) in enumerate(told)
    ]


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(histories(), st.lists(st.integers(1, 15), min_size=1, max_size=4), st.data())
def test_after_any_prefix_and_in_any_cut_it_answers_as_the_fold_does(events, cuts, data):
    """Two followers take turns, some are killed before they commit, and some begin anew."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "projection"
        log = MemoryLog(data.draw(st.sampled_from([1, 3])))
        followers = [Projection(path), Projection(path)]
        while events:
            some, events = events[: cuts[0]], events[cuts[0] :]
            write(log, some)
            cuts = [*cuts[1:], cuts[0]]
            which = data.draw(st.integers(0, 1))
            match data.draw(st.sampled_from(["follow", "kill", "reopen", "ask"])):
                case "follow":
                    followers[which].follow(log, data.draw(st.integers(1, 9)))
                case "kill":
                    kill(followers[which], log)
                    followers[which] = Projection(path)
                case "reopen":
                    followers[which].close()
                    followers[which] = Projection(path)
                case _:
                    assert projected(followers[which], log) == folded(log)
        wanted = data.draw(st.lists(filters, max_size=6))
        expected = folded(log, wanted)
        assert [projected(one, log, wanted) for one in followers] == [expected, expected]
        with Projection() as anew:
            assert projected(anew, log, wanted) == expected
            sums = anew.ask(log, JobTables, lambda jobs: jobs.summary(include_other=True))
            for parts, use in product(("by_user", "by_queue"), ("gpu_seconds_so_far", "cpu_seconds_so_far", "gpu_share_seconds")):
                assert sum(group[use] for group in sums[parts].values()) == sums[use]
        for one in followers:
            one.close()


def kill(projection: Projection, log: MemoryLog) -> None:
    """Let a follower write what it takes, and die before it commits."""

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UsageTables, "write", die)  # the last of the read models
        with pytest.raises(Killed):
            projection.follow(log)
    projection.close()


class FollowedPrograms(Programs):
    """Lawful programs of a shard, whose events are written to a log that a projection follows."""

    def __init__(self) -> None:
        super().__init__()
        self.log = MemoryLog(2)
        self.written = 0
        self.projection = Projection()

    def write(self) -> None:
        write(self.log, self.driver.events[self.written :])
        self.written = len(self.driver.events)

    @rule(most=st.integers(1, 50))
    def follow(self, most):
        self.write()
        self.projection.follow(self.log, most)

    def teardown(self):
        self.write()
        assert projected(self.projection, self.log) == folded(self.log)
        self.projection.close()


def test_whatever_a_shard_writes_it_answers_as_the_fold_does():
    quick = settings(max_examples=25, stateful_step_count=30, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(FollowedPrograms, settings=quick)
