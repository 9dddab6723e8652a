"""What every log must do. A log joins by a subclass that says how to make one."""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.events import Message, Topic, raw_message
from engine.events.vocabulary import INPUT_TOPICS
from engine.log.errors import FencedError, LayoutError, LogError, RecordTooLargeError
from engine.log.partitioner import partition_of
from engine.log.port import READ_BYTES, Commit, Log, Output, Partition, Position, Record, Searchable, ShardId, Vector, size_of
from engine.log.producer_time import wall_clock

SHARD = ShardId("lifecycle", 0)
PODS = Partition("pods", 0)
CLUSTER = Partition("cluster", 0)
SECOND = 1_000_000
HOUR = 3_600 * SECOND
LARGE = random.Random(1).randbytes(5_000_000)  # noqa: S311  bytes that cannot be compressed
EVENTS = Partition("job-events", 0)
INPUTS = (PODS, CLUSTER)

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
times = st.integers(min_value=-(2**62), max_value=2**62)
past = st.integers(min_value=-(2**62), max_value=1_700_000_000_000_000)
messages = st.builds(
    Message, texts, texts, texts, texts, texts, times, past, st.integers(0, 2**40), texts, texts, texts, st.binary(max_size=60)
)


def message(key: str, number: int = 0, kind: str = "lahar.job.opened.v1", data: bytes = b"{}") -> Message:
    return Message(key, f"{key}-{number}", "test", kind, key, number, number, number, key, "", "c", data)


def output(number: int, basis: Vector = (1, 0), *, kind: str = "lahar.job.opened.v1", key: str = "job") -> Output:
    return Output("job-events", message(key, number, kind), basis)


def read_all(log: Log, partition: Partition, limit: int = 3) -> list[Record]:
    """Read a partition from its beginning as a consumer does: from behind the last offset seen."""
    found: list[Record] = []
    while batch := log.read(partition, found[-1].offset + 1 if found else 0, limit):
        found += batch
    return found


def bodies(records: Sequence[Record]) -> list[Message]:
    return [record.message for record in records]


class LogContract(ABC):
    """The contract of `Log` and `ShardLog`."""

    seen_at_once = True
    """What was committed to several partitions can be read in all of them at the same moment."""

    @abstractmethod
    def make(self, partitions: int) -> Log:
        """Return a new, empty log."""

    def make_limited(self) -> Log:
        """Return a new, empty log that does not take a record as large as `LARGE`."""
        pytest.skip("it takes records of any size that memory allows")

    @pytest.fixture
    def log(self) -> Iterator[Log]:
        log = self.make(1)
        yield log
        log.close()

    @pytest.fixture
    def wide(self) -> Iterator[Log]:
        log = self.make(4)
        yield log
        log.close()

    def test_it_is_a_log(self, log: Log) -> None:
        assert isinstance(log, Log)

    def test_topics_have_the_partitions_asked_for_except_the_two_that_have_one(self, wide: Log) -> None:
        counts = [wide.partitions(topic) for topic in ("pods", "jobs", "job-events", "cluster", "scheduling")]
        assert counts == [4, 4, 4, 1, 1]

    def test_a_new_log_is_empty(self, log: Log) -> None:
        assert (log.read(PODS, 0, 10), log.end(PODS)) == ([], 0)

    def test_records_come_back_in_order_and_as_they_were(self, log: Log) -> None:
        sent = [message("a", number) for number in range(10)]
        log.append("pods", sent[:4])
        log.append("pods", sent[4:])
        found = read_all(log, PODS)
        assert bodies(found) == sent
        assert [record.offset for record in found] == sorted({record.offset for record in found})
        assert log.end(PODS) > found[-1].offset
        assert {(record.partition, record.shard, record.shardsequence, record.basis) for record in found} == {(PODS, "", 0, ())}

    def test_a_read_gives_no_more_than_its_limit(self, log: Log) -> None:
        log.append("pods", [message("a", number) for number in range(10)])
        assert len(log.read(PODS, 0, 4)) == 4

    def test_a_read_gives_less_than_its_limit_only_at_the_end(self, log: Log) -> None:
        """Whoever merges partitions takes a short read as a sign that nothing waits."""
        sent = [message("a", number, data=b"x" * 1_000) for number in range(3_000)]
        log.append("pods", sent)
        assert bodies(log.read(PODS, 0, 2_999)) == sent[:2_999]
        assert bodies(log.read(PODS, 2_999, 1_000)) == sent[2_999:]
        assert bodies(log.read(PODS, 500, 5_000)) == sent[500:]

    def test_a_read_of_large_records_ends_at_its_bytes_and_goes_on(self, log: Log) -> None:
        """Whoever takes them holds them all; that it is short because of their size can be seen from what it gives."""
        sent = [message("a", number, data=LARGE[: 600_000 + number]) for number in range(20)]
        sent[1::2] = [one._replace(id=one.data.hex()[: len(one.data)], data=b"x") for one in sent[1::2]]
        for one in sent:
            log.append("pods", [one])
        parts: list[list[Record]] = []
        while part := log.read(PODS, parts[-1][-1].offset + 1 if parts else 0, 1_000):
            parts.append(part)
        assert bodies([record for part in parts for record in part]) == sent
        sizes = [sum(size_of(record.message) for record in part) for part in parts]
        assert len(sizes) > 1
        assert all(READ_BYTES <= size < 2 * READ_BYTES for size in sizes[:-1]), sizes

    def test_appending_nothing_is_nothing(self, log: Log) -> None:
        log.append("pods", [])
        assert log.end(PODS) == 0

    def test_any_message_comes_back_as_it_was(self, log: Log) -> None:
        # hypothesis wants one test a function, and this one is inherited by several classes.
        @settings(max_examples=50, deadline=None)
        @given(st.lists(messages, max_size=5))
        def check(sent: list[Message]) -> None:
            before = len(read_all(log, PODS))
            log.append("pods", sent)
            assert bodies(read_all(log, PODS))[before:] == sent

        check()

    @pytest.mark.parametrize("topic", sorted(INPUT_TOPICS))
    def test_a_recorded_time_is_capped_at_a_second_past_the_append(self, log: Log, topic: Topic) -> None:
        """One wrong clock would make everybody's timers due, and all that is timed wait for it."""
        before = wall_clock() // SECOND * SECOND
        century = before + 100 * 365 * 24 * HOUR
        given = [before - HOUR, before + SECOND, before + HOUR, century, 2**62]
        log.append(topic, [message("a", number)._replace(time=century, recordedtime=at) for number, at in enumerate(given)])
        after = wall_clock()
        found = read_all(log, Partition(topic, 0))
        counted = [record.message.recordedtime for record in found]
        assert counted[:2] == given[:2]
        assert all(before + SECOND <= at <= after + SECOND for at in counted[2:])
        assert {record.message.time for record in found} == {century}, "a claim about itself alone"

    def test_what_is_read_is_measured(self, log: Log) -> None:
        """Bounds of commits and of inputs rely on it: an attribute may be as long as the log lets a record be."""
        sent = [message("a", 1), message("a", 2)._replace(source="ü" * 2_000), message("a", 3)._replace(data=b"x" * 9_000)]
        log.append("pods", sent)
        for record in read_all(log, PODS):
            assert size_of(record.message) <= record.size < 2 * size_of(record.message) + 1_000

    def test_what_a_stage_wrote_keeps_its_time(self, log: Log) -> None:
        """It is the shard's own; inputs appended on a machine with another clock may have brought it."""
        ahead = message("job", 1)._replace(recordedtime=wall_clock() + 2 * HOUR)
        log.open(SHARD, INPUTS).commit(Commit((1, 0), 1, [Output("job-events", ahead, (1, 0))]))
        assert bodies(read_all(log, EVENTS)) == [ahead]

    def test_bytes_that_are_no_event_are_kept(self, log: Log) -> None:
        raw = raw_message("k", bytes(range(256)), 5)
        log.append("pods", [raw])
        assert bodies(read_all(log, PODS)) == [raw]

    def test_the_key_chooses_the_partition_as_kafka_does(self, wide: Log) -> None:
        """The hashes are those of Kafka's own test of its default partitioner."""
        hashes = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "abc": 479470107}
        for topic in ("pods", "jobs"):
            wide.append(topic, [message(key) for key in hashes])
            places = {rec.message.key: number for number in range(4) for rec in read_all(wide, Partition(topic, number))}
            assert places == {key: (found & 0x7FFFFFFF) % 4 for key, found in hashes.items()}

    def test_a_shard_that_never_ran_stands_at_zero(self, log: Log) -> None:
        shard = log.open(SHARD, INPUTS)
        assert shard.position == Position((0, 0), 0, 0)
        assert list(shard.snapshot()) == []

    def test_a_commit_is_visible_with_its_metadata(self, log: Log) -> None:
        shard = log.open(SHARD, INPUTS)
        position = shard.commit(Commit((2, 1), 77, [output(1, (1, 0)), output(2, (1, 1)), output(3, (2, 1))]))
        assert position == shard.position == Position((2, 1), 77, 3)
        found = [(record.shard, record.shardsequence, record.basis, record.message.id) for record in read_all(log, EVENTS)]
        assert found == [
            ("lifecycle/0", 1, (1, 0), "job-1"),
            ("lifecycle/0", 2, (1, 1), "job-2"),
            ("lifecycle/0", 3, (2, 1), "job-3"),
        ]

    def test_a_commit_without_outputs_moves_the_position(self, log: Log) -> None:
        log.open(SHARD, INPUTS).commit(Commit((5, 0), 9))
        assert log.open(SHARD, INPUTS).position == Position((5, 0), 9, 0)

    def test_shardsequences_go_on_over_topics_commits_and_holders(self, log: Log) -> None:
        log.open(SHARD, INPUTS).commit(Commit((1, 0), 1, [output(1), Output("dead-letters", message("job", 2), (1, 0))]))
        log.open(SHARD, INPUTS).commit(Commit((2, 0), 1, [output(3)]))
        found = read_all(log, EVENTS) + read_all(log, Partition("dead-letters", 0))
        assert sorted(record.shardsequence for record in found) == [1, 2, 3]

    def test_outputs_go_to_the_shards_own_partition(self, wide: Log) -> None:
        shard = wide.open(ShardId("lifecycle", 3), (Partition("pods", 3), CLUSTER))
        shard.commit(Commit((1, 0), 1, [output(1), Output("scheduling", message("queue"), (1, 0))]))
        assert [len(read_all(wide, Partition("job-events", number))) for number in range(4)] == [0, 0, 0, 1]
        assert len(read_all(wide, Partition("scheduling", 0))) == 1

    def test_shards_are_apart(self, wide: Log) -> None:
        first = wide.open(ShardId("lifecycle", 0), INPUTS)
        second = wide.open(ShardId("lifecycle", 1), (Partition("pods", 1), CLUSTER))
        first.commit(Commit((1, 0), 1, [output(1)], [("job", b"first")]))
        second.commit(Commit((9, 0), 2, [output(2)], [("job", b"second")]))
        assert (first.position, second.position) == (Position((1, 0), 1, 1), Position((9, 0), 2, 1))
        assert [list(shard.snapshot()) for shard in (first, second)] == [[("job", b"first")], [("job", b"second")]]

    def test_a_second_holder_fences_the_first(self, log: Log) -> None:
        first = log.open(SHARD, INPUTS)
        first.commit(Commit((1, 0), 1, [output(1)], [("a", b"1")]))
        second = log.open(SHARD, INPUTS)
        assert second.position == Position((1, 0), 1, 1)
        with pytest.raises(FencedError, match="lifecycle/0"):
            first.commit(Commit((2, 0), 2, [output(2)], [("a", b"2")]))
        assert (len(read_all(log, EVENTS)), list(second.snapshot())) == (1, [("a", b"1")])
        second.commit(Commit((2, 0), 2, [output(3)]))
        assert [record.message.id for record in read_all(log, EVENTS)] == ["job-1", "job-3"]

    def test_a_fenced_holder_stays_fenced(self, log: Log) -> None:
        first = log.open(SHARD, INPUTS)
        log.open(SHARD, INPUTS)
        for _ in range(2):
            with pytest.raises(FencedError):
                first.commit(Commit((1, 0), 1))

    def test_a_shard_that_was_given_back_cannot_commit(self, log: Log) -> None:
        shard = log.open(SHARD, INPUTS)
        shard.close()
        shard.close()
        with pytest.raises(LogError):
            shard.commit(Commit((1, 0), 1))
        assert log.open(SHARD, INPUTS).position == Position((0, 0), 0, 0)

    def test_a_shard_that_has_taken_nothing_takes_other_inputs(self, log: Log) -> None:
        log.open(SHARD, INPUTS).close()
        other = log.open(SHARD, (CLUSTER,))
        assert other.position == Position((0,), 0, 0)
        other.commit(Commit((1,), 1))
        assert log.open(SHARD, (CLUSTER,)).position == Position((1,), 1, 0)

    def test_a_shard_keeps_its_inputs(self, log: Log) -> None:
        log.open(SHARD, INPUTS).commit(Commit((1, 0), 1))
        with pytest.raises(LayoutError, match=r"pods/0, cluster/0.*jobs/0"):
            log.open(SHARD, (Partition("jobs", 0), CLUSTER))

    def test_a_release_may_add_inputs_behind_those_that_a_shard_has(self, log: Log) -> None:
        log.append("pods", [message("job")])
        log.open(SHARD, INPUTS).commit(Commit((1, 0), 7, [output(1, (1, 0))], [("job/a", b"1")]))
        more = (*INPUTS, Partition("decisions", 0))
        shard = log.open(SHARD, more)
        assert shard.position == Position((1, 0, 0), 7, 1)
        assert dict(shard.snapshot()) == {"job/a": b"1"}
        shard.commit(Commit((1, 0, 2), 8, [output(2, (1, 0, 2))]))
        heir = log.open(SHARD, more)
        assert heir.position == Position((1, 0, 2), 8, 2)
        heir.close()
        with pytest.raises(LayoutError, match="decisions/0"):
            log.open(SHARD, INPUTS)

    def test_a_mark_outlives_its_holder_without_a_commit(self, log: Log) -> None:
        first = log.open(SHARD, INPUTS)
        assert first.marked() == ""
        first.mark("0 pods/0@17")
        first.mark("1 pods/0@3")
        heir = log.open(SHARD, INPUTS)
        assert (heir.marked(), heir.position) == ("1 pods/0@3", Position((0, 0), 0, 0))
        heir.mark("x" * 200)
        heir.close()
        third = log.open(SHARD, INPUTS)
        assert third.marked() == "x" * 200
        third.mark("")
        assert log.open(SHARD, INPUTS).marked() == ""

    def test_marks_of_shards_are_apart(self, wide: Log) -> None:
        shards = {number: (Partition("pods", number), CLUSTER) for number in range(4)}
        for number, inputs in shards.items():
            wide.open(ShardId("lifecycle", number), inputs).mark(f"0 pods/{number}@5")
        wide.open(ShardId("billing", 0), INPUTS).mark("0 open")
        found = [wide.open(ShardId("lifecycle", number), inputs).marked() for number, inputs in shards.items()]
        assert found == [f"0 pods/{number}@5" for number in shards]

    def test_snapshot_records_are_replaced_and_forgotten(self, log: Log) -> None:
        shard = log.open(SHARD, INPUTS)
        shard.commit(Commit((1, 0), 1, (), [("a", b"1"), ("b", b"1"), ("c", b"")]))
        shard.commit(Commit((2, 0), 1, (), [("a", b"2"), ("b", None), ("never", None)]))
        assert dict(log.open(SHARD, INPUTS).snapshot()) == {"a": b"2", "c": b""}

    @pytest.mark.parametrize("place", [0, 2])
    def test_an_output_that_is_too_large_is_named_and_the_shard_is_still_held(self, place: int) -> None:
        log = self.make_limited()
        shard = log.open(SHARD, INPUTS)
        shard.commit(Commit((1, 0), 1, [output(0)], [("a", b"1")]))
        made = [output(number) for number in range(1, 5)]
        other = Output("dead-letters", message("job", 9), (2, 0))
        large = Output("job-events", message("job", 8, data=LARGE), (2, 0))
        with pytest.raises(RecordTooLargeError) as raised:
            shard.commit(Commit((2, 0), 2, [*made[:place], other, large, *made[place:]], [("a", b"2")]))
        assert raised.value.place == place + 1
        assert (shard.position, dict(shard.snapshot())) == (Position((1, 0), 1, 1), {"a": b"1"})
        assert len(read_all(log, EVENTS)) == 1
        shard.commit(Commit((2, 0), 2, [*made[:place], other, *made[place:]], [("a", b"3")]))
        assert [record.shardsequence for record in read_all(log, EVENTS)] == [1, *range(2, 2 + place), *range(3 + place, 7)]
        assert dict(log.open(SHARD, INPUTS).snapshot()) == {"a": b"3"}
        log.close()

    def test_a_fenced_holder_with_too_large_an_output_is_reported_as_fenced(self) -> None:
        log = self.make_limited()
        zombie = log.open(SHARD, INPUTS)
        heir = log.open(SHARD, INPUTS)
        with pytest.raises(FencedError):
            zombie.commit(Commit((1, 0), 1, [Output("job-events", message("job", 8, data=LARGE), (1, 0))]))
        heir.commit(Commit((1, 0), 1, [output(1)]))
        assert len(read_all(log, EVENTS)) == 1
        log.close()

    def test_a_message_that_is_too_large_is_not_appended(self) -> None:
        log = self.make_limited()
        with pytest.raises(RecordTooLargeError) as raised:
            log.append("pods", [message("a"), message("a", 1, data=LARGE)])
        assert raised.value.place == 1
        log.append("jobs", [message("a")])
        assert len(read_all(log, Partition("jobs", 0))) == 1
        log.close()

    def test_inputs_are_appended_beside_a_running_processor(self, log: Log) -> None:
        shard = log.open(SHARD, INPUTS)
        log.append("pods", [message("a")])
        shard.commit(Commit((1, 0), 1, [output(1)]))
        log.append("pods", [message("b")])
        shard.commit(Commit((2, 0), 1, [output(2)]))
        assert [record.message.key for record in read_all(log, PODS)] == ["a", "b"]

    def test_readers_see_whole_commits_and_skip_nothing(self, log: Log) -> None:
        """One thread commits to two topics, one appends, one follows both: it sees every record once and no half commit."""
        shard = log.open(SHARD, INPUTS)
        commits, size = 30, 5
        torn: list[tuple[int, int]] = []
        followed: list[str] = []
        done = threading.Event()

        def commit() -> None:
            for number in range(commits):
                made = [output(number * size + place) for place in range(size)]
                shard.commit(Commit((number + 1, 0), 1, [*made, *(Output("dead-letters", out.message, out.basis) for out in made)]))
            done.set()

        def append() -> None:
            for number in range(commits):
                log.append("pods", [message("a", number)])

        def follow() -> None:
            last = -1
            while True:
                finished = done.is_set()
                dead = len(read_all(log, Partition("dead-letters", 0), 1000))
                whole = len(read_all(log, EVENTS, 1000))
                if dead % size or whole % size or (self.seen_at_once and dead > whole):
                    torn.append((dead, whole))
                batch = log.read(EVENTS, last + 1, 7)
                followed.extend(record.message.id for record in batch)
                if batch:
                    last = batch[-1].offset
                elif finished:
                    return

        threads = [threading.Thread(target=work) for work in (commit, append, follow)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert torn == []
        assert followed == [f"job-{number}" for number in range(commits * size)]
        assert [record.message.sequence for record in read_all(log, PODS)] == list(range(commits))

    def test_a_first_wait_ends_where_something_was_appended_before(self, log: Log) -> None:
        """Else what came between the last look and the wait would not be seen."""
        log.append("pods", [message("a")])
        began = time.monotonic()
        assert PODS in log.wait(20, [PODS])
        assert time.monotonic() - began < 10

    def test_waiting_ends_when_something_is_appended(self, log: Log) -> None:
        log.wait(0, [PODS, EVENTS])
        log.append("pods", [message("a")])
        assert PODS in log.wait(60, [PODS, EVENTS])
        woken = threading.Event()

        def wait() -> None:
            log.wait(0)
            started.set()
            log.wait(60)
            woken.set()

        started = threading.Event()
        thread = threading.Thread(target=wait)
        thread.start()
        assert started.wait(10)
        log.append("pods", [message("b")])
        thread.join(30)
        assert woken.is_set()

    def test_a_consumer_that_never_moved_has_no_position(self, log: Log) -> None:
        assert log.cursor("bell") == {}

    def test_a_cursor_moves_only_in_the_partitions_named(self, wide: Log) -> None:
        first, second = Partition("job-events", 0), Partition("job-events", 3)
        wide.move_cursor("bell", {first: 5, second: 7})
        wide.move_cursor("bell", {first: 9})
        wide.move_cursor("bell", {})
        assert wide.cursor("bell") == {first: 9, second: 7}

    def test_a_cursor_may_be_moved_back(self, log: Log) -> None:
        log.move_cursor("bell", {EVENTS: 9})
        log.move_cursor("bell", {EVENTS: 2})
        assert log.cursor("bell") == {EVENTS: 2}

    def test_cursors_are_apart(self, log: Log) -> None:
        log.move_cursor("bell", {EVENTS: 5})
        log.move_cursor("Bell", {EVENTS: 6})
        log.cursor("bell")[EVENTS] = 99
        assert (log.cursor("bell"), log.cursor("Bell"), log.cursor("be")) == ({EVENTS: 5}, {EVENTS: 6}, {})

    def test_a_cursor_is_no_record(self, log: Log) -> None:
        log.append("pods", [message("a")])
        log.move_cursor("bell", {PODS: 1})
        assert (len(read_all(log, PODS)), log.end(PODS), log.end(EVENTS)) == (1, 1, 0)

    def test_closing_twice_is_closing(self) -> None:
        log = self.make(1)
        log.close()
        log.close()


class SearchableContract(ABC):
    """The contract of `Searchable`."""

    @abstractmethod
    def make(self, partitions: int) -> Log:
        """Return a new, empty log that can be searched."""

    def let_time_pass(self) -> None:  # noqa: B027  only some need it
        """Return when whatever is written next is later by the clock that orders transactions; most logs count them."""

    @pytest.fixture
    def filled(self) -> Iterator[Log]:
        """Three jobs in two partitions, whose events and inputs alternate."""
        log = self.make(2)
        shards = [log.open(ShardId("lifecycle", number), (Partition("pods", number), CLUSTER)) for number in range(2)]
        taken = [0, 0]
        for number in range(12):
            key = f"job{number % 3}"
            kind = "lahar.timer.set.v1" if number % 4 == 0 else "lahar.job.opened.v1"
            self.let_time_pass()
            log.append("pods", [message(key, number)])
            place = partition_of(key, 2)
            taken[place] += 1
            vector = (taken[place], 0)
            shards[place].commit(Commit(vector, number, [output(number, vector, kind=kind, key=key)]))
        yield log
        log.close()

    def test_it_is_searchable(self, filled: Log) -> None:
        assert isinstance(filled, Searchable)

    def test_a_scan_gives_everything_in_commit_order(self, filled: Log) -> None:
        assert isinstance(filled, Searchable)
        assert [record.message.sequence for record in filled.scan(["job-events"])] == list(range(12))
        both = [(record.partition.topic, record.message.sequence) for record in filled.scan(["job-events", "pods"])]
        assert both == [(topic, number) for number in range(12) for topic in ("pods", "job-events")]

    def test_a_scan_gives_the_records_that_a_read_gives(self, filled: Log) -> None:
        assert isinstance(filled, Searchable)
        scanned = [record for record in filled.scan(["job-events"]) if record.partition == EVENTS]
        assert scanned == read_all(filled, EVENTS)

    def test_a_scan_gives_only_the_types_asked_for(self, filled: Log) -> None:
        assert isinstance(filled, Searchable)
        assert [record.message.sequence for record in filled.scan(["job-events"], {"lahar.timer.set.v1"})] == [0, 4, 8]
        assert list(filled.scan(["job-events"], set())) == []

    @pytest.mark.parametrize("stop", range(13))
    def test_a_scan_goes_on_from_its_token(self, filled: Log, stop: int) -> None:
        """No gap, no repeat, wherever the first scan stopped."""
        assert isinstance(filled, Searchable)
        everything = list(filled.scan(["job-events", "pods"]))
        token = {record.partition: record.offset + 1 for record in everything[:stop]}
        assert list(filled.scan(["job-events", "pods"], None, token)) == everything[stop:]

    def test_the_records_of_one_job(self, filled: Log) -> None:
        assert isinstance(filled, Searchable)
        assert [record.message.sequence for record in filled.records_of("job1", ["job-events"])] == [1, 4, 7, 10]
        found = [record.partition.topic for record in filled.records_of("job1", ["job-events", "pods"])]
        assert found == ["pods", "job-events"] * 4
        assert list(filled.records_of("nobody", ["job-events"])) == []

    def test_the_inputs_of_each_job_wherever_they_stand(self, filled: Searchable) -> None:
        found = {job: list(filled.records_of(job, ["pods"])) for job in ("job0", "job1", "job2")}
        assert all({record.message.key for record in records} == {job} for job, records in found.items())
        everything = [record for records in found.values() for record in records]
        assert sorted(everything) == sorted(filled.scan(["pods"]))
        assert len({record.partition.number for record in everything}) > 1

    def test_a_scan_ends_at_what_was_committed_when_it_began(self, filled: Log) -> None:
        assert isinstance(filled, Searchable)
        scan = filled.scan(["pods"])
        next(scan)
        filled.append("pods", [message("late", 99)])
        assert [record.message.sequence for record in scan] == list(range(1, 12))
