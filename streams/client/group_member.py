"""Member of a consumer group that only receives partition assignments; it reads no records.

aiokafka's consumer would prefetch its partitions, does not report which error ended its membership, and rejoins after another
process has taken over its instance id, so that the two take it from each other forever. So this module implements the group
protocol with the range assignor: join, heartbeat, leave. Members are static: a member that returns within its session gets its
partitions back, without a rebalance of the others.
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

FENCED_INSTANCE: Final = 82
"""Error code for a member whose instance id was taken over by another process; missing in aiokafka."""

_MOVED: Final = (GroupCoordinatorNotAvailableError, GroupLoadInProgressError, NotCoordinatorForGroupError)


class MemberReplacedError(KafkaError):  # type: ignore[misc]  # aiokafka has no types
    """Raised when another process has joined with the same instance id."""


class _HeartbeatResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 12
    API_VERSION = 3
    SCHEMA = HeartbeatResponse_v1.SCHEMA


class _HeartbeatStruct(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    """Heartbeat version 3, which has the instance id, so that the broker can report a takeover."""

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
    """Heartbeat of a static member."""

    API_KEY = 12

    def __init__(self, group: str, generation: int, member: str, instance: str) -> None:
        self._fields = (group, generation, member, instance)

    def build(self, struct: type[_HeartbeatStruct]) -> _HeartbeatStruct:
        """Return the request's struct."""
        return struct(*self._fields)


class Joined(NamedTuple):
    """Assignment of a member that has joined."""

    partitions: frozenset[int]
    """Assigned partitions."""
    began: float
    """Earliest time at which the membership held (`time.monotonic`, seconds)."""
    follows: bool
    """True if no assignment was missed: at most one rebalance since the previous one that it received."""


class GroupMember:
    """Static group member. All methods run in the background loop, one at a time."""

    def __init__(self, arguments: Mapping[str, Any], group: str, topic: str, instance: str, session: float) -> None:
        """Configure the member.

        Args:
            arguments: arguments of aiokafka's client.
            group: name of the group.
            topic: topic whose partitions are assigned.
            instance: instance id, unique in the group and stable across restarts.
            session: session timeout (seconds).
        """
        self.group: Final = group
        self.patience: Final = session / 2
        """Time that a rebalance waits for a silent member before its partitions are reassigned (seconds); half a session."""
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
            seconds: time limit for brokers that do not answer.

        Raises:
            KafkaError: no broker answers, or none accepts the login.
            OSError: as above, as an error of the network.
        """
        await connect(self._client, self._arguments, seconds)
        # The broker delays the answer to a join until all members have joined, for at most half a session. A longer wait means a
        # lost request, which must be detected within the session.
        self._client._request_timeout_ms = int(self._session * 700)  # noqa: SLF001  applies to new connections
        await self._client.set_topics({self._topic})

    async def close(self) -> None:
        """Disconnect. The group keeps the member until its session ends or it returns."""
        await self._client.close()

    async def join(self) -> Joined:
        """Join, or rejoin in a rebalance. From then on this member's former partitions may be assigned to others.

        Raises:
            MemberReplacedError: another process has this instance id now.
            RebalanceInProgressError: the members changed meanwhile; rejoin.
            KafkaError: the group cannot be reached, or rejects the request.
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
        # A partition assigned in this generation and the previous one had no other owner between.
        follows = self._member == member and self._generation - generation in {0, 1}
        self._heard = (self._member, self._generation)
        return Joined(frozenset(found.partition for found in given if found.topic == self._topic), began, follows)

    async def heartbeat(self) -> float:
        """Send a heartbeat.

        Returns:
            A time at which the partitions were assigned to this member (`time.monotonic`); no other member gets them for `patience`
            seconds
                from then on.

        Raises:
            MemberReplacedError: another process has this instance id now.
            RebalanceInProgressError: a rebalance is running; join.
            IllegalGenerationError: a rebalance completed without this member; join.
            UnknownMemberIdError: the session has ended and others may have its partitions; join.
            KafkaError: the group cannot be reached, or rejects the request.
        """
        began = time.monotonic()
        await self._ask(Heartbeat(self.group, self._generation, self._member, self._instance))
        return began

    async def leave(self) -> None:
        """Leave the group; its partitions are reassigned at once.

        Raises:
            KafkaError: the group cannot be reached; it removes the member when the session ends.
        """
        if self._member:
            await self._ask(LeaveGroupRequest(self.group, self._member))
            self._member = ""

    async def _shares(self, members: list[Any]) -> list[tuple[str, bytes]]:
        wanted = {member: ConsumerProtocol.METADATA.decode(metadata) for member, _, metadata in members}
        # Current partition counts, because opening a shard rejects a topic that has grown.
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
