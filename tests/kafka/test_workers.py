"""`lahar worker` and `lahar run` as processes: they share shards, take over from those that are gone, and stop in order."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answers import Folds
from lifecycle_inputs import inputs
from oracle import judge
from worker_process import Lahar, until

from engine.effects.dispatcher import cursor_name
from engine.events import Topic, decode
from engine.events.jobs import JobPhaseChanged
from engine.exact_numbers import dumps
from engine.history.listing import Filter
from engine.lifecycle.stage import LifecycleStage
from engine.log.port import Partition, ShardId
from engine.processor.processor import Processor
from engine.projection.file import place_of
from engine.projection.job_tables import JobTables
from engine.projection.projection import Projection
from streams.log import KafkaLog
from streams.membership import GroupMembership
from streams.settings import KafkaSettings

SHARDS = 4
ALL = set(range(SHARDS))
Make = Callable[[int], KafkaLog]


@pytest.fixture
def settings(settings: KafkaSettings) -> KafkaSettings:
    """Sessions are as short as a broker allows unless it is told otherwise."""
    return settings.model_copy(update={"session_seconds": 6.0})


def lifecycle(settings: KafkaSettings, name: str, *more: str, **environment: str) -> Lahar:
    return Lahar(settings, "worker", "--stage", "lifecycle", "--instance", name, *more, **environment)


class Flow:
    """Inputs for the shards of a log, appended a part at a time."""

    def __init__(self, log: KafkaLog) -> None:
        self.log = log
        self._given: list[Any] = inputs(160)
        self._place = 0

    def append(self, parts: int = 6) -> None:
        """Append one of so many parts."""
        end = min(self._place + len(self._given) // parts + 1, len(self._given))
        for topic in ("cluster", "jobs", "pods"):
            self.log.append(topic, [message for found, message in self._given[self._place : end] if found == topic])
        self._place = end

    def taken(self) -> bool:
        """Tell whether the shards have committed all of it."""
        return all(self._left(number) == 0 for number in range(SHARDS))

    def _left(self, number: int) -> int:
        view = self.log.look(ShardId("lifecycle", number))
        places = (Partition("cluster", 0), Partition("jobs", number), Partition("pods", number))
        ends = [self.log.end(partition) for partition in places]
        return sum(ends) if view is None else sum(ends) - sum(view.position.vector)

    def must_have_been_taken_once(self) -> None:
        """Append the rest, and decide all shards again, as their outputs show that it was done."""
        self.append(1)
        until(self.taken)
        for number in range(SHARDS):
            assert judge(self.log, LifecycleStage(), number).differences == []


def test_workers_share_shards_and_take_over_from_killed_or_frozen_ones(make_log: Make, settings: KafkaSettings) -> None:
    flow = Flow(make_log(SHARDS))
    with lifecycle(settings, "w0") as first:
        first.until(lambda: first.shards == ALL)
        flow.append()
        with lifecycle(settings, "w1") as killed, lifecycle(settings, "w2") as frozen:
            workers = (first, killed, frozen)
            until(lambda: [worker.shards for worker in workers] == [{0, 1}, {2}, {3}])
            until(lambda: all(worker.is_ready for worker in workers))
            flow.append()
            killed.send(signal.SIGKILL)
            frozen.send(signal.SIGSTOP)
            flow.append()
            first.until(lambda: first.shards == ALL)
            until(flow.taken)
            # What it held was taken over: it must not write, and takes its part again.
            frozen.send(signal.SIGCONT)
            flow.append()
            frozen.until(lambda: (first.shards, frozen.shards) == ({0, 1}, {2, 3}))
            flow.must_have_been_taken_once()


def test_workers_keep_the_projection_at_the_log_end_without_queries(
    make_log: Make, settings: KafkaSettings, tmp_path: Path
) -> None:
    """Those on one machine share its file."""
    flow = Flow(make_log(SHARDS))
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    place = place_of(f"kafka://{settings.bootstrap_servers}", {**cache, "KAFKA_TOPIC_PREFIX": settings.topic_prefix})
    assert place is not None

    def listed(jobs: Folds | JobTables) -> list[str]:
        return [dumps(line.document()) for line in jobs.lines(Filter(other=True))]

    def caught_up() -> bool:
        with Projection(place) as projection:
            places = projection.positions() or {}
        ends = {partition: flow.log.end(partition) for number in range(SHARDS) for partition in [Partition("job-events", number)]}
        return {at: place.next for at, place in places.items() if at.topic == "job-events"} == ends

    with lifecycle(settings, "w0", **cache) as first, lifecycle(settings, "w1", **cache) as second:
        until(lambda: first.shards | second.shards == ALL)
        flow.append(1)
        until(flow.taken)
        until(caught_up)
        with Projection(place) as projection:  # meanwhile timers of the inputs' time, which is past, may fire
            until(lambda: projection.ask(flow.log, JobTables, listed) == listed(Folds(flow.log)))
        second.send(signal.SIGTERM)
        assert second.wait() == 0, second.said
        assert "projection" not in first.said + second.said


def test_a_worker_that_is_told_to_stop_keeps_its_place_for_a_restart(make_log: Make, settings: KafkaSettings) -> None:
    settings = settings.model_copy(update={"session_seconds": 60.0})
    flow = Flow(make_log(SHARDS))
    with lifecycle(settings, "w0") as first, lifecycle(settings, "w1") as second:
        first.until(lambda: (first.shards, second.shards) == ({0, 1}, {2, 3}))
        flow.append()
        before = first.figure("lahar_recovery_seconds_count"), first.figure("lahar_rebalance_seconds_count")
        second.send(signal.SIGTERM)
        assert second.wait() == 0, second.said
        flow.append()
        with lifecycle(settings, "w1") as again:
            again.until(lambda: again.shards == {2, 3})
            until(flow.taken)
            # Nobody else was disturbed: nothing was spread anew, nothing opened again.
            after = first.figure("lahar_recovery_seconds_count"), first.figure("lahar_rebalance_seconds_count")
            assert after == before
            assert again.figure("lahar_recovery_seconds_count") == 2
            flow.must_have_been_taken_once()
            for worker in (first, again):
                worker.send(signal.SIGINT)
            assert [worker.wait() for worker in (first, again)] == [130, 130]


def test_a_worker_gets_its_own_shard_back_and_ends_if_its_name_is_taken(make_log: Make, settings: KafkaSettings) -> None:
    """Its name taken by another worker ends it."""
    flow = Flow(make_log(SHARDS))
    with lifecycle(settings, "w0") as first:
        first.until(lambda: first.shards == ALL)
        # As a worker does that opens slowly, while the shard is given to somebody else.
        late: Processor[Any] = Processor(flow.log, LifecycleStage(), 1)
        late.open()
        flow.append()
        until(flow.taken)
        assert first.figure("lahar_fences_total") == 1
        assert first.shards == ALL
        flow.must_have_been_taken_once()
        with lifecycle(settings, "w0") as second:
            assert first.wait() == 4
            assert "as 'w0'; give each worker an --instance of its own" in first.said
            second.until(lambda: second.shards == ALL)


def test_workers_by_ordinal_have_their_shards_and_end_when_replaced(make_log: Make, settings: KafkaSettings) -> None:
    flow = Flow(make_log(SHARDS))

    def worker(ordinal: int) -> Lahar:
        return Lahar(settings, "worker", "--stage", "lifecycle", LAHAR_WORKER_ORDINAL=str(ordinal), LAHAR_WORKERS="2")

    with worker(0) as first, worker(1) as second:
        first.until(lambda: (first.shards, second.shards) == ({0, 2}, {1, 3}))
        flow.append()
        until(flow.taken)
        with worker(0) as heir:
            heir.until(lambda: heir.shards == {0, 2})
            flow.append()
            assert first.wait() == 4
            assert "was taken over by another process" in first.said
            flow.must_have_been_taken_once()
            second.send(signal.SIGTERM)
            heir.send(signal.SIGTERM)
            assert (second.wait(), heir.wait()) == (0, 0)


BELL = """
import os
from pathlib import Path
from engine.effects import callback

@callback(level="job", to="Completed")
def ring(notice):
    with Path("rung").open("a") as file:
        file.write(f"{os.getpid()} {notice.id}\\n")
"""


def test_one_worker_tells_the_callbacks_and_another_one_goes_on(make_log: Make, settings: KafkaSettings, tmp_path: Path) -> None:
    flow = Flow(make_log(SHARDS))
    (tmp_path / "bell.py").write_text(BELL)
    (tmp_path / "lahar.toml").write_text('callbacks = ["bell"]\n')
    rung = tmp_path / "rung"
    rung.touch()

    def effects(name: str) -> Lahar:
        return Lahar(settings, "worker", "--stage", "effects", "--instance", name, folder=tmp_path, LAHAR_CONFIG="lahar.toml")

    def tellers() -> list[int]:
        return list(dict.fromkeys(int(line.split()[0]) for line in rung.read_text().splitlines()))

    def told() -> set[str]:
        return {line.split()[1] for line in rung.read_text().splitlines()}

    def due() -> set[str]:
        changes = [decode(record.message) for record in flow.log.scan(["job-events"], [JobPhaseChanged.TYPE])]
        return {event.id for event in changes if isinstance(event.data, JobPhaseChanged) and event.data.phase == "Completed"}

    with Lahar(settings, "run") as engine, effects("e0") as first:
        engine.until(lambda: engine.shards == ALL)
        first.until(lambda: first.is_ready)
        flow.append()
        first.until(lambda: tellers() == [first.process.pid])
        with effects("e1") as second:
            second.until(lambda: second.is_ready)
            # It leaves the group: the other one goes on at once, not when a session ends.
            first.send(signal.SIGTERM)
            assert first.wait() == 0
            flow.append()
            second.until(lambda: tellers() == [first.process.pid, second.process.pid])
            until(flow.taken)
            second.until(lambda: told() == due() and second.figure("lahar_callback_lag_records") == 0)
            second.send(signal.SIGSTOP)
            with effects("e2") as third:
                flow.append()
                third.until(lambda: tellers() == [first.process.pid, second.process.pid, third.process.pid])
                flow.append(1)
                until(flow.taken)
                engine.send(signal.SIGTERM)
                assert engine.wait() == 0
                # Nothing is written any more.
                third.until(lambda: told() == due())
                with effects("e2") as heir:
                    assert third.wait() == 4
                    assert "as 'e2'; give each worker an --instance of its own" in third.said
                    heir.send(signal.SIGTERM)
                    assert heir.wait() == 0
            # Who was frozen in its turn finds it over, and leaves alone how far the others have come.
            cursor = flow.log.cursor(cursor_name("ring"))
            second.send(signal.SIGTERM)
            second.send(signal.SIGCONT)
            assert second.wait() == 0
            assert flow.log.cursor(cursor_name("ring")) == cursor


@pytest.mark.parametrize(("stage", "topic"), [("lifecycle", "job-events"), ("effects", "cluster")])
def test_a_worker_whose_group_has_not_answered_is_not_ready(
    make_log: Make, settings: KafkaSettings, stage: str, topic: Topic
) -> None:
    settings = settings.model_copy(update={"session_seconds": 600.0})
    other = GroupMembership(make_log(1).background, settings, stage, topic, "other")
    other.start(lambda: None)
    until(other.is_settled)
    # Silent from now on, and a member: whoever joins waits for half a session.
    other.close()
    with Lahar(settings, "worker", "--stage", stage) as worker:
        # Before that the log is not open yet.
        worker.until(lambda: "the group of the workers has not assigned shards" in worker.page("/readyz"))
