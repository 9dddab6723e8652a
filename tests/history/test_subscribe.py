"""Delivered is what is committed: no gap, no repeat, in the order of each job."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events import encode
from engine.events.jobs import JobForgotten, JobRevised
from engine.events.times import SECOND
from engine.history.errors import ExpiredTokenError, ForeignTokenError, MalformedTokenError
from engine.history.subscribe import CaughtUp, Start, Subscription, Wanted, level_of
from engine.history.token import Place, check, read_token, write_token
from engine.log.memory import MemoryLog
from engine.log.port import Partition, Record
from statemachines.spec import JobSpec


def append(log, events):
    log.append("job-events", [encode(event) for event in events])


def all_of(subscription):
    found = []
    while (record := subscription.take()) is not None:
        found.append(record.message.id)
    return found


def ids(log):
    return sorted(record.message.id for record in log.scan(("job-events",)))


@pytest.fixture
def log(training):
    made = MemoryLog()
    append(made, training.events)
    return made


def test_marker_stands_between_what_was_there_and_what_came(log, story):
    later = story("later")
    later.opened(2000)
    seen = []
    for item in Subscription(log).stream(follow=True, stop=lambda: True):
        if isinstance(item, CaughtUp):
            append(log, later.events)
            seen.append("caught up")
        else:
            seen.append(item.message.subject)
    assert seen.index("caught up") == len(seen) - 2
    assert seen[-1] == "later"


def test_without_following_the_stream_ends_at_the_marker(log, training):
    items = list(Subscription(log).stream(follow=False))
    assert len(items) == len(training.events) + 1
    assert isinstance(items[-1], CaughtUp)


def test_empty_log_is_caught_up_at_once():
    assert [type(item) for item in Subscription(MemoryLog(3)).stream(follow=False)] == [CaughtUp]


def test_what_is_appended_before_the_marker_is_delivered_once(log, story):
    subscription = Subscription(log)
    stream = subscription.stream(follow=True, stop=lambda: True)
    first = next(stream)
    later = story("later")
    later.opened(2000)
    append(log, later.events)
    rest = [item.message.id for item in stream if not isinstance(item, CaughtUp)]
    assert sorted([first.message.id, *rest]) == ids(log)


def test_from_now_delivers_only_what_comes(log, story):
    subscription = Subscription(log, Start("now"))
    assert subscription.caught_up
    assert subscription.take() is None
    later = story("later")
    event = later.opened(2000)
    append(log, [event])
    assert all_of(subscription) == [event.id]


@pytest.mark.parametrize("seconds", [0, 20, 29, 30, 31, 300, 1000, 1001])
def test_from_a_time_delivers_what_was_recorded_since(log, training, seconds):
    expected = [event.id for event in training.events if event.recordedtime >= seconds * SECOND]
    assert all_of(Subscription(log, Start("time", time=seconds * SECOND))) == expected


@pytest.mark.parametrize("taken", [0, 1, 7])
def test_token_goes_on_behind_what_was_delivered(log, training, taken):
    subscription = Subscription(log)
    for _ in range(taken):
        subscription.take()
    again = Subscription(log, Start("token", subscription.token))
    assert all_of(again) == [event.id for event in training.events[taken:]]


def test_token_is_url_safe(log):
    subscription = Subscription(log)
    subscription.take()
    assert subscription.token.replace("-", "").replace("_", "").isalnum()


def test_filter_moves_the_token_over_what_it_drops(log, training):
    """A subscriber who wants nothing of what is there need not see it again."""
    subscription = Subscription(log, wanted=Wanted(job="other"))
    assert all_of(subscription) == []
    assert subscription.caught_up
    assert all_of(Subscription(log, Start("token", subscription.token))) == []


def test_a_subscriber_to_rare_events_can_be_stopped_within_the_backlog(log, story):
    """What is read at a time is 500 records."""
    rare = story("rare")
    for number in range(600):
        append(log, [story(f"job-{number}").opened(2000 + number)])
    append(log, [rare.opened(3000)])
    subscription = Subscription(log, wanted=Wanted(job="rare"))
    assert list(subscription.stream(follow=True, stop=lambda: True)) == []
    assert not subscription.caught_up
    assert len(all_of(Subscription(log, Start("token", subscription.token), Wanted(job="rare")))) == 1


@pytest.mark.parametrize(
    ("wanted", "passes"),
    [
        (Wanted(), lambda _: True),
        (Wanted(level="replica"), lambda name: name.startswith("lahar.attempt")),
        (Wanted(level="task"), lambda name: name == "lahar.task.phase_changed.v1"),
        (Wanted(types=("lahar.attempt.ended.v1",)), lambda name: name == "lahar.attempt.ended.v1"),
        (Wanted(types=("lahar.attempt.*", "lahar.event.*")), lambda name: name.startswith(("lahar.attempt", "lahar.event"))),
        (Wanted(queue="research"), lambda _: True),
        (Wanted(queue="default"), lambda _: False),
        (Wanted(tenant="default", level="task"), lambda name: name.startswith("lahar.task")),
        (Wanted(labels={"team": "nlp"}), lambda _: False),
        (Wanted(job="6f1c0d7e-0000-5000-8000-000000000001"), lambda _: True),
        (Wanted(job="6f1c"), lambda _: False),
    ],
)
def test_filters(log, training, wanted, passes):
    assert all_of(Subscription(log, wanted=wanted)) == [event.id for event in training.events if passes(event.type)]


def test_filters_by_job_know_the_past(log, training, story):
    """Queue and labels are known to a subscription that begins after the job was opened, and follow its changes."""
    moved = story()
    moved.events = []
    labels = {"team": "nlp"}
    revised = moved.add(JobRevised(spec=JobSpec(queue="night"), labels=labels, tenant="lab"), 1100)
    last = moved.add(JobRevised(user="eve"), 1200)
    subscription = Subscription(log, Start("now"), Wanted(queue="research"))
    other = Subscription(log, Start("now"), Wanted(queue="night", tenant="lab", labels=labels))
    append(log, [revised, last])
    assert all_of(subscription) == []
    assert all_of(other) == [revised.id, last.id]


def test_levels():
    assert [level_of(f"lahar.{name}.x.v1") for name in ("attempt", "task", "job", "timer", "event")] == [
        "replica",
        "task",
        *["job"] * 3,
    ]


@given(
    st.integers(1, 4),
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(0, 5), st.integers(1, 4)),
            st.tuples(st.just("take"), st.integers(1, 9)),
            st.just(("reconnect",)),
        ),
        max_size=25,
    ),
)
def test_delivered_is_committed(story, partitions, steps):
    """Whatever is appended meanwhile and however often the subscriber comes back with its token."""
    log = MemoryLog(partitions)
    stories = [story(f"job-{number}") for number in range(6)]
    subscription = Subscription(log)
    seen: list[Record] = []
    for step in steps:
        if step[0] == "append":
            told = stories[step[1]]
            for _ in range(step[2]):
                append(log, [told.add(JobRevised(user="u"), len(seen))])
        elif step[0] == "take":
            seen += [record for record in (subscription.take() for _ in range(step[1])) if record is not None]
        else:
            subscription = Subscription(log, Start("token", subscription.token))
    while (record := subscription.take()) is not None:
        seen.append(record)
    assert sorted(record.message.id for record in seen) == ids(log)
    for told in stories:
        assert [record.message.sequence for record in seen if record.message.subject == told.job] == list(
            range(1, len(told.events) + 1)
        )


def test_new_partition_starts_at_its_beginning(story):
    small, large = MemoryLog(1), MemoryLog(2)
    told = story("a")
    told.opened(0)
    append(large, told.events)
    token = write_token("job-events", {1: Place(large.end(Partition("job-events", 1)))})
    assert len(all_of(Subscription(large, Start("token", token)))) == large.end(Partition("job-events", 0))
    with pytest.raises(ForeignTokenError, match="names job-events/1, this log has 1 partitions"):
        Subscription(small, Start("token", token))


def test_token_of_another_log_is_refused(log, story):
    subscription = Subscription(log)
    for _ in range(3):
        subscription.take()
    other = MemoryLog()
    told = story("x")
    told.opened(0)
    append(other, told.events)
    with pytest.raises(ForeignTokenError, match="beyond this log's end 1"):
        Subscription(other, Start("token", subscription.token))
    for index in range(5):
        append(other, [told.started(1, ("main", index, 1))])
    with pytest.raises(ForeignTokenError, match="another event is at job-events/0 offset 2"):
        Subscription(other, Start("token", subscription.token))


def test_token_of_another_topic_is_refused(log):
    with pytest.raises(ForeignTokenError, match="it is of topic billing"):
        Subscription(log, Start("token", write_token("billing", {})))


class Retained(MemoryLog):
    """A log that keeps nothing below some offset, as Kafka does after a while."""

    first = 0

    def read(self, partition, start, limit):
        return super().read(partition, max(start, self.first), limit)


def test_token_behind_retention_is_refused(training):
    log = Retained()
    append(log, training.events)
    subscription = Subscription(log)
    for _ in range(3):
        subscription.take()
    token = subscription.token
    log.first = 2
    assert len(all_of(Subscription(log, Start("token", token)))) == len(training.events) - 3
    log.first = 5
    with pytest.raises(ExpiredTokenError, match="job-events/0 resumes at offset 3, the oldest kept is 5"):
        Subscription(log, Start("token", token))
    with pytest.raises(ExpiredTokenError):
        check(log, "job-events", {0: Place(0)})


def coded(content):
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode()


@pytest.mark.parametrize(
    "token",
    [
        "",
        "?",
        "abc",
        coded([]),
        coded({}),
        coded({"v": 2, "e": 1, "t": "job-events", "p": {}}),
        coded({"v": 1, "e": 1, "t": "nonsense", "p": {}}),
        coded({"v": 1, "e": 1, "t": "job-events", "p": {"0": ["a"]}}),
        coded({"v": 1, "e": 1, "t": "job-events", "p": {"0": [1, 2, "m"]}}),
        coded({"v": 1, "e": 1, "t": "job-events", "p": {"0": [3, 3, "m"]}}),
        coded({"v": 1, "e": 1, "t": "job-events", "p": []}),
        pytest.param(base64.urlsafe_b64encode(b"[" * 99_999).decode(), id="nested"),
    ],
)
def test_what_is_no_token_is_refused(log, token):
    with pytest.raises(MalformedTokenError, match="not a subscription token"):
        Subscription(log, Start("token", token))


def test_token_of_another_epoch_is_refused(log):
    with pytest.raises(ForeignTokenError, match="schema epoch 9"):
        Subscription(log, Start("token", coded({"v": 1, "e": 9, "t": "job-events", "p": {}})))


@given(
    st.dictionaries(st.integers(0, 99), st.builds(Place, st.integers(5, 10**12), st.integers(-1, 4), st.text("abc", max_size=12)))
)
def test_tokens_are_read_as_written(places):
    assert read_token(write_token("job-events", places)) == ("job-events", places)


def test_partition_without_events_is_not_asked_for_each_event(story):
    """It is read again when a chunk of another one is used up."""
    reads = []

    class Counted(MemoryLog):
        def read(self, partition, start, limit):
            reads.append(partition)
            return super().read(partition, start, limit)

    log, told = Counted(3), story("busy")
    for time in range(200):
        told.opened(time)
    append(log, told.events)
    subscription = Subscription(log)
    reads.clear()
    assert len(all_of(subscription)) == 200
    assert len(reads) <= 9


def test_events_of_several_partitions_come_as_they_were_recorded(story):
    log = MemoryLog(3)
    for number in range(9):
        told = story(f"job{number}")
        told.opened(number)
        append(log, told.events)
    subscription = Subscription(log)
    found = []
    while (record := subscription.take()) is not None:
        found.append(record)
    assert [record.message.subject for record in found] == [f"job{number}" for number in range(9)]
    assert len({record.partition for record in found}) > 1


def test_forgotten_job_leaves_the_memory_of_a_subscription(story):
    """The last that is delivered of it is that it was forgotten."""
    log, told = MemoryLog(), story("old")
    told.opened(1)
    told.add(JobForgotten(finished=1), 2)
    append(log, told.events)
    subscription = Subscription(log, wanted=Wanted(tenant="default"))
    assert len(all_of(subscription)) == 2
    assert subscription.jobs == {}
    later = Subscription(log, Start("now"), Wanted(tenant="default"))
    assert later.jobs == {}


def test_accounts_of_a_shard_are_of_no_level(played, process):
    log = played(20, 3)
    log.append("pods", [record.message for record in log.scan(("pods",))])
    process(log)
    levels = [level_of(record.message.type) for record in log.scan(("job-events",))]
    assert {*levels} == {"job", "task", "replica", None}
    for level in ("job", "task", "replica"):
        assert len(all_of(Subscription(log, wanted=Wanted(level=level)))) == levels.count(level)
