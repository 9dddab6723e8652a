"""Threads that run receivers: a time limit that needs nobody's cooperation, and calls that hang without harm to others."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from effects_world import START, Clock, Listener, World, listen, opened, run

from engine.effects.dispatcher import Dispatcher
from engine.effects.executor import InlineExecutor, ThreadExecutor, monotonic
from engine.effects.notice import Notice
from engine.effects.registry import Registry, callback
from engine.events.jobs import JobPhaseChanged


class Gate:
    """A callable that hangs until it is let go."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.entered = threading.Semaphore(0)
        self.told: list[Notice] = []

    def __call__(self, notice: Notice) -> None:
        self.entered.release()
        assert self.open.wait(60)
        self.told.append(notice)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open.set()


def end(name: str) -> None:
    """Wait until the threads of a callback have ended."""
    for thread in threading.enumerate():
        if thread.name == f"callback {name}":
            thread.join(60)


def test_a_call_that_hangs_is_given_up_and_tried_again(world: World, clock: Clock, gate: Gate) -> None:
    first, second = world.commit("job", opened(), JobPhaseChanged("Running", "Pending"))
    dispatcher = world.dispatcher(listen(gate), executor=ThreadExecutor(clock))
    dispatcher.step(clock.now)
    assert gate.entered.acquire(timeout=60)
    dispatcher.step(clock.advance(29))
    assert (dispatcher.status()[0].failed, dispatcher.busy) == (0, True)
    dispatcher.step(clock.advance(1))
    assert (dispatcher.status()[0].failing, dispatcher.busy) == ("took longer than 30 s", False)

    gate.open.set()
    end("listener")
    assert [notice.id for notice in gate.told] == [first], "the call that was given up is followed by no other"
    assert dispatcher.run_until_quiet(clock.now) == 0, "the back-off holds although the call has ended"
    assert dispatcher.run_until_quiet(clock.advance(1)) == 2
    assert [notice.id for notice in gate.told] == [first, first, second]


def test_a_call_that_hangs_blocks_nobody_else(world: World, clock: Clock, gate: Gate) -> None:
    listener = Listener()
    world.commit("job", opened(), *run())
    dispatcher = world.dispatcher(listen(gate, "hangs"), listen(listener), executor=ThreadExecutor(clock))
    dispatcher.step(clock.now)
    while len(listener.told) < 5:
        dispatcher.step(clock.now)
    assert dispatcher.busy
    assert gate.told == []
    dispatcher.close()


def test_a_callable_may_have_a_limit_of_its_own(world: World, clock: Clock, gate: Gate) -> None:
    world.commit("job", opened())
    chosen = callback(name="quick", time_limit=0.5)(gate)
    dispatcher = world.dispatcher(chosen, executor=ThreadExecutor(clock))
    dispatcher.step(clock.now)
    dispatcher.step(clock.advance(0.5))
    assert dispatcher.status()[0].failing == "took longer than 0.5 s"


def test_calls_that_never_return_do_not_pile_up(world: World, clock: Clock, gate: Gate) -> None:
    world.commit("job", opened())
    dispatcher = world.dispatcher(listen(gate, "stuck"), executor=ThreadExecutor(clock))
    for _ in range(20):
        dispatcher.step(clock.advance(400))
        dispatcher.step(clock.advance(30))
    assert dispatcher.status()[0].failing == "4 earlier calls overran and have not returned yet"
    assert sum(thread.name == "callback stuck" for thread in threading.enumerate()) == 4

    gate.open.set()
    end("stuck")
    assert dispatcher.run_until_quiet(clock.advance(400)) == 1


def test_calls_that_never_return_are_counted_over_all_partitions(clock: Clock, gate: Gate) -> None:
    """Deliveries of one receiver are under way in several partitions at once."""
    world = World(partitions=3)
    for job in "abcdef":
        world.commit(job, opened())
    dispatcher = world.dispatcher(listen(gate, "stuck-in-three"), executor=ThreadExecutor(clock))
    for _ in range(20):
        dispatcher.step(clock.advance(400))
        dispatcher.step(clock.advance(30))
    # Calls that begin together are counted when they have overrun, so each partition may add one.
    assert 4 <= sum(thread.name == "callback stuck-in-three" for thread in threading.enumerate()) <= 6

    gate.open.set()
    end("stuck-in-three")
    assert dispatcher.run_until_quiet(clock.advance(400)) == 6


def test_each_call_has_the_whole_limit(world: World, clock: Clock) -> None:
    """The limit is one call's, not one batch's."""

    def slow(_notice: Notice) -> None:
        clock.advance(20)

    world.commit("job", opened(), *run())
    for made in (InlineExecutor(clock), ThreadExecutor(clock)):
        name = type(made).__name__
        dispatcher = world.dispatcher(listen(slow, name), executor=made)
        while dispatcher.step(clock.now) or dispatcher.busy:
            made.wait()
        assert dispatcher.status()[0].delivered == 5


def test_closing_begins_no_further_call_and_keeps_what_has_ended(world: World, clock: Clock, gate: Gate) -> None:
    ids = world.commit("job", opened(), *run())
    dispatcher = world.dispatcher(listen(gate), executor=ThreadExecutor(clock))
    dispatcher.step(clock.now)
    assert gate.entered.acquire(timeout=60)
    dispatcher.close()
    gate.open.set()
    end("listener")
    dispatcher.close()
    assert [notice.id for notice in gate.told] == ids[:1]
    assert list(world.log.cursor("callback/listener").values()) == [1]


def test_the_usual_clock_goes_forward() -> None:
    assert 0 < monotonic() <= monotonic()


def test_a_dispatcher_uses_threads_unless_told_otherwise(world: World) -> None:
    told: list[str] = []
    world.commit("job", opened())
    chosen = listen(lambda _: told.append(threading.current_thread().name))
    Dispatcher(world.log, Registry([chosen]), started=START).run_until_quiet(START)
    assert told == ["callback listener"]
