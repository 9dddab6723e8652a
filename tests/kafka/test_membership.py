"""Which shards a process is to run: every shard is somebody's and none is two's, whoever joins, leaves, dies or freezes."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.group import SyncGroupRequest
from worker_process import until

from engine.events import Topic
from engine.log.errors import FencedError, LogUnavailableError
from engine.processor.membership import Membership, StaticMembership
from streams.client.group_member import GroupMember
from streams.log import KafkaLog
from streams.membership import GroupMembership, MembershipError
from streams.settings import KafkaSettings

SHARDS = 5
FENCED = FencedError("lifecycle/0", 1)
Make = Callable[[int], KafkaLog]


class Rebalances:
    """Counts them."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def rebalanced(self, stage: str, seconds: float) -> None:
        assert stage == "lifecycle"
        self.seconds.append(seconds)


@pytest.fixture
def log(make_log: Make) -> KafkaLog:
    return make_log(SHARDS)


@pytest.fixture
def settings(settings: KafkaSettings) -> KafkaSettings:
    """Sessions are as short as a broker allows unless it is told otherwise."""
    return settings.model_copy(update={"session_seconds": 6.0})


@pytest.fixture
def join(log: KafkaLog, settings: KafkaSettings) -> Iterator[Callable[..., GroupMembership]]:
    """Join the group of the log as some instance."""
    with ExitStack() as stack:

        def make(
            instance: str, *, topic: Topic = "job-events", leave: bool = False, observer: Rebalances | None = None
        ) -> GroupMembership:
            made = GroupMembership(log.background, settings, "lifecycle", topic, instance, leave=leave, observer=observer)
            made.start(lambda: None)
            stack.callback(made.close)
            return made

        yield make


def shared(*members: Membership) -> bool:
    """Tell whether every shard is given to one of the members, about as many to each."""
    shares = [member.shards() for member in members]
    given = sorted(shard for share in shares for shard in share)
    return given == list(range(SHARDS)) and {len(share) for share in shares} <= {SHARDS // len(shares), -(-SHARDS // len(shares))}


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("kind", ["static", "group"])
def test_every_shard_is_run_and_none_twice(kind: str, count: int, join: Callable[..., GroupMembership]) -> None:
    members: list[Membership] = [
        StaticMembership(ordinal, count, SHARDS) if kind == "static" else join(f"m{ordinal}") for ordinal in range(count)
    ]
    until(lambda: shared(*members))
    assert all(member.is_settled() for member in members)


def test_shards_are_spread_anew_when_members_come_and_go(join: Callable[..., GroupMembership]) -> None:
    first, rebalances = join("a", observer=(seen := Rebalances())), seen.seconds
    until(lambda: shared(first))
    assert len(rebalances) == 1
    second = join("b", leave=True)
    until(lambda: shared(first, second))
    assert len(rebalances) == 2
    second.close()
    until(lambda: shared(first))
    assert len(rebalances) == 3
    assert all(0 <= seconds < 60 for seconds in rebalances)
    assert first.turn() is not None


def test_more_members_than_shards_stand_by(join: Callable[..., GroupMembership]) -> None:
    members = [join(f"m{number}") for number in range(SHARDS + 1)]
    until(lambda: all(member.is_settled() for member in members) and shared_by_some(members))


def shared_by_some(members: list[GroupMembership]) -> bool:
    shares = sorted(sorted(member.shards()) for member in members)
    return shares == [[], *([number] for number in range(SHARDS))]


def test_a_member_that_comes_back_within_its_session_disturbs_nobody(join: Callable[..., GroupMembership]) -> None:
    first, rebalances = join("a", observer=(seen := Rebalances())), seen.seconds
    second = join("b")
    until(lambda: shared(first, second))
    before, share = len(rebalances), second.shards()
    second.close()
    again = join("b")
    until(lambda: again.shards() == share)
    assert shared(first, again)
    assert len(rebalances) == before


def test_a_member_in_whose_name_another_one_joins_is_told_so(join: Callable[..., GroupMembership]) -> None:
    first = join("a")
    until(lambda: shared(first))
    second = join("a")
    until(lambda: shared(second))

    def is_told() -> bool:
        try:
            first.shards()
        except MembershipError as error:
            assert "as 'a'; give each worker an --instance of its own" in str(error)  # noqa: PT017  raised in the loop's good time
            return True
        return False

    until(is_told)
    assert first.turn() is None
    assert shared(second)


def test_a_fenced_shard_runs_again_once_the_group_confirms_its_owner(join: Callable[..., GroupMembership]) -> None:
    member = join("a")
    until(lambda: shared(member))
    member.fenced(0, FENCED)
    until(lambda: shared(member))


class Cut(GroupMember):
    """A member whose heartbeats get lost for a while, twice."""

    lost = 0

    async def heartbeat(self) -> float:
        Cut.lost += 1
        if Cut.lost in {1, 2, 3, 5, 6}:
            raise KafkaConnectionError("no route to host")
        return await super().heartbeat()


def test_a_group_that_does_not_answer_is_told_of_once_each_time(
    join: Callable[..., GroupMembership], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "streams.membership")
    monkeypatch.setattr("streams.membership.GroupMember", Cut)
    monkeypatch.setattr(Cut, "lost", 0)
    member = join("a")
    until(lambda: Cut.lost > 6)
    assert shared(member)
    told = [record.message for record in caplog.records if "does not answer" in record.message]
    assert len(told) == 2
    assert told[0].endswith("lahar-lifecycle does not answer: KafkaConnectionError: no route to host; trying again until it does")


def test_a_session_that_the_brokers_do_not_allow_is_refused(log: KafkaLog, settings: KafkaSettings) -> None:
    member = GroupMembership(
        log.background, settings.model_copy(update={"session_seconds": 86_400.0}), "lifecycle", "job-events", "a"
    )
    member.start(lambda: None)

    def is_refused() -> bool:
        try:
            member.shards()
        except MembershipError as error:
            assert "set KAFKA_SESSION_SECONDS within" in str(error)  # noqa: PT017  raised in the loop's good time
            return True
        return False

    until(is_refused)
    member.close()


def test_a_group_that_cannot_be_reached_is_told_at_once(log: KafkaLog) -> None:
    nowhere = KafkaSettings(bootstrap_servers="127.0.0.1:1", request_seconds=5)
    member = GroupMembership(log.background, nowhere, "lifecycle", "job-events", "a")
    with pytest.raises(LogUnavailableError, match=r"the group lahar-lifecycle on .* cannot be joined"):
        member.start(lambda: None)
    member.close()
    assert not member.is_settled()


class Held(GroupMember):
    """A member whose heartbeats stop, or to whom one answer is not brought, when the test says so."""

    is_silent = threading.Event()
    holds_back = threading.Event()
    go_on = threading.Event()

    async def heartbeat(self) -> float:
        if self._instance == "e" and Held.is_silent.is_set():
            raise KafkaConnectionError("no route to host")
        return await super().heartbeat()

    async def _ask(self, request: Any) -> Any:
        answer = await super()._ask(request)
        if self._instance == "e" and isinstance(request, SyncGroupRequest) and Held.holds_back.is_set():
            await asyncio.to_thread(Held.go_on.wait, 60)
        return answer


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Held]]:
    monkeypatch.setattr("streams.membership.GroupMember", Held)
    for name in ("is_silent", "holds_back", "go_on"):
        monkeypatch.setattr(Held, name, threading.Event())
    yield Held
    Held.go_on.set()


def test_a_silent_members_turn_is_over_before_others_are_given_its_shards(
    join: Callable[..., GroupMembership], held: type[Held]
) -> None:
    """The group waits for it for half a session, then spreads shards anew; it remains a member until its session is over."""
    silent = join("e")
    until(lambda: shared(silent))
    held.is_silent.set()
    # Shards are spread by name.
    joiner = join("a")
    until(lambda: joiner.turn() is not None)
    assert silent.turn() is None
    assert (joiner.shards(), silent.shards()) == ({0, 1, 2}, set(range(SHARDS))), "it has heard of nothing"
    held.is_silent.clear()
    until(lambda: shared(joiner, silent))


def test_a_turn_is_over_while_it_is_not_known_what_others_were_given(
    join: Callable[..., GroupMembership], held: type[Held]
) -> None:
    member = join("e")
    until(lambda: shared(member))
    turn = member.turn()
    held.holds_back.set()
    joiner = join("a")
    until(lambda: joiner.turn() is not None)
    assert member.turn() is None
    held.go_on.set()
    until(lambda: shared(joiner, member))
    until(lambda: member.turn() not in {None, turn})


def test_a_turn_goes_on_whoever_else_stands_by_or_is_not_heard_for_a_while(
    join: Callable[..., GroupMembership], held: type[Held]
) -> None:
    """The group's own count of how often it was spread anew says that nobody else was given the shards."""
    member = join("e", topic="cluster", observer=(seen := Rebalances()))
    until(lambda: member.shards() == {0})
    turn = member.turn()
    assert turn is not None
    others = []
    for number in range(2):
        # One after the other: who misses that the group was spread anew twice does not know who had its shards in between.
        others.append(join(f"z{number}", topic="cluster", leave=True))
        until(others[-1].is_settled)
    until(lambda: member.turn() is not None)
    before = len(seen.seconds)
    others[0].close()
    until(lambda: len(seen.seconds) > before)
    assert member.turn() == turn
    held.is_silent.set()
    until(lambda: member.turn() is None)
    held.is_silent.clear()
    until(lambda: member.turn() is not None)
    assert (member.turn(), member.shards()) == (turn, {0})
    assert others[1].shards() == set()


class Process:
    """A member in a process of its own."""

    def __init__(self, settings: KafkaSettings, instance: str) -> None:
        arguments = [settings.bootstrap_servers, settings.topic_prefix, instance, str(settings.session_seconds)]
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "group_member.py"), *arguments],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def line_with(self, wanted: str) -> str:
        """Return the next line that begins so."""
        while not (line := self.line()).startswith(wanted):
            assert self.process.poll() is None
        return line

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def test_the_dead_and_the_frozen_lose_their_shards_and_who_thaws_knows_it(
    settings: KafkaSettings, join: Callable[..., GroupMembership]
) -> None:
    member = join("a")
    until(lambda: shared(member))
    dead, frozen = Process(settings, "b"), Process(settings, "c")
    try:
        assert (dead.line_with("2"), frozen.line_with("4")) == ("2 3", "4")
        until(lambda: member.shards() == {0, 1})
        frozen.process.send_signal(signal.SIGSTOP)
        dead.process.kill()
        until(lambda: shared(member))
        assert member.turn() is not None
        frozen.process.send_signal(signal.SIGCONT)
        assert frozen.line_with("woke") == "woke"
        assert frozen.line_with("3") == "3 4"
        until(lambda: member.shards() == {0, 1, 2})
    finally:
        dead.end()
        frozen.end()


def test_a_member_frozen_within_its_session_learns_others_have_its_shards(
    settings: KafkaSettings, join: Callable[..., GroupMembership]
) -> None:
    frozen = Process(settings, "e")
    try:
        assert frozen.line_with("0") == "0 1 2 3 4"
        frozen.process.send_signal(signal.SIGSTOP)
        joiner = join("a")
        until(lambda: joiner.shards() == {0, 1, 2})
        frozen.process.send_signal(signal.SIGCONT)
        assert frozen.line_with("woke") == "woke"
        assert frozen.line_with("3") == "3 4"
    finally:
        frozen.end()
