"""Agents on a real broker: nothing lost, nothing that was aborted, nothing twice within a process."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from broker import Cluster, obstacle, until
from lifecycle_inputs import inputs
from running_agents import PATIENCE, Running, Told, history

from engine.events import Event, Message, decode, raw_message
from engine.lifecycle.stage import LifecycleStage
from engine.log.errors import LogUnavailableError
from engine.log.partitioner import partition_of
from engine.log.port import Log, Partition
from engine.processor.dead_letters import original
from engine.processor.processor import Processor
from streams.agents import agent, dead_letters, job_events
from streams.agents.transport import Consumer
from streams.agents.usage import Usage
from streams.agents.usage_book import FOLDED, UsageBook
from streams.agents.usage_seed import UsageSeed
from streams.codec import encode
from streams.errors import TopicsMissingError
from streams.log import KafkaLog
from streams.settings import KafkaSettings
from streams.topics import apply, declared

MakeLog = Callable[[int], KafkaLog]


def write(settings: KafkaSettings, *transactions: tuple[list[Message], bool]) -> None:
    """Write job events in transactions of a producer; `False`: the transaction is aborted."""

    async def write_all() -> None:
        producer = AIOKafkaProducer(
            **settings.client_arguments(), transactional_id=settings.group("writer"), transaction_timeout_ms=10_000
        )
        await producer.start()
        try:
            for messages, committed in transactions:
                await producer.begin_transaction()
                for message in messages:
                    fields = encode(message)
                    topic = f"{settings.topic_prefix}job-events"
                    await producer.send(topic, fields.value, key=fields.key, headers=fields.headers)
                await producer.flush()
                await (producer.commit_transaction() if committed else producer.abort_transaction())
        finally:
            await producer.stop()

    asyncio.run(write_all())


def placed(messages: list[Message]) -> list[tuple[str, int]]:
    return [(message.subject, message.sequence) for message in messages]


def test_an_agent_is_given_committed_events_in_order_and_no_aborted_ones(make_log: MakeLog, settings: KafkaSettings) -> None:
    make_log(1)
    ghosts = [message for number in range(20) for message in history(f"ghost-{number}")]
    first, then = history("a"), history("a", first=4)
    told = Told()
    with Running(settings, told.agent()) as running:
        # Aborted records before the first and between the others: offsets with wide holes, which Faust by itself stumbles over.
        write(settings, (ghosts, False), (first[:1], True), (ghosts, False), (first[1:], True), (ghosts, False))
        told.wait(*placed(first))
        write(settings, (then, True), (ghosts, False), (history("last"), True))
        told.wait(("last", 3))
        assert running.figure("lahar_agent_missing_total", agent="told") == 0
    assert told.events == placed(first + then + history("last"))
    again = Told()
    with Running(settings, again.agent()) as running:
        write(settings, (history("end", 1), True))
        again.wait(("end", 1))
    assert again.events == [("end", 1)], "the position was not committed up to the end"


def test_a_position_whose_commit_failed_is_committed_without_new_events(
    make_log: MakeLog, settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log(1).append("job-events", history("a"))
    as_ever, failures, committed = AIOKafkaConsumer.commit, count(1), threading.Event()

    async def commit(consumer: AIOKafkaConsumer, offsets: object) -> None:
        if next(failures) <= 2:
            raise KafkaConnectionError("no broker")
        await as_ever(consumer, offsets)
        committed.set()

    monkeypatch.setattr(AIOKafkaConsumer, "commit", commit)
    with Running(settings, Told().agent()):
        until(committed.is_set, PATIENCE, "the position is committed")
    again = Told()
    with Running(settings, again.agent()):
        write(settings, (history("end", 1), True))
        again.wait(("end", 1))
    assert again.events == [("end", 1)]


def test_what_was_done_during_a_commit_is_committed_at_the_end(
    make_log: MakeLog, settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log(1).append("job-events", history("a"))
    to_kafka, asked_for, begun, again_asked = AIOKafkaConsumer.commit, Consumer.commit, threading.Event(), threading.Event()

    async def held(consumer: AIOKafkaConsumer, offsets: object) -> None:
        begun.set()
        await asyncio.to_thread(again_asked.wait, PATIENCE)
        await to_kafka(consumer, offsets)

    async def commit(consumer: Consumer, *arguments: Any, **named: Any) -> bool:
        if begun.is_set():
            again_asked.set()
        return await asked_for(consumer, *arguments, **named)

    monkeypatch.setattr(AIOKafkaConsumer, "commit", held)
    monkeypatch.setattr(Consumer, "commit", commit)
    told = Told()
    with Running(settings, told.agent()):
        until(begun.is_set, PATIENCE, "the first position is on its way")
        write(settings, (history("b"), True))
        told.wait(("b", 3))
        assert not again_asked.is_set()
    again = Told()
    with Running(settings, again.agent()):
        write(settings, (history("end", 1), True))
        again.wait(("end", 1))
    assert again.events == [("end", 1)]


def test_an_event_that_failed_in_an_agent_goes_again_to_the_next_process(make_log: MakeLog, settings: KafkaSettings) -> None:
    log = make_log(1)
    given = [message for number in range(30) for message in history(f"job-{number}")]
    log.append("job-events", given)
    quick, stuck = Told(), Told(fails_on=("job-10", 2))
    with Running(settings, quick.agent("quick"), stuck.agent("stuck")) as running:
        quick.wait(*placed(given))
        stuck.failed.wait()
        assert running.figure("lahar_agent_failing", agent="stuck") == 1
    assert stuck.events == placed(given)[:31]
    mended = Told()
    with Running(settings, Told().agent("quick"), mended.agent("stuck")):
        mended.wait(*placed(given)[31:])
    assert mended.events == placed(given)[31:], "what was done before the stop is done"


def kept_ms(settings: KafkaSettings, group: str) -> list[int]:
    """Return how long Kafka keeps each position that a group has committed, as Kafka itself has noted it."""

    async def read() -> list[int]:
        arguments = settings.client_arguments()
        consumer = AIOKafkaConsumer("__consumer_offsets", **arguments, auto_offset_reset="earliest", exclude_internal_topics=False)
        await consumer.start()
        try:
            ends, found = await consumer.end_offsets(consumer.assignment()), []
            for place in [place for place, end in ends.items() if end]:
                while await consumer.position(place) < ends[place]:
                    for record in (await consumer.getmany(place, timeout_ms=500)).get(place, ()):
                        if record.key.startswith(b"\0\1" + struct.pack(">h", len(group)) + group.encode()) and record.value:
                            # Only this version of it says until when; without one it is as the brokers are set.
                            assert record.value[:2] == b"\0\1"
                            committed, kept_until = struct.unpack(">qq", record.value[-16:])
                            found.append(kept_until - committed)
            return found
        finally:
            await consumer.stop()

    return asyncio.run(read())


def test_positions_are_kept_for_years_after_the_last_process_has_left(make_log: MakeLog, settings: KafkaSettings) -> None:
    """Brokers forget others after a week, and everything would be told again."""
    make_log(1).append("job-events", history("a"))
    told = Told()
    with Running(settings, told.agent()):
        told.wait(("a", 3))
    kept = kept_ms(settings, settings.group("agents", "tests"))
    assert set(kept) == {10 * 365 * 86_400_000}


def test_an_agent_is_told_of_dead_letters(make_log: MakeLog, settings: KafkaSettings) -> None:
    log, seen = make_log(1), []
    processor = Processor(log, LifecycleStage())
    processor.open()
    log.append("pods", [raw_message("a", b"?", 1), raw_message("b", b"!", 2)])
    processor.run_until_quiet()
    processor.close()

    @agent(dead_letters)
    async def letter(event: Event) -> None:
        seen.append((event.subject, event.sequence, original(event.data).data))

    with Running(settings, letter) as running:
        until(lambda: len(seen) == 2, PATIENCE, "the letters are told")
        assert running.figure("lahar_agent_missing_total", agent="letter") == 0
    assert seen == [("lifecycle/0", 1, b"?"), ("lifecycle/0", 2, b"!")]


def test_a_lost_event_is_noticed(make_log: MakeLog, settings: KafkaSettings) -> None:
    log = make_log(1)
    given = history("a", 5)
    log.append("job-events", [*given[:2], *given[4:]])
    told = Told()
    with Running(settings, told.agent()) as running:
        told.wait(("a", 5))
        assert running.figure("lahar_agent_missing_total", agent="told") == 2


def test_no_event_is_lost_while_processes_join_and_leave(make_log: MakeLog, settings: KafkaSettings) -> None:
    log = make_log(4)
    written: list[Message] = []
    enough = threading.Event()

    def write_on() -> None:
        number = 0
        while not enough.is_set():
            messages = [message for job in range(number, number + 20) for message in history(f"job-{job}", 2)]
            log.append("job-events", messages)
            written.extend(messages)
            number += 20
            enough.wait(0.05)

    writer = threading.Thread(target=write_on)
    stays, others = Told(), [Told() for _ in range(3)]
    with Running(settings, stays.agent()) as running:
        running.until_ready()
        writer.start()
        for other in others:
            with Running(settings, other.agent()) as joined:
                joined.until_ready()
                before = len(other.events)
                until(lambda told=other, wanted=before + 50: len(told.events) >= wanted, PATIENCE, "who joined is told")
        enough.set()
        writer.join()
        until(lambda: set(placed(written)) <= told_of(stays, *others), PATIENCE, "every event is told")
        assert running.figure("lahar_agent_missing_total", agent="told") == 0
    for told in (stays, *others):
        assert len(told.events) == len(set(told.events)), "no process is given an event twice"


def test_an_agent_without_its_partition_leaves_failures_to_the_new_owner(make_log: MakeLog, settings: KafkaSettings) -> None:
    log = make_log(2)
    leaves, stays = (next(job for job in map(str, range(100)) if partition_of(job, 2) == number) for number in (0, 1))
    stuck, helped = Told(fails_on=(leaves, 2)), Told()
    log.append("job-events", history(leaves))
    # The range assignor gives the first partition to who comes first by name.
    with Running(settings, stuck.agent(), instance="b") as running:
        stuck.failed.wait()
        with Running(settings, helped.agent(), instance="a"):
            helped.wait((leaves, 2), (leaves, 3))
            log.append("job-events", history(stays))
            stuck.wait((stays, 3))
            assert running.figure("lahar_agent_failing", agent="told") == 0
    assert stuck.events == [(leaves, 1), *placed(history(stays))]


def test_a_process_whose_name_another_one_takes_ends_and_says_so(make_log: MakeLog, settings: KafkaSettings) -> None:
    log = make_log(1)
    told = Told()

    def two_of_one_name() -> None:
        with Running(settings, Told().agent(), instance="same") as first:
            first.until_ready()
            with Running(settings, told.agent(), instance="same"):
                until(lambda: first.error is not None, PATIENCE, "the first one ends")
                log.append("job-events", history("after"))
                told.wait(("after", 3))

    with pytest.raises(LogUnavailableError, match="started as same"):
        two_of_one_name()
    again = Told()
    with Running(settings, again.agent(), instance="same"):
        log.append("job-events", history("end", 1))
        again.wait(("end", 1))
    assert again.events == [("end", 1)], "the second one kept its place, and committed"


def test_an_agent_that_blocks_the_loop_is_noticed(make_log: MakeLog, settings: KafkaSettings) -> None:
    log = make_log(1)
    log.append("job-events", history("a", 1))
    release = threading.Event()

    async def blocks(_: object) -> None:
        release.wait()

    with Running(settings, agent(job_events)(blocks)) as running:
        until(lambda: bool(running.app.hangs(2.0)), PATIENCE, "it is noticed")
        release.set()
        until(lambda: not running.app.hangs(2.0), PATIENCE, "it goes on")


def told_of(*all_told: Told) -> set[tuple[str, int]]:
    return {event for told in all_told for event in list(told.events)}


def test_usage_is_rebuilt_at_every_start_and_shared_by_processes(make_log: MakeLog, settings: KafkaSettings) -> None:
    log = make_log(4)
    log.append("job-events", [message for number in range(40) for message in history(f"job-{number}", 2)])
    labels = {"tenant": "", "queue": "default", "phase": "Running"}

    def running_jobs(*processes: Running) -> float:
        return sum(process.figure("lahar_usage_jobs", **labels) or 0 for process in processes)

    def entered(process: Running) -> float:
        name = "lahar_usage_jobs_entered_total"
        return sum(process.figure(name, **labels, partition=str(number)) or 0 for number in range(4))

    def started() -> Running:
        usage = Usage()
        return Running(settings, usage, name="usage", from_beginning=True, collectors=[usage])

    with started() as first:
        first.until_ready()
        assert running_jobs(first) == 40
    with started() as second:
        second.until_ready()
        assert running_jobs(second) == 40, "nothing is counted from where another process stood"
        assert second.figure("lahar_usage_partitions_rebuilding") == 0
        with started() as third:
            third.until_ready()
            until(
                lambda: running_jobs(second, third) == 40 and 0 < running_jobs(third) < 40, PATIENCE, "the two share the partitions"
            )
            log.append("job-events", [message for number in range(40, 60) for message in history(f"job-{number}", 2)])
            until(lambda: running_jobs(second, third) == 60, PATIENCE, "both go on")
        until(lambda: running_jobs(second) == 60, PATIENCE, "who is left has all of them")
        before = entered(second)
        log.append("job-events", [message for number in range(60, 70) for message in history(f"job-{number}", 2)])
        until(lambda: entered(second) == before + 10, PATIENCE, "it counts")


def jobs_by_phase(log: KafkaLog, partitions: int) -> Counter[str]:
    """What the whole history says."""
    found: Counter[str] = Counter()
    for number in range(partitions):
        book, offset = UsageBook(), 0
        while records := log.read(Partition("job-events", number), offset, 1_000):
            offset = records[-1].offset + 1
            for event in (decode(record.message) for record in records):
                if type(event.data) in FOLDED:
                    book.fold(event)
        for (_, phase), jobs in book.jobs.items():
            found[phase] += jobs
    return +found


def shown(*processes: Running) -> Counter[str]:
    """What some processes show together."""
    found: Counter[str] = Counter()
    for process in processes:
        for family in process.app.registry.collect():
            for sample in family.samples:
                if sample.name == "lahar_usage_jobs":
                    found[sample.labels["phase"]] += int(sample.value)
    return +found


def process_all(log: KafkaLog, partitions: int) -> None:
    for number in range(partitions):
        processor = Processor(log, LifecycleStage(), number)
        processor.open()
        processor.run_until_quiet()
        processor.close()


def test_a_partition_lost_while_its_snapshot_is_read_is_the_other_processs(make_log: MakeLog, settings: KafkaSettings) -> None:
    log = make_log(2)
    for topic, message in inputs(60):
        log.append(topic, [message])
    process_all(log, 2)
    reads, may_go_on, fails = threading.Event(), threading.Event(), ["the first time", "the second time"]

    class Slow(Usage):
        def seed(self, log: Log, number: int) -> UsageSeed | None:
            reads.set()
            may_go_on.wait()
            if fails:
                raise LogUnavailableError(fails.pop())
            return super().seed(log, number)

    usage, other = Slow(), Usage()
    with Running(settings, usage, name="usage", from_beginning=True, collectors=[usage]) as first:
        reads.wait()
        assert "are being read" in first.app.not_ready()[0]
        assert first.figure("lahar_usage_partitions_rebuilding") == 2
        with Running(settings, other, name="usage", from_beginning=True, collectors=[other]) as second:
            second.until_ready()
            may_go_on.set()
            first.until_ready()
            assert first.figure("lahar_usage_partitions_rebuilding") == 0
            wanted = jobs_by_phase(log, 2)
            assert shown(first, second) == wanted
            assert shown(first) != wanted
        until(lambda: shown(first) == wanted, PATIENCE, "who is left has all of them")


def test_agents_whose_snapshots_cannot_be_read_wait_and_can_be_stopped(make_log: MakeLog, settings: KafkaSettings) -> None:
    make_log(1)
    tried: list[int] = []

    class Unreadable(Usage):
        def seed(self, log: Log, number: int) -> UsageSeed | None:
            tried.append(number)
            raise LogUnavailableError("not allowed")

    usage = Unreadable()
    with Running(settings, usage, name="usage", from_beginning=True, collectors=[usage]) as running:
        until(lambda: len(tried) == 2, PATIENCE, "it is tried again")
        assert running.app.not_ready()


def test_a_process_that_is_left_without_any_partition_shows_nothing(make_log: MakeLog, settings: KafkaSettings) -> None:
    log = make_log(1)
    log.append("job-events", history("a", 2))
    usage, other = Usage(), Usage()
    with Running(settings, usage, name="usage", from_beginning=True, collectors=[usage], instance="b") as first:
        first.until_ready()
        assert shown(first) == {"Running": 1}
        # The range assignor gives the only partition to who comes first by name.
        with Running(settings, other, name="usage", from_beginning=True, collectors=[other], instance="a") as second:
            second.until_ready()
            until(lambda: not shown(first), PATIENCE, "it is the other one's")
            assert shown(second) == {"Running": 1}
            assert not first.app.not_ready(), "it stands by"
        until(lambda: shown(first) == {"Running": 1}, PATIENCE, "it has the partition back")


def test_agents_without_a_broker_or_topics_end_with_an_error_that_says_so(settings: KafkaSettings) -> None:
    settings = settings.model_copy(update={"start_seconds": 0.0})
    with pytest.raises(TopicsMissingError, match="lahar topics apply"), Running(settings, Told().agent()) as running:
        until(lambda: running.error is not None, PATIENCE, "it ends")
    nowhere = KafkaSettings(bootstrap_servers="127.0.0.1:1", request_seconds=1, start_seconds=0)
    with pytest.raises(LogUnavailableError, match="cannot be reached"), Running(nowhere, Told().agent()) as running:
        until(lambda: running.error is not None, PATIENCE, "it ends")


def test_agents_that_nobody_answers_yet_can_be_stopped() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent.settimeout(PATIENCE)
        settings = KafkaSettings(bootstrap_servers=f"127.0.0.1:{silent.getsockname()[1]}", request_seconds=10 * PATIENCE)
        with Running(settings, Told().agent()):
            asked, _ = silent.accept()
        asked.close()


@pytest.mark.slow
def test_agents_outlive_their_broker_and_can_be_stopped_without_it() -> None:
    if reason := obstacle():
        pytest.skip(reason)
    with Cluster() as cluster:
        settings = KafkaSettings(bootstrap_servers=cluster.bootstrap, request_seconds=5)
        asyncio.run(apply(settings, declared(settings, 2, 1)))
        told, broker = Told(), cluster.brokers[0]
        log = KafkaLog(settings)
        with Running(settings, told.agent()):
            log.append("job-events", history("before"))
            told.wait(("before", 3))
            broker.kill()
            broker.start()
            log.append("job-events", history("after"))
            told.wait(*placed(history("after")))
            log.close()
            broker.kill()
        assert told.events == placed(history("before") + history("after"))
