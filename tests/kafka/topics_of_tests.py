"""What tests do to topics behind the log's back."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient

from streams.settings import KafkaSettings
from streams.topics import declared

__all__ = ["administered", "delete_topics"]


async def administered(settings: KafkaSettings, work: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    """Return what becomes of some work with aiokafka's administrator."""
    admin = AIOKafkaAdminClient(**settings.client_arguments())
    await admin.start()
    try:
        return await work(admin)
    finally:
        await admin.close()


async def delete_topics(settings: KafkaSettings) -> None:
    """Delete all topics of a log, so that the broker stays small."""
    names = [topic.name for topic in declared(settings, 1, 1)]
    await administered(settings, lambda admin: admin.delete_topics(names))
