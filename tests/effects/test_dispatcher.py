"""What the dispatcher promises: after commit, at least once, in order, one receiver apart from another."""

from __future__ import annotations

from itertools import pairwise

import pytest
from effects_world import START, Clock, Listener, World, body, listen, opened, run, whole_job
from prometheus_client import CollectorRegistry, generate_latest

from engine.effects.dispatcher import Dispatcher, cursor_name
from engine.effects.errors import Disable, NotDisabledError, ReplayError, RetryLater, UnknownCallbackError
from engine.effects.executor import Executor, InlineExecutor
from engine.effects.metrics import EffectMetrics
from engine.effects.notice import Notice
from engine.effects.registry import Registry
from engine.events import Event, encode
from engine.events.attempts import AttemptEnded, AttemptRunning, AttemptStarted
from engine.events.inputs import JobDeleted
from engine.events.jobs import JobPhaseChanged
from engine.events.times import SECOND
from engine.log.errors import LogUnavailableError
from engine.log.memory import MemoryLog
from engine.log.partitioner import partition_of
from engine.log.port import Partition

EVENTS = Partition("job-events", 0)


# --- rule 1: never de-duplicated on (job, state) ----------------------------------------------------------------------------


def test_a_second_running_after_a_retry_is_delivered(world: World, executor: Executor) -> None:
    listener = Listener()
    world.commit("job", opened(), *run(1, exit_code=1), *run(2))
    dispatcher = world.dispatcher(listen(listener, level="replica", to="Running"), executor=executor)
    assert dispatcher.run_until_quiet(START) == 2
    assert [(notice.phase, notice.attempt) for notice in listener.told] == [("Running", 1), ("Running", 2)]
    assert len({notice.id for notice in listener.told}) == 2


# --- rule 2: retried with back-off, then disabled; a resume goes on at the cursor ---------------------------------------------


def test_a_failure_is_retried_after_a_second_then_doubled_to_five_minutes(world: World, clock: Clock) -> None:
    listener = Listener()
    listener.always = OSError("connection refused")
    world.commit("job", opened())
    dispatcher = world.dispatcher(listen(listener))
    attempts = []
    for _ in range(700):
        before = len(listener.attempts)
        dispatcher.run_until_quiet(clock.now)
        if len(listener.attempts) > before:
            attempts.append((clock.now - START) // SECOND)
        clock.advance(1)
    waits = [later - earlier for earlier, later in pairwise(attempts)]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    clock.advance(300)
    dispatcher.run_until_quiet(clock.now)
    assert dispatcher.status()[0].retry_at == clock.now + 300 * SECOND


def test_it_arrives_once_it_can(world: World, clock: Clock, executor: Executor) -> None:
    """Nothing is written about failures that pass: the moved cursor says that all went well."""
    listener = Listener(OSError("down"), OSError("down"), None)
    ids = world.commit("job", opened(), JobPhaseChanged("Running", "Pending"))
    dispatcher = world.dispatcher(listen(listener), executor=executor)
    for _ in range(3):
        dispatcher.run_until_quiet(clock.advance(5))
    assert listener.attempts == [ids[0], ids[0], ids[0], ids[1]]
    assert [notice.id for notice in listener.told] == ids
    assert list(world.reports()) == []
    assert world.log.cursor(cursor_name("listener")) == {EVENTS: 2}


def test_after_a_day_it_is_disabled_by_event_and_resumes_at_its_cursor(world: World, clock: Clock, executor: Executor) -> None:
    listener = Listener()
    listener.always = OSError("down")
    ids = world.commit("job", opened(), *run())
    dispatcher = world.dispatcher(listen(listener), executor=executor)
    dispatcher.run_until_quiet(clock.now)
    dispatcher.run_until_quiet(clock.advance(86_399))
    assert world.outcomes() == []
    dispatcher.run_until_quiet(clock.advance(300))
    assert world.outcomes() == [("failed", "job"), ("disabled", "callback/listener")]
    assert {(event.data.name, event.causationid, event.data.message) for event in world.reports()} == {
        ("listener", ids[0], "OSError: down")
    }
    tries = len(listener.attempts)
    dispatcher.run_until_quiet(clock.advance(100_000))
    assert len(listener.attempts) == tries
    assert dispatcher.status()[0].disabled == "OSError: down"

    listener.always = None
    dispatcher.resume("listener", clock.now)
    assert world.outcomes()[2:] == [("resumed", "callback/listener")]
    assert dispatcher.run_until_quiet(clock.now) == 5
    assert [notice.id for notice in listener.told] == ids


def test_a_receiver_may_ask_to_be_disabled_at_once(world: World, clock: Clock, executor: Executor) -> None:
    """As a webhook is that answers 410 Gone."""
    listener = Listener(None, Disable("gone"))
    ids = world.commit("job", opened(), *run())
    dispatcher = world.dispatcher(listen(listener), executor=executor)
    assert dispatcher.run_until_quiet(clock.now) == 1
    assert listener.attempts == ids[:2]
    assert world.outcomes() == [("failed", "job"), ("disabled", "callback/listener")]
    dispatcher.resume("listener", clock.now)
    assert dispatcher.run_until_quiet(clock.now) == 4
    assert [notice.id for notice in listener.told] == ids


def test_the_delay_that_a_receiver_asks_for_is_obeyed(world: World, clock: Clock, executor: Executor) -> None:
    """As a webhook's Retry-After."""
    listener = Listener(RetryLater(1000), RetryLater(0.5))
    world.commit("job", opened())
    dispatcher = world.dispatcher(listen(listener), executor=executor)
    seen = []
    for wait in (0, 999, 1, 0.4, 0.1):
        dispatcher.run_until_quiet(clock.advance(wait))
        seen.append(len(listener.attempts))
    assert seen == [1, 1, 2, 2, 3]
    assert len(listener.told) == 1


def test_an_exit_of_the_interpreter_is_a_failure_as_any_other(world: World, clock: Clock, executor: Executor) -> None:
    listener = Listener(SystemExit(3), ValueError("\udcff"))
    world.commit("job", opened())
    dispatcher = world.dispatcher(listen(listener), executor=executor)
    for _ in range(3):
        dispatcher.run_until_quiet(clock.advance(10))
    assert len(listener.told) == 1


def test_text_that_no_event_can_hold_still_disables_a_receiver(world: World, clock: Clock) -> None:
    world.commit("job", opened())
    dispatcher = world.dispatcher(listen(Listener(Disable("\udcff" * 9000))))
    dispatcher.run_until_quiet(clock.now)
    assert world.outcomes() == [("failed", "job"), ("disabled", "callback/listener")]


# --- rule 3: one failing receiver delays nobody else and loses nothing --------------------------------------------------------


def test_a_failing_receiver_delays_nobody_and_its_lag_is_a_metric(world: World, clock: Clock, executor: Executor) -> None:
    good, bad = Listener(), Listener()
    bad.always = OSError("down")
    ids = world.commit("job", opened(), *run(), *run(2))
    dispatcher = world.dispatcher(listen(bad, "bad"), listen(good, "good"), executor=executor)
    registry = CollectorRegistry()
    EffectMetrics(registry, dispatcher.status)
    assert dispatcher.run_until_quiet(clock.now) == 9
    assert [notice.id for notice in good.told] == ids
    shown = generate_latest(registry).decode().splitlines()
    assert 'lahar_callback_lag_records{callback="bad"} 9.0' in shown
    assert 'lahar_callback_lag_records{callback="good"} 0.0' in shown
    assert 'lahar_callback_deliveries_total{callback="good"} 9.0' in shown
    assert 'lahar_callback_failures_total{callback="bad"} 1.0' in shown
    assert 'lahar_callback_disabled{callback="bad"} 0.0' in shown
    assert world.log.cursor(cursor_name("bad")) == {}

    bad.always = None
    assert dispatcher.run_until_quiet(clock.advance(1)) == 9
    assert [notice.id for notice in bad.told] == ids
    assert [status.lag for status in dispatcher.status()] == [0, 0]


def test_a_disabled_receiver_survives_restarts_and_resumes_from_elsewhere(world: World, clock: Clock) -> None:
    listener = Listener(Disable("gone"))
    world.commit("other", opened())
    world.commit("job", opened())
    both = listen(listener), listen(Listener(), "quiet")
    world.dispatcher(*both).run_until_quiet(clock.now)
    assert world.settle() == len(["failed", "disabled"])

    again = world.dispatcher(*both)
    assert again.run_until_quiet(clock.advance(3600)) == 0
    assert {status.name: status.disabled for status in again.status()} == {"listener": "gone", "quiet": None}

    world.dispatcher(*both).resume("listener", clock.now)
    world.settle()
    assert again.run_until_quiet(clock.now) == 2
    assert [notice.job for notice in listener.told] == ["other", "job"]


def test_a_receiver_that_is_disabled_is_called_in_no_partition(clock: Clock, executor: Executor) -> None:
    world = World(partitions=2)
    for number in range(20):
        world.commit(f"job-{number}", opened())
    listener = Listener()
    listener.always = Disable("gone")
    dispatcher = world.dispatcher(listen(listener), executor=executor)
    dispatcher.run_until_quiet(clock.now)
    stops = [outcome for outcome, _ in world.outcomes()].count("disabled")
    assert len(listener.attempts) == stops <= 2
    world.settle()
    dispatcher.run_until_quiet(clock.advance(100))
    assert len(listener.attempts) == stops

    listener.always = None
    dispatcher.resume("listener", clock.now)
    assert dispatcher.run_until_quiet(clock.now) == 20


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_receiver_disabled_again_and_again_stays_so_over_a_restart(order: tuple[int, int], clock: Clock) -> None:
    """The jobs stand in two partitions, between which there is no order."""
    world = World(partitions=2)
    jobs = {partition_of(job, 2): job for job in (f"job-{number}" for number in range(20))}
    refused = ""

    def choosy(notice: Notice) -> None:
        if notice.job == refused:
            raise Disable(f"no more of {refused}")

    dispatcher = world.dispatcher(listen(choosy))
    for number in order:
        refused = jobs[number]
        world.commit(refused, opened())
        dispatcher.run_until_quiet(clock.advance(1))
        if number == order[0]:
            dispatcher.resume("listener", clock.now)
        world.settle()
    again = world.dispatcher(listen(choosy))
    assert again.run_until_quiet(clock.now) == 0
    assert again.status()[0].disabled == f"no more of {refused}"


def test_what_this_process_reported_does_not_undo_what_it_did_since(world: World, clock: Clock) -> None:
    """The report that it was disabled comes back as an event after it was resumed."""
    listener = Listener(Disable("gone"))
    world.commit("job", opened())
    dispatcher = world.dispatcher(listen(listener))
    dispatcher.run_until_quiet(clock.now)
    dispatcher.resume("listener", clock.now)
    assert world.settle(limit=2) == len(["failed", "disabled"])
    assert dispatcher.run_until_quiet(clock.now) == 1
    assert dispatcher.status()[0].disabled is None


def test_only_what_is_disabled_can_be_resumed(world: World) -> None:
    dispatcher = world.dispatcher(listen(Listener()))
    with pytest.raises(NotDisabledError, match="listener"):
        dispatcher.resume("listener", START)
    with pytest.raises(UnknownCallbackError, match="registered: listener"):
        dispatcher.resume("nobody", START)


# --- rule 4: the order of the log ---------------------------------------------------------------------------------------------


def test_stopped_never_overtakes_running(world: World, clock: Clock, executor: Executor) -> None:
    listener = Listener(None, None, OSError("down"), OSError("down"))
    world.commit("job", *whole_job())
    dispatcher = world.dispatcher(listen(listener), executor=executor)
    for _ in range(5):
        dispatcher.run_until_quiet(clock.advance(2))
    assert [(notice.level, notice.phase) for notice in listener.told] == [
        ("job", "Pending"),
        ("replica", "Pending"),
        ("replica", "Running"),
        ("job", "Running"),
        ("replica", "Succeeded"),
        ("job", "Completed"),
    ]
    assert [notice.sequence for notice in listener.told] == [1, 2, 3, 4, 5, 6]


def test_more_than_one_batch_keeps_its_order(world: World, clock: Clock, executor: Executor) -> None:
    listener = Listener()
    ids = world.commit("job", opened(), *(data for attempt in range(1, 601) for data in run(attempt)))
    dispatcher = world.dispatcher(listen(listener, level="replica"), executor=executor)
    assert dispatcher.run_until_quiet(clock.now) == 2400
    assert [notice.id for notice in listener.told] == ids[1:]


# --- rule 5: what the message carries -----------------------------------------------------------------------------------------


def test_the_notice_carries_what_a_receiver_needs(world: World, executor: Executor) -> None:
    listener = Listener()
    ids = world.commit("job", opened(namespace="ml", labels={"team": "nlp"}), *run(3, exit_code=137))
    dispatcher = world.dispatcher(listen(listener, to="Failed"), executor=executor)
    dispatcher.run_until_quiet(START)
    (notice,) = listener.told
    assert (notice.id, notice.sequence, notice.job) == (ids[-1], 5, "job")
    assert (notice.kind, notice.namespace, notice.name, notice.cluster) == ("VCJob", "ml", "train", "prod-1")
    assert (notice.level, notice.task, notice.index, notice.attempt) == ("replica", "worker", 0, 3)
    assert (notice.previous, notice.phase, notice.reason, notice.exit_code) == ("Running", "Failed", "AppFailed", 137)
    assert (notice.recorded, notice.occurred) == (world.now, world.now - SECOND // 2)
    assert (notice.mode, dict(notice.labels)) == ("live", {"team": "nlp"})
    event = body(notice)
    assert (event["specversion"], event["id"], event["subject"]) == ("1.0", ids[-1], "job")
    assert event["data"]["exit_code"] == 137


# --- selection ----------------------------------------------------------------------------------------------------------------


def test_it_is_told_only_of_what_it_selects(world: World, executor: Executor) -> None:
    listener = Listener()
    world.commit("mine", *whole_job())
    world.commit("theirs", opened(labels={"team": "cv"}), JobPhaseChanged("Completed", "Pending"))
    chosen = listen(listener, level="job", from_="Running", to=("Completed", "Failed"), labels={"team": "ml"})
    world.dispatcher(chosen, executor=executor).run_until_quiet(START)
    assert [(notice.job, notice.phase) for notice in listener.told] == [("mine", "Completed")]


# --- after commit, at least once, modes -----------------------------------------------------------------------------------------


def test_what_was_recorded_before_the_start_is_flagged_as_catching_up(world: World, executor: Executor) -> None:
    listener = Listener()
    world.commit("job", opened(), JobPhaseChanged("Running", "Pending"))
    dispatcher = world.dispatcher(listen(listener), started=world.now + 1, executor=executor)
    dispatcher.run_until_quiet(world.now + 1)
    world.commit("job", JobPhaseChanged("Completed", "Running"))
    dispatcher.run_until_quiet(world.now)
    assert [notice.mode for notice in listener.told] == ["catchup", "catchup", "live"]


def test_nothing_leaves_the_process_in_a_replay(world: World, executor: Executor) -> None:
    listener = Listener()
    world.commit("job", *whole_job())
    world.log.move_cursor(cursor_name("jobs"), {EVENTS: 3})
    chosen = listen(listener, "jobs", level="job"), listen(listener, "all")
    dispatcher = world.dispatcher(*chosen, mode="replay", executor=executor)
    assert dispatcher.run_until_quiet(START) == 0
    assert dispatcher.withheld == {"jobs": 3, "all": 6}
    dispatcher.close()
    assert listener.attempts == []
    assert world.log.cursor(cursor_name("jobs")) == {EVENTS: 3}
    assert world.log.cursor(cursor_name("all")) == {}
    with pytest.raises(ReplayError):
        dispatcher.resume("jobs", START)
    assert list(world.reports()) == []


class Failing(MemoryLog):
    """A log whose cursors cannot be written for a while."""

    full = False

    def move_cursor(self, name, positions) -> None:
        if self.full:
            raise LogUnavailableError("the disk is full")
        super().move_cursor(name, positions)


def test_a_crash_between_delivery_and_cursor_redelivers_with_the_same_id(executor: Executor) -> None:
    log = Failing()
    world, listener = World(log), Listener()
    ids = world.commit("job", opened(), JobPhaseChanged("Running", "Pending"))
    log.full = True
    with pytest.raises(LogUnavailableError):
        world.dispatcher(listen(listener), executor=executor).run_until_quiet(START)
    log.full = False
    world.dispatcher(listen(listener), executor=executor).run_until_quiet(START)
    assert [notice.id for notice in listener.told] == ids * 2
    assert listener.told[0] == listener.told[2]


def test_a_process_out_of_turn_delivers_nothing_and_moves_no_cursor(world: World, executor: Executor) -> None:
    """In the midst of a delivery too, and whatever the thread does that began it. It goes on in the same turn, without a repeat."""
    ids, told, ours = world.commit("job", opened(), *run()), list[str](), [True]

    def hear(notice: Notice) -> None:
        told.append(notice.id)
        ours[0] = len(told) != 2

    dispatcher = world.dispatcher(listen(hear), executor=executor, our_turn=lambda: ours[0])
    dispatcher.run_until_quiet(START)
    dispatcher.close()
    assert told == ids[:2]
    assert world.log.cursor(cursor_name("listener")) == {}
    ours[0] = True
    dispatcher.run_until_quiet(START)
    assert told == ids
    assert world.log.cursor(cursor_name("listener")) == {EVENTS: len(ids)}


def test_no_report_is_sent_while_it_is_not_this_processs_turn(world: World, executor: Executor) -> None:
    world.commit("job", opened())
    ours = [True]

    def refuse(_: Notice) -> None:
        ours[0] = False
        raise Disable("gone")

    dispatcher = world.dispatcher(listen(refuse), executor=executor, our_turn=lambda: ours[0])
    dispatcher.run_until_quiet(START)
    assert world.outcomes() == []
    ours[0] = True
    dispatcher.run_until_quiet(START)
    assert [outcome for outcome, _ in world.outcomes()] == ["failed", "disabled"]


def test_a_log_that_fails_for_a_while_makes_no_delivery_come_twice(executor: Executor) -> None:
    log = Failing()
    world, listener = World(log), Listener()
    world.commit("job", opened())
    dispatcher = world.dispatcher(listen(listener), executor=executor)
    log.full = True
    with pytest.raises(LogUnavailableError):
        dispatcher.run_until_quiet(START)
    log.full = False
    dispatcher.run_until_quiet(START)
    dispatcher.close()
    assert len(listener.told) == 1
    assert log.cursor(cursor_name("listener")) == {EVENTS: 1}


def test_a_restart_goes_on_behind_what_was_delivered(world: World, executor: Executor) -> None:
    listener = Listener()
    world.commit("job", opened(labels={"team": "ml"}), JobPhaseChanged("Running", "Pending"))
    world.dispatcher(listen(listener), executor=executor).run_until_quiet(START)
    world.commit("job", JobPhaseChanged("Completed", "Running"))
    world.dispatcher(listen(listener), executor=executor).run_until_quiet(START)
    assert listener.phases() == ["Pending", "Running", "Completed"]
    assert dict(listener.told[-1].labels) == {"team": "ml"}


def test_a_cursor_of_another_log_skips_nothing_that_is_new(world: World) -> None:
    """The log was restored from an older copy, the cursor was not."""
    listener = Listener()
    world.commit("job", opened())
    world.log.move_cursor(cursor_name("listener"), {EVENTS: 100})
    dispatcher = world.dispatcher(listen(listener))
    world.commit("job", JobPhaseChanged("Running", "Pending"))
    dispatcher.run_until_quiet(START)
    assert listener.phases() == ["Running"]


def test_inputs_are_told_to_nobody(world: World) -> None:
    """A receiver hears of the truth only, never of what somebody asked for."""
    world.log.append("jobs", [encode(Event("i", "t", JobDeleted.TYPE, "job", 0, 0, 0, "job", "", "c", JobDeleted()))])
    assert world.dispatcher(listen(Listener())).run_until_quiet(START) == 0


def test_without_receivers_nothing_is_read() -> None:
    class Unreadable(MemoryLog):
        def read(self, partition, start, limit):
            raise AssertionError("nobody wants to know")

    dispatcher = Dispatcher(Unreadable(), Registry(), started=START)
    assert (dispatcher.step(START), dispatcher.run_until_quiet(START), dispatcher.status()) == (0, 0, [])
    dispatcher.close()


def test_a_receiver_sees_events_of_all_partitions(executor: Executor) -> None:
    world, listener = World(partitions=3), Listener()
    jobs = [f"job-{number}" for number in range(12)]
    for job in jobs:
        world.commit(job, *whole_job())
    dispatcher = world.dispatcher(listen(listener), executor=executor)
    assert dispatcher.run_until_quiet(START) == 72
    for job in jobs:
        assert [notice.sequence for notice in listener.told if notice.job == job] == [1, 2, 3, 4, 5, 6]
    assert sum(world.log.cursor(cursor_name("listener")).values()) == 72


def test_what_is_passed_over_is_not_read_again_after_a_restart(world: World) -> None:
    world.commit("job", opened(), *run())
    dispatcher = world.dispatcher(listen(Listener(), level="task"))
    dispatcher.run_until_quiet(START)
    assert world.log.cursor(cursor_name("listener")) == {EVENTS: 5}


# --- time limit -----------------------------------------------------------------------------------------------------------------


def test_a_callable_that_overruns_has_failed(world: World, clock: Clock) -> None:
    def slow(_notice: object) -> None:
        calls.append(clock.now)
        if len(calls) == 1:
            clock.advance(30)

    calls: list[int] = []
    world.commit("job", opened())
    dispatcher = world.dispatcher(listen(slow), executor=InlineExecutor(clock))
    assert dispatcher.run_until_quiet(clock.now) == 0
    assert dispatcher.status()[0].failing == "took longer than 30 s"
    assert dispatcher.run_until_quiet(clock.advance(1)) == 1


def test_a_step_never_waits(world: World) -> None:
    """Attempt events between transitions and their ends are all looked at in one go, one chunk at most."""
    world.commit("job", opened(), *(AttemptStarted("worker", index, 1) for index in range(2500)))
    dispatcher = world.dispatcher(listen(Listener(), level="task"))
    assert [dispatcher.step(START) for _ in range(4)] == [1000, 1000, 501, 0]


def test_an_attempt_may_skip_phases(world: World) -> None:
    listener = Listener()
    world.commit("job", opened(), AttemptStarted("w", 0, 1), AttemptRunning("w", 0, 1, previous="Pending"), AttemptEnded("w", 0, 1))
    world.dispatcher(listen(listener, from_="Pending")).run_until_quiet(START)
    assert listener.phases() == ["Running"]


def test_an_interrupt_of_the_user_is_no_failure(world: World) -> None:
    world.commit("job", opened())
    dispatcher = world.dispatcher(listen(Listener(KeyboardInterrupt())))
    with pytest.raises(KeyboardInterrupt):
        dispatcher.step(START)
