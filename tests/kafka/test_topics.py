"""Topics are made as declared, checked against what is there, and never changed where a change would break order."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from engine.log.errors import LogUnavailableError
from streams.errors import TopicsDifferError
from streams.settings import KafkaSettings
from streams.topics import CO_PARTITIONED, TOPICS, Difference, apply, declared, plan


def test_a_cluster_without_topics_lacks_all_of_them(settings: KafkaSettings) -> None:
    wanted = declared(settings, 2, 1)
    found = asyncio.run(plan(settings, wanted))
    assert {(difference.topic, difference.setting) for difference in found} == {(topic.name, "topic") for topic in wanted}
    assert str(found[0]) == f"{settings.topic_prefix}pods: missing (partitions=2, replication=1, cleanup=delete)"


def test_what_was_applied_is_there_and_applying_again_changes_nothing(settings: KafkaSettings) -> None:
    wanted = declared(settings, 2, 1)
    assert len(asyncio.run(apply(settings, wanted))) == len(TOPICS)
    assert asyncio.run(plan(settings, wanted)) == []
    assert asyncio.run(apply(settings, wanted)) == []


def test_a_setting_that_differs_is_named_and_set_and_others_stay(settings: KafkaSettings) -> None:
    wanted = declared(settings, 1, 1)
    foreign = [dataclasses.replace(topic, config=topic.config | {"segment.jitter.ms": "5"}) for topic in wanted]
    asyncio.run(apply(settings, [dataclasses.replace(topic, config=topic.config | {"retention.ms": "9"}) for topic in foreign]))
    found = asyncio.run(apply(settings, wanted))
    assert Difference(f"{settings.topic_prefix}pods", "retention.ms", "9", "1209600000") in found
    assert asyncio.run(plan(settings, wanted)) == asyncio.run(plan(settings, foreign)) == []


def test_another_number_of_partitions_is_refused_and_nothing_is_changed(settings: KafkaSettings) -> None:
    asyncio.run(apply(settings, declared(settings, 2, 1)[1:]))
    wanted = declared(settings, 4, 1)
    with pytest.raises(TopicsDifferError, match=f"{settings.topic_prefix}jobs has partitions 2, declared is 4"):
        asyncio.run(apply(settings, wanted))
    assert asyncio.run(plan(settings, wanted))[0] == Difference(
        wanted[0].name, "topic", "", "partitions=4, replication=1, cleanup=delete"
    )


def test_a_shards_topics_have_equal_counts_and_inputs_expire_before_jobs() -> None:
    wanted = {topic.name: topic for topic in declared(KafkaSettings(), 8)}
    assert {wanted[name].partitions for name in CO_PARTITIONED} == {8}
    assert (wanted["cluster"].partitions, wanted["scheduling"].partitions) == (1, 1)
    assert {topic.replication for topic in wanted.values()} == {3}
    assert {topic.config["min.insync.replicas"] for topic in wanted.values()} == {"2"}
    assert [name for name, topic in wanted.items() if topic.config["cleanup.policy"] == "compact"] == ["snapshots"]
    thirty_days = 30 * 86_400_000
    assert all(0 < TOPICS[name].retention < thirty_days for name in ("pods", "jobs"))


def test_a_cluster_that_is_not_there_is_unavailable() -> None:
    settings = KafkaSettings(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(LogUnavailableError, match=r"the topics of Kafka at 127.0.0.1:1 cannot be read"):
        asyncio.run(plan(settings, declared(settings, 1, 1)))
