"""Topics that a test has made go at its end, so that the broker stays small."""

from __future__ import annotations

from aiokafka.admin import AIOKafkaAdminClient

from streams.settings import KafkaSettings
from streams.topics import declared

__all__ = ["delete_topics"]


async def delete_topics(settings: KafkaSettings) -> None:
    """Delete all topics of a log."""
    admin = AIOKafkaAdminClient(**settings.client_arguments())
    await admin.start()
    await admin.delete_topics([topic.name for topic in declared(settings, 1, 1)])
    await admin.close()
