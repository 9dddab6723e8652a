"""Partition counts: those that shards require, and those that stay readable after partitions were added."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.events import Topic
from engine.events.vocabulary import SINGLE_TOPICS
from engine.log.errors import LayoutError
from streams.topics import CO_PARTITIONED


def remedy(partitions: int) -> str:
    """Return the advice for topics that have grown.

    Args:
        partitions: number of partitions on which the shards ran.
    """
    return f"`lahar export` reads the {partitions} that there were; import that into as many, under another KAFKA_TOPIC_PREFIX"


def equal(found: Mapping[Topic, int], names: Mapping[Topic, str]) -> dict[Topic, int]:
    """Check the partition counts of a log whose shards are to run.

    Args:
        found: partition counts in the cluster.
        names: names of the topics in the cluster.

    Raises:
        LayoutError: the topics partitioned by job have different counts, or a topic that must have one partition has more.
    """
    parted = {names[topic]: found[topic] for topic in CO_PARTITIONED}
    if len(set(parted.values())) > 1:
        counts = ", ".join(f"{name} has {count}" for name, count in parted.items())
        raise LayoutError(f"these topics must have equal numbers of partitions: {counts}. {remedy(min(parted.values()))}")
    for topic in SINGLE_TOPICS:
        if found[topic] != 1:
            raise LayoutError(
                f"topic {names[topic]} must have one partition, it has {found[topic]}. {remedy(min(parted.values()))}"
            )
    return dict(found)


def narrowed(found: Mapping[Topic, int], written: Callable[[int], int | None]) -> dict[Topic, int]:
    """Return the partition counts up to which a log is readable; shards have read no later partitions.

    Args:
        found: partition counts in the cluster.
        written: returns the number of partitions on which the shards of a number ran; `None` if they never ran.
    """
    least = min(found[topic] for topic in CO_PARTITIONED)
    usual = next((count for shard in range(least) if (count := written(shard)) is not None), least)
    return {topic: 1 if topic in SINGLE_TOPICS else min(count, usual) for topic, count in found.items()}
