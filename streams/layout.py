"""Partition counts: those that shards need, and those that remain readable after partitions were added."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.events import Topic
from engine.events.vocabulary import SINGLE_TOPICS
from engine.log.errors import LayoutError
from streams.topics import CO_PARTITIONED

__all__ = ["equal", "narrowed", "remedy"]


def remedy(partitions: int) -> str:
    """Return what to do about topics that have grown.

    Args:
        partitions: over which shards were run.
    """
    return f"`lahar export` reads the {partitions} that there were; import that into as many, under another KAFKA_TOPIC_PREFIX"


def equal(found: Mapping[Topic, int], names: Mapping[Topic, str]) -> dict[Topic, int]:
    """Check the numbers of partitions of a log whose shards are to be run.

    Args:
        found: in the cluster.
        names: of the topics there.

    Raises:
        LayoutError: topics that are partitioned by job differ, or one that must have one partition has more.
    """
    parted = {names[topic]: found[topic] for topic in CO_PARTITIONED}
    if len(set(parted.values())) > 1:
        said = ", ".join(f"{name} has {count}" for name, count in parted.items())
        raise LayoutError(f"these topics must have equal numbers of partitions: {said}. {remedy(min(parted.values()))}")
    for topic in SINGLE_TOPICS:
        if found[topic] != 1:
            raise LayoutError(
                f"topic {names[topic]} must have one partition, it has {found[topic]}. {remedy(min(parted.values()))}"
            )
    return dict(found)


def narrowed(found: Mapping[Topic, int], written: Callable[[int], int | None]) -> dict[Topic, int]:
    """Return the partition counts up to which a log can be read; no shard has read later partitions.

    Args:
        found: in the cluster.
        written: gives the number of partitions over which the shards of a number were run; `None` if none ever was.
    """
    least = min(found[topic] for topic in CO_PARTITIONED)
    usual = next((count for shard in range(least) if (count := written(shard)) is not None), least)
    return {topic: 1 if topic in SINGLE_TOPICS else min(count, usual) for topic, count in found.items()}
