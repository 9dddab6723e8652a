"""Shard assignment by consumer group: Kafka assigns partitions of a topic to each process, and so the shards of the same numbers.

The group `{prefix}lahar-{stage}` only assigns shards. Offsets are in a group per shard, and the fence of the shard's transactional
id prevents two processes from running it. So shards keep running during a rebalance, and a process that cannot reach the group
keeps its shards until another process fences it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from aiokafka.errors import (
    GroupAuthorizationFailedError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    KafkaError,
    RebalanceInProgressError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
)

from engine.events import Topic
from engine.log.errors import FencedError, LogError
from engine.processor.membership import RebalanceObserver
from streams.client.group_member import GroupMember, MemberReplacedError
from streams.client.loop import BackgroundLoop
from streams.errors import unavailable, unavailable_if
from streams.settings import KafkaSettings
from streams.topics import topic_name

_LONGEST_HEARTBEAT: Final = 3.0
_PAUSE_SECONDS: Final = 0.2
_PATIENCE_SECONDS: Final = 5.0
"""Time without a log message while a group cannot be joined, because it moves to another broker or is a cluster's first one."""
_CLOSE_SECONDS: Final = 2.0

_SPREAD_ANEW: Final = (IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)
"""Errors after which a member rejoins."""

_FINAL: Final = (
    MemberReplacedError,
    GroupAuthorizationFailedError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    TopicAuthorizationFailedError,
)
"""Permanent errors."""

_logger: Final = logging.getLogger(__name__)


class MembershipError(LogError):
    """Raised when a process has permanently lost its membership of a group."""


class _Share(NamedTuple):
    """Assignment of a process. Replaced as a whole, because other threads read it."""

    turn: int
    """Number of the turn; 0 before the first assignment."""
    shards: frozenset[int]
    until: float
    """Time until which no other process is assigned the shards (`time.monotonic`)."""


class GroupMembership:
    """This process's share of a stage's shards, by consumer group (an `engine.processor.membership.Membership`)."""

    def __init__(
        self,
        background: BackgroundLoop,
        settings: KafkaSettings,
        stage: str,
        topic: Topic,
        instance: str,
        *,
        leave: bool = False,
        observer: RebalanceObserver | None = None,
    ) -> None:
        """Configure the membership; `start` joins the group.

        Args:
            background: loop in which it runs.
            settings: settings of the cluster, including the session time-out.
            stage: stage of the group.
            topic: topic whose partition numbers are the shard numbers.
            instance: instance id of the process in the group, stable across restarts.
            leave: `close` leaves the group, which rebalances at once. Otherwise the shards wait until the process restarts or its
                session ends, which suits a restart that has state to recover.
            observer: notified of rebalances.
        """
        self._background = background
        self._settings = settings
        self._stage = stage
        self._topic = topic_name(settings, topic)
        self._instance = instance
        self._leave = leave
        self._observer = observer
        self._session = settings.session_seconds
        self._changed: Callable[[], object] = lambda: None
        self._share = _Share(0, frozenset(), 0.0)
        self._doubted: dict[int, float] = {}
        """Shards that another process has opened, with the time of detection."""
        self._failure: LogError | None = None
        self._member: GroupMember | None = None
        self._task: asyncio.Task[None] | None = None
        self._asked = asyncio.Event()

    # --- the port ---------------------------------------------------------------------------------------------------------

    def start(self, changed: Callable[[], object]) -> None:
        """Join the group.

        Args:
            changed: called in the background loop when `shards` may have changed.

        Raises:
            LogUnavailableError: no broker answers.
        """
        self._changed = changed
        with unavailable_if(f"the group {self._group} on {self._settings.where} cannot be joined"):
            self._background.run(self._start())

    def shards(self) -> frozenset[int]:
        """Return the shards last assigned to this process.

        Raises:
            MembershipError: another process has taken over its membership, or the group rejects it.
        """
        if self._failure is not None:
            raise self._failure
        return self._share.shards.difference(list(self._doubted))

    def is_settled(self) -> bool:
        """Return true once an assignment was received, even an empty one."""
        return self._share.turn > 0

    def fenced(self, shard: int, error: FencedError) -> None:
        """Handle a fencing by another process: ask the group whether the shard is still assigned to this one."""
        _logger.info("%s; asking the group %s which process it is assigned to", error, self._group)
        self._doubted[shard] = time.monotonic()
        self._background.call(self._asked.set)

    def turn(self) -> int | None:
        """Return the number of the turn during which this process has had its shards exclusively.

        Work without a fence runs within one turn and restarts in the next one. `None`: another process may have been assigned the
        shards. That is so during a rebalance, and after half a session without a response of the group, which waits that long for a
        silent member. The turn continues if no other process can have had the shards; otherwise a new one begins.

        Exclusiveness relies on distinct instance ids: a process that joins with the same id gets the shards at once, and this one
        detects it at its next heartbeat.
        """
        share = self._share
        return share.turn if time.monotonic() < share.until else None

    def close(self) -> None:
        """Leave the group or let the membership expire (`leave`). Idempotent."""
        if self._task is not None:
            self._background.run(self._stop())

    # --- in the loop ------------------------------------------------------------------------------------------------------

    @property
    def _group(self) -> str:
        return self._settings.group(self._stage)

    async def _start(self) -> None:
        arguments = self._settings.client_arguments()
        self._member = GroupMember(arguments, self._group, self._topic, self._instance, self._session)
        try:
            await self._member.start(self._settings.request_seconds)
        except BaseException:
            await self._member.close()
            raise
        self._task = asyncio.create_task(self._take_part(self._member))

    async def _stop(self) -> None:
        member, task = self._member, self._task
        self._member = self._task = None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if member is not None:
            with contextlib.suppress(KafkaError, OSError, TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    if self._leave and self._failure is None:
                        await member.leave()
            await member.close()

    async def _take_part(self, member: GroupMember) -> None:
        try:
            while True:
                await self._join(member)
                await self._stay(member)
                self._doubt()
        except _FINAL as error:
            self._failure = self._refusal(error)
        except Exception as error:
            _logger.exception("the membership of %s has a defect", self._group)
            self._failure = MembershipError(f"group {self._group}: {type(error).__name__}: {error}")
        finally:
            self._doubt()
        self._changed()

    def _doubt(self) -> None:
        """Stop assuming that no other process is assigned the shards."""
        self._share = self._share._replace(until=0.0)

    async def _join(self, member: GroupMember) -> None:
        """Join until shards are assigned."""
        asked = time.monotonic()
        silent_until = asked + _PATIENCE_SECONDS
        while True:
            try:
                joined = await member.join()
                break
            except _FINAL:
                raise
            except (KafkaError, OSError, TimeoutError) as error:
                if time.monotonic() > silent_until and not isinstance(error, _SPREAD_ANEW):
                    silent_until += self._session
                    _logger.warning("%s", unavailable(f"the group {self._group} cannot be joined, trying again", error))
                await asyncio.sleep(_PAUSE_SECONDS)
        shards = joined.partitions
        goes_on = joined.follows and shards == self._share.shards
        self._share = _Share(self._share.turn + (not goes_on), shards, joined.began + member.patience)
        self._doubted.clear()
        seconds = time.monotonic() - asked
        _logger.info("group %s: this process runs the shards %s (%.2f s)", self._group, sorted(shards), seconds)
        if self._observer is not None:
            self._observer.rebalanced(self._stage, seconds)
        self._changed()

    async def _stay(self, member: GroupMember) -> None:
        """Send heartbeats until the next rebalance."""
        pause = interval = min(self._session / 10, _LONGEST_HEARTBEAT)
        logged = False
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._asked.wait()
            self._asked.clear()
            try:
                began = await member.heartbeat()
            except _SPREAD_ANEW:
                return
            except _FINAL:
                raise
            except (KafkaError, OSError, TimeoutError) as error:
                # Shards keep running. The group's next response shows whether this process is still a member.
                if not logged:
                    silent = unavailable(f"the group {self._group} does not answer", error)
                    _logger.info("%s; trying again until it does", silent)
                logged, pause = True, _PAUSE_SECONDS
                continue
            logged, pause = False, interval
            self._share = self._share._replace(until=began + member.patience)
            # A process that opened a shard before this response was not assigned it, or has lost it again.
            if settled := [shard for shard, doubted in list(self._doubted.items()) if doubted <= began]:
                for shard in settled:
                    del self._doubted[shard]
                self._changed()

    def _refusal(self, error: BaseException) -> MembershipError:
        group = self._group
        if isinstance(error, MemberReplacedError):
            return MembershipError(
                f"another process has joined the group {group} as {self._instance!r}; give each worker an --instance of its own"
            )
        if isinstance(error, InvalidSessionTimeoutError):
            return MembershipError(
                f"the brokers allow no session of {self._session:g} s in the group {group}; set KAFKA_SESSION_SECONDS within their "
                "group.min.session.timeout.ms and group.max.session.timeout.ms"
            )
        if isinstance(error, InconsistentGroupProtocolError):
            return MembershipError(f"the group {group} is used by a program other than a worker; set another KAFKA_TOPIC_PREFIX")
        return MembershipError(f"the group {group} on {self._settings.where} refuses this process: {type(error).__name__}")
