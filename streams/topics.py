"""Topic declarations: partitions and retention, and their comparison with a cluster.

`pods jobs decisions job-events billing` have equal partition counts. This module changes no count, because keys would move to other
partitions and lose their order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar, get_args

from aiokafka.admin import NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    StaleMetadata,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)

from engine.events import Topic
from engine.events.vocabulary import SINGLE_TOPICS
from streams.client.connecting import administrator, client_of
from streams.client.metadata import fetch_from_each
from streams.client.retry import retried
from streams.errors import TopicsDifferError, unavailable_if
from streams.settings import KafkaSettings

T = TypeVar("T")

_DAY_MS: Final = 86_400_000
_FOREVER: Final = -1
_SEEN_SECONDS: Final = 30.0

_REMEDIES: Final = {
    "partitions": "if the log was created so, pass that number (--partitions); where a topic has grown since, `lahar export` reads "
    "what stood before, to be imported under another KAFKA_TOPIC_PREFIX",
    "replication": "if it is to stay so, pass that number (--replication); Kafka's kafka-reassign-partitions changes the copies",
}
"""Advice for differences that are never changed in place."""
_RIGHTS_TO_PLAN: Final = "let this user describe the topics and their configs"
_RIGHTS_TO_APPLY: Final = "let this user create the topics, describe them, and describe and alter their configs"

CO_PARTITIONED: Final[tuple[Topic, ...]] = ("pods", "jobs", "decisions", "job-events", "billing")
"""Topics with equal partition counts, checked whenever a log is opened: shard p owns partition p of each."""

_LARGEST_RECORD: Final = 4 << 20
"""Maximum record size (bytes). A job may reach etcd's limit of 1.5 MiB, and its event includes the whole job."""


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """Retention of a topic."""

    retention: int
    """Time since the append (milliseconds); -1: unlimited. A compacted topic keeps the last record of each key."""
    cleanup: Literal["delete", "compact"] = "delete"
    more: Mapping[str, str] = field(default_factory=dict)
    """Further topic settings of Kafka."""

    def config(self) -> dict[str, str]:
        """Return the topic configuration under Kafka's names."""
        return {
            "cleanup.policy": self.cleanup,
            "retention.ms": str(self.retention),
            "max.message.bytes": str(_LARGEST_RECORD),
            # Retention counts from the append, because imported records are years old; and a partition has a single clock.
            "message.timestamp.type": "LogAppendTime",
            **self.more,
        }


TOPICS: Final[dict[Topic, RetentionPolicy]] = {
    "pods": RetentionPolicy(14 * _DAY_MS),
    "jobs": RetentionPolicy(14 * _DAY_MS),
    # State is the fold of these topics from their beginning.
    "cluster": RetentionPolicy(_FOREVER),
    "job-events": RetentionPolicy(_FOREVER),
    "scheduling": RetentionPolicy(_FOREVER),
    "decisions": RetentionPolicy(_FOREVER),
    "billing": RetentionPolicy(_FOREVER),
    "budgets": RetentionPolicy(_FOREVER),
    "preemptions": RetentionPolicy(_FOREVER),
    # Dead letters are outputs too: without them a shard's outputs have a gap, and can neither be folded from the beginning nor
    # restored from an export.
    "dead-letters": RetentionPolicy(_FOREVER),
    # Opening a shard reads all of its records, so replaced ones should be compacted soon.
    "snapshots": RetentionPolicy(
        _FOREVER, "compact", {"segment.bytes": str(64 << 20), "segment.ms": str(_DAY_MS), "min.cleanable.dirty.ratio": "0.2"}
    ),
}
"""All topics. Inputs are retained for less time than finished jobs are remembered (30 days), so that duplicates are detected."""


@dataclass(frozen=True, slots=True)
class Declared:
    """Declared topic."""

    name: str
    partitions: int
    replication: int
    config: dict[str, str]


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference between a cluster and the declaration."""

    topic: str
    setting: str
    """`topic` (missing), `partitions`, `replication`, or Kafka's name of a setting."""
    found: str
    wanted: str

    @property
    def can_be_applied(self) -> bool:
        """True if `apply` can change it."""
        return self.setting not in _REMEDIES

    def __str__(self) -> str:
        if self.setting == "topic":
            return f"{self.topic}: missing ({self.wanted})"
        return f"{self.topic} has {self.setting} {self.found}, declared is {self.wanted}"


def topic_name(settings: KafkaSettings, topic: Topic) -> str:
    """Return the name of a topic in the cluster."""
    return settings.topic_prefix + topic


def declared(settings: KafkaSettings, partitions: int, replication: int = 3) -> list[Declared]:
    """Return all topic declarations.

    Args:
        settings: settings with the prefix of topic names.
        partitions: partitions per topic, two to four times the number of shards ever needed; topics in `SINGLE_TOPICS` have one.
        replication: replication factor. Of three replicas, two must have written a record before it is acknowledged.
    """
    in_sync = {"min.insync.replicas": str(max(replication - 1, 1))}
    return [
        Declared(
            topic_name(settings, topic), 1 if topic in SINGLE_TOPICS else partitions, replication, TOPICS[topic].config() | in_sync
        )
        for topic in get_args(Topic)
    ]


async def plan(settings: KafkaSettings, wanted: list[Declared]) -> list[Difference]:
    """Return the differences between a cluster and the declaration; changes nothing.

    Raises:
        LogUnavailableError: the cluster cannot be reached, or rejects the request.
    """
    with unavailable_if(f"the topics of {settings.where} cannot be read", {TopicAuthorizationFailedError: _RIGHTS_TO_PLAN}):
        async with administrator(settings) as admin:
            return await _retried(admin, lambda: _differences(admin, wanted), settings.request_seconds)


async def apply(settings: KafkaSettings, wanted: list[Declared]) -> list[Difference]:
    """Create missing topics and change differing settings.

    Returns:
        The changes made.

    Raises:
        TopicsDifferError: a partition count or replication factor differs; nothing was changed.
        LogUnavailableError: the cluster cannot be reached, or rejects the request.
    """
    with unavailable_if(f"the topics of {settings.where} cannot be made", {TopicAuthorizationFailedError: _RIGHTS_TO_APPLY}):
        async with administrator(settings) as admin:
            seconds = settings.request_seconds
            found = await _retried(admin, lambda: _differences(admin, wanted), seconds)
            if fixed := [difference for difference in found if not difference.can_be_applied]:
                settled = {difference.setting for difference in fixed}
                raise TopicsDifferError(
                    [str(difference) for difference in fixed], [text for setting, text in _REMEDIES.items() if setting in settled]
                )
            missing = {difference.topic for difference in found if difference.setting == "topic"}
            await _retried(admin, lambda: _create(admin, [topic for topic in wanted if topic.name in missing]), seconds)
            await _retried(admin, lambda: _set(admin, wanted, found), seconds)
            shown = f"the topics of {settings.where} are created, but not known to every broker"
            with unavailable_if(shown, {TopicAuthorizationFailedError: _RIGHTS_TO_APPLY}):
                await _retried(admin, lambda: _must_be_seen(admin, wanted), _SEEN_SECONDS)
    return found


async def _retried(admin: Any, ask: Callable[[], Awaitable[T]], seconds: float) -> T:  # noqa: ANN401  aiokafka has no types
    return await retried(ask, seconds, client_of(admin))


async def _differences(admin: Any, wanted: list[Declared]) -> list[Difference]:  # noqa: ANN401  aiokafka has no types
    present = set(await admin.list_topics())
    there = [topic for topic in wanted if topic.name in present]
    answers = await admin.describe_topics([topic.name for topic in there]) if there else []
    described = {found["topic"]: found for found in answers if not found["error_code"]}
    configs = await _configs(admin, [topic.name for topic in there])
    _must_be_known([topic.name for topic in there], described, configs)
    differences: list[Difference] = []
    for topic in wanted:
        if topic.name not in present:
            text = f"partitions={topic.partitions}, replication={topic.replication}, cleanup={topic.config['cleanup.policy']}"
            differences.append(Difference(topic.name, "topic", "", text))
            continue
        parts = described[topic.name]["partitions"]
        copies = {len(part["replicas"]) for part in parts}
        if len(parts) != topic.partitions:
            differences.append(Difference(topic.name, "partitions", str(len(parts)), str(topic.partitions)))
        if copies != {topic.replication}:
            found = "/".join(map(str, sorted(copies)))
            differences.append(Difference(topic.name, "replication", found, str(topic.replication)))
        held = configs[topic.name]
        differences += [
            Difference(topic.name, name, held.get(name, ("", False))[0], value)
            for name, value in topic.config.items()
            if held.get(name, ("", False))[0] != value
        ]
    return differences


async def _configs(admin: Any, names: list[str]) -> dict[str, dict[str, tuple[str, bool]]]:  # noqa: ANN401  aiokafka has no types
    """Return topic → setting → (value, true if set for this topic)."""
    if not names:
        return {}
    answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in names])
    found: dict[str, dict[str, tuple[str, bool]]] = {}
    for answer in answers:
        for code, text, _, name, entries in answer.resources:
            if for_code(code) is UnknownTopicOrPartitionError:
                continue  # deleted since the listing
            _must_be_done(code, name, text)
            # Name, value, read-only, source (1: this topic), …
            found[name] = {entry[0]: (entry[1] or "", entry[3] == 1) for entry in entries}
    return found


async def _create(admin: Any, topics: list[Declared]) -> None:  # noqa: ANN401  aiokafka has no types
    if not topics:
        return
    made = [NewTopic(topic.name, topic.partitions, topic.replication, topic_configs=topic.config) for topic in topics]
    answer = await admin.create_topics(made)
    for name, code, *text in answer.topic_errors:
        # Another process may be creating them at the same time.
        if for_code(code) is not TopicAlreadyExistsError:
            _must_be_done(code, name, text[0] if text else None)


async def _set(admin: Any, wanted: list[Declared], differences: list[Difference]) -> None:  # noqa: ANN401  aiokafka has no types
    to_set = {difference.topic for difference in differences if difference.setting != "topic"}
    if not to_set:
        return
    # The request replaces all settings of a topic, so the settings of others are repeated in it.
    held = await _configs(admin, sorted(to_set))
    _must_be_known(to_set, held)
    resources = []
    for topic in wanted:
        if topic.name in to_set:
            kept = {name: value for name, (value, own) in held[topic.name].items() if own}
            resources.append(ConfigResource(ConfigResourceType.TOPIC, topic.name, kept | topic.config))
    for answer in await admin.alter_configs(resources):
        for code, text, _, name in answer.resources:
            _must_be_done(code, name, text)


async def _must_be_seen(admin: Any, wanted: list[Declared]) -> None:  # noqa: ANN401  aiokafka has no types
    # The controller has accepted the topics, but brokers learn of them at different times, and the caller may use any broker next.
    counts = {topic.name: topic.partitions for topic in wanted}
    client = client_of(admin)
    await client.force_metadata_update()
    answers = await fetch_from_each(client, list(counts), _SEEN_SECONDS)
    if refused := {name for answer in answers.values() if not isinstance(answer, Exception) for name in answer.refused}:
        raise TopicAuthorizationFailedError(", ".join(sorted(refused)))
    behind = [broker for broker, answer in sorted(answers.items()) if isinstance(answer, Exception) or answer.partitions != counts]
    if behind:
        raise StaleMetadata(f"not at broker {', '.join(map(str, behind))}")
    if differences := await _differences(admin, wanted):
        raise StaleMetadata("; ".join(map(str, differences)))


def _must_be_known(topics: Collection[str], *answers: Collection[str]) -> None:
    # Brokers may differ in their metadata, or the topic was deleted meanwhile.
    if unknown := sorted(name for name in topics if any(name not in answer for answer in answers)):
        raise StaleMetadata(f"not every broker knows {', '.join(unknown)}")


def _must_be_done(code: int, name: str, text: str | None) -> None:
    if code:
        raise for_code(code)(f"{name}: {text}" if text else name)
