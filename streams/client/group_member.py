"""One member of a consumer group that only assigns partitions; it reads no records.

aiokafka's consumer would fetch its partitions, does not report which error ended a membership, and rejoins after another process
has taken its membership, which then takes it back, without end. So this implements the group protocol itself, with the range
assignor: joining, heartbeats, leaving. Members are static: one that comes back within its session finds its place, and nobody else
is disturbed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocol
from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    KafkaError,
    NotCoordinatorForGroupError,
    UnknownMemberIdError,
    for_code,
)
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.group import HeartbeatResponse_v1, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from aiokafka.protocol.types import Int32, Schema, String

from streams.client.connecting import connect

__all__ = ["FENCED_INSTANCE", "GroupMember", "Heartbeat", "Joined", "MemberReplacedError"]

FENCED_INSTANCE: Final = 82
"""Code of the answer to a member whose instance is another process now. Not in aiokafka's table of errors."""

_MOVED: Final = (GroupCoordinatorNotAvailableError, GroupLoadInProgressError, NotCoordinatorForGroupError)


class MemberReplacedError(KafkaError):  # type: ignore[misc]  # aiokafka has no types
    """Raised when another process has joined as the same instance."""


class _HeartbeatResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 12
    API_VERSION = 3
    SCHEMA = HeartbeatResponse_v1.SCHEMA


class _HeartbeatStruct(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    """Version 3 names the instance, so that the broker can say that it was replaced."""

    API_KEY = 12
    API_VERSION = 3
    RESPONSE_TYPE = _HeartbeatResponse
    SCHEMA = Schema(
        ("group", String("utf-8")),
        ("generation_id", Int32),
        ("member_id", String("utf-8")),
        ("group_instance_id", String("utf-8")),
    )


class Heartbeat(Request[_HeartbeatStruct]):  # type: ignore[misc]  # aiokafka has no types
    """Shows that a static member is there."""

    API_KEY = 12

    def __init__(self, group: str, generation: int, member: str, instance: str) -> None:
        self._fields = (group, generation, member, instance)

    def build(self, struct: type[_HeartbeatStruct]) -> _HeartbeatStruct:
        """Return it as it is sent."""
        return struct(*self._fields)


class Joined(NamedTuple):
    """The assignment of a member that has joined."""

    partitions: frozenset[int]
    """Those that are its own."""
    began: float
    """It was a member at this moment at the earliest (`time.monotonic`)."""
    follows: bool
    """It has missed no assignment: at most one rebalance since the last one that it received."""


class GroupMember:
    """A static member. All methods run in the background loop, one at a time."""

    def __init__(self, arguments: Mapping[str, Any], group: str, topic: str, instance: str, session: float) -> None:
        """Describe it.

        Args:
            arguments: for aiokafka's client.
            group: its name.
            topic: whose partitions are spread.
            instance: names this member among the others; the same after a restart.
            session: seconds of silence after which a member is none any more.
        """
        self.group: Final = group
        self.patience: Final = session / 2
        """How long a rebalance waits for a silent member (seconds) before its partitions go to others; shorter than a session."""
        self._topic = topic
        self._instance = instance
        self._session = session
        self._member = ""
        self._generation = -1
        self._heard = ("", -1)
        """Member id and generation of its last assignment."""
        self._coordinator: int | None = None
        self._arguments = arguments
        self._client: Any = AIOKafkaClient(**arguments)

    async def start(self, seconds: float) -> None:
        """Connect.

        Args:
            seconds: how long brokers that do not answer are tried.

        Raises:
            KafkaError: no broker answers, or none takes the login.
            OSError: as above, by the network's own words.
        """
        await connect(self._client, self._arguments, seconds)
        # The broker holds the answer to a join until all members have joined, for half a session at most. A request beyond that is
        # lost, and is to be known as such while the session lasts.
        self._client._request_timeout_ms = int(self._session * 700)  # noqa: SLF001  of connections that are made from now on
        await self._client.set_topics({self._topic})

    async def close(self) -> None:
        """Disconnect. The group keeps the member until its session ends, or it comes back."""
        await self._client.close()

    async def join(self) -> Joined:
        """Join, or rejoin in a rebalance. From then on this member's former partitions may be assigned to others.

        Raises:
            MemberReplacedError: another process is this instance now.
            RebalanceInProgressError: members have changed meanwhile: rejoin.
            KafkaError: the group cannot be reached, or says no.
        """
        protocol = (RangePartitionAssignor.name, RangePartitionAssignor.metadata([self._topic]).encode())
        session, rebalance = int(self._session * 1000), int(self.patience * 1000)
        request = JoinGroupRequest(
            self.group, session, rebalance, self._member, self._instance, ConsumerProtocol.PROTOCOL_TYPE, [protocol]
        )
        joined = await self._ask(request)
        self._member, self._generation = joined.member_id, joined.generation_id
        shares: list[tuple[str, bytes]] = []
        if joined.leader_id == self._member:
            shares = await self._shares(joined.members)
        began = time.monotonic()
        synced = await self._ask(SyncGroupRequest(self.group, self._generation, self._member, self._instance, shares))
        given = ConsumerProtocol.ASSIGNMENT.decode(synced.member_assignment).partitions()
        member, generation = self._heard
        # What was given in the last generation and is given in this one was not another's in between.
        follows = self._member == member and self._generation - generation in {0, 1}
        self._heard = (self._member, self._generation)
        return Joined(frozenset(found.partition for found in given if found.topic == self._topic), began, follows)

    async def heartbeat(self) -> float:
        """Send a heartbeat.

        Returns:
            A moment at which its partitions were its own (`time.monotonic`): no other member gets them for `patience` from then on.

        Raises:
            MemberReplacedError: another process is this instance now.
            RebalanceInProgressError: a rebalance runs: join.
            IllegalGenerationError: a rebalance went by without this member: join.
            UnknownMemberIdError: the session has ended, others may have its partitions: join.
            KafkaError: the group cannot be reached, or says no.
        """
        began = time.monotonic()
        await self._ask(Heartbeat(self.group, self._generation, self._member, self._instance))
        return began

    async def leave(self) -> None:
        """Leave the group: its partitions are spread over the others at once.

        Raises:
            KafkaError: the group cannot be reached; it will notice when the session ends.
        """
        if self._member:
            await self._ask(LeaveGroupRequest(self.group, self._member))
            self._member = ""

    async def _shares(self, members: list[Any]) -> list[tuple[str, bytes]]:
        wanted = {member: ConsumerProtocol.METADATA.decode(metadata) for member, _, metadata in members}
        # Present partition counts: opening a shard refuses a topic that has grown.
        await self._client.force_metadata_update()
        return [(name, share.encode()) for name, share in RangePartitionAssignor.assign(self._client.cluster, wanted).items()]

    async def _ask(self, request: Any) -> Any:  # noqa: ANN401  aiokafka has no types
        if self._coordinator is None:
            self._coordinator = await self._client.coordinator_lookup(CoordinationType.GROUP, self.group)
        try:
            answer = await self._client.send(self._coordinator, request, group=ConnectionGroup.COORDINATION)
        except (KafkaError, OSError, TimeoutError):
            self._coordinator = None
            raise
        if not answer.error_code:
            return answer
        if answer.error_code == FENCED_INSTANCE:
            raise MemberReplacedError(self._instance)
        error = for_code(answer.error_code)
        if error in _MOVED:
            self._coordinator = None
        elif error is UnknownMemberIdError:
            self._member = ""
        raise error(f"code {answer.error_code}")
